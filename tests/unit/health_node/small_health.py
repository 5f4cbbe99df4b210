"""One health agency's node in virtual time, with a census node in memory that takes rosters and samples as a test tells it.

The health node is real, with its journal and loads on disk. The census node is as little of one as a health node can be shown:
it opens what it is sent, writes a log of charges, and proves them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.links import InMemoryLink, on_the_wire
from fakes.logs import ALICE, CENSUS, HEALTH, ORIGIN, POLICY_KEY, SIGNER, party
from fakes.logs import policy as make_policy
from fakes.samples import whom
from grpc.aio import Metadata
from tripartite.v1 import (
    census_service_pb2,
    census_service_pb2_grpc,
    health_service_pb2,
    policy_pb2,
    roster_pb2,
    sample_pb2,
    ticket_pb2,
)

from broker_common.crypto.cards import SAMPLE, SAMPLING
from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import SALT_BYTES, commit_criteria, hash_bytes
from broker_common.crypto.rosters import RosterOpener, RosterPayload
from broker_common.crypto.sample_bits import PLACES_IN_PART, Bound, SampleBits, SealedSample
from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.crypto.sealing import UnsealingKey, roster_info
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError
from broker_common.monitoring import Monitor
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import announce, register
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.query.canonical import canonical_bytes
from broker_common.query.criteria import parse_condition
from broker_common.query.messages import refuse_unknown_fields
from broker_common.query.question import Cell, Question
from broker_common.query.refusal import refusal_of
from broker_common.query.ticket import sign_ticket
from broker_common.rpc.callers import set_caller
from broker_common.rpc.channel import PROCEED
from broker_common.rpc.server import StopSignal
from broker_common.storage.database import Database
from broker_common.storage.dictionary.adopted import Dictionaries, adopt_dictionary
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.values import MISSING, Values
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.entries import Charged, Entry, Event, encode_entry, parse_entry
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.merkle import MerkleTree
from broker_common.tlog.note import NoteSigner
from broker_common.values import QUERY_ID_BYTES
from health_node.config import LimitConfig
from health_node.flow import Flow
from health_node.node import HealthNode, SamplingKeys
from health_node.operator.cohort_figures import CohortBands
from health_node.people.store import People, build_people_store
from health_node.query.questions import Questions
from health_node.roster.book import RosterBook
from health_node.roster.sending import RosterSender
from health_node.service import HealthService

BEGAN_MS = 1_700_000_000_000
PEOPLE = 300
_CHAINS = ("0123456789abcdef", "fedcba9876543210")
BEN = party(Identity("university", "researcher", "ben"), "ben")


def now_ms() -> int:
    """Time of the running loop's clock."""
    return BEGAN_MS + round(1000 * asyncio.get_running_loop().time())


# --- the census node -------------------------------------------------------------------------------------------------


@dataclass
class Received:
    """One sample as the census node opened it."""

    ms: int
    ticket: bytes
    sealed: SealedSample
    manifest: sample_pb2.Manifest
    bits: np.ndarray
    # The last roster that came.
    newest: int


