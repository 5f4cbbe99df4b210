"""A census journal with its ledger and nothing else, and beside it an oracle that shares nothing with it.

Charges, loads, changes of the linkage key and compactions are the product's own; what comes before a charge (keys, sealing,
tickets' signatures) and after it (counting) is left out. Cards are numbers here, for ever, and stand at their number's place in
every roster; a pseudonym of theirs changes with the linkage key. `World` of `fakes.world` is the whole node.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from fakes import logs
from fakes.clock import FakeClock
from fakes.desk_arrays import bits_of
from fakes.obvious_ledger import Link, ObviousLedger
from fakes.randomness import SeededRandomness

from broker_common.crypto.commitments import SALT_BYTES, commit_active, commit_sample
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError, RefusedError
from broker_common.privacy.accounting import fits, price
from broker_common.privacy.policy import Policy
from broker_common.storage.database import Database
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Shutdown
from census_node.ledger import book as book_module
from census_node.ledger.accounts import Ledger
from census_node.ledger.book import Decided, LedgerBook, room_for
from census_node.ledger.passes import JOINED, CardPlaces, Passes, People
from census_node.ledger.samples import KeptSample, SampleFolder
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.steps import LedgerSteps
from census_node.ledger.subjects import Cards, Carry, Known
from census_node.release.outbox import Outbox, Pending, WaitingAnswer

# Card by card its person and its household, where it is loaded.
Links = Mapping[int, Link]
CARDS = 10
# Places of every roster.
DECLARED = 512
# Persons 0 and 1 have two cards each, household 0 has three people; the last three cards are nobody's in the census.
PERSONS: Links = {0: (0, 0), 1: (0, 0), 2: (1, 0), 3: (1, 0), 4: (2, 0), 5: (3, 1), 6: (4, 1)}
SAMPLE_RETENTION_MS = 60_000


def persons_policy(**changes: Any) -> Policy:
    """A per-person policy under which two answers at scale 1 do not fit."""
    fields: dict[str, Any] = {"accounting": "per_person", "sample_retention_ms": SAMPLE_RETENTION_MS}
    return logs.policy(**fields | changes)


@dataclass
class LedgerOracle:
    """DESIGN section 5 for a whole service: the obvious ledger, and what everybody was charged."""

    ledger: ObviousLedger = field(default_factory=ObviousLedger)
    everyone: int = 0
    total: int = 0
    # Every answer: its price, and whom it counted.
    counted: list[tuple[int, set[int]]] = field(default_factory=list)

    def charge(self, cards: Collection[int], price: int, rules: Policy, links: Links) -> set[int]:
        """Charge one answer; gives the persons that it counts."""
        self.total += price
        here = [links[card] for card in cards if card in links]
        if rules.accounting == "strict":
            self.everyone += price
            people = {person for person, _ in here}
        else:
            self.ledger.subject = rules.subject
            people = self.ledger.decide(here, price=price, room=rules.cap - self.everyone)
            self.ledger.charge(here, people, price=price)
        self.counted.append((price, people))
        return people


@dataclass(frozen=True, eq=False)
class Asked:
    """A sample that was decided on and kept in its file."""

    cards: frozenset[int]
    scale: int
    health: str
    # Values of its noise slot, and of everything else that belongs to one answer only.
    number: int
    ticket: bytes
    decided: Decided
    kept: KeptSample
    file: str


class LedgerProcess:
    """One process of the census agency that has its journal open, with a ledger of its own in memory."""

    def __init__(self, world: LedgerWorld, *, create: bool = False) -> None:
        self.world = world
        self.samples = SampleFolder(world.folder / "samples")
        self.snapshots = SnapshotFolder(world.folder / "ledgers")
        self.journal = (Journal.create if create else Journal)(
            world.folder / "journal.db",
            fresh_state=logs.census_state,
            signer=lambda _: logs.SIGNER,
            clock=world.clock,
            tables=_tables,
        )
        self.passes = Passes(people_in_block=32)
        self.book = LedgerBook(
            self.journal,
            samples=self.samples,
            snapshots=self.snapshots,
            people=world.people,
            passes=self.passes,
            randomness=world.randomness,
        )

    def open(self) -> LedgerProcess:
        """Steps of a node's start."""
        with self.journal.reading():
            kept = LedgerSteps(self.journal.db).files()
            kept |= {sample for _, sample, _ in Outbox(self.journal.db).all_pending()}
        self.samples.sweep(kept)
        self.book.open()
        return self

    def close(self) -> None:
        self.journal.close()
        self.passes.close()

    @property
    def ledger(self) -> Ledger:
        """The ledger as this process has it, with all that is durable."""
        self.world.decide((), 30, self)
        return self.book._ledger

    def maintain(self) -> None:
        """A serving node's maintenance."""
        self.book.maintain(self.journal.now())

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Rows of the journal."""
        with self.journal.reading():
            return list(self.journal.db.query(statement))


def _tables(db: Database) -> None:
    LedgerSteps.create_tables(db)
    Outbox.create_tables(db)


class LedgerWorld:
    """One census agency's journal and every process that has it open. `close` it."""

    def __init__(self, folder: Path, rules: Policy | None = None) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.randomness = SeededRandomness("ledgers")
        self.rules = persons_policy() if rules is None else rules
        self.oracle = LedgerOracle(ObviousLedger(self.rules.subject))
        self.links: Links = {}
        self._cards = {card: hashlib.sha256(bytes([card])).digest()[:16] for card in range(CARDS)}
        self._known = Known.none()
        self._loads = self._chains = self._slot = 0
        self._counts = (0, 0)
        # Cards and number of numbers, by load.
        self._people: dict[str, tuple[Links, Link]] = {}
        folder.mkdir(parents=True)
        self.node = LedgerProcess(self, create=True)
        with self.node.journal.transaction() as transaction:
            for event in logs.beginning()[1:]:
                transaction.append(event)
            transaction.append(logs.adopted(self.rules))
        self.load(PERSONS)
        self.node.open()

    def close(self) -> None:
        self.node.close()

    def remember(self) -> dict[str, Any]:
        """Everything but what is on disk, as it is now."""
        names = ("oracle", "rules", "links", "_cards", "_known", "_loads", "_chains", "_slot", "_counts", "_people")
        return {name: copy.deepcopy(getattr(self, name)) for name in names}

    def recall(self, memory: dict[str, Any]) -> None:
        """Be as it was then; what is on disk stays."""
        for name, value in copy.deepcopy(memory).items():
            setattr(self, name, value)

    def elsewhere(self, folder: Path, memory: dict[str, Any]) -> LedgerWorld:
        """Another world, in which a node starts on these files."""
        world = copy.copy(self)
        world.recall(memory)
        world.folder = folder
        world.node = LedgerProcess(world)
        world.node.open()
        return world

    def restart(self) -> LedgerProcess:
        """The node ends and starts again."""
        self.node.close()
        self.node = LedgerProcess(self)
        return self.node.open()

    def crash(self) -> LedgerProcess:
        """The power goes here and now; what starts next finds the bytes that the files hold."""
        folder = self.copy()
        self.node.close()
        self.folder = folder
        self.node = LedgerProcess(self)
        return self.node.open()

    def copy(self) -> Path:
        """The bytes of all files as they are now."""
        path = self.folder.with_name(f"{self.folder.name}-copy-{self.randomness(4).hex()}")
        return Path(shutil.copytree(self.folder, path, ignore=shutil.ignore_patterns("*-shm")))

    def add_cards(self, count: int) -> None:
        """So many people more have a card; a load says who they are."""
        first = len(self._cards)
        self._cards |= {card: self.randomness(16) for card in range(first, first + count)}

    def skip_slots(self, count: int) -> None:
        """Samples leave out so many noise slots, which may be used or another's."""
        self._slot += count

    # --- what is done ----------------------------------------------------------------------------------------------

    def people(self, load: str) -> People:
        """The people of a load."""
        links, counts = self._people[load]

        def members() -> tuple[Any, Any]:
            persons, households = (np.array([link[which] for link in links.values()], np.uint32) for which in range(2))
            return persons, households

        return People(load, *counts, {}, members)

    def card_places(self) -> CardPlaces:
        """Everybody's cards of the load in force, each at the place of its number."""
        places = np.zeros(self._counts[0], np.uint32)
        further: list[Link] = []
        for card, (person, _) in sorted(self.links.items()):
            if places[person]:
                further.append((person, card))
            else:
                places[person] = card | JOINED
        persons, more = np.array(sorted(further), np.uint32).reshape(-1, 2).T
        return CardPlaces.of(places, np.ascontiguousarray(persons), np.ascontiguousarray(more), DECLARED)

    @property
    def in_force(self) -> str:
        """The load in force."""
        return f"load{self._loads}"

    def decide(self, cards: Collection[int], scale: int, process: LedgerProcess | None = None) -> Decided:
        """Who of these cards would be charged now."""
        process = process or self.node
        with process.journal.reading() as state:
            room = room_for(state, price(scale))
        return process.book.decide(bits_of(cards, DECLARED), self.card_places(), self.people(self.in_force), room)

    def ask(
        self,
        cards: Collection[int],
        scale: int = 30,
        *,
        process: LedgerProcess | None = None,
        organisation: str = "health-on",
        number: int | None = None,
    ) -> Asked:
        """A sample of these cards, decided on and kept, on the next noise slot and the roster of the chain in force."""
        process = process or self.node
        number, self._slot = self._slot if number is None else number, self._slot + (number is None)
        with process.journal.transaction() as transaction:
            state = transaction.state
            while state.next_slot <= number:
                transaction.append(logs.slots(state.next_slot))
            roster = state.rosters.get(organisation)
            if roster is None or roster.linkage != state.linkage:
                following = 1 if roster is None else roster.number + 1
                transaction.append(logs.rostered(following, health=organisation, linkage=state.linkage))
        decided = self.decide(cards, scale, process)
        kept = KeptSample(
            salt=self.randomness(SALT_BYTES),
            active_salt=self.randomness(SALT_BYTES),
            bits=bits_of(cards, DECLARED),
            active=decided.active.copy(),
            persons=self._counts[0],
        )
        ticket = hashlib.sha256(number.to_bytes(8, "big")).digest()
        file = process.samples.write(kept, self.randomness)
        return Asked(frozenset(cards), scale, organisation, number, ticket, decided, kept, file)

    def commit(self, asked: Asked, process: LedgerProcess | None = None) -> None:
        """Charge what was asked, in both worlds."""
        process, place = process or self.node, 0
        with process.journal.transaction() as transaction:
            state = transaction.state
            self._verify_open(state, asked.scale)
            roster = state.rosters[asked.health]
            active = commit_active(asked.kept.active_salt, asked.ticket, asked.kept.active.data)
            submitted = commit_sample(
                asked.kept.salt, asked.ticket, bytes.fromhex(roster.manifest), asked.kept.bits.data
            )
            step = process.book.step(
                transaction,
                asked.decided,
                ticket_hash=asked.ticket,
                submitted=submitted,
                active=active,
                file=asked.file,
            )
            charged = logs.charged(
                asked.number,
                before=state.charged_units,
                scale=asked.scale,
                ticket=asked.ticket.hex(),
                health=asked.health,
                load=state.load,
                roster=roster.number,
                submitted=submitted.hex(),
                active=active.hex(),
                ledger="" if step is None else step.digest.hex(),
            )
            entry = transaction.append(charged)
            pending = Pending(charged.ticket, b"", charged.load, roster.number, asked.file, asked.number, bytes(32))
            Outbox(transaction.db).put_pending(pending)
            if step is not None:
                kept_until_ms = entry.time_ms + self.rules.sample_retention_ms
                place = LedgerSteps(transaction.db).put(replace(step, kept_until_ms=kept_until_ms))
            if state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))
        process.book.charged(asked.decided, step, place)
        self.oracle.charge(asked.cards, price(asked.scale), self.rules, self.links)

    @staticmethod
    def _verify_open(state: CensusState, scale: int) -> None:
        if state.shut_down:
            raise RefusedError("SERVICE_SHUT_DOWN")
        assert state.policy is not None
        if not fits(state.policy.cap, state.everyones_units, scale):
            raise RefusedError("BUDGET_EXHAUSTED", scale=scale)

    def charge(
        self,
        cards: Collection[int],
        scale: int = 30,
        *,
        process: LedgerProcess | None = None,
        answered: bool = True,
        organisation: str = "health-on",
    ) -> str:
        """Charge one answer in both worlds; gives its ticket."""
        process = process or self.node
        asked = self.ask(cards, scale, process=process, organisation=organisation)
        try:
            self.commit(asked, process)
        except BrokerError:
            process.samples.wipe(asked.file)
            raise
        ticket = asked.ticket.hex()
        if answered:
            self.answer(ticket, process)
        return ticket

    def answer(self, ticket: str, process: LedgerProcess | None = None) -> None:
        """Its answer is made and stored; the sample is wiped where nobody needs it any more."""
        journal = (process or self.node).journal
        with journal.transaction() as transaction:
            outbox = Outbox(transaction.db)
            pending, step = outbox.pending(ticket), LedgerSteps(transaction.db).of_ticket(ticket)
            assert pending is not None
            query = transaction.state.tickets[ticket].charge.query
            outbox.put_answer(WaitingAnswer(query, ticket, "alice", b"sealed"))
        if step is None:
            (process or self.node).samples.wipe(pending.sample)

    def load(self, links: Links, process: LedgerProcess | None = None) -> None:
        """Another registry is put in force, by a process of its own unless said otherwise."""
        process = process or self.node
        ordered = sorted(links, key=lambda card: self._cards[card])
        halves = np.frombuffer(b"".join(self._cards[card] for card in ordered), ">u8").astype(np.uint64).reshape(-1, 2)
        persons, households = (np.array([links[card][which] for card in ordered], np.uint32) for which in range(2))
        now = Cards(halves[:, 0].copy(), halves[:, 1].copy(), persons, households)
        self._counts = (
            max([self._counts[0], *(person + 1 for person, _ in links.values())]),
            max([self._counts[1], *(home + 1 for _, home in links.values())]),
        )
        carry = Carry.between(self._known, now, *self._counts)
        self._loads += 1
        with process.journal.transaction() as transaction:
            linkage = transaction.state.linkage or logs.chain_of(0)
            entry = transaction.append(logs.loaded(f"load{self._loads}", linkage=linkage))
            process.book.put_load(carry)(transaction, entry)
        self._people[self.in_force] = dict(links), self._counts
        former = self._known.former_after(now)
        self.links = dict(links)
        self.oracle.ledger.load(links)
        homes = np.zeros(self._counts[0], np.uint32)
        for person, home in self.oracle.ledger.homes.items():
            homes[person] = home
        self._known = Known(now, former, homes)

    def relink(self, process: LedgerProcess | None = None) -> None:
        """The linkage key is changed."""
        process, key = process or self.node, LinkageKey(self.randomness(32))
        self._loads, self._chains = self._loads + 1, self._chains + 1
        with process.journal.transaction() as transaction:
            previous = transaction.state.linkage
            transaction.append(
                logs.relinked(f"load{self._loads}", previous=previous, linkage=logs.chain_of(self._chains))
            )
        self._people[self.in_force] = dict(self.links), self._counts
        for card, pseudonym in self._cards.items():
            self._cards[card] = key.step(np.frombuffer(pseudonym, np.uint8).reshape(1, 16)).tobytes()
        known = self._known
        self._known = Known(known.cards.relinked([key]), known.former.relinked([key]), known.homes)

    def adopt(self, rules: Policy) -> None:
        """The operator adopts a policy, and confirms it where it is weaker."""
        with self.node.journal.transaction() as transaction:
            assert transaction.state.policy is not None
            weaker = rules.weakens(transaction.state.policy)
            transaction.append(logs.confirmed(transaction.state, rules) if weaker else logs.adopted(rules))
            if transaction.state.must_shut_down:
                transaction.append(Shutdown(reason="budget", note=""))
        self.rules = rules

    def reopen(self) -> None:
        """The operator opens a service that is shut."""
        with self.node.journal.transaction() as transaction:
            transaction.append(logs.reopened(transaction.state))

    def compact(self, process: LedgerProcess | None = None) -> None:
        """A snapshot, whether one is due or not."""
        with mock.patch.object(book_module, "_MOST_CHARGES", 0):
            (process or self.node).maintain()

    def retire(self, process: LedgerProcess | None = None) -> None:
        """Time passes until no membership that may go is kept, and they go."""
        self.clock.advance(SAMPLE_RETENTION_MS)
        (process or self.node).maintain()

    # --- what must hold --------------------------------------------------------------------------------------------

    def verify(self, process: LedgerProcess | None = None) -> None:
        """The ledger is the oracle's, subject by subject."""
        ledger, oracle = (process or self.node).ledger, self.oracle.ledger
        assert (ledger.persons, ledger.households) == self._counts
        charged = dict(enumerate(ledger.charged.tolist()))
        assert +Counter(charged) == +oracle.charged

    def verify_files(self) -> None:
        """Every file that a row names is there, and there is no other."""
        files = {row["file"] for row in self.node.rows("select file from ledger_steps where file != ''")}
        files |= {row["sample"] for row in self.node.rows("select sample from pending")}
        # Name in a sample's reference.
        names = {f"{name}.sample" if key else name for name, _, key in (file.partition(":") for file in files)}
        there = {path.name for folder in ("samples", "ledgers") for path in (self.folder / folder).glob("*")}
        assert there == names
