"""A census home that has lived under per-person accounting.

The home is written by the text of AUDIT.md alone, by a world of plain sets: nothing of a node is in it, so that a judge who finds it
whole reads what that text says. It has several charges that bite into the cap, people with two cards and shared households, an
erasure, a load that moves cards, a change of the linkage key and a snapshot at the end. A lie changes a copy of the home; an audit
on site has to find exactly the problems listed beside it.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fakes import logs
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.randomness import SeededRandomness
from fakes.reference_desk import ReferenceDesk, counts_of, people_here

from broker_common.audit.findings import Findings
from broker_common.audit.on_site import walk
from broker_common.audit.on_site.visit import AuditedLog, OnSite
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.privacy.policy import Policy, Subject
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import parse_question
from broker_common.tlog.entries import Charged, Entry, Event, Loaded, Relinked, Rostered
from broker_common.values import ExactCounts

DAY_MS: Final = 86_400_000
HEALTH: Final = "health-on"
PLACES: Final = 524_288
# Everybody is in one of these: two cards of every tenth person, three to a household.
_TWO_CARDS, _MEMBERS = 10, 3
FRAME, _TAG = 262_144, 16
_NO_VALUE = 255

Pairs: TypeAlias = set[tuple[int, int]]


# --- the files -------------------------------------------------------------------------------------------------------


def committed(domain: str, salt: bytes, *parts: bytes) -> bytes:
    """Commitment to these parts."""
    return sha256(
        b"".join([domain.encode() + b"\0", salt, *(len(each).to_bytes(8, "big") + each for each in parts)])
    ).digest()


def digest_after(before: bytes, kind: str, *parts: bytes) -> bytes:
    """The digest of the history that ends with a step."""
    return committed("tripartite/ledger/v2", before + kind.encode() + b"\0", *parts)


def sealed(key: bytes, plaintext: bytes | bytearray) -> bytes:
    """Frames, of zeros behind the end."""
    padded = plaintext.ljust(-(-len(plaintext) // FRAME) * FRAME, b"\0")
    starts = range(0, len(padded), FRAME)
    return b"".join(AESGCM(key).encrypt(_nonce(at, starts), padded[at : at + FRAME], None) for at in starts)


def unsealed(key: bytes, content: bytes) -> bytes:
    """Plaintext of frames."""
    size = FRAME + _TAG
    starts = range(0, len(content) // size * FRAME, FRAME)
    frames = (content[at // FRAME * size :][:size] for at in starts)
    return b"".join(
        AESGCM(key).decrypt(_nonce(at, starts), each, None) for at, each in zip(starts, frames, strict=True)
    )


def _nonce(at: int, starts: range) -> bytes:
    return bytes(7) + (at // FRAME).to_bytes(4, "big") + bytes([at == starts[-1]])


def bits_of(chosen: Iterable[int], count: int) -> bytes:
    """One bit for each number below `count`, the most significant first."""
    bits = np.zeros(count, np.uint8)
    bits[sorted(chosen)] = 1
    return np.packbits(bits).tobytes()


def array_bytes(*arrays: np.ndarray[Any, Any]) -> bytes:
    """NumPy arrays one after the other."""
    file = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def snapshot_bytes(salt: bytes, counts: list[int], charged: list[int]) -> bytes:
    """A snapshot's file."""
    return array_bytes(np.frombuffer(salt, np.uint8), np.array(counts, np.uint64), np.array(charged, np.uint32))


@dataclass(frozen=True)
class Carry:
    """A load's carry: pairs of a subject, and the subject that its cards or people were before."""

    persons: Pairs
    households: Pairs
    counts: tuple[int, int]

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """The file's arrays, in their order."""
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, pairs in (("person", sorted(self.persons)), ("household", sorted(self.households))):
            columns[f"{name}_to"] = np.array([pair[0] for pair in pairs], np.uint32)
            columns[f"{name}_from"] = np.array([pair[1] for pair in pairs], np.uint32)
        return {**columns, "counts": np.array(self.counts, np.uint64)}

    def write(self, path: Path) -> bytes:
        """Write the file; gives its hash."""
        digest = sha256(b"tripartite/carry/v1\0")
        with path.open("wb") as file:
            np.savez(file, **self.columns())  # type: ignore[arg-type]
        for name, column in self.columns().items():
            digest.update(f"{name} {len(column)}\n".encode() + column.tobytes())
        return digest.digest()


