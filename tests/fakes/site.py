"""A census home that has lived under per-person accounting, and named lies that are told of it afterwards or at the charge.

The home has several charges that bite into the cap, people with two cards and shared households, an erasure, a load that moves
cards, a change of the linkage key and a snapshot at the end. A lie changes a copy of the home; whoever looks on site has to
find exactly what stands beside it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from fakes import logs
from fakes.registries import write_registry
from fakes.world import CENSUS_ORIGIN, RELEASE, Pseudonyms, World, make_policy

from broker_common.audit.findings import Findings
from broker_common.audit.on_site import AuditedLog, OnSite
from broker_common.crypto.linkage import LinkageKey
from broker_common.privacy.policy import Policy
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.entries import Charged, Entry, Event, Loaded, Relinked
from broker_common.values import ExactCount
from census_node import on_site
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledgers import digest_after
from census_node.registry import Registry
from census_node.snapshots import SnapshotFolder
from census_node.submitted_ledger import Column
from census_node.units import Carry, Known

__all__ = ["DAY_MS", "LIES", "Site", "SiteWorld", "erased", "lie", "live", "looked_at", "lowered", "rows"]

DAY_MS: Final = 86_400_000
# Everybody is in one of these: two cards of every tenth person, three to a household.
_TWO_CARDS, _MEMBERS = 10, 3

# Code, and the charge (from 0), load or change of key that it names: `c4`, `l1`, `r0`; empty for none.
Expected: TypeAlias = tuple[str, str]


class SiteWorld(World):
    """A world of persons with several cards and households with several people, under per-person accounting."""

    # How many loads were made: each moves some cards to other people.
    _made = 0
    # Of the people with one card, these have another one from the next load on, and live elsewhere.
    renewed: Sequence[int] = ()

    def __init__(self, directory: Path, *, unit: Literal["person", "household"] = "person", people: int = 400) -> None:
        policy = make_policy(accounting="per_person", unit=unit, sample_retention_ms=DAY_MS)
        super().__init__(directory, policy, people=people)
        config = f'role = "census"\norganisation = "census-agency"\norigin = "{CENSUS_ORIGIN}"\n'
        (self.census_folder / "config.toml").write_text(config)

    def make_registry(self, load: str) -> Registry:
        plain = super().make_registry(load)
        persons = np.arange(plain.size, dtype=np.uint32)
        persons[_TWO_CARDS::_TWO_CARDS] = persons[_TWO_CARDS - 1 : -1 : _TWO_CARDS]
        if self._made:
            # These cards are other people's now, who live elsewhere.
            persons[5::50] = persons[6::50][: len(persons[5::50])]
        columns = {name: column[persons] for name, column in plain.columns.items()}
        households, high, low = persons // _MEMBERS, plain.high.copy(), plain.low.copy()
        renewed = list(self.renewed)
        households[renewed] = persons[-1] // _MEMBERS - households[renewed]
        # Nobody's yet.
        low[renewed] ^= np.uint64(1)
        order = np.lexsort((low, high))
        persons, households = persons[order], households[order]
        persons_ever = max(plain.size, 1 + int(persons.max()))
        return Registry(
            load,
            high[order],
            low[order],
            {name: column[order] for name, column in columns.items()},
            persons,
            households,
            persons_ever,
            persons_ever // _MEMBERS + 1,
        )

    def reload(self, between: Callable[[Known, Registry], Carry] | None = None) -> str:
        """Load again, with other units for some cards; `between` may lie about what that takes over."""
        self._made += 1
        loads = LoadFolder(self.census_folder / "registries", ".npz")
        before = self.census.journal.state.load
        with loads.loading(os.urandom) as load:
            known, registry = Known.read(loads.file(before), before), self.make_registry(load)
            write_registry(registry, loads.file(load), known.former_after(registry.cards))
            counts = (registry.person_count, registry.household_count)
            carry = Carry.between(known, registry.cards, *counts) if between is None else between(known, registry)
            book = self.census.book.put_load(carry)
            loads.put_in_force(
                self.census.journal,
                load,
                RELEASE,
                self.linkage,
                os.urandom,
                dictionary=CENSUS_DICTIONARY,
                with_entry=book,
            )
        loads.forget_except({load})
        return load

    def take_policy(self, policy: Policy) -> None:
        """Another policy; the operator confirms a weaker one."""
        with self.census.journal.transaction() as transaction:
            words, key = {}, self.secrets.operator
            if transaction.state.policy is not None and policy.weakens(transaction.state.policy):
                order = transaction.state.order("adopt", "a drill", adopting=policy)
                signature = key.sign_text(order.document)
                words = {"note": "a drill", "confirmation": signature, "confirmation_key_id": key.key_id}
            transaction.append(logs.adopted(policy, self.secrets.policy, **words))
        self.policy = policy

    def change_key(self) -> None:
        """Change the linkage key; everybody goes by it."""
        # The same one every time: lies are told of people by their place.
        key = LinkageKey(bytes(range(32)))
        self.relink_census(key)
        self.follow(key)

    def ask(self, *parts: slice, scale: int = 3) -> str:
        """A question about these people, charged and answered; gives its ticket."""
        chosen = np.zeros(len(self.people), np.bool_)
        for part in parts:
            chosen[part] = True
        order = self.order(scale=scale)
        people: Pseudonyms = self.people[chosen]
        self.answer(order, self.sample(order, people))
        return order.hash.hex()

    def compact(self) -> None:
        """Make a snapshot now, whether one is due or not."""
        self.census.book._compact()

    def erase(self) -> None:
        """What has been kept long enough goes."""
        self.census.book.maintain(self.census.journal.now())


def live(world: SiteWorld) -> None:
    """The life of a home: nine charges, of which two are erased."""
    world.ask(slice(0, 200))
    world.ask(slice(100, 300))
    world.clock.advance(2 * DAY_MS)
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
        kinds: dict[str, type[Event]] = {"c": Charged, "l": Loaded, "r": Relinked}
        return [entry.sequence for entry in self.entries if type(entry.event) is kinds[name[0]]][int(name[1:])]


def looked_at(
    site: Site,
    *,
    states: Callable[[str, ExactCount], bool | None] = lambda _ticket, _count: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[OnSite, Findings]:
    """What somebody finds who looks into a home; `meanwhile` happens in the course of it, again and again."""
    findings = Findings()
    log = AuditedLog(lambda: iter(site.entries), states, site.now_ms)
    return on_site.check(site.home, log, findings, lambda _: lambda _done, _total: meanwhile()), findings


# --- lies ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lie:
    """What is changed in a home, and every problem that has to be found."""

    tell: Callable[[Site], None]
    problems: tuple[Expected, ...]


LIES: Final[dict[str, Lie]] = {}


def lie(name: str, *problems: Expected) -> Callable[[Callable[[Site], None]], Callable[[Site], None]]:
    """Put a lie into the table."""

    def put(tell: Callable[[Site], None]) -> Callable[[Site], None]:
        assert name not in LIES
        LIES[name] = Lie(tell, problems)
        return tell

    return put


@contextmanager
def changing(site: Site) -> Iterator[sqlite3.Connection]:
    """The home's database, to write in."""
    with closing(sqlite3.connect(site.db, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def rows(site: Site, kind: str) -> list[Mapping[str, object]]:
    """The rows of one kind, in order."""
    with changing(site) as db:
        found = db.execute("select * from ledger_steps where kind = ? order by place", [kind]).fetchall()
        return [dict(row) for row in found]


def change(site: Site, row: Mapping[str, object], **changes: object) -> None:
    """Other values in a row."""
    with changing(site) as db:
        for name, value in changes.items():
            db.execute(f"update ledger_steps set {name} = ? where place = ?", [value, row["place"]])  # noqa: S608


def put(site: Site, row: Mapping[str, object]) -> None:
    """One more row."""
    with changing(site) as db:
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        db.execute(f"insert into ledger_steps ({names}) values ({marks})", list(row.values()))  # noqa: S608


def remove(site: Site, row: Mapping[str, object]) -> None:
    """One row less."""
    with changing(site) as db:
        db.execute("delete from ledger_steps where place = ?", [row["place"]])


def cleared(bits: object) -> bytes:
    """The bits without the first one that is set."""
    assert isinstance(bits, bytes)
    chosen = np.unpackbits(np.frombuffer(bits, np.uint8))
    chosen[np.flatnonzero(chosen)[0]] = 0
    return np.packbits(chosen).tobytes()


def raised(bits: object) -> bytes:
    """The bits with the first one that is not set."""
    assert isinstance(bits, bytes)
    chosen = np.unpackbits(np.frombuffer(bits, np.uint8))
    chosen[np.flatnonzero(chosen == 0)[0]] = 1
    return np.packbits(chosen).tobytes()


def sample_file(site: Site, number: int) -> Path:
    """The sample of a charge."""
    return site.home / "samples" / str(rows(site, "charge")[number]["file"])


def with_less(site: Site, row: Mapping[str, object], ledger: str) -> bytes:
    """A snapshot's file with one person's charge lowered; gives its hash."""
    name = str(row["file"])
    folder = SnapshotFolder(site.home / "ledgers")
    content = row["content"]
    assert isinstance(content, bytes)
    ledgers = folder.read(name, content)
    if ledger == "submitted":
        column = ledgers.submitted.merged()
        column.units[np.flatnonzero(column.units)[0]] -= 1
        ledgers.submitted = type(ledgers.submitted)(column)
    else:
        units = getattr(ledgers.units, ledger)
        units[np.flatnonzero(units)[0]] -= 1
    other, digest = folder.write(ledgers, os.urandom)
    shutil.move(folder.path / other, folder.path / name)
    return digest


def erased(site: Site, row: Mapping[str, object]) -> None:
    """A charge without its membership."""
    (site.home / "samples" / str(row["file"])).unlink()
    empty = dict.fromkeys(("fits", "active", "submitted_salt", "active_salt"), b"")
    change(site, row, file="", kept_until_ms=0, **empty)


@lie("nothing at all")
def _(site: Site) -> None:
    assert rows(site, "charge")


@lie("a charge without a row", ("LEDGER_STEP_MISSING", "c5"))
def _(site: Site) -> None:
    remove(site, rows(site, "charge")[5])


@lie("the last charge without a row", ("LEDGER_STEP_MISSING", "c8"))
def _(site: Site) -> None:
    remove(site, rows(site, "charge")[8])


@lie("a load without a row", ("LEDGER_STEP_MISSING", "l1"), ("LEDGER_DIGEST", "c5"))
def _(site: Site) -> None:
    remove(site, rows(site, "load")[1])


@lie("a row without a charge", ("LEDGER_STEP_WRONG", "c8"))
def _(site: Site) -> None:
    put(site, {**rows(site, "charge")[8], "ticket": "ab" * 32, "place": 1000})


@lie("a charge twice", ("LEDGER_STEP_WRONG", "c8"))
def _(site: Site) -> None:
    put(site, {**rows(site, "charge")[8], "place": 1000})


@lie("a row that is none", ("LEDGER_STEP_WRONG", "c8"))
def _(site: Site) -> None:
    put(site, {**rows(site, "charge")[8], "place": 1000, "kind": "gift"})


@lie("a row of numbers for texts", ("LEDGER_STEP_WRONG", "l1"), ("LEDGER_STEP_MISSING", "c5"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[5], digest="not bytes")


@lie("a charge at another price", ("LEDGER_STEP_WRONG", "c6"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[6], price=1)


@lie("a charge of another agency", ("LEDGER_STEP_WRONG", "c6"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[6], organisation="other-health-agency")


@lie("another digest", ("LEDGER_DIGEST", "c6"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[6], digest=bytes(32))


@lie("another digest of what is erased", ("LEDGER_DIGEST", "c1"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[1], content=bytes(32))


@lie("other salts", ("LEDGER_DIGEST", "c6"))
def _(site: Site) -> None:
    row = rows(site, "charge")[6]
    change(site, row, content=bytes(32))


@lie("somebody was not charged", ("CHARGE_SKIPPED", "c7"))
def _(site: Site) -> None:
    row = rows(site, "charge")[7]
    change(site, row, fits=cleared(row["fits"]))


@lie("somebody was charged beyond the cap", ("PERSON_CAP_PASSED", "c8"), ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    row = rows(site, "charge")[8]
    change(site, row, fits=raised(row["fits"]))


@lie("somebody was not counted", ("ACTIVE_WRONG", "c7"))
def _(site: Site) -> None:
    row = rows(site, "charge")[7]
    change(site, row, active=cleared(row["active"]))


@lie(
    "somebody was counted beyond the cap",
    ("PERSON_CAP_PASSED", "c8"),
    ("ACTIVE_WRONG", "c8"),
    ("SNAPSHOT_WRONG", "c8"),
)
def _(site: Site) -> None:
    row = rows(site, "charge")[8]
    change(site, row, active=raised(row["active"]))


@lie("bits of a smaller sample", ("LEDGER_DIGEST", "c7"))
def _(site: Site) -> None:
    row = rows(site, "charge")[7]
    bits = row["fits"]
    assert isinstance(bits, bytes)
    change(site, row, fits=bits[:-1])


@lie("another salt of who was counted", ("ACTIVE_WRONG", "c7"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[7], active_salt=bytes(32))


@lie("a salt cut off", ("ACTIVE_WRONG", "c7"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[7], active_salt=b"\0")


@lie("no salt", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[7], submitted_salt=b"")


@lie("a load without its salt", ("REGISTRY_WRONG", "r0"))
def _(site: Site) -> None:
    with changing(site) as db:
        db.execute("update loads set salt = x'00'")


@lie("a file with an impossible name", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    change(site, rows(site, "charge")[7], file="a\0b")


@lie("a snapshot of what is still to come", ("LEDGER_STEP_WRONG", "c8"), ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    change(site, rows(site, "snapshot")[-1], covers=-5, file="")


@lie("a sample with one person left out", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    content = file.read_bytes()
    people = len(content) // 24
    persons, households = 16 * people, 20 * people
    file.write_bytes(content[16:persons] + content[persons + 4 : households] + content[households + 4 :])


@lie("a sample with somebody else", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    content = bytearray(file.read_bytes())
    content[15] ^= 1
    file.write_bytes(content)


@lie("a sample cut off", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    file.write_bytes(file.read_bytes()[:-1])


@lie("a sample in another order", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    content = file.read_bytes()
    file.write_bytes(content[16:32] + content[:16] + content[32:])


@lie("no sample", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    sample_file(site, 7).unlink()


@lie("a sample elsewhere", ("SAMPLE_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    shutil.move(file, site.home / file.name)
    change(site, rows(site, "charge")[7], file=f"../{file.name}")


@lie("a sample with another's unit", ("UNITS_WRONG", "c7"))
def _(site: Site) -> None:
    file = sample_file(site, 7)
    content = bytearray(file.read_bytes())
    start = 16 * (len(content) // 24)
    units = np.frombuffer(content, "<u4", offset=start)
    at = start + 4 * int(np.flatnonzero(units != 2**32 - 1)[0])
    content[at : at + 4] = (int.from_bytes(content[at : at + 4], "little") + 3).to_bytes(4, "little")
    file.write_bytes(content)


# The unit that it gives somebody is not theirs after the change of the key.
@lie(
    "a sample with another's unit, on a load that is gone",
    ("LEDGER_DIGEST", "c6"),
    ("CARRY_WRONG", "r0"),
)
def _(site: Site) -> None:
    file = sample_file(site, 6)
    content = bytearray(file.read_bytes())
    start = 16 * (len(content) // 24)
    units = np.frombuffer(content, "<u4", offset=start)
    at = start + 4 * int(np.flatnonzero(units != 2**32 - 1)[-1])
    content[at : at + 4] = (int.from_bytes(content[at : at + 4], "little") - 3).to_bytes(4, "little")
    file.write_bytes(content)


@lie("who was in a sample erased too early", ("ERASED_EARLY", "c7"))
def _(site: Site) -> None:
    erased(site, rows(site, "charge")[7])


@lie("a snapshot that was changed", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    with_less(site, rows(site, "snapshot")[-1], "submitted")


@lie("a newest snapshot with a person's charge lowered", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    row = rows(site, "snapshot")[-1]
    seal(site, row, with_less(site, row, "persons"), rows(site, "charge")[-1])


@lie("a newest snapshot with a pseudonym's charge lowered", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    row = rows(site, "snapshot")[-1]
    seal(site, row, with_less(site, row, "submitted"), rows(site, "charge")[-1])


@lie("a newest snapshot with a household's charge lowered", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    row = rows(site, "snapshot")[-1]
    seal(site, row, with_less(site, row, "households"), rows(site, "charge")[-1])


def seal(site: Site, row: Mapping[str, object], content: bytes, before: Mapping[str, object]) -> None:
    """The digest of a snapshot's row that goes with its content."""
    covers, digest = row["covers"], before["digest"]
    assert isinstance(covers, int)
    assert isinstance(digest, bytes)
    change(site, row, content=content, digest=digest_after(digest, "snapshot", covers.to_bytes(8, "big"), content))


def lowered(site: Site, row: Mapping[str, object]) -> None:
    """A snapshot after which everybody starts again, with a row to match."""
    folder, content = SnapshotFolder(site.home / "ledgers"), row["content"]
    assert isinstance(content, bytes)
    ledgers = folder.read(str(row["file"]), content)
    column = ledgers.submitted.merged()
    ledgers.submitted = type(ledgers.submitted)(Column(column.high, column.low, np.ones_like(column.units)))
    other, digest = folder.write(ledgers, os.urandom)
    shutil.move(folder.path / other, folder.path / str(row["file"]))
    seal(site, row, digest, rows(site, "charge")[-1])


@lie("no newest snapshot", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    (site.home / "ledgers" / str(rows(site, "snapshot")[-1]["file"])).unlink()


@lie("a newest snapshot that is forgotten", ("SNAPSHOT_WRONG", "c8"))
def _(site: Site) -> None:
    change(site, rows(site, "snapshot")[-1], file="")


@lie("relinked ledgers with a charge lowered", ("SNAPSHOT_WRONG", "r0"), ("LEDGER_DIGEST", "c7"))
def _(site: Site) -> None:
    (row,) = rows(site, "relink")
    content = with_less(site, row, "submitted")
    digest = rows(site, "charge")[6]["digest"]
    assert isinstance(digest, bytes)
    change(site, row, content=content, digest=digest_after(digest, "relink", content))


@lie("a load that takes nothing over", ("CARRY_WRONG", "l1"))
def _(site: Site) -> None:
    (site.home / "ledgers" / str(rows(site, "load")[1]["file"])).unlink()


# What follows from it is told as well: from here on the ledgers have charged too little.
@lie(
    "a carry that was replaced by an empty one",
    ("LEDGER_DIGEST", "c5"),
    *(("ACTIVE_WRONG", charge) for charge in ("c5", "c6", "c7")),
    *(("SNAPSHOT_WRONG", entry) for entry in ("r0", "c8")),
)
def _(site: Site) -> None:
    row = rows(site, "load")[1]
    path = site.home / "ledgers" / str(row["file"])
    whole, none = Carry.read(path), np.empty(0, np.uint32)
    carry = Carry(none, none, none, none, whole.person_count, whole.household_count)
    carry.write(path)
    digest = rows(site, "charge")[4]["digest"]
    assert isinstance(digest, bytes)
    change(site, row, content=carry.content_hash, digest=digest_after(digest, "load", carry.content_hash))


@lie("a registry with other languages", ("REGISTRY_WRONG", "r0"))
def _(site: Site) -> None:
    (file,) = (site.home / "registries").glob("*.npz")
    content = bytearray(file.read_bytes())
    assert sha256(content).digest()
    content[-1] ^= 1
    file.write_bytes(content)
