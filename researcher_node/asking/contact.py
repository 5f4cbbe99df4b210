"""Both nodes, as one command of a researcher meets them: open channels, present cards, and what the agencies publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from grpc import aio
from grpc.aio import UnaryStreamCall
from tripartite.v1 import (
    census_service_pb2,
    census_service_pb2_grpc,
    dictionary_pb2,
    health_service_pb2,
    health_service_pb2_grpc,
    log_service_pb2,
    log_service_pb2_grpc,
)

from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.certificates import Role, TlsCredentials
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.parties.exchange import fetch_card
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_document import MAX_DOCUMENT_BYTES
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.signed_documents import adopted_dictionary, adoption_from_wire, policy_from_wire
from broker_common.rpc.status import calling
from broker_common.values import Clock
from researcher_node.asking.kept import KeptDictionaries, Policies, name_of
from researcher_node.asking.other_side import OTHER, may_be_for_other, pointed
from researcher_node.trust.cards import Trust
from researcher_node.trust.census_log import CensusLog, lie

# For one call that is answered at once, and for the health node to take a question.
CALL_SECONDS = 15.0
# For a dictionary of many codes to arrive.
_FETCH_SECONDS = 120.0

ResultT = TypeVar("ResultT")
PartT = TypeVar(
    "PartT",
    health_service_pb2.HealthServiceGetDictionaryResponse,
    census_service_pb2.CensusServiceGetDictionaryResponse,
)
# Told which agency has another dictionary than when it was last asked, and its version.
DictionaryHandler = Callable[[Role, int], None]


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """Dictionaries of both nodes."""

    health: Dictionary
    census: Dictionary
    census_release: str


@dataclass(frozen=True, slots=True)
class Party:
    """One of the two nodes, and where it listens."""

    role: Role
    address: str


class Contact:
    """Open channels to both nodes, for as long as one command runs.

    Cards are exchanged with a node before the first thing that is asked of it: a new key of either side is known before it
    is met.
    """

    def __init__(
        self,
        *,
        health: Party,
        census: Party,
        own_card: Callable[[], VerifiedCard],
        trust: Trust,
        tls: Callable[[], TlsCredentials],
        policies: Policies,
        dictionaries: KeptDictionaries,
        clock: Clock,
        on_dictionary: DictionaryHandler,
    ) -> None:
        self._parties: dict[Role, Party] = {"health": health, "census": census}
        self._own_card = own_card
        self._trust = trust
        self._tls = tls
        self._channels: dict[Role, aio.Channel] = {}
        self._met_parties: set[Role] = set()
        self._read_with: dict[Role, Dictionary] = {}
        self._policies = policies
        self._kept = dictionaries
        self._on_dictionary = on_dictionary
        self._clock = clock
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def _health(self) -> health_service_pb2_grpc.HealthServiceAsyncStub:
        return health_service_pb2_grpc.HealthServiceStub(await self._met("health"))

    async def _census(self) -> census_service_pb2_grpc.CensusServiceAsyncStub:
        return census_service_pb2_grpc.CensusServiceStub(await self._met("census"))

    async def meet(self, role: Role) -> None:
        """Exchange cards with a node, unless this session has."""
        await self._met(role)

    async def _met(self, role: Role) -> aio.Channel:
        """The channel to a node with which cards have been exchanged."""
        known, now_ms = self._trust.card(role), self._clock()
        if role not in self._channels:
            peer = Peer(role, self._parties[role].address, tuple(known.certificates(now_ms)))
            channel = open_channel(peer, self._tls(), self._clock)
            self._channels[role] = await self._stack.enter_async_context(channel)
        if role not in self._met_parties:
            newer = await fetch_card(self._channels[role], self._own_card().signed, known)
            if newer is not None:
                try:
                    self._trust.put(newer)
                except InvalidRequestError as error:
                    # Another process of ours has heard of a newer one meanwhile.
                    if error.code != "CARD_OUTDATED":
                        raise
            self._met_parties.add(role)
        return self._channels[role]

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channels to both nodes."""
        await self._stack.aclose()

    # --- what the agencies publish -----------------------------------------------------------------------------------

    async def dictionaries(self) -> Dictionaries:
        return Dictionaries(await self._health_dictionary(), *await self._census_dictionary())

    async def _health_dictionary(self) -> Dictionary:
        kept = self._kept.document("health")
        request = health_service_pb2.HealthServiceGetDictionaryRequest(known=name_of(kept))
        call = (await self._health()).GetDictionary(request, timeout=_FETCH_SECONDS)
        first, document = await calling("health", _received(call))
        return self._taken("health", first.adoption, kept, document)

    async def _census_dictionary(self) -> tuple[Dictionary, str]:
        kept = self._kept.document("census")
        request = census_service_pb2.CensusServiceGetDictionaryRequest(known=name_of(kept))
        call = (await self._census()).GetDictionary(request, timeout=_FETCH_SECONDS)
        first, document = await calling("census", _received(call))
        return self._taken("census", first.adoption, kept, document), first.census_release

    def _taken(self, role: Role, word: dictionary_pb2.SignedAdoption, kept: bytes, sent: bytes) -> Dictionary:
        """SECURITY: what its agency has not signed would have the researcher ask something else than they read."""
        try:
            keys = self._trust.card(role).verify_keys(Purpose.IDENTITY, self._clock())
            dictionary = adopted_dictionary(sent or kept, adoption_from_wire(word, keys))
        except InvalidRequestError as error:
            raise PeerUnavailableError(
                "PEER_MISBEHAVED", peer=role, problem="a dictionary that its agency did not sign"
            ) from error
        if sent:
            self._kept.put(role, sent)
            if kept:
                self._on_dictionary(role, dictionary.version)
        return dictionary

    async def _read(self, role: Role, text: str, parse: Callable[[str, Dictionary], ResultT]) -> ResultT:
        """The result of `parse` on a text with a node's dictionary: the one this session read with last, or else the present one."""
        last = self._read_with.get(role)
        if last is not None:
            # A text that is wrong under the last dictionary may be right under the present one.
            with suppress(InvalidRequestError):
                return parse(text, last)
        present = self._read_with[role] = await self._dictionary(role)
        try:
            return parse(text, present)
        except InvalidRequestError as error:
            if not may_be_for_other(error):
                raise
            try:
                other = await self._dictionary(OTHER[role])
            except PeerUnavailableError:
                raise error from None
            raise pointed(error, role, text, present, other) from None

    async def _dictionary(self, role: Role) -> Dictionary:
        if role == "health":
            return await self._health_dictionary()
        return (await self._census_dictionary())[0]

    async def policy(self) -> Policy:
        """The policy in force, signed by the census agency."""
        request = census_service_pb2.GetPolicyRequest()
        response = await calling("census", (await self._census()).GetPolicy(request, timeout=CALL_SECONDS))
        try:
            policy = policy_from_wire(
                response.policy, self._trust.card("census").verify_keys(Purpose.POLICY, self._clock())
            )
        except InvalidRequestError as error:
            raise PeerUnavailableError(
                "PEER_MISBEHAVED", peer="census", problem="a policy that its agency did not sign"
            ) from error
        self._policies.put(policy)
        return policy

    async def policy_named(self, policy_hash: bytes) -> Policy:
        """The policy that a quote was given under.

        Raises:
            InvalidRequestError: POLICY_MISMATCH, there has been another one since.
        """
        known = self._policies.get(policy_hash.hex()) or await self.policy()
        if known.hash != policy_hash:
            raise InvalidRequestError("POLICY_MISMATCH")
        return known

    # --- the census log ----------------------------------------------------------------------------------------------

    def census_log(self) -> CensusLog:
        """Whom the census log's checkpoints are to be signed by, as the cards say that are known now."""
        return self._trust.census_log()

    async def _log(self) -> log_service_pb2_grpc.LogServiceAsyncStub:
        return log_service_pb2_grpc.LogServiceStub(await self._met("census"))

    async def cosigned_checkpoint(self) -> str:
        """The newest cosigned checkpoint of the census log, as its node says; empty when it has none. Not verified."""
        request = log_service_pb2.GetCheckpointRequest()
        return (await calling("census", (await self._log()).GetCheckpoint(request, timeout=CALL_SECONDS))).checkpoint

    async def consistency_proof(self, old_size: int, size: int) -> Sequence[bytes]:
        """The proof that the census log of one size continues another. Not verified."""
        request = log_service_pb2.GetConsistencyProofRequest(old_size=old_size, size=size)
        response = await calling("census", (await self._log()).GetConsistencyProof(request, timeout=CALL_SECONDS))
        return response.proof


async def _received(call: UnaryStreamCall[Any, PartT]) -> tuple[PartT, bytes]:
    """The first message of a dictionary, and all of its document."""
    try:
        first: PartT | None = None
        parts, size = list[bytes](), 0
        async for message in call:
            if first is None:
                first = message
                continue
            parts.append(message.part)
            size += len(message.part)
            if size > MAX_DOCUMENT_BYTES:
                break
    finally:
        call.cancel()
    if first is None or size > MAX_DOCUMENT_BYTES:
        raise lie("a dictionary that is none")
    return first, b"".join(parts)