@dataclass
class Census:
    """Owner of every card, and the household of everybody with a card."""

    cards: dict[bytes, int]
    homes: dict[int, int]
    counts: tuple[int, int]

    def values(self) -> dict[str, list[int]]:
        """Code of each person number, by variable."""
        return {
            column.name: [
                (number + place) % (len(column.codes) + 1) if number in self.homes else _NO_VALUE
                for number in range(self.counts[0])
            ]
            for place, column in enumerate(CENSUS_DICTIONARY.columns)
        }


def carry_between(before: Census, now: Census, *, homes: bool = True) -> Carry:
    """The carry of an honest load; without `homes` it follows cards alone."""
    kept = [name for name in now.cards if name in before.cards]
    persons = {(now.cards[name], before.cards[name]) for name in kept}
    households = {(now.homes[now.cards[name]], before.homes[before.cards[name]]) for name in kept}
    if homes:
        households |= {(home, before.homes[person]) for person, home in now.homes.items() if person in before.homes}
    moved = [{pair for pair in pairs if pair[0] != pair[1]} for pairs in (persons, households)]
    return Carry(moved[0], moved[1], now.counts)


# --- the home --------------------------------------------------------------------------------------------------------

_TABLES: Final = """
create table entries (sequence integer primary key, entry blob);
create table loads (load text primary key, salt blob);
create table rosters (health text, number integer, linkage text, commitment text, manifest text, places integer, people integer,
                      file text, received_ms integer, salt text);
create table ledger_steps (place integer primary key, kind text, digest blob, file text, content blob, covers integer, ticket text,
                           price integer, kept_until_ms integer);
"""
# The charged people: those who are here and whom a charge fits. An honest home charges the latter.
Deciding: TypeAlias = Callable[[set[int], set[int]], set[int]]


def _honest(_: set[int], fitting: set[int]) -> set[int]:
    return fitting