@dataclass
class SmallCensus:
    """See above."""

    policy: Policy
    # Set while charges are told, and while answers are released.
    charging: asyncio.Event = field(default_factory=asyncio.Event)
    releasing: asyncio.Event = field(default_factory=asyncio.Event)
    # Codes with which it refuses the next samples, or rosters, one after the other; None: it does not.
    refusals: list[BrokerError | None] = field(default_factory=list)
    roster_refusals: list[BrokerError | None] = field(default_factory=list)
    # How a charge that it writes differs from an honest one.
    lie: Callable[[Charged], Charged] = lambda charge: charge
    samples: list[Received] = field(default_factory=list)
    # Called when the first part of a sample arrives, with its ticket.
    arriving: Callable[[bytes], None] = lambda _: None
    # The people of each roster that was sent whole, by number, and the numbers of all that were offered.
    rosters: dict[int, np.ndarray] = field(default_factory=dict)
    offered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.charging.set()
        self.releasing.set()
        self._tree = MerkleTree()
        # Index and entry by ticket hash.
        self._charges: dict[str, tuple[int, bytes]] = {}
        self._manifests: dict[int, bytes] = {}
        (self._key,) = CENSUS.listed(SAMPLE, UnsealingKey)

    @property
    def stub(self) -> census_service_pb2_grpc.CensusServiceAsyncStub:
        return cast("census_service_pb2_grpc.CensusServiceAsyncStub", self)

    async def GetPolicy(  # noqa: N802 - the name that the proto gives it
        self, request: census_service_pb2.GetPolicyRequest, **_: object
    ) -> census_service_pb2.GetPolicyResponse:
        """The policy, signed."""
        del request
        document = self.policy.document
        return census_service_pb2.GetPolicyResponse(
            policy=policy_pb2.SignedPolicy(
                document=document, signature=POLICY_KEY.sign(document), key_id=POLICY_KEY.key_id
            )
        )

    def Count(self, timeout: float | None = None) -> _CountCall:  # noqa: N802 - as the stub has it
        """A new attempt."""
        del timeout
        return _CountCall(self)

    def SendRoster(self, timeout: float | None = None) -> _RosterCall:  # noqa: N802 - as the stub has it
        """A new attempt."""
        del timeout
        return _RosterCall(self)

    def open(self, parts: list[census_service_pb2.CountRequest]) -> Received:
        """A sample that is whole."""
        head = parts[0].head
        manifest = sample_pb2.Manifest.FromString(head.manifest.manifest)
        HEALTH.signing(Purpose.MANIFEST).verify_key.verify_signature(head.manifest.manifest, head.manifest.signature)
        sealed = SealedSample(head.sealed_head, [part.bits for part in parts[1:]])
        bound = Bound(hash_bytes(head.ticket.ticket), self._manifests[manifest.roster])
        opened = SampleBits.unseal(
            sealed,
            [self._key],
            bound,
            manifest.set_commitment,
            declared=PLACES_IN_PART,
            people=len(self.rosters[manifest.roster]),
        )
        assert manifest.ticket_hash == bound.ticket_hash
        return Received(now_ms(), bound.ticket_hash, sealed, manifest, opened.bits, list(self.rosters)[-1])

    def charge(self, sample: Received, head: sample_pb2.SampleHead) -> sample_pb2.Charged:
        """The proof of the charge of a ticket, which is charged unless it was."""
        key = sample.ticket.hex()
        if key not in self._charges:
            body = ticket_pb2.Ticket.FromString(head.ticket.ticket)
            charge = Charged(
                query=body.query_id.hex(),
                ticket=key,
                slot=body.noise_slot.number,
                scale=body.scale,
                units=price(body.scale),
                question="q",
                researcher=body.researcher_id,
                project=body.project_id,
                health=HEALTH.identity.organisation,
                load="census-load",
                roster=sample.manifest.roster,
                manifest=hash_bytes(head.manifest.manifest).hex(),
                submitted=sample.manifest.set_commitment.hex(),
                active=bytes(32).hex(),
                ledger="",
                total=price(body.scale),
            )
            entry = Entry(
                sequence=self._tree.size, time_ms=now_ms(), policy=self.policy.hash.hex(), event=self.lie(charge)
            )
            self._charges[key] = self._tree.size, encode_entry(entry)
            self._tree.append(encode_entry(entry))
        index, text = self._charges[key]
        return sample_pb2.Charged(
            checkpoint=SIGNER.sign_checkpoint(self._tree.size, self._tree.root()),
            log_index=index,
            inclusion_proof=self._tree.inclusion_proof(index),
            entry=text,
        )

    def signed_refusal(self, head: sample_pb2.SampleHead, code: str) -> sample_pb2.SignedRefusal:
        """The refusal of a sample."""
        document = refusal_of(
            head.ticket.ticket,
            head.manifest.manifest,
            code=code,
            health=HEALTH.identity.organisation,
            log=ORIGIN,
            roster=sample_pb2.Manifest.FromString(head.manifest.manifest).roster,
            size=self._tree.size,
            time_ms=now_ms(),
        ).document
        key = CENSUS.signing(Purpose.REFUSAL)
        return sample_pb2.SignedRefusal(document=document, signature=key.sign(document), key_id=key.key_id)

    def keep_roster(self, header: roster_pb2.RosterHeader, frames: list[roster_pb2.RosterFrame]) -> None:
        """A roster that is whole."""
        document = header.manifest.manifest
        manifest = roster_pb2.RosterManifest.FromString(document)
        payload = RosterPayload.parse(
            self._key.unseal(header.sealed_key, roster_info(hash_bytes(document)), subject="roster")
        )
        opener = RosterOpener(payload)
        people = [opener.unseal_frame(frame.index, frame.last, frame.ciphertext) for frame in frames]
        assert opener.finish() == manifest.commitment
        self.rosters[manifest.number] = np.concatenate(people)
        self._manifests[manifest.number] = hash_bytes(document)

    def whom(self, sample: Received) -> list[bytes]:
        """The pseudonyms that a sample names."""
        return [row.tobytes() for row in whom(sample.bits, self.rosters[sample.manifest.roster])]


