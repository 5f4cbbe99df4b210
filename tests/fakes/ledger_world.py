"""A census journal with its ledgers of persons and nothing else, and beside it an oracle that shares nothing with them.

Charges, loads, changes of the linkage key and compactions are the product's own; what comes before a charge (keys, frames,
tickets' signatures) and after it (counting, sealing) is left out. Cards are numbers here, for ever; a pseudonym of theirs
changes with the linkage key. `World` of `fakes.world` is the whole node.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fakes import logs
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness
from sqlite_utils import Database
from tripartite.v1 import ticket_pb2

from broker_common.crypto.commitments import SALT_BYTES, commit_set, hash_set
from broker_common.crypto.linkage import LinkageKey
from broker_common.errors import BrokerError
from broker_common.privacy.accounting import price_units
from broker_common.privacy.policy import Policy
from broker_common.query.question import parse_question
from broker_common.query.ticket import VerifiedTicket
from broker_common.storage.journal import Journal
from broker_common.tlog.entries import Shutdown
from census_node.admission import AdmittedSample
from census_node.charging import Kept, charge
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledger_book import LedgerBook
from census_node.ledger_steps import LedgerSteps
from census_node.ledgers import Ledgers
from census_node.linked import NOBODY, Linked
from census_node.linking import LinkedSample
from census_node.outbox import Outbox, WaitingAnswer
from census_node.samples import SampleFolder
from census_node.snapshots import SnapshotFolder
from census_node.units import Cards, Carry, Known

__all__ = ["CARDS", "PERSONS", "LedgerOracle", "LedgerProcess", "LedgerWorld", "Units", "persons_policy"]

# Card by card its person and its household, where it is loaded.
Units = Mapping[int, tuple[int, int]]
CARDS = 10
# Persons 0 and 1 have two cards each, household 0 has three people; the last three cards are nobody's in the census.
PERSONS: Units = {0: (0, 0), 1: (0, 0), 2: (1, 0), 3: (1, 0), 4: (2, 0), 5: (3, 1), 6: (4, 1)}
SAMPLE_RETENTION_MS = 60_000


def persons_policy(**changes: Any) -> Policy:
    """A per-person policy under which two answers at scale 1 do not fit."""
    fields: dict[str, Any] = {"accounting": "per_person", "sample_retention_ms": SAMPLE_RETENTION_MS}
    return logs.policy(**fields | changes)


@dataclass
class LedgerOracle:
    """DESIGN section 5 for persons, in dictionaries and whole numbers."""

    submitted: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    persons: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    households: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    everyone: int = 0
    total: int = 0
    # What each card's units were when it was last loaded.
    last: dict[int, tuple[int, int]] = field(default_factory=dict)
    # The household of each person who was ever numbered, when they were last loaded.
    homes: list[int] = field(default_factory=list)
    # Every answer: its price, and whom it counted.
    counted: list[tuple[int, set[int]]] = field(default_factory=list)

    def charge(self, cards: Collection[int], price: int, rules: Policy, units: Units) -> set[int]:
        """Charge one answer; gives the persons that it counts."""
        self.total += price
        if rules.accounting == "strict":
            self.everyone += price
            people = {units[card][0] for card in cards if card in units}
            self.counted.append((price, people))
            return people
        fits = {card for card in cards if self.everyone + self.submitted[card] + price <= rules.cap}
        homes: defaultdict[int, set[int]] = defaultdict(set)
        for card in fits & set(units):
            homes[units[card][1]].add(units[card][0])
        if rules.unit == "household":
            homes = defaultdict(
                set,
                {
                    home: people
                    for home, people in homes.items()
                    if self.everyone + self.households[home] + len(people) * price <= rules.cap
                },
            )
        else:
            homes = defaultdict(
                set,
                {
                    home: {p for p in people if self.everyone + self.persons[p] + price <= rules.cap}
                    for home, people in homes.items()
                },
            )
        for card in fits:
            self.submitted[card] += price
        for home, people in homes.items():
            self.households[home] += price * len(people)
            for person in people:
                self.persons[person] += price
        people = set().union(*homes.values())
        self.counted.append((price, people))
        return people

    def load(self, units: Units) -> None:
        """A load is put in force: whoever has a card of another unit takes over what that one was charged.

        A household also takes over what the household was charged that one of its people was in before, by whichever card.
        """
        before = dict(self.persons), dict(self.households)
        moved = {(home, self.homes[person]) for person, home in units.values() if person < len(self.homes)}
        for which, charges in enumerate((self.persons, self.households)):
            pairs = {(units[card][which], self.last[card][which]) for card in units if card in self.last}
            for now, then in pairs | (moved if which else set()):
                if now != then:
                    charges[now] += before[which].get(then, 0)
        self.last.update(units)
        self.homes += [0] * (1 + max((person for person, _ in units.values()), default=-1) - len(self.homes))
        for person, home in units.values():
            self.homes[person] = home


class LedgerProcess:
    """One process of the census agency that has its journal open, with its own ledgers in memory."""

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
        self.book = LedgerBook(
            self.journal,
            samples=self.samples,
            snapshots=self.snapshots,
            most_pseudonyms=world.most_pseudonyms,
            randomness=world.randomness,
        )

    def open(self) -> LedgerProcess:
        """What a node does at its start."""
        with self.journal.reading():
            kept = LedgerSteps(self.journal.db).files()
            kept |= {sample for _, sample, _ in Outbox(self.journal.db).all_pending()}
        self.samples.sweep(kept)
        self.book.open()
        return self

    def close(self) -> None:
        self.journal.close()

    @property
    def ledgers(self) -> Ledgers:
        """The ledgers as this process has them, with all that is durable."""
        with self.book.charging(), self.journal.reading() as state:
            return self.book.current(self.journal.db, state)

    def maintain(self) -> None:
        """What a serving node does now and then."""
        self.book.maintain(self.journal.now())

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """What stands in the journal."""
        with self.journal.reading():
            return list(self.journal.db.query(statement))


def _tables(db: Database) -> None:
    LedgerSteps.create_tables(db)
    Outbox.create_tables(db)


class LedgerWorld:
    """One census agency's journal and whoever has it open. `close` it."""

    def __init__(self, folder: Path, rules: Policy | None = None, *, most_pseudonyms: int = 1000) -> None:
        self.folder = folder
        self.most_pseudonyms = most_pseudonyms
        self.clock = FakeClock()
        self.randomness = SeededRandomness("ledgers")
        self.oracle = LedgerOracle()
        self.rules = persons_policy() if rules is None else rules
        self.units: Units = {}
        self._cards = {card: hashlib.sha256(bytes([card])).digest()[:16] for card in range(CARDS)}
        self._known = Known.none()
        self._loads = self._chains = self._slot = 0
        self._counts = (0, 0)
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
        names = ("oracle", "rules", "units", "_cards", "_known", "_loads", "_chains", "_slot", "_counts")
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

    # --- what is done ----------------------------------------------------------------------------------------------

    def pseudonyms(self, cards: Collection[int]) -> npt.NDArray[np.uint8]:
        """The pseudonyms of these cards now, ascending."""
        content = b"".join(sorted(self._cards[card] for card in cards))
        return np.frombuffer(content, np.uint8).reshape(-1, 16)

    def linked(self, cards: Collection[int]) -> Linked:
        """A sample of these cards, on the load in force."""
        ordered = sorted(cards, key=lambda card: self._cards[card])
        units = [self.units.get(card, (NOBODY, NOBODY)) for card in ordered]
        persons, households = (np.array([each[which] for each in units], np.uint32) for which in range(2))
        return Linked(self.pseudonyms(cards), persons, households)

    def keep(self, cards: Collection[int], process: LedgerProcess | None = None) -> Kept:
        """A sample in its file."""
        units = self.linked(cards)
        linked = LinkedSample(f"load{self._loads}", units, np.arange(len(units.persons), dtype=np.uint32))
        return Kept((process or self.node).samples.write(units, self.randomness), linked)

    def admitted(
        self, cards: Collection[int], scale: int = 30, *, organisation: str = "health-on", number: int | None = None
    ) -> AdmittedSample:
        """A sample that passed every check, on the next noise slot."""
        journal = self.node.journal
        slot, self._slot = self._slot if number is None else number, self._slot + (number is None)
        with journal.transaction() as transaction:
            state = transaction.state
            while state.next_slot <= slot:
                transaction.append(logs.slots(state.next_slot))
            assert state.policy is not None
            body = ticket_pb2.Ticket(
                query_id=slot.to_bytes(16, "big"),
                researcher_id="alice",
                project_id="study",
                scale=scale,
                policy_hash=state.policy.hash,
                census_release=state.release,
                noise_slot=ticket_pb2.NoiseSlot(number=slot, commitment=bytes.fromhex(logs.hash_of(slot))),
            )
            linkage = state.linkage
        ticket = VerifiedTicket(body, body.SerializeToString(deterministic=True))
        set_hash, salt = hash_set(self.pseudonyms(cards).tobytes()), self.randomness(SALT_BYTES)
        return AdmittedSample(
            ticket=ticket,
            question=parse_question("all", CENSUS_DICTIONARY),
            organisation=organisation,
            linkage=linkage,
            manifest_hash=bytes(32),
            set_commitment=commit_set(salt, ticket.hash, set_hash),
            set_hash=set_hash,
            set_salt=salt,
            pseudonyms=self.pseudonyms(cards),
        )

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
        sample = self.admitted(cards, scale, organisation=organisation)
        kept = self.keep(cards, process)
        try:
            assert charge(process.journal, process.book, sample, kept, self.randomness) is not None
        except BrokerError:
            process.samples.wipe(kept.file)
            raise
        self.oracle.charge(cards, price_units(scale), self.rules, self.units)
        ticket = sample.ticket.hash.hex()
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

    def load(self, units: Units, process: LedgerProcess | None = None) -> None:
        """Another registry is put in force, by a process of its own unless said otherwise."""
        process = process or self.node
        ordered = sorted(units, key=lambda card: self._cards[card])
        halves = np.frombuffer(b"".join(self._cards[card] for card in ordered), ">u8").astype(np.uint64).reshape(-1, 2)
        persons, households = (np.array([units[card][which] for card in ordered], np.uint32) for which in range(2))
        now = Cards(halves[:, 0].copy(), halves[:, 1].copy(), persons, households)
        self._counts = (
            max([self._counts[0], *(person + 1 for person, _ in units.values())]),
            max([self._counts[1], *(home + 1 for _, home in units.values())]),
        )
        carry = Carry.between(self._known, now, *self._counts)
        self._loads += 1
        with process.journal.transaction() as transaction:
            linkage = transaction.state.linkage or logs.chain_of(0)
            entry = transaction.append(logs.loaded(f"load{self._loads}", linkage=linkage))
            process.book.put_load(carry)(transaction, entry)
        former = self._known.former_after(now)
        self.units = dict(units)
        self.oracle.load(units)
        self._known = Known(now, former, np.array(self.oracle.homes, np.uint32))

    def relink(self, process: LedgerProcess | None = None, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The linkage key is changed; `meanwhile` happens whenever the ledgers have been made ready for it."""
        process, key = process or self.node, LinkageKey(self.randomness(32))
        with process.book.relinking([key]) as ledgers:
            while True:
                ledgers.prepare()
                meanwhile()
                with process.journal.transaction() as transaction:
                    if not ledgers.is_ready(transaction):
                        continue
                    self._loads, self._chains = self._loads + 1, self._chains + 1
                    previous = transaction.state.linkage
                    entry = transaction.append(
                        logs.relinked(f"load{self._loads}", previous=previous, linkage=logs.chain_of(self._chains))
                    )
                    ledgers.put(transaction, entry)
                break
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
        process = process or self.node
        process.book._charges = 10**6
        process.maintain()

    def retire(self, process: LedgerProcess | None = None) -> None:
        """Time passes until no membership that may go is kept, and they go."""
        self.clock.advance(SAMPLE_RETENTION_MS)
        (process or self.node).maintain()

    # --- what must hold --------------------------------------------------------------------------------------------

    def verify(self, process: LedgerProcess | None = None) -> None:
        """Both ledgers are the oracle's, person by person, and nobody's that decides has passed its cap."""
        ledgers, oracle = (process or self.node).ledgers, self.oracle
        ordered = sorted(self._cards, key=lambda card: self._cards[card])
        submitted = ledgers.submitted.units_of(self.pseudonyms(ordered)).tolist()
        assert dict(zip(ordered, submitted, strict=True)) == {card: oracle.submitted[card] for card in ordered}
        assert ledgers.units.persons.tolist() == [oracle.persons[person] for person in range(self._counts[0])]
        assert ledgers.units.households.tolist() == [oracle.households[home] for home in range(self._counts[1])]

    def verify_files(self) -> None:
        """Every file that a row names is there, and there is no other."""
        files = {row["file"] for row in self.node.rows("select file from ledger_steps where file != ''")}
        files |= {row["sample"] for row in self.node.rows("select sample from pending")}
        there = {path.name for folder in ("samples", "ledgers") for path in (self.folder / folder).glob("*")}
        assert there == files