class SiteWorld:
    """A home that is being lived in; its database is open until `close`."""

    def __init__(
        self, home: Path, *, subject: Subject = "person", people: int = 400, dictionary: Dictionary = CENSUS_DICTIONARY
    ) -> None:
        self.home = home
        self.dictionary = dictionary
        # How a charge is decided, and what is counted beside the truth.
        self.decide: Deciding = _honest
        self.miscounted = 0
        # Bits that samples have set besides, and that are nobody's.
        self.beside: set[int] = set()
        # Whether the files of replaced loads are kept.
        self.keeps_loads = True
        self.now_ms = 1_800_000_000_000
        self.log: list[Entry] = []
        self.policy = logs.policy(
            accounting="per_person", subject=subject, sample_retention_ms=DAY_MS, scales=(1, 2, 3, 5, 50)
        )
        # Counts by ticket.
        self.counts: dict[str, tuple[int, ...]] = {}
        self._random = SeededRandomness(f"site {subject} {people}")
        self._total = self._common = 0
        self._digest = bytes(32)
        self._chain = LinkageChain([LinkageKey(bytes(range(1, 33)))])
        for folder in ("keys", "samples", "registries", "rosters", "ledgers"):
            (home / folder).mkdir(parents=True)
        (home / "config.toml").write_text(
            f'role = "census"\norganisation = "census-ca"\norigin = "{logs.ORIGIN}"\n', encoding="utf-8"
        )
        self._write_chain()
        self.db = sqlite3.connect(home / "journal.db", isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.executescript(_TABLES)
        # Holders of cards, by place; and some of the health agency's people whom the census does not know.
        self.names = [self._random(16) for _ in range(people)]
        self.strangers = [self._random(16) for _ in range(people // 10)]
        self.census = self._first_census()
        self._begin()

    def close(self) -> None:
        """The node is down."""
        self.db.close()

    # --- the log -------------------------------------------------------------------------------------------------

    def append(self, event: Event) -> Entry:
        """The next entry of the log."""
        policy = (
            self.policy.hash.hex() if any(entry.event.__class__.__name__ == "Adopted" for entry in self.log) else ""
        )
        entry = Entry(sequence=len(self.log), time_ms=self.now_ms, policy=policy, event=event)
        self.log.append(entry)
        self.db.execute(
            "insert into entries values (?, ?)", [entry.sequence, msgspec.json.encode(entry, order="sorted")]
        )
        return entry

    def _begin(self) -> None:
        adopted = logs.dictionary_adopted(replace(self.dictionary, version=2))
        for event in (*logs.beginning(), adopted, logs.adopted(self.policy)):
            self.append(event)
        self.load = ""
        self._put_load(self.census)
        none: Pairs = set()
        self._put_carry(Carry(none, none, self.census.counts))
        self.roster = 0
        self.send_roster()
        self.append(logs.slots(count=64))

    # --- people --------------------------------------------------------------------------------------------------

    def _first_census(self) -> Census:
        persons = list(range(len(self.names)))
        persons[_TWO_CARDS::_TWO_CARDS] = persons[_TWO_CARDS - 1 : -1 : _TWO_CARDS]
        self._subject_of = [number // _MEMBERS for number in persons]
        self._desk = ReferenceDesk([])
        count = len(persons)
        census = Census(
            dict(zip(self.names, persons, strict=True)),
            {person: person // _MEMBERS for person in persons},
            (count, count // _MEMBERS + 1),
        )
        self._take_subjects(census)
        return census

    def next_census(self, renewed: Iterable[int] = ()) -> Census:
        """The next load: some cards are other people's, and those `renewed` have another card, and live elsewhere."""
        census = self.census
        persons = [census.cards[name] for name in self.names]
        moved = dict(zip(persons[5::50], persons[6::50], strict=False))
        for place in range(5, len(persons), 50):
            persons[place] = moved[persons[place]]
        homes = {person: census.homes[person] for person in persons}
        for place in renewed:
            homes[persons[place]] = census.counts[1] - 1 - homes[persons[place]]
            name = self.names[place]
            self.names[place] = name[:-1] + bytes([name[-1] ^ 1])
        return Census(dict(zip(self.names, persons, strict=True)), homes, census.counts)

    def _take_subjects(self, census: Census) -> None:
        self._desk.subject_of = (
            range(census.counts[0])
            if self.policy.subject == "person"
            else [census.homes.get(person, person % census.counts[1]) for person in range(census.counts[0])]
        )

    def reload(
        self,
        between: Callable[[Census, Census], Carry] = carry_between,
        *,
        renewed: Iterable[int] = (),
        census: Census | None = None,
    ) -> str:
        """Load again, with other people for some cards; `between` may lie about what that takes over."""
        now = self.next_census(renewed) if census is None else census
        # The truth is followed here, whatever is written: a lie is what the files tell.
        carry = between(self.census, now)
        taken = carry.persons if self.policy.subject == "person" else carry.households
        charged = self._desk.charged.copy()
        for to, before in taken:
            self._desk.charged[to] += charged[before]
        self._put_load(now)
        self._put_carry(carry)
        self.census = now
        self._take_subjects(now)
        return self.load

    def change_key(self, census: Callable[[Census], Census] = lambda census: census) -> None:
        """Change the linkage key; everybody goes by it, and a roster of it is sent. `census` may lie about who is who."""
        key = LinkageKey(bytes(range(32)))
        previous, self._chain = self._chain.chain_id, self._chain.with_key(key)
        self._write_chain()
        self.names = [key.next_pseudonym(name) for name in self.names]
        self.strangers = [key.next_pseudonym(name) for name in self.strangers]
        stepped = {key.next_pseudonym(name): person for name, person in self.census.cards.items()}
        self.census = census(Census(stepped, self.census.homes, self.census.counts))
        self._put_load(self.census, previous)
        self.send_roster()

    def _write_chain(self) -> None:
        (self.home / "keys" / "linkage.key").write_text(self._chain.to_text(), encoding="utf-8")

    # --- loads and rosters ---------------------------------------------------------------------------------------

    def _put_load(self, census: Census, previous: str = "") -> None:
        before, self.load = self.load, self._random(8).hex()
        salt = self._random(32)
        cards = sorted(census.cards)
        columns: dict[str, np.ndarray[Any, Any]] = {
            "high": np.array([int.from_bytes(name[:8], "big") for name in cards], np.uint64),
            "low": np.array([int.from_bytes(name[8:], "big") for name in cards], np.uint64),
            "persons": np.array([census.cards[name] for name in cards], np.uint32),
            "households": np.array([census.homes[census.cards[name]] for name in cards], np.uint32),
            "counts": np.array(census.counts, np.uint64),
            "dictionary.meaning": np.frombuffer(self.dictionary.meaning, np.uint8),
        }
        columns |= {f"value.{name}": np.array(codes, np.uint8) for name, codes in census.values().items()}
        path = self.home / "registries" / f"{self.load}.npz"
        with path.open("wb") as file:
            np.savez(file, **columns)  # type: ignore[arg-type]
        commitment = committed("tripartite/commit-load/v1", salt, sha256(path.read_bytes()).digest()).hex()
        self.db.execute("insert into loads values (?, ?)", [self.load, salt])
        linkage = self._chain.chain_id
        if previous:
            self.append(Relinked(load=self.load, previous=previous, linkage=linkage, commitment=commitment))
        else:
            dictionary = self.dictionary.hash.hex()
            self.append(
                Loaded(load=self.load, release="2021", linkage=linkage, dictionary=dictionary, commitment=commitment)
            )
        if before and not self.keeps_loads:
            (self.home / "registries" / f"{before}.npz").unlink()

    def _put_carry(self, carry: Carry) -> None:
        name = self._random(16).hex() + ".carry"
        content = carry.write(self.home / "ledgers" / name)
        self._put_step("load", content, content, file=name)

    def send_roster(self) -> None:
        """A roster of everybody, strangers included, comes into force."""
        self.roster += 1
        self._places = {name: place for place, name in enumerate(sorted([*self.names, *self.strangers]))}
        pseudonyms = b"".join(self._places)
        name, key, salt = self._random(16).hex(), self._random(32), self._random(32)
        (self.home / "rosters" / f"{name}.roster").write_bytes(sealed(key, pseudonyms.ljust(16 * PLACES, b"\0")))
        (self.home / "rosters" / f"{name}.rosterkey").write_bytes(key)
        set_hash = sha256(b"tripartite/set/v1\0" + pseudonyms).digest()
        commitment = committed("tripartite/commit-roster/v1", salt, PLACES.to_bytes(8, "big"), set_hash).hex()
        event = Rostered(
            health=HEALTH,
            number=self.roster,
            linkage=self._chain.chain_id,
            commitment=commitment,
            manifest=logs.hash_of(900 + self.roster),
        )
        people = len(self._places)
        self.db.execute(
            "insert into rosters values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                HEALTH,
                self.roster,
                event.linkage,
                commitment,
                event.manifest,
                PLACES,
                people,
                name,
                self.now_ms,
                salt.hex(),
            ],
        )
        self.append(event)

    # --- charges -------------------------------------------------------------------------------------------------

    def ask(self, *parts: slice, scale: int = 3, question: str = "mother_tongue = 'French'") -> str:
        """A question about these people, and some strangers, charged and answered; gives its ticket."""
        self.now_ms += 1000
        chosen = {name for part in parts for name in self.names[part] if name in self._places}
        chosen |= set(self.strangers[::2]) if chosen else set()
        cards = {place: self.census.cards[name] for name, place in self._places.items() if name in self.census.cards}
        here = people_here({self._places[name] for name in chosen}, cards)
        number = len(self.counts)
        event = logs.charged(
            number, before=self._total, scale=scale, load=self.load, roster=self.roster, question=question
        )
        most, is_strict = self.policy.cap - self._common, self.policy.accounting == "strict"
        active = here if is_strict else self.decide(here, self._desk.fitting(here, event.units, most))
        bits = bits_of({self._places[name] for name in chosen} | self.beside, PLACES)
        self._charge(event, bits, active, is_strict=is_strict)
        asked = parse_question(question, self.dictionary)
        values = [0] * self.census.counts[0]
        positions: Mapping[str, int] = {}
        if asked.variable is not None:
            values = self.census.values()[asked.variable]
            positions = self.dictionary.column(asked.variable).positions
        cells = [{positions[value] for value in cell.values} or None for cell in asked.cells]
        self.counts[event.ticket] = tuple(each + self.miscounted for each in counts_of(active, values, cells))
        return event.ticket

    def _charge(self, event: Charged, bits: bytes, active: set[int], *, is_strict: bool) -> None:
        salt, active_salt, ticket_hash = self._random(32), self._random(32), bytes.fromhex(event.ticket)
        manifest = bytes.fromhex(logs.hash_of(900 + self.roster))
        active_bits = bits_of(active, self.census.counts[0])
        submitted = committed("tripartite/commit-set/v2", salt, ticket_hash, manifest, bits)
        committed_active = committed("tripartite/commit-active/v1", active_salt, ticket_hash, active_bits)
        self._total += event.units
        if is_strict:
            self._common += event.units
        else:
            counts = (8 * len(bits)).to_bytes(8, "big") + self.census.counts[0].to_bytes(8, "big")
            name, key = self._random(16).hex(), self._random(32)
            plaintext = salt + active_salt + counts + bits + active_bits
            (self.home / "samples" / f"{name}.sample").write_bytes(sealed(key, plaintext))
            self._put_step(
                "charge",
                committed_active,
                *(ticket_hash, event.units.to_bytes(8, "big"), submitted, committed_active),
                file=f"{name}:{key.hex()}",
                ticket=event.ticket,
                price=event.units,
                kept_until_ms=self.now_ms + self.policy.sample_retention_ms,
            )
            self._desk.charge(active, event.units)
        self.append(
            msgspec.structs.replace(
                event,
                submitted=submitted.hex(),
                active=committed_active.hex(),
                ledger="" if is_strict else self._digest.hex(),
            )
        )

    def states(self, ticket: str, exact: ExactCounts) -> bool | None:
        """Whether an opening of this ticket states these counts."""
        return exact.reveal_to_mechanism() == self.counts[ticket]

    def take_policy(self, policy: Policy) -> None:
        """Another policy; the operator confirms a weaker one."""
        state = logs.census_state()
        state.origin, state.size, state.policy_hash = logs.ORIGIN, len(self.log), self.policy.hash.hex()
        weaker = policy.weakens(self.policy)
        self.append(logs.confirmed(state, policy) if weaker else logs.adopted(policy))
        self.policy = policy

    # --- the ledger's history ------------------------------------------------------------------------------------

    def _put_step(self, kind: str, content: bytes, *parts: bytes, **columns: object) -> None:
        self._digest = digest_after(self._digest, kind, *parts)
        row = {"covers": 0, "ticket": "", "price": 0, "kept_until_ms": 0} | columns
        row |= {"place": self._newest + 1, "kind": kind, "digest": self._digest, "content": content}
        marks = ", ".join(f":{name}" for name in row)
        self.db.execute(f"insert into ledger_steps ({', '.join(row)}) values ({marks})", row)  # noqa: S608 - own text

    @property
    def _newest(self) -> int:
        return int(self.db.execute("select coalesce(max(place), 0) from ledger_steps").fetchone()[0])

    def compact(self) -> None:
        """Make a snapshot now, and let go of those that nobody needs."""
        counts, covers = list(self.census.counts), self._newest
        subjects = counts[0 if self.policy.subject == "person" else 1]
        charged = [self._desk.charged[subject] for subject in range(subjects)] if self.counts else []
        content = snapshot_bytes(self._random(32), counts, charged)
        name, content_hash = self._random(16).hex() + ".ledgers", sha256(content).digest()
        (self.home / "ledgers" / name).write_bytes(content)
        self._put_step("snapshot", content_hash, covers.to_bytes(8, "big"), content_hash, file=name, covers=covers)
        first = self._number("select min(place) from ledger_steps where kind = 'charge' and file != ''") or covers + 1
        base = self._number("select max(place) from ledger_steps where kind = 'snapshot' and covers < ?", first)
        begin = self._number("select covers from ledger_steps where place = ?", base)
        self._forget("kind = 'snapshot' and place not in (?, ?)", self._newest, base)
        self._forget("kind = 'load' and place <= ?", begin)

    def _number(self, query: str, *values: int) -> int:
        found = self.db.execute(query, values).fetchone()
        return int(found[0] or 0) if found else 0

    def _forget(self, where: str, *values: int) -> None:
        query = f"select place, file from ledger_steps where file != '' and {where}"  # noqa: S608 - own text
        for place, file in self.db.execute(query, values).fetchall():
            self.db.execute("update ledger_steps set file = '' where place = ?", [place])
            folder, name = ("samples", f"{file[:32]}.sample") if ":" in file else ("ledgers", file)
            (self.home / folder / name).unlink()

    def erase(self) -> None:
        """Erase samples that were kept long enough, under a snapshot."""
        if self._number(
            "select count(*) from ledger_steps where file != '' and kind = 'charge' and kept_until_ms <= ?", self.now_ms
        ):
            self.compact()
            self._forget("kind = 'charge' and kept_until_ms <= ?", self.now_ms)

    def forget_roster(self, number: int) -> None:
        """A roster is erased, as if it had been replaced and no sample named it."""
        (file,) = self.db.execute("select file from rosters where number = ?", [number]).fetchone()
        self.db.execute("update rosters set file = '', salt = '' where number = ?", [number])
        for suffix in ("roster", "rosterkey"):
            (self.home / "rosters" / f"{file}.{suffix}").unlink()


def live(world: SiteWorld) -> None:
    """The life of a home: nine charges, of which two are erased."""
    world.ask(slice(0, 200))
    world.ask(slice(100, 300))
    world.now_ms += 2 * DAY_MS
    world.erase()
    world.ask(slice(0, 150), scale=1)
    world.ask(slice(0, 400, 2), scale=1)
    world.ask(slice(0, 0))
    world.reload()
    world.ask(slice(0, 350), scale=2)
    world.ask(slice(50, 400), scale=2)
    world.change_key()
    world.ask(slice(100, 400), scale=5)
    world.ask(slice(0, 400), scale=3)
    world.compact()


@dataclass(frozen=True, slots=True)
class Site:
    """A home, and the log that was handed in."""

    home: Path
    entries: tuple[Entry, ...]
    now_ms: int

    @property
    def db(self) -> Path:
        return self.home / "journal.db"

    def entry(self, name: str) -> int | None:
        """The number of an entry by its name."""
        if not name:
            return None
        kinds: dict[str, type[Event]] = {"c": Charged, "l": Loaded, "r": Relinked, "s": Rostered}
        return [entry.sequence for entry in self.entries if type(entry.event) is kinds[name[0]]][int(name[1:])]


def looked_at(
    site: Site,
    *,
    states: Callable[[str, ExactCounts], bool | None] = lambda _ticket, _count: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[OnSite, Findings]:
    """Result of a look into a home; `meanwhile` happens in the course of it, again and again."""
    findings = Findings()
    log = AuditedLog(lambda: iter(site.entries), states, site.now_ms)
    return walk.check(site.home, log, findings, lambda _: lambda _done, _total: meanwhile()), findings
