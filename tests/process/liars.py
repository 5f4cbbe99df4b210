"""A registered researcher and a registered health agency that say whatever a test wants, with the keys of real homes.

The commands cannot be made to lie. Here a home's own certificate opens the connection, without the product's own limits on
what is sent, and every byte after that is the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
from fakes.deployment import FRENCH, Deployment
from fakes.patience import PATIENCE_SECONDS
from fakes.samples import sample_of
from grpc import aio
from grpc.aio import AioRpcError
from tripartite.v1 import condition_pb2, health_service_pb2, ticket_pb2

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role, TlsCredentials, server_name
from broker_common.crypto.commitments import SALT_BYTES, hash_bytes
from broker_common.crypto.sample_bits import Bound
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError
from broker_common.query.messages import parse_message
from broker_common.query.ticket import sign_ticket
from broker_common.rpc.status import broker_error
from broker_common.storage.clock import system_clock
from health_node.assembly import HealthHome
from health_node.query.forwarding import make_manifest, seal_attempt, sign_manifest
from health_node.roster.book import RosterBook, SentRoster
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

_PROJECT = "official-languages"
Parts = list[bytes]
"""The messages of one attempt as they would go over the wire: the head, then parts."""
END = b""
"""In the place of a part: nothing comes any more, and that is said."""


def nobody(_: object) -> None:
    """Changes nothing."""


class LyingResearcher:
    """The deployment's researcher."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._home = ResearcherHome(deployment.home("researcher"))
        self._own = self._home._tls()

    def prepare(self, where: str = "age >= 65", count: str = FRENCH) -> AskedQuestion:
        """An honest question: quoted, signed, kept, and sent to nobody yet."""

        async def work(session: Session) -> AskedQuestion:
            return await session.prepare(Wanted(where, count, Precision(30), 1_000_000, _PROJECT))

        asked: AskedQuestion = self._deployment.in_session(work)
        return asked

    def submission(
        self,
        asked: AskedQuestion,
        *,
        change: Callable[[ticket_pb2.Ticket], object] = nobody,
        key: SigningKey | None = None,
    ) -> health_service_pb2.SubmitRequest:
        """The question's submission, its ticket changed by `change` and signed with `key` (else the own)."""
        signed = asked.ticket_message
        body = parse_message(ticket_pb2.Ticket, signed.ticket)
        change(body)
        own = self._home.keyring.signing(self._home.own_card(), Purpose.TICKET, system_clock())
        return health_service_pb2.SubmitRequest(
            ticket=sign_ticket(body, key or own),
            criteria=parse_message(condition_pb2.Condition, asked.criteria),
            criteria_nonce=asked.criteria_nonce,
        )

    def submit(self, wire: bytes) -> BrokerError | None:
        """Say this to the health node's Submit; gives how it was refused, None for a question that was released."""
        return self._call("health", self._home.config.health.address, "HealthService/Submit", [wire])

    def quote(self, wire: bytes) -> BrokerError | None:
        """Say this to the census node's Quote."""
        return self._call("census", self._home.config.census.address, "CensusService/Quote", [wire])

    def count(self) -> BrokerError | None:
        """Open the census node's Count, which is for health agencies, and say nothing.

        Nothing, because gRPC may put a status of its own in the place of the server's when a stream ends while its client writes.
        """
        return self._call("census", self._home.config.census.address, "CensusService/Count", [])

    def _call(self, role: Role, address: str, method: str, parts: Sequence[bytes]) -> BrokerError | None:
        return asyncio.run(_say(role, self._home.trust.card(role), address, self._own, method, parts))


class LyingHealth:
    """The deployment's health agency, beside its own node."""

    def __init__(self, deployment: Deployment) -> None:
        self._home = HealthHome(deployment.home("health"))
        with self._home.journal() as journal, journal.reading() as state:
            registration = state.parties.peer("census", self._home.config.census.organisation)
            own = state.parties.own
        assert registration is not None
        assert own is not None
        self._census, self._own_card = registration.card, own
        self._own = self._home.keyring.tls(own, system_clock())

    @property
    def roster(self) -> SentRoster:
        """Its newest roster, as its node sent it."""
        with self._home.journal() as journal, journal.reading() as state:
            roster = RosterBook(journal.db).get(state.load)
        assert roster is not None, "no roster was sent yet"
        return roster

    def parts(
        self,
        asked: AskedQuestion,
        places: Iterable[int] = range(100),
        *,
        declared: int | None = None,
        roster: int | None = None,
        key: SigningKey | None = None,
        census_key: SealingKey | None = None,
    ) -> Parts:
        """One attempt with a bit at these places of the newest roster, right in everything that is not asked to be wrong."""
        signed, newest = asked.ticket_message, self.roster
        manifest_key = key or self._home.keyring.signing(self._own_card, Purpose.MANIFEST, system_clock())
        bound = Bound(hash_bytes(signed.ticket), hash_bytes(newest.manifest))
        sample = sample_of(
            places,
            bound,
            declared=self._home.config.places if declared is None else declared,
            roster=newest.number if roster is None else roster,
            salt=os.urandom(SALT_BYTES),
        )
        manifest = sign_manifest(make_manifest(sample).SerializeToString(deterministic=True), manifest_key)
        sealing_key = census_key or self._census.sealing_key(system_clock())
        return [message.SerializeToString() for message in seal_attempt(signed, manifest, sample, sealing_key)]

    def count(self, parts: Sequence[bytes]) -> BrokerError | None:
        """Say this to the census node's Count, and then nothing; gives how it was refused, None for a sample that was charged.

        The part that is wrong should be the last one: when a stream ends while its client writes, gRPC may put a status of
        its own in the place of the server's.
        """
        address = self._home.config.census.address
        return asyncio.run(_say("census", self._census, address, self._own, "CensusService/Count", parts))


async def _say(
    role: Role, card: VerifiedCard, address: str, own: TlsCredentials, method: str, parts: Sequence[bytes]
) -> BrokerError | None:
    trusted = b"".join(each.pem for each in card.certificates(system_clock()))
    options = [
        ("grpc.ssl_target_name_override", server_name(role)),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
    ]
    credentials = grpc.ssl_channel_credentials(trusted, own.private_key, own.certificate)
    async with aio.secure_channel(address, credentials, options) as channel:
        coders: dict[str, Any] = {"request_serializer": bytes, "response_deserializer": bytes}
        path = f"/tripartite.v1.{method}"
        try:
            if method.endswith("Count"):
                await _converse(channel.stream_stream(path, **coders)(timeout=PATIENCE_SECONDS), parts)
            elif method.endswith("Submit"):
                async for _ in channel.unary_stream(path, **coders)(parts[0], timeout=PATIENCE_SECONDS):
                    pass
            else:
                await channel.unary_unary(path, **coders)(parts[0], timeout=PATIENCE_SECONDS)
        except AioRpcError as error:
            return broker_error(error, role)
    return None


async def _converse(call: Any, parts: Sequence[bytes]) -> None:
    """Say everything, as far as it is listened to; hear everything, raise how it ended."""
    # The reason for the call's end is heard below.
    with contextlib.suppress(asyncio.InvalidStateError, AioRpcError):
        for part in parts:
            await (call.done_writing() if part == END else call.write(part))
    while await call.read() is not aio.EOF:
        pass
