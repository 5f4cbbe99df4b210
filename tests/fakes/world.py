"""A small whole world in one folder: keys, policy, registry, people, journals and inboxes of all three parties.

Parties meet here without sockets, and any one may lie: what a party signs, seals or sends can be made by hand. Every
refusal is checked the same way (`World.refusing`): the right code, a log that has not changed and still replays, and an
honest query that is answered afterwards. Logs are read with a connection of their own, never through the node.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from fakes import logs
from fakes.cards import Party, PrivateKey
from fakes.clock import FakeClock
from fakes.copies import copy_home
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.registries import made_registry, write_registry
from fakes.samples import sample_of
from msgspec import structs
from tripartite.v1 import (
    answer_pb2,
    census_service_pb2,
    health_service_pb2,
    quote_pb2,
    roster_pb2,
    sample_pb2,
    ticket_pb2,
)

from broker_common.agency.linkage import LinkageKeys, NextKey, RelinkReport
from broker_common.crypto.cards import SAMPLE, SAMPLING
from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import SALT_BYTES, commit_criteria, commit_roster, hash_bytes
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.rosters import PLACES_PER_FRAME, roster_hash
from broker_common.crypto.sample_bits import Bound, SealedSample
from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import announce, register
from broker_common.privacy.accounting import cap_units, default_scales, param_of, parse_max_belief, price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.privacy.table_laplace import margin
from broker_common.query.answer import unseal_answer
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import parse_question
from broker_common.query.quote import sign_quote
from broker_common.query.ticket import Researcher, VerifiedTicket, sign_ticket
from broker_common.storage.clock import system_clock
from broker_common.storage.database import Database
from broker_common.storage.dictionary.adopted import Dictionaries, adopt_dictionary
from broker_common.storage.home import Home
from broker_common.storage.journal import Checkpointed, Journal
from broker_common.storage.loads import LoadFolder, StoreStateT
from broker_common.storage.source.values import MISSING, Values
from broker_common.storage.witnessing import CosignedNotes, Witnessing, WitnessStore
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Adopted, Charged, Entry, Rostered, Shutdown, Slots, encode_entry, parse_entry
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.merkle import MerkleTree
from broker_common.tlog.note import NoteSigner, NoteVerifier
from broker_common.tlog.replay import LogState, replay
from broker_common.values import QUERY_ID_BYTES, Clock, Randomness
from census_node.ledger.book import LedgerBook
from census_node.ledger.steps import LedgerSteps
from census_node.ledger.subjects import Carry, Known
from census_node.node import CensusNode, Folders, Keys
from census_node.query.admission import Arrived, SampleAttempt
from census_node.query.budget import quotable_answers
from census_node.query.flow import Charge
from census_node.registry import Registry
from census_node.registry import registry as census_loads
from census_node.registry.relinking import relink_registry
from census_node.registry.rosters import KeptRoster, RosterBook, RosterFolder
from census_node.release.outbox import Outbox
from census_node.release.oversight import Oversight
from census_node.release.publication import Publication, verify_witnessed
from census_node.release.slots import SlotBatch
from health_node.config import LimitConfig
from health_node.node import HealthNode, SamplingKeys
from health_node.operator.cohort_figures import CohortBands
from health_node.people import loading as health_loads
from health_node.people.relinking import relink_people
from health_node.people.store import People, build_people_store
from health_node.query.forwarding import Sample, make_manifest, sign_manifest
from health_node.query.questions import Questions
from health_node.roster.book import RosterBook as HealthRosterBook
from health_node.roster.book import SentRoster
from researcher_node.answers.store import Answers, AskedQuestion, CensusKeys

ItemT = TypeVar("ItemT")
EventT = TypeVar("EventT")
StateT = TypeVar("StateT", bound=LogState)
Pseudonyms = npt.NDArray[np.uint8]

RESEARCHER, OTHER_RESEARCHER = "researcher-1", "researcher-2"
PROJECT = "official-languages"
RELEASE = "2011"
FRENCH = "mother_tongue = 'French'"
CENSUS = Identity("census-agency", "census", "node")
HEALTH = Identity("health-agency", "health", "node")
OTHER_HEALTH = Identity("other-health-agency", "health", "node")
OWNER = Identity("university", "researcher", RESEARCHER)
OTHER = Identity("university", "researcher", OTHER_RESEARCHER)
CENSUS_ORIGIN = "census.example/test"
HEALTH_ORIGIN = "health.example/test"
_LOAD = "0123456789abcdef"
_ENGINE_THREADS = 1


@dataclass(frozen=True, eq=False)
class Order:
    """A signed ticket with everything that only its researcher knows."""

    signed: ticket_pb2.SignedTicket
    unsealing_key: UnsealingKey
    condition: Condition
    nonce: bytes

    @property
    def body(self) -> ticket_pb2.Ticket:
        return ticket_pb2.Ticket.FromString(self.signed.ticket)

    @property
    def hash(self) -> bytes:
        return hash_bytes(self.signed.ticket)

    @property
    def verified(self) -> VerifiedTicket:
        """The ticket as a node that verified it holds it."""
        return VerifiedTicket(self.body, self.signed.ticket)

    @property
    def submission(self) -> health_service_pb2.SubmitRequest:
        return health_service_pb2.SubmitRequest(
            ticket=self.signed, criteria=self.condition.to_wire(), criteria_nonce=self.nonce
        )


@dataclass(frozen=True, kw_only=True)
class OpenedAnswer:
    """An answer as its researcher reads it, with the fields of its receipt beside it."""

    noisy_count: int
    salt: bytes
    receipt: answer_pb2.Receipt
    query_id: bytes
    ticket_hash: bytes
    scale: int
    charged: int
    policy_hash: bytes
    log_index: int
    checkpoint: str
    inclusion_proof: list[bytes]


@dataclass(frozen=True, eq=False)
class OrderedSample:
    """A sample together with the order that it was drawn for."""

    order: Order
    sample: Sample

    @property
    def set_commitment(self) -> bytes:
        return self.sample.bits.commitment(self.sample.bound)


@dataclass
class Secrets:
    """The private keys that this world begins with; tests take what a liar would need."""

    log: SigningKey = field(default_factory=lambda: _signing(Purpose.LOG))
    policy: SigningKey = field(default_factory=lambda: _signing(Purpose.POLICY))
    operator: SigningKey = field(default_factory=lambda: _signing(Purpose.OPERATOR))
    answer: SigningKey = field(default_factory=lambda: _signing(Purpose.ANSWER))
    refusal: SigningKey = field(default_factory=lambda: _signing(Purpose.REFUSAL))
    manifest: SigningKey = field(default_factory=lambda: _signing(Purpose.MANIFEST))
    other_manifest: SigningKey = field(default_factory=lambda: _signing(Purpose.MANIFEST))
    health_log: SigningKey = field(default_factory=lambda: _signing(Purpose.LOG))
    sample: UnsealingKey = field(default_factory=lambda: UnsealingKey.generate(os.urandom))
    linkage: LinkageChain = field(default_factory=lambda: LinkageChain([LinkageKey(os.urandom(32))]))
    sampling: SamplingKey = field(default_factory=lambda: SamplingKey(os.urandom(32)))
    ticket: dict[str, SigningKey] = field(
        default_factory=lambda: {name: _signing(Purpose.TICKET) for name in (RESEARCHER, OTHER_RESEARCHER)}
    )

    def of(self, identity: Identity) -> dict[str, PrivateKey]:
        """One party's keys, by what its card calls their purpose. TLS and identity keys are its own to make."""
        if identity.role == "researcher":
            return {"ticket": self.ticket[identity.name]}
        if identity.role == "census":
            keys: dict[str, PrivateKey] = {"log": self.log, "answer": self.answer, SAMPLE: self.sample}
            keys |= {"refusal": self.refusal}
            return keys | {"policy": self.policy, "operator": self.operator}
        if identity == OTHER_HEALTH:
            return {"manifest": self.other_manifest}
        return {"log": self.health_log, "manifest": self.manifest, SAMPLING: self.sampling}