class _CountCall:
    """A client's end of one Count."""

    def __init__(self, census: SmallCensus) -> None:
        self._census = census
        self._parts: list[census_service_pb2.CountRequest] = []
        self._sample: Received | None = None
        self._told = 0

    async def write(self, part: census_service_pb2.CountRequest) -> None:
        """Send."""
        refuse_unknown_fields(part)
        if not self._parts:
            self._census.arriving(hash_bytes(part.head.ticket.ticket))
        self._parts.append(part)
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        """The sample is whole."""
        self._sample = self._census.open(self._parts)
        self._census.samples.append(self._sample)

    async def read(self) -> object:
        """The charge, then the release."""
        census, sample = self._census, self._sample
        assert sample is not None
        self._told += 1
        if self._told > 1:
            await census.releasing.wait()
            self._refuse()
            return census_service_pb2.CountResponse(released=sample_pb2.Released())
        self._refuse()
        await census.charging.wait()
        return census_service_pb2.CountResponse(charged=census.charge(sample, self._parts[0].head))

    def cancel(self) -> None:
        """Hang up."""

    def _refuse(self) -> None:
        """Refuse this sample if the next one is to be refused, signed."""
        census, head = self._census, self._parts[0].head
        error = census.refusals.pop(0) if census.refusals else None
        if error is not None:
            error.signed_refusal = census.signed_refusal(head, error.code).SerializeToString(deterministic=True)
            raise on_the_wire(error)


class _RosterCall:
    """A client's end of one SendRoster."""

    def __init__(self, census: SmallCensus) -> None:
        self._census = census
        self._frames: list[roster_pb2.RosterFrame] = []
        self._header = roster_pb2.RosterHeader()
        self._error: BrokerError | None = None

    async def write(self, part: census_service_pb2.SendRosterRequest) -> None:
        """Send."""
        if part.WhichOneof("part") == "frame":
            self._frames.append(part.frame)
            return
        self._header = part.header
        self._census.offered.append(self._number)
        if self._census.roster_refusals:
            self._error = self._census.roster_refusals.pop(0)

    async def initial_metadata(self) -> Metadata:
        """Whether frames are wanted."""
        wanted = self._error is None and self._number not in self._census.rosters
        return Metadata(PROCEED) if wanted else Metadata()

    async def done_writing(self) -> None:
        """The roster is whole."""
        self._census.keep_roster(self._header, self._frames)

    def __await__(self) -> Generator[Any, None, census_service_pb2.SendRosterResponse]:
        if self._error is not None:
            raise on_the_wire(self._error)
        return asyncio.sleep(0, census_service_pb2.SendRosterResponse()).__await__()

    def cancel(self) -> None:
        """Hang up."""

    @property
    def _number(self) -> int:
        return roster_pb2.RosterManifest.FromString(self._header.manifest.manifest).number


# --- the health node -------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """One question: what its researcher saw, stage by stage with the time, and how it ended."""

    request: health_service_pb2.SubmitRequest
    ticket: bytes
    task: asyncio.Task[None]
    seen: dict[str, int] = field(default_factory=dict)
    # Code of the error; empty when it was answered or is on its way.
    code: str = ""


class SmallHealth:
    """See above. Make it inside a virtual loop; `close` it."""

    def __init__(self, folder: Path, policy: Policy | None = None, **limits: int) -> None:
        self.policy = make_policy(forward_delay_ms=300, release_tick_ms=250) if policy is None else policy
        self.census = SmallCensus(self.policy)
        self.limits = LimitConfig(**limits)
        self._folder = folder
        self._loads = LoadFolder(folder / "people", ".people")
        self._loads.path.mkdir(parents=True)
        self._slots = iter(range(1, 1_000_000))
        self._chain = 0
        self.journal = self._journal(new=True)
        announce(self.journal, HEALTH.card.signed)
        for peer, projects in ((CENSUS, None), (ALICE, ["p"]), (BEN, ["p"])):
            register(self.journal, peer.card, projects=projects)
        adopt_dictionary(self.journal, Dictionaries(folder), HEALTH_DICTIONARY, HEALTH.signing(Purpose.IDENTITY))
        self._start()

    def _start(self) -> None:
        known = KnownPeers(self.journal, now_ms)
        (sampling,) = HEALTH.listed(SAMPLING, SamplingKey)
        self.node = HealthNode(
            self.journal,
            researchers=known.researchers,
            sampling=SamplingKeys(in_use=lambda: "key", named=lambda _: sampling),
            loads=self._loads,
            dictionaries=Dictionaries(self._folder),
            engine_threads=1,
            work_per_second=self.limits.work_per_second,
            clock=now_ms,
            randomness=os.urandom,
        )
        link = InMemoryLink(self.census.stub, lambda: known.card("census", CENSUS.identity.organisation), now_ms)
        self.rosters = RosterSender(
            self.node,
            link,
            manifest_key=lambda: HEALTH.signing(Purpose.MANIFEST),
            randomness=os.urandom,
            deadline_ms=60_000,
        )
        self.stop = StopSignal()
        self.monitor = Monitor("health", now_ms)
        self.service = HealthService(
            self.node,
            Flow(
                self.node,
                census=link,
                manifest_key=lambda: HEALTH.signing(Purpose.MANIFEST),
                limits=self.limits,
                stop=self.stop,
                offer_roster=self.rosters.offer_again,
                monitor=self.monitor,
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _journal(self, *, new: bool = False) -> Journal[HealthState]:
        def tables(db: Database) -> None:
            for each in (CosignedNotes, Questions, RosterBook, CohortBands, LoadFolder):
                each.create_tables(db)

        signer = NoteSigner(HEALTH.card.card.origin, (HEALTH.signing(Purpose.LOG),))
        return (Journal.create if new else Journal)(
            self._folder / "journal.db",
            fresh_state=lambda: HealthState(HEALTH.signing(Purpose.IDENTITY).verify_key),
            signer=lambda _: signer,
            clock=now_ms,
            tables=tables,
        )

    def send_rosters(self) -> None:
        """From here on rosters are sent, as while a node serves."""
        self._tasks.append(asyncio.create_task(self.rosters.run()))

    async def restart(self) -> None:
        """Kill the node here and now; the next one starts on its files, and takes up what was accepted."""
        self.stop.stop()
        await self.close()
        self.journal = self._journal()
        self._start()
        await self.service.flow.recover()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.service.flow.drain()
        self.journal.close()

    def load(self, people: int = PEOPLE, *, relinked: bool = False) -> str:
        """Put people in force, whose ages are 0 to 99, then 0 again; gives the load's id. `relinked`: under the next chain."""
        self._chain += relinked
        numbers = np.arange(people)
        columns: dict[str, Values] = {}
        for column in HEALTH_DICTIONARY.columns:
            columns[column.name] = (
                np.zeros(people, np.uint64) if column.multi_valued else np.full(people, MISSING, np.int32)
            )
        columns["age"] = (numbers % 100).astype(np.int32)
        halves = numbers.astype(np.uint64) + np.uint64(1 + 1000 * self._chain)
        with self._loads.loading(os.urandom) as load:
            build_people_store(
                self._loads.file(load), People(halves, halves, columns), HEALTH_DICTIONARY, places=PLACES_IN_PART
            )
            chain = _CHAINS[self._chain]
            if relinked:
                replaced = self.node.load_in_force()
                self._loads.put_relinked_in_force(
                    self.journal, load, replaced=replaced, linkage=chain, randomness=os.urandom
                )
            else:
                self._loads.put_in_force(self.journal, load, "2026", chain, os.urandom, dictionary=HEALTH_DICTIONARY)
        return load

    @staticmethod
    def pseudonym(number: int, chain: int = 0) -> bytes:
        """Pseudonym of the person with this number."""
        return 2 * (number + 1 + 1000 * chain).to_bytes(8, "big")

    def ask(self, where: str = "age >= 0", *, researcher: Any = ALICE, fraction: int = WHOLE_MILLIONTHS) -> Asked:
        """Submit a question and watch it."""
        condition, nonce = parse_condition(where, HEALTH_DICTIONARY), os.urandom(SALT_BYTES)
        number = next(self._slots)
        body = ticket_pb2.Ticket(
            query_id=number.to_bytes(QUERY_ID_BYTES, "big"),
            researcher_id=researcher.identity.name,
            project_id="p",
            question=Question("mother_tongue", (Cell(("French",)),)).to_wire(),
            census_release="2026",
            scale=30,
            fraction_millionths=fraction,
            criteria_commitment=commit_criteria(nonce, canonical_bytes(condition)),
            answer_key=UnsealingKey.generate(os.urandom).sealing_key.raw,
            policy_hash=self.policy.hash,
            health_dictionary=HEALTH_DICTIONARY.hash,
            census_dictionary=CENSUS_DICTIONARY.hash,
            noise_slot=ticket_pb2.NoiseSlot(number=number, commitment=bytes(32), checkpoint="c"),
            expires_ms=now_ms() + 3_600_000,
        )
        request = health_service_pb2.SubmitRequest(
            ticket=sign_ticket(body, researcher.signing(Purpose.TICKET)),
            criteria=condition.to_wire(),
            criteria_nonce=nonce,
        )
        return self.submit(request, researcher)

    def submit(self, request: health_service_pb2.SubmitRequest, researcher: Any = ALICE) -> Asked:
        """Submit what was made before."""
        set_caller(researcher.identity)

        async def watch() -> None:
            try:
                async for response in self.service.Submit(request, cast("Any", None)):
                    asked.seen[health_service_pb2.Stage.Name(response.stage).removeprefix("STAGE_").lower()] = now_ms()
            except BrokerError as error:
                asked.code = error.code

        asked = Asked(request, hash_bytes(request.ticket.ticket), asyncio.create_task(watch()))
        return asked

    def events(self) -> list[Event]:
        """The node's log."""
        return [
            parse_entry(row).event for (row,) in self.journal.db.execute("select entry from entries order by sequence")
        ]

    def refused(self, asked: Asked) -> str:
        """With which code a ticket was refused, as the log has it."""
        with self.journal.reading() as state:
            return state.tickets[asked.ticket.hex()].refused