_ORIGINS = {CENSUS: CENSUS_ORIGIN, HEALTH: HEALTH_ORIGIN, OTHER_HEALTH: "other-health.example/test"}


@cache
def _first_cast() -> tuple[Secrets, dict[Identity, Party]]:
    secrets = Secrets()
    everybody = (CENSUS, HEALTH, OTHER_HEALTH, OWNER, OTHER)
    return secrets, {each: Party(each, _ORIGINS.get(each, ""), given=secrets.of(each)) for each in everybody}


def _cast() -> tuple[Secrets, dict[Identity, Party]]:
    """The parties that every world of this process begins with, as it may go on to change them."""
    secrets, parties = _first_cast()
    return replace(secrets, ticket=dict(secrets.ticket)), {each: party.copy() for each, party in parties.items()}


class HasTables(Protocol):
    """A store of rows in a journal."""

    @staticmethod
    def create_tables(db: Database) -> None: ...


class World:
    """Three agencies that know each other's cards. `close` it."""

    def __init__(
        self,
        directory: Path,
        policy: Policy | None = None,
        *,
        people: int = 400,
        places: int | None = None,
        census_clock: Clock | None = None,
        health_clock: Clock | None = None,
        witness_store: WitnessStore | None = None,
        dictionaries: tuple[Dictionary, Dictionary] = (CENSUS_DICTIONARY, HEALTH_DICTIONARY),
    ) -> None:
        self.directory = directory
        self.policy = make_policy() if policy is None else policy
        # Everybody's, unless a test is about clocks that differ.
        self.clock = FakeClock(system_clock())
        self.census_clock = self.clock if census_clock is None else census_clock
        self.health_clock = self.clock if health_clock is None else health_clock
        self.randomness: Randomness = os.urandom
        self.people = make_pseudonyms(people)
        # As the health agency declares them.
        self.places = DECLARED_STEP if places is None else places
        # Values of each health agency's only roster, which is of everybody and in force from the start.
        self.roster_salt = os.urandom(SALT_BYTES)
        self.roster_number = 1
        # Three of four, spread through the health agency's people, as in life.
        self.in_census = self.people[np.arange(len(self.people)) % 4 != 3]
        self.secrets, self.parties = _cast()
        # The identity key of each party's first card.
        self.roots = {identity: party.signing(Purpose.IDENTITY).verify_key for identity, party in self.parties.items()}
        # The keys that each agency's first card gives its log.
        self.census_log = NoteSigner(CENSUS_ORIGIN, (self.secrets.log,))
        self.health_log = NoteSigner(HEALTH_ORIGIN, (self.secrets.health_log,))
        # False: the health agencies cosign nothing on their own; see `cosign`.
        self.cosigning = True
        # Set before `open_census`: who openings are sealed for.
        self.oversight: Oversight | None = None
        # The census agency's, as of the next start.
        self.witness_store = witness_store
        # Whether an answer may have been charged to the people of its sample alone.
        self.has_served_persons = self.policy.accounting == "per_person"
        # Every slot that was reserved, by its number.
        self.offered: dict[int, ticket_pb2.NoiseSlot] = {}
        self._copies = itertools.count(1)
        self._closing: list[Callable[[], None]] = []
        # Dictionary that each agency adopts and loads its data under.
        self.census_dictionary, self.health_dictionary = dictionaries
        # Dictionary of each agency's data in force.
        self.census_in_force, self.health_in_force = dictionaries
        self.census_folder = directory / "census"
        self.health_folder = directory / "health"
        # The world whose copy this is; None: it is made from nothing.
        self._begun: World | None = None
        if type(self) is World and census_clock is None and health_clock is None and witness_store is None:
            self._copy_beginning(_begun(self.policy, people, self.places, dictionaries))
        else:
            self._make_census()
        self.census = self.open_census()
        if self._begun is None:
            for agency in (HEALTH, OTHER_HEALTH):
                self.give_roster(agency)
        if type(self) is not _Beginning:
            # Start: the noise slots of quotes are committed to and cosigned.
            self.census.recover()

    def _copy_beginning(self, begun: World) -> None:
        """The census agency's files as an equal world began with them, at the instant when it did."""
        self._begun = begun
        self.clock.now_ms, self.roster_salt = begun.clock.now_ms, begun.roster_salt
        copy_home(begun.census_folder, self.census_folder)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()

    def follow(self, key: LinkageKey) -> None:
        """From here on everybody goes by their pseudonym under the next key, as at agencies that have changed to it."""
        self.secrets.linkage = self.secrets.linkage.with_key(key)
        self.people, self.in_census = (_ascending(key.step(people)) for people in (self.people, self.in_census))

    @property
    def researchers(self) -> Mapping[str, Researcher]:
        """Whom the census node knows as researchers."""
        return self.known(self.census.journal).researchers()

    def known(self, journal: Journal[StateT]) -> KnownPeers:
        """A node's view of who it is and whom it knows, as the product gives it to the node's parts."""
        return KnownPeers(journal, self.census_clock if journal.state.role == "census" else self.health_clock)

    def _introduce(self, journal: Journal[StateT], own: Identity, *peers: Identity) -> None:
        """Log whose log this is, and whom its node knows."""
        announce(journal, self.parties[own].card.signed)
        for peer in peers:
            register(journal, self.parties[peer].card, projects=[PROJECT] if peer.role == "researcher" else None)

    def _signer(self, own: Identity, clock: Clock) -> Callable[[LogState], NoteSigner]:
        """Signer of a party's log: the keys that its card honours, or the one there is before any card."""
        party = self.parties[own]

        def signer(state: LogState) -> NoteSigner:
            card, now_ms = state.parties.own, max(clock(), state.time_ms)
            public = (party.card if card is None else card).verify_keys(Purpose.LOG, now_ms)
            return NoteSigner(party.card.card.origin, tuple(party.private(key.to_text(), SigningKey) for key in public))

        return signer

    # --- rosters ---------------------------------------------------------------------------------------------------

    @property
    def roster(self) -> roster_pb2.RosterManifest:
        """Roster manifest of either health agency."""
        commitment = commit_roster(self.roster_salt, self.places, roster_hash(self.people))
        return roster_pb2.RosterManifest(number=self.roster_number, linkage=self.linkage, commitment=commitment)

    @property
    def roster_manifest(self) -> bytes:
        """Its exact bytes."""
        return self.roster.SerializeToString(deterministic=True)

    def renew_rosters(self) -> None:
        """Both health agencies' next rosters, of everybody as they go now, come into force."""
        self.roster_number += 1
        self.roster_salt = os.urandom(SALT_BYTES)
        for agency in (HEALTH, OTHER_HEALTH):
            self.give_roster(agency)

    def give_roster(self, agency: Identity) -> None:
        """An agency's roster is received, joined and put in force."""
        writer = RosterFolder(self.census_folder / "rosters").begin(self.places, os.urandom)
        for start in range(0, self.places, PLACES_PER_FRAME):
            writer.add(self.people[start : start + PLACES_PER_FRAME])
        manifest = self.roster
        kept = KeptRoster(
            health=agency.organisation,
            number=manifest.number,
            linkage=manifest.linkage,
            commitment=manifest.commitment.hex(),
            manifest=hash_bytes(self.roster_manifest).hex(),
            salt=self.roster_salt.hex(),
            places=self.places,
            people=len(self.people),
            file=writer.finish(),
            received_ms=self.census.journal.now(),
        )
        with self.census.journal.transaction() as transaction:
            RosterBook(transaction.db).put(kept)
        self.census.rosters.join_due()
        index = self.census.rosters.switch(agency.organisation, kept.number, at_ms=self.census_clock())
        assert index is not None
        self.census.publication.publish(index + 1)

    def _number_roster(self, journal: Journal[HealthState], load: str) -> None:
        """The health agency numbered and sent its first roster, and heard that it is in force."""
        manifest = self.roster
        with journal.transaction() as transaction:
            transaction.append(
                Rostered(
                    health=HEALTH.organisation,
                    number=manifest.number,
                    linkage=manifest.linkage,
                    commitment=manifest.commitment.hex(),
                    manifest=hash_bytes(self.roster_manifest).hex(),
                )
            )
            HealthRosterBook(transaction.db).put(
                SentRoster(load, manifest.number, self.roster_salt, self.roster_manifest, self.health_clock())
            )

    # --- the census agency -----------------------------------------------------------------------------------------

    def _make_census(self) -> None:
        self.census_folder.mkdir(parents=True)
        loads = LoadFolder(self.census_folder / "registries", ".npz")
        loads.path.mkdir()
        journal = self._census_journal(create=True)
        self._introduce(journal, CENSUS, HEALTH, OTHER_HEALTH, OWNER, OTHER)
        self._adopt(journal, self.policy)
        self._adopt_dictionary(journal, CENSUS, self.census_folder, self.census_dictionary)
        self.put_in_force(journal, loads, self.make_registry(_LOAD))
        journal.close()
        self._write_keys(self.census_folder)

    def book(self, journal: Journal[CensusState]) -> LedgerBook:
        """The ledger, as a process that opens the journal works with it."""
        return Folders.of(self.census_folder).ledger(journal, self._draw)

    def _write_keys(self, folder: Path) -> None:
        (folder / "keys").mkdir()
        (folder / "keys" / "linkage.key").write_text(self.secrets.linkage.to_text())

    @property
    def linkage(self) -> str:
        """The name of the chain that everybody's pseudonyms come from until somebody changes the key."""
        return self.secrets.linkage.chain_id

    def relink_census(self, key: LinkageKey) -> RelinkReport:
        """The census operator changes the linkage key."""
        loads = LoadFolder(self.census_folder / "registries", ".npz")
        with next_key_of(self.census_folder, "census", key) as (keys, source):
            return relink_registry(self.census.journal, loads, keys, source, os.urandom)

    def relink_health(self, node: HealthNode, key: LinkageKey) -> RelinkReport:
        """The health operator changes the linkage key."""
        loads = LoadFolder(self.health_folder / "people", ".people")
        with next_key_of(self.health_folder, "health", key) as (keys, source):
            return relink_people(
                node.journal,
                loads,
                Dictionaries(self.health_folder),
                keys,
                source,
                os.urandom,
                engine_threads=_ENGINE_THREADS,
            )

    def _adopt_dictionary(
        self, journal: Journal[StoreStateT], own: Identity, folder: Path, dictionary: Dictionary
    ) -> None:
        adopt_dictionary(journal, Dictionaries(folder), dictionary, self.parties[own].signing(Purpose.IDENTITY))

    def adopt_census_dictionary(self, dictionary: Dictionary) -> None:
        """The census operator adopts a dictionary for the next load."""
        self.census_dictionary = dictionary
        self._adopt_dictionary(self.census.journal, CENSUS, self.census_folder, dictionary)

    def adopt_health_dictionary(self, node: HealthNode, dictionary: Dictionary) -> None:
        """The health operator adopts a dictionary for the next load."""
        self.health_dictionary = dictionary
        self._adopt_dictionary(node.journal, HEALTH, self.health_folder, dictionary)

    def adopt(self, policy: Policy) -> None:
        """Sign a policy and put it in force."""
        self.has_served_persons |= policy.accounting == "per_person"
        self._adopt(self.census.journal, policy)

    def _adopt(self, journal: Journal[CensusState], policy: Policy) -> None:
        with journal.transaction() as transaction:
            transaction.append(logs.adopted(policy, self.secrets.policy))

    def order_policy(self, policy: Policy) -> None:
        """Put a policy in force as the operator's command does: confirmed if it is weaker, shut down if nothing fits."""
        self.has_served_persons |= policy.accounting == "per_person"
        self.policy = policy
        with self.census.journal.transaction() as transaction:
            state, adoption = transaction.state, logs.adopted(policy, self.secrets.policy)
            if state.policy is not None and policy.weakens(state.policy):
                order = state.order("adopt", "a drill", adopting=policy)
                adoption = structs.replace(
                    adoption,
                    note=order.note,
                    confirmation=self.secrets.operator.sign_text(order.document),
                    confirmation_key_id=self.secrets.operator.key_id,
                )
            transaction.append(adoption)
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))

    def shut_down(self) -> None:
        """The operator ends the service."""
        with self.census.journal.transaction() as transaction:
            transaction.append(logs.shut_down(transaction.state, key=self.secrets.operator))

    def reopen(self) -> None:
        """The operator opens it again."""
        with self.census.journal.transaction() as transaction:
            transaction.append(logs.reopened(transaction.state, key=self.secrets.operator))

    def census_state(self) -> CensusState:
        """A census log that nothing stands in."""
        return CensusState(self.roots[CENSUS])

    def health_state(self) -> HealthState:
        """A health log that nothing stands in."""
        return HealthState(self.roots[HEALTH])

    def make_registry(self, load: str) -> Registry:
        """Everybody in the census, their language told by their place: French is every fourth from the second on."""
        halves = self.in_census.copy().view(">u8").astype(np.uint64)
        columns = {
            column.name: (np.arange(len(self.in_census)) % len(column.codes)).astype(np.uint8)
            for column in self.census_dictionary.columns
        }
        return made_registry(load, halves[:, 0].copy(), halves[:, 1].copy(), columns, dictionary=self.census_dictionary)

    def _census_journal(self, *, create: bool = False) -> Journal[CensusState]:
        stores = (CosignedNotes, LedgerSteps, Outbox, RosterBook, LoadFolder)
        return self._journal(CENSUS, self.census_folder, self.census_state, self.census_clock, stores, create=create)

    def _journal(
        self,
        own: Identity,
        folder: Path,
        fresh_state: Callable[[], StateT],
        clock: Clock,
        stores: Sequence[HasTables],
        *,
        create: bool,
    ) -> Journal[StateT]:
        def tables(db: Database) -> None:
            for store in stores:
                store.create_tables(db)

        journal = (Journal.create if create else Journal)(
            folder / "journal.db", fresh_state=fresh_state, signer=self._signer(own, clock), clock=clock, tables=tables
        )
        self._closing.append(journal.close)
        return journal

    def open_census(self) -> CensusNode:
        """Start a census node on what is on disk; it becomes `self.census`."""
        journal = self._census_journal()
        known, party = self.known(journal), self.parties[CENSUS]
        if self.witness_store is not None:
            verify_witnessed(journal, self.witness_store)

        def signing(purpose: Purpose) -> SigningKey:
            key = known.own().in_use(purpose.value, self.census_clock())
            assert isinstance(key, VerifyKey)
            return party.private(key.to_text(), SigningKey)

        def sample() -> list[UnsealingKey]:
            keys = known.own().honoured(SAMPLE, self.census_clock())
            return [party.private(key.to_text(), UnsealingKey) for key in keys if isinstance(key, SealingKey)]

        def manifest() -> dict[str, list[VerifyKey]]:
            cards = known.agencies("health").items()
            return {name: card.verify_keys(Purpose.MANIFEST, self.census_clock()) for name, card in cards}

        def witnesses() -> dict[str, str]:
            return {name: card.card.origin for name, card in known.agencies("health").items()}

        publication = Publication(journal, self.witness_store)
        # As soon as anything is shown: the health agencies keep up.
        publication.on_news(lambda: self.cosign(census) if self.cosigning else None)
        self.census = census = CensusNode(
            journal,
            keys=Keys(
                answer=lambda: signing(Purpose.ANSWER),
                refusal=lambda: signing(Purpose.REFUSAL),
                sample=sample,
                manifest=manifest,
                researchers=known.researchers,
                witnesses=witnesses,
            ),
            folders=Folders.of(self.census_folder),
            dictionaries=Dictionaries(self.census_folder),
            publication=publication,
            oversight=self.oversight,
            clock=self.census_clock,
            randomness=self._draw,
        )
        # The service's work beside queries.
        census.rosters.join_due()
        return self.census

    def cosign(self, census: CensusNode | None = None) -> None:
        """Both health agencies cosign what a census node shows, and it takes what they have cosigned."""
        census = self.census if census is None else census
        for agency in (HEALTH, OTHER_HEALTH):
            party = self.parties[agency]
            known = census.publication.cosigned(witness=party.card.card.origin)
            newer = census.publication.newer_than(0 if known is None else known.size)
            if newer is None:
                continue
            note = self.cosigner(agency).cosign(newer[1], self.clock() // 1000)
            peers = self.known(census.journal)
            witnessing = Witnessing(census.journal, cosigner=lambda: self.cosigner(CENSUS), clock=self.census_clock)
            witnessing.take(note, peers.own_log(), peers.witness("health", agency.organisation))
            census.publication.hear()

    def cosigner(self, identity: Identity) -> Cosigner:
        """A party's cosigner of other logs."""
        party = self.parties[identity]
        key = party.card.in_use(Purpose.WITNESS.value, self.clock())
        assert isinstance(key, VerifyKey)
        return Cosigner(party.card.card.origin, party.private(key.to_text(), SigningKey))

    def _draw(self, size: int) -> bytes:
        # Looked up at every draw, so that a test can set another source while the node runs.
        return self.randomness(size)

    def load_census(self, release: str = RELEASE) -> str:
        """Put another registry in force beside the serving node, as its operator's command does; gives its id."""
        loads = LoadFolder(self.census_folder / "registries", ".npz")
        journal = self._census_journal()
        with loads.loading(os.urandom) as load:
            self.put_in_force(journal, loads, self.make_registry(load), release)
        census_loads.forget_old_loads(journal, loads)
        journal.close()
        self.census.rosters.join_due()
        return load

    def put_in_force(
        self, journal: Journal[CensusState], loads: LoadFolder, registry: Registry, release: str = RELEASE
    ) -> None:
        """Write a registry and put it in force; a person with another's card takes over that one's charge."""
        with journal.reading() as state:
            before = state.load
        known = Known.read(loads.file(before), before) if before else Known.none()
        write_registry(registry, loads.file(registry.load), known.former_after(registry.cards))
        carry = Carry.between(known, registry.cards, registry.people.person_count, registry.people.household_count)
        with_entry = self.book(journal).put_load(carry)
        loads.put_in_force(
            journal,
            registry.load,
            release,
            self.linkage,
            os.urandom,
            dictionary=registry.dictionary,
            with_entry=with_entry,
        )
        self.census_in_force = registry.dictionary

    def crash_census(self) -> CensusNode:
        """Kill the census node here and now: another one starts on a copy of the bytes that its files hold."""
        self.census_folder = self.copy_census()
        return self.open_census()

    def fork_census(self) -> CensusNode:
        """A second node of the census agency, on a copy of its files: from here on the two logs go apart."""
        folder, census = self.census_folder, self.census
        fork = self.crash_census()
        self.census_folder, self.census = folder, census
        return fork

    def grow_census(self, census: CensusNode | None = None) -> int:
        """A census node logs one more entry, unlike any other's, and shows it; gives the size of its log."""
        census = self.census if census is None else census
        self.clock.advance(1)
        self._adopt(census.journal, self.policy)
        census.publication.publish(census.journal.state.size)
        return census.journal.state.size

    def copy_census(self) -> Path:
        """The bytes that the census node's files hold now, in a folder of their own."""
        return self._copy(self.census_folder)

    def _copy(self, folder: Path) -> Path:
        copy = self.directory / f"{folder.name}-after-crash-{next(self._copies)}"
        return copy_home(folder, copy)

    # --- the health agency -----------------------------------------------------------------------------------------

    def open_health(self) -> HealthNode:
        """Start a health node on what is on disk; the first time its journal and people are made."""
        create = not self.health_folder.exists()
        loads = LoadFolder(self.health_folder / "people", ".people")
        if create:
            self.health_folder.mkdir()
            loads.path.mkdir()
            build_people_store(
                loads.file(_LOAD), self._health_records(len(self.people)), self.health_dictionary, places=self.places
            )
        journal = self._health_journal(create=create)
        if create:
            self._introduce(journal, HEALTH, CENSUS, OWNER, OTHER)
            self._adopt_dictionary(journal, HEALTH, self.health_folder, self.health_dictionary)
            loads.put_in_force(journal, _LOAD, RELEASE, self.linkage, os.urandom, dictionary=self.health_dictionary)
            self._number_roster(journal, _LOAD)
            self._write_keys(self.health_folder)
        known, party = self.known(journal), self.parties[HEALTH]
        return HealthNode(
            journal,
            researchers=known.researchers,
            sampling=SamplingKeys(
                in_use=lambda: str(known.own().in_use(SAMPLING, self.health_clock())),
                named=lambda name: party.private(name, SamplingKey),
            ),
            loads=loads,
            dictionaries=Dictionaries(self.health_folder),
            engine_threads=_ENGINE_THREADS,
            work_per_second=LimitConfig().work_per_second,
            clock=self.health_clock,
            randomness=os.urandom,
        )

    def _health_journal(self, *, create: bool = False) -> Journal[HealthState]:
        stores = (CosignedNotes, Questions, HealthRosterBook, CohortBands, LoadFolder)
        return self._journal(HEALTH, self.health_folder, self.health_state, self.health_clock, stores, create=create)

    def load_health(self, people: int, release: str = RELEASE) -> str:
        """Put the first `people` in force beside the serving node, as its operator's command does; gives the load's id."""
        loads = LoadFolder(self.health_folder / "people", ".people")
        journal = self._health_journal()
        with loads.loading(os.urandom) as load:
            build_people_store(
                loads.file(load), self._health_records(people), self.health_dictionary, places=self.places
            )
            loads.put_in_force(journal, load, release, self.linkage, os.urandom, dictionary=self.health_dictionary)
        self.health_in_force = self.health_dictionary
        health_loads.forget_old_loads(journal, loads)
        journal.close()
        return load

    def crash_health(self) -> HealthNode:
        """Kill the health node here and now; another one starts on a copy of the bytes that its files hold."""
        self.health_folder = self._copy(self.health_folder)
        return self.open_health()

    def _health_records(self, people: int) -> People:
        """The age of each is their place modulo 100; nothing else is known of anybody."""
        halves = self.people[:people].copy().view(">u8").astype(np.uint64)
        columns: dict[str, Values] = {}
        for column in self.health_dictionary.columns:
            empty = np.zeros(len(halves), np.uint64) if column.multi_valued else np.full(len(halves), MISSING, np.int32)
            columns[column.name] = empty
        columns["age"] = (np.arange(len(halves)) % 100).astype(np.int32)
        return People(halves[:, 0].copy(), halves[:, 1].copy(), columns)

    # --- orders and samples ----------------------------------------------------------------------------------------

    def reserve(self, researcher: str = RESEARCHER) -> int:
        """A noise slot, as a quote reserves it; where few are left, the service has committed to more."""
        if self.census.slots.is_low:
            self.census.commit_slots()
        offer = self.census.quotes.offer_slot(researcher, self.policy)
        assert offer is not None, "no slot is cosigned"
        slot = offer.slot
        self.offered[slot.number] = ticket_pb2.NoiseSlot(
            number=slot.number, commitment=slot.commitment, checkpoint=slot.checkpoint
        )
        return slot.number

    def use_up_slots(self) -> None:
        """Quote until the next quote needs another batch, with more open quotes than a policy allows."""
        policy, self.policy = self.policy, structs.replace(self.policy, open_quotes=10_000)
        while not self.census.slots.is_low:
            self.reserve()
        self.policy = policy

    def hold(self, node: CensusNode, number: int) -> None:
        """Another node on the same journal holds a slot that was reserved at this one, as no honest node does."""
        entries = [(entry, entry.event) for entry in self.entries() if isinstance(entry.event, Slots)]
        entry, event = next(each for each in reversed(entries) if each[1].first <= number)
        commitments = tuple(bytes.fromhex(each) for each in event.commitments)
        node.slots.add(SlotBatch(event.first, commitments, entry.sequence, encode_entry(entry)))
        for _ in range(event.first, number + 1):
            node.slots.reserve(
                RESEARCHER,
                now_ms=0,
                expires_ms=2**62,
                limit=len(commitments),
                in_hand=frozenset,
                covering=lambda _: self.offered[number].checkpoint,
            )

    def body(self, researcher: str = RESEARCHER, *, scale: int = 30, slot: int | None = None) -> ticket_pb2.Ticket:
        """An honest ticket that nobody has sealed or signed yet: no answer key, no criteria."""
        number = self.reserve(researcher) if slot is None else slot
        return ticket_pb2.Ticket(
            query_id=os.urandom(QUERY_ID_BYTES),
            researcher_id=researcher,
            project_id=PROJECT,
            question=parse_question(FRENCH, self.census_in_force).to_wire(),
            census_release=RELEASE,
            scale=scale,
            fraction_millionths=WHOLE_MILLIONTHS,
            policy_hash=self.policy.hash,
            noise_slot=self.offered.get(number, ticket_pb2.NoiseSlot(number=number)),
            expires_ms=self.census.journal.now() + self.policy.quote_lifetime_ms,
            health_dictionary=self.health_in_force.hash,
            census_dictionary=self.census_in_force.hash,
        )

    def order(
        self,
        researcher: str = RESEARCHER,
        *,
        scale: int = 30,
        slot: int | None = None,
        where: str = "age >= 0",
        change: Callable[[ticket_pb2.Ticket], object] = lambda _: None,
        key: SigningKey | None = None,
    ) -> Order:
        """A ticket of `researcher`, changed by `change` before it is signed with `key` (by default their own)."""
        body = self.body(researcher, scale=scale, slot=slot)
        unsealing_key = UnsealingKey.generate(os.urandom)
        condition, nonce = parse_condition(where, self.health_in_force), os.urandom(SALT_BYTES)
        body.answer_key = unsealing_key.sealing_key.raw
        body.criteria_commitment = commit_criteria(nonce, canonical_bytes(condition))
        change(body)
        return Order(sign_ticket(body, key or self.secrets.ticket[researcher]), unsealing_key, condition, nonce)

    def bound(self, order: Order) -> Bound:
        """Context of the order's sample."""
        return Bound(order.hash, hash_bytes(self.roster_manifest))

    def sample(self, order: Order, people: Pseudonyms | None = None, salt: bytes | None = None) -> OrderedSample:
        """The order's sample as an honest health node would hold it; everybody by default, all of them on the roster."""
        chosen = self.people if people is None else people
        places = np.searchsorted(_names(self.people), _names(chosen))
        assert np.array_equal(self.people[places], chosen), "somebody is not on the roster"
        salt = os.urandom(SALT_BYTES) if salt is None else salt
        made = sample_of(places, self.bound(order), declared=self.places, roster=self.roster.number, salt=salt)
        return OrderedSample(order, made)

    def messages(
        self,
        ordered: OrderedSample,
        manifest_key: SigningKey | None = None,
        *,
        change: Callable[[sample_pb2.Manifest], object] = lambda _: None,
        sealed: SealedSample | None = None,
    ) -> list[census_service_pb2.CountRequest]:
        """One attempt to hand a sample over: head and parts. A liar changes the manifest, or what is sealed."""
        sample = ordered.sample
        manifest = make_manifest(sample)
        change(manifest)
        signed = sign_manifest(manifest.SerializeToString(deterministic=True), manifest_key or self.secrets.manifest)
        sealed = self.seal(ordered) if sealed is None else sealed
        head = sample_pb2.SampleHead(ticket=ordered.order.signed, manifest=signed, sealed_head=sealed.head)
        return [
            census_service_pb2.CountRequest(head=head),
            *(census_service_pb2.CountRequest(bits=bytes(part)) for part in sealed.parts),
        ]

    def seal(self, ordered: OrderedSample) -> SealedSample:
        """A sample sealed to the census node, anew."""
        return ordered.sample.bits.seal(self.secrets.sample.sealing_key, ordered.sample.bound)

    # --- a query's walk at the census node, without its service ----------------------------------------------------

    def admit(self, messages: Sequence[census_service_pb2.CountRequest], sender: Identity = HEALTH) -> SampleAttempt:
        """Head and parts through admission.

        An admitted sample holds its part of the budget for as long as its walk lasts, which is the flow's
        business: here the hold ends at once, so that a charge meets the ledger's own check and nothing before it.
        """
        head, parts = messages[0].head, [message.bits for message in messages[1:]]
        arrived = Arrived(head.ticket, head.manifest, SealedSample(head.sealed_head, parts))
        attempt = self.census.attempt(sender.organisation, arrived)
        claim = attempt.verify_claim()
        if self.census.charging.charge_of(claim) is None:
            attempt.verify_sample()
            self.census.let_go(claim.ticket_hash)
        return attempt

    def charge(self, order: Order, sample: OrderedSample | None = None) -> None:
        """Everything up to the stored answer."""
        charge_and_answer(self.census, self.admit(self.messages(sample or self.sample(order))))

    def answer(self, order: Order, sample: OrderedSample | None = None) -> bytes:
        """Everything up to the release; gives the sealed answer."""
        self.charge(order, sample)
        self.release(order)
        return self.sealed(order)

    def release(self, order: Order) -> None:
        """The steps after a cosignature."""
        release(self.census, order.hash.hex())

    def sealed(self, order: Order) -> bytes:
        """The released answer, as its researcher collects it."""
        body = order.body
        answer = self.census.released.released_answer(body.query_id.hex(), body.researcher_id)
        assert answer is not None, "the answer is not out"
        return answer.sealed

    def open(self, order: Order, sealed: bytes) -> OpenedAnswer:
        """The researcher's reading of it."""
        verified = unseal_answer(
            sealed,
            unsealing_key=order.unsealing_key,
            ticket_hash=order.hash,
            cells=len(order.body.question.cells),
            census_keys=[self.secrets.answer.verify_key],
        )
        receipt = verified.receipt.body
        return OpenedAnswer(
            noisy_count=verified.noisy.values[0],
            salt=verified.salt,
            receipt=receipt,
            query_id=receipt.query_id,
            ticket_hash=receipt.ticket_hash,
            scale=receipt.scale,
            charged=receipt.charged,
            policy_hash=receipt.policy_hash,
            log_index=receipt.log_index,
            checkpoint=receipt.checkpoint,
            inclusion_proof=list(receipt.inclusion_proof),
        )

    # --- the researcher --------------------------------------------------------------------------------------------

    def open_answers(self, name: str = "answers.db") -> Answers:
        """The researcher's store."""
        party = self.parties[CENSUS]
        keys = CensusKeys(
            answer=lambda: party.card.verify_keys(Purpose.ANSWER, self.clock()),
            log=lambda: NoteVerifier(CENSUS_ORIGIN, tuple(party.card.verify_keys(Purpose.LOG, self.clock()))),
        )
        answers = Answers(self.directory / name, keys, self.clock)
        self._closing.append(answers.close)
        return answers

    def remember(self, answers: Answers, order: Order) -> str:
        """The researcher's record before a ticket leaves; gives the query id."""
        body = order.body
        asked = AskedQuestion(
            query=body.query_id.hex(),
            asked_ms=self.clock(),
            where="age >= 0",
            question=FRENCH,
            scale=body.scale,
            fraction_millionths=body.fraction_millionths,
            policy_hash=body.policy_hash.hex(),
            signed_quote=self.quoted(body).SerializeToString(deterministic=True),
            signed_ticket=order.signed.SerializeToString(deterministic=True),
            criteria=order.condition.to_wire().SerializeToString(deterministic=True),
            criteria_nonce=order.nonce,
        )
        answers.put(asked, order.unsealing_key)
        return asked.query

    def quoted(self, ticket: ticket_pb2.Ticket) -> quote_pb2.SignedQuote:
        """An honest census node's quote for a ticket."""
        policy = self.policy
        with self.census.journal.reading() as state:
            left = quotable_answers(state, policy, ticket.scale, unfinished=self.census.unfinished)
        body = quote_pb2.Quote(
            researcher_id=ticket.researcher_id,
            question=ticket.question,
            census_release=ticket.census_release,
            scale=ticket.scale,
            charged=price(ticket.scale),
            margin_95=margin(ticket.scale, len(ticket.question.cells)),
            remaining=left,
            quota=policy.quota or None,
            quota_left=self.census.quotes.quota_left(ticket.researcher_id),
            policy_hash=ticket.policy_hash,
            noise_slot=ticket.noise_slot,
            told_ms=ticket.expires_ms - policy.quote_lifetime_ms,
            expires_ms=ticket.expires_ms,
        )
        return sign_quote(body, self.parties[CENSUS].signing(Purpose.ANSWER))

    # --- what is proved --------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """The census log as its file holds it."""
        return read_log(self.census_folder / "journal.db")

    def events(self, kind: type[EventT]) -> list[EventT]:
        """The census log's events of one kind, in order."""
        return [entry.event for entry in self.entries() if isinstance(entry.event, kind)]

    def charges(self) -> list[Charged]:
        return self.events(Charged)

    def verify_log(self) -> CensusState:
        """Return the replayed census log, if it keeps every rule and leads to its signed checkpoint."""
        state = verify_stored_log(self.census_folder / "journal.db", self.census_state(), self.census_log)
        caps = [parse_policy(adopted.document.encode()).cap for adopted in self.events(Adopted)]
        assert state.common_units <= max(caps)
        assert self.has_served_persons or state.charged_units <= max(caps)
        assert state.charged_units == sum(price(charge.scale) for charge in self.charges())
        return state

    def health_entries(self) -> list[Entry]:
        """The health log as its file holds it."""
        return read_log(self.health_folder / "journal.db")

    def verify_health_log(self) -> HealthState:
        """Return the replayed health log, if it keeps every rule and leads to its signed checkpoint."""
        return verify_stored_log(self.health_folder / "journal.db", self.health_state(), self.health_log)

    def verify_honest_query(self) -> None:
        """An honest query is charged once, answered, and its answer opens."""
        before = len(self.charges())
        order = self.order()
        answer = self.open(order, self.answer(order))
        assert (answer.scale, answer.charged) == (30, price(30))
        assert len(self.charges()) == before + 1
        self.verify_log()

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever happens inside, nothing of it reaches the census agency's disk."""
        before = self.entries(), rows(self.census_folder / "journal.db", "pending")
        yield
        assert (self.entries(), rows(self.census_folder / "journal.db", "pending")) == before
        self.verify_log()

    @contextlib.contextmanager
    def refusing(self, *codes: str) -> Iterator[None]:
        """The block is refused with one of `codes`, charges nothing, and hinders nobody afterwards."""
        with self.unchanged(), pytest.raises(BrokerError) as caught:
            yield
        assert caught.value.code in codes
        self.verify_honest_query()


class _Beginning(World):
    """A world before its first slots: nobody uses it, others begin with copies of its files."""


_beginnings: dict[tuple[object, ...], _Beginning] = {}


@cache
def _beginnings_folder() -> Path:
    folder, owner = Path(mkdtemp(prefix="worlds-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))), os.getpid()
    # A process that a test forks ends too, and takes nothing away from its parent.
    atexit.register(lambda: shutil.rmtree(folder) if os.getpid() == owner else None)
    return folder


def _begun(policy: Policy, people: int, places: int, dictionaries: tuple[Dictionary, Dictionary]) -> World:
    """The beginning of such a world, made once in each process."""
    key = (policy.hash, people, places, *(dictionary.hash for dictionary in dictionaries))
    if key not in _beginnings:
        folder = _beginnings_folder() / str(len(_beginnings))
        _beginnings[key] = _Beginning(folder, policy, people=people, places=places, dictionaries=dictionaries)
        _beginnings[key].close()
    return _beginnings[key]


def charge_and_answer(node: CensusNode, attempt: SampleAttempt) -> Checkpointed:
    """The steps after an admission, as the flow does them: kept, charged, counted and answered; gives the proof of the charge.

    The charge is shown at once, so that its health agency can cosign it.
    """
    charge = node.charging.charge_of(attempt.verify_claim())
    if charge is None:
        kept = node.keeping.keep(attempt)
        try:
            charge = node.charging.charge(attempt, kept, at_ms=node.clock())
        except BrokerError as error:
            if not error.stops_node:
                node.keeping.forget(kept)
            raise
    node.answers.make(charge, node.journal.prove(charge.index))
    node.publication.publish(charge.index + 1)
    return node.journal.prove(charge.index)


def release(node: CensusNode, ticket_hash: str) -> None:
    """The steps after a cosignature, as the flow does them; an error where there is none."""
    with node.journal.reading() as state:
        ticket = state.tickets[ticket_hash]
    charge = Charge(ticket.charge.health, ticket_hash, ticket.index)
    cosigned = node.cosigned(charge)
    if cosigned is None:
        raise PeerUnavailableError("NOT_WITNESSED")
    node.answers.release(charge, cosigned, at_ms=node.clock())
    node.answers.let_out(charge)


def make_policy(  # the tests' policy: everything at once, unless a test is about time
    *,
    max_belief: str = "0.8",
    scales: tuple[int, ...] | None = None,
    tick_ms: int = 0,
    delay_ms: int = 0,
    open_quotes: int = 64,
    **changes: Any,
) -> Policy:
    """A policy; by default every scale up to 50 and no waiting."""
    cap = cap_units(param_of(parse_max_belief(max_belief)))
    fields: dict[str, Any] = {
        "accounting": "strict",
        "max_belief": max_belief,
        "scales": default_scales(cap) if scales is None else scales,
        "forward_delay_ms": delay_ms,
        "release_tick_ms": tick_ms,
        "quote_lifetime_ms": 10 * 60_000,
        "open_quotes": open_quotes,
        "answer_retention_ms": 90 * 86_400_000,
    }
    return Policy(**fields | changes)


@contextlib.contextmanager
def next_key_of(folder: Path, role: str, key: LinkageKey) -> Iterator[tuple[LinkageKeys, NextKey]]:
    """The keys of a home, and `key` as the other agency's key file brings it."""
    file = folder / "brought.key"
    held = LinkageChain.parse_text((folder / "keys" / "linkage.key").read_text())
    file.write_text(held.with_key(key).to_text())
    yield LinkageKeys(Home(folder, role), "file:keys/linkage.key"), NextKey(file=file)
    file.unlink()


def make_pseudonyms(count: int, seed: int = 1) -> Pseudonyms:
    """`count` pseudonyms, strictly ascending; the same for the same arguments."""
    drawn = np.random.default_rng(seed).integers(0, 256, size=(count, 16), dtype=np.uint8)
    unique = _ascending(drawn)
    assert len(unique) == count
    return unique


def _names(people: Pseudonyms) -> npt.NDArray[np.bytes_]:
    """One value each, in the order of pseudonyms."""
    return np.ascontiguousarray(people).view(">u8").reshape(-1, 2).view([("high", ">u8"), ("low", ">u8")]).reshape(-1)


def _ascending(people: Pseudonyms) -> Pseudonyms:
    """Everybody once, in ascending order."""
    unique: Pseudonyms = np.unique(people.view("V16").reshape(-1)).view(np.uint8).reshape(-1, 16)
    return unique


def drain(stream: AsyncIterator[ItemT]) -> list[ItemT]:
    """Everything of a stream that never waits, without an event loop."""

    async def collect() -> list[ItemT]:
        return [item async for item in stream]

    collecting = collect()
    try:
        collecting.send(None)
    except StopIteration as done:
        collected: list[ItemT] = done.value
        return collected
    raise AssertionError("the stream waited for something")


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    """A table of a journal, read by a connection of its own."""
    with contextlib.closing(_reader(path)) as connection:
        return connection.execute(f"select * from {table}").fetchall()  # noqa: S608 - table names of our own


def read_log(path: Path) -> list[Entry]:
    """The entries of a journal, read by a connection of its own."""
    with contextlib.closing(_reader(path)) as connection:
        return [parse_entry(bytes(data)) for _, data in sorted(connection.execute(_ENTRIES))]


def verify_stored_log(path: Path, state: StateT, signer: NoteSigner) -> StateT:
    """Replay a journal from its file alone and compare it with its signed checkpoint."""
    with contextlib.closing(_reader(path)) as connection:
        # A snapshot of one instant: the node may be writing.
        connection.execute("begin")
        data = [bytes(entry) for _, entry in sorted(connection.execute(_ENTRIES))]
        ((_, note, _),) = connection.execute("select * from head")
    replay(map(parse_entry, data), state)
    tree = MerkleTree()
    for entry in data:
        tree.append(entry)
    checkpoint = signer.verifier.verify_checkpoint(str(note))
    assert (checkpoint.size, checkpoint.root) == (tree.size, tree.root())
    return state


_ENTRIES = "select sequence, entry from entries"


def _reader(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _signing(purpose: Purpose) -> SigningKey:
    return SigningKey.generate(purpose, os.urandom)
