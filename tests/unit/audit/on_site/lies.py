"""Named lies that are told of a census home afterwards: what is changed in a copy of it, and every problem that has to be found."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from unit.audit.on_site.site import FRAME, PLACES, Carry, Pairs, Site, digest_after, sealed, snapshot_bytes, unsealed

__all__ = ["LIES", "change", "charged_otherwise", "edited", "erased", "lowered", "rows", "say_people"]

Row: TypeAlias = Mapping[str, Any]
Tell: TypeAlias = Callable[[Site], object]


@dataclass(frozen=True, slots=True)
class Lie:
    """A change in a home, and as CODE:WHERE every problem that has to be found.

    WHERE is the charge (from 0), load, change of key or roster that is named: `c4`, `l1`, `r0`, `s0`.
    """

    tell: Tell
    problems: str = ""

    def expected(self, site: Site) -> list[tuple[str, int | None]]:
        """Code and entry of every problem."""
        return [(code, site.entry(where)) for code, _, where in (each.partition(":") for each in self.problems.split())]


@contextmanager
def changing(site: Site) -> Iterator[sqlite3.Connection]:
    """The home's database, to write in."""
    with closing(sqlite3.connect(site.db, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def rows(site: Site, kind: str) -> list[Row]:
    """The rows of one kind, in order."""
    with changing(site) as db:
        found = db.execute("select * from ledger_steps where kind = ? order by place", [kind]).fetchall()
        return [dict(row) for row in found]


def change(site: Site, row: Row, **changes: object) -> None:
    """Other values in a row."""
    with changing(site) as db:
        for name, value in changes.items():
            db.execute(f"update ledger_steps set {name} = ? where place = ?", [value, row["place"]])  # noqa: S608


# --- rows --------------------------------------------------------------------------------------------------------------


def row(kind: str, number: int, **changes: object) -> Tell:
    """Other values in the row of a charge, load or snapshot."""
    return lambda site: change(site, rows(site, kind)[number], **changes)


def removed(kind: str, number: int) -> Tell:
    """One row less."""

    def tell(site: Site) -> None:
        with changing(site) as db:
            db.execute("delete from ledger_steps where place = ?", [rows(site, kind)[number]["place"]])

    return tell


def added(**changes: object) -> Tell:
    """The row of the last charge once more, with other values."""

    def tell(site: Site) -> None:
        values = {**rows(site, "charge")[8], "place": 1000, **changes}
        marks = ", ".join("?" for _ in values)
        with changing(site) as db:
            db.execute(f"insert into ledger_steps ({', '.join(values)}) values ({marks})", list(values.values()))  # noqa: S608

    return tell


def sql(statement: str) -> Tell:
    """Any change of the database."""

    def tell(site: Site) -> None:
        with changing(site) as db:
            db.execute(statement)

    return tell


# --- samples -----------------------------------------------------------------------------------------------------------

# Where the parts of a sample's plaintext begin.
PEOPLE, BITS = 72, 80
ACTIVE = BITS + PLACES // 8


def sample_path(site: Site, number: int) -> Path:
    """The file of a charge."""
    return site.home / "samples" / f"{rows(site, 'charge')[number]['file'][:32]}.sample"


def edited(site: Site, number: int, edit: Callable[[bytearray], object]) -> None:
    """Another plaintext in the file of a charge, under the same key."""
    path, key = sample_path(site, number), bytes.fromhex(rows(site, "charge")[number]["file"].partition(":")[2])
    plaintext = bytearray(unsealed(key, path.read_bytes()))
    edit(plaintext)
    path.write_bytes(sealed(key, plaintext))


def sample(edit: Callable[[bytearray], object], number: int = 7) -> Tell:
    """The same as a lie."""
    return lambda site: edited(site, number, edit)


def flip(plaintext: bytearray, start: int, bit: int) -> None:
    """One bit changed."""
    plaintext[start + bit // 8] ^= 0x80 >> bit % 8


def set_bits(plaintext: bytearray, start: int, count: int) -> list[int]:
    """The numbers of bits that are set."""
    chosen = np.unpackbits(np.frombuffer(plaintext, np.uint8, offset=start), count=count)
    return [int(number) for number in np.flatnonzero(chosen)]


def spare_one(plaintext: bytearray) -> None:
    flip(plaintext, ACTIVE, set_bits(plaintext, ACTIVE, 400)[0])


def charge_a_spent_one(plaintext: bytearray) -> None:
    flip(plaintext, ACTIVE, min(set(range(400)) - set(set_bits(plaintext, ACTIVE, 400))))


def leave_one_out(plaintext: bytearray) -> None:
    flip(plaintext, BITS, set_bits(plaintext, BITS, PLACES)[0])


def say_people(plaintext: bytearray, count: int, *, last: int | None = None) -> None:
    """Another number of people, and whether the last bit that they do not have is set."""
    plaintext[PEOPLE : PEOPLE + 8] = count.to_bytes(8, "big")
    if last is not None:
        plaintext[ACTIVE + 49] = plaintext[ACTIVE + 49] & 0xFE | last


def say_too_many_places(plaintext: bytearray) -> None:
    plaintext[PEOPLE - 8 : PEOPLE] = (2**31).to_bytes(8, "big")


def cut_off(site: Site) -> None:
    path = sample_path(site, 7)
    path.write_bytes(path.read_bytes()[:-1])


def elsewhere(site: Site) -> None:
    path, charge = sample_path(site, 7), rows(site, "charge")[7]
    shutil.move(path, site.home / path.name)
    change(site, charge, file=f"../{charge['file']}")


def of_another_charge(site: Site) -> None:
    change(site, rows(site, "charge")[7], file=rows(site, "charge")[8]["file"])


def under_another_key(site: Site) -> None:
    charge = rows(site, "charge")[7]
    change(site, charge, file=f"{charge['file'][:33]}{'ab' * 32}")


def erased(site: Site, charge: Row) -> None:
    """A charge without its membership."""
    (site.home / "samples" / f"{charge['file'][:32]}.sample").unlink()
    change(site, charge, file="", kept_until_ms=0)


# --- rosters, loads, snapshots -----------------------------------------------------------------------------------------


def roster_files(site: Site) -> tuple[Path, Path]:
    """The second roster, and its key."""
    with changing(site) as db:
        (name,) = db.execute("select file from rosters where number = 2").fetchone()
    return site.home / "rosters" / f"{name}.roster", site.home / "rosters" / f"{name}.rosterkey"


def somebody_else(site: Site) -> None:
    path, key = roster_files(site)
    pseudonyms = bytearray(unsealed(key.read_bytes(), path.read_bytes()))
    pseudonyms[15] ^= 1
    path.write_bytes(sealed(key.read_bytes(), pseudonyms))


def missing(kind: str, number: int) -> Tell:
    """The file of a load or a snapshot is gone."""
    return lambda site: (site.home / "ledgers" / rows(site, kind)[number]["file"]).unlink()


def charged_otherwise(site: Site, snapshot: Row, edit: Callable[[list[int]], object]) -> bytes:
    """A snapshot's file with other charges; gives its hash."""
    path = site.home / "ledgers" / snapshot["file"]
    file = io.BytesIO(path.read_bytes())
    salt, counts, charged = (np.lib.format.read_array(file).tolist() for _ in range(3))
    edit(charged)
    path.write_bytes(snapshot_bytes(bytes(salt), counts, charged))
    return sha256(path.read_bytes()).digest()


def one_less(charged: list[int]) -> None:
    """One subject's charge lowered."""
    charged[next(place for place, units in enumerate(charged) if units)] -= 1


def start_again(charged: list[int]) -> None:
    """Everybody has spent next to nothing."""
    charged[:] = [1] * len(charged)


def lowered(site: Site, snapshot: Row, edit: Callable[[list[int]], object] = start_again) -> None:
    """A snapshot with other charges, and a row to match."""
    content = charged_otherwise(site, snapshot, edit)
    before, covers = rows(site, "charge")[-1]["digest"], snapshot["covers"].to_bytes(8, "big")
    change(site, snapshot, content=content, digest=digest_after(before, "snapshot", covers, content))


def empty_carry(site: Site) -> None:
    load, none = rows(site, "load")[1], Pairs()
    content = Carry(none, none, (400, 134)).write(site.home / "ledgers" / load["file"])
    change(site, load, content=content, digest=digest_after(rows(site, "charge")[4]["digest"], "load", content))


def other_languages(site: Site) -> None:
    file = max((site.home / "registries").glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


LIES: Final = {
    "nothing at all": Lie(lambda _: None),
    "a charge without a row": Lie(removed("charge", 5), "LEDGER_STEP_MISSING:c5"),
    "the last charge without a row": Lie(removed("charge", 8), "LEDGER_STEP_MISSING:c8"),
    "a load without a row": Lie(removed("load", 1), "LEDGER_STEP_MISSING:l1 LEDGER_DIGEST:c5"),
    "a row without a charge": Lie(added(ticket="ab" * 32), "LEDGER_STEP_WRONG:c8"),
    "a charge twice": Lie(added(), "LEDGER_STEP_WRONG:c8"),
    "a row that is none": Lie(added(kind="gift"), "LEDGER_STEP_WRONG:c8"),
    "a row of numbers for texts": Lie(
        row("charge", 5, digest="not bytes"), "LEDGER_STEP_WRONG:l1 LEDGER_STEP_MISSING:c5"
    ),
    "a charge at another price": Lie(row("charge", 6, price=1), "LEDGER_STEP_WRONG:c6"),
    "another digest": Lie(row("charge", 6, digest=bytes(32)), "LEDGER_DIGEST:c6"),
    "another digest of what is erased": Lie(row("charge", 1, content=bytes(32)), "LEDGER_DIGEST:c1"),
    "another commitment to who is active": Lie(row("charge", 6, content=bytes(32)), "LEDGER_DIGEST:c6"),
    "somebody was spared": Lie(sample(spare_one), "CHARGE_SKIPPED:c7 ACTIVE_WRONG:c7"),
    "somebody was charged beyond the cap": Lie(
        sample(charge_a_spent_one, 8), "PERSON_CAP_PASSED:c8 ACTIVE_WRONG:c8 SNAPSHOT_WRONG:c8"
    ),
    "bits of fewer people": Lie(sample(lambda plain: say_people(plain, 399, last=0)), "ACTIVE_WRONG:c7"),
    "bits of so many people that there are bytes of nobody": Lie(
        sample(lambda plain: say_people(plain, 480)), "ACTIVE_WRONG:c7"
    ),
    "a bit of nobody": Lie(sample(lambda plain: say_people(plain, 399, last=1)), "SAMPLE_WRONG:c7"),
    "something behind the end": Lie(sample(lambda plain: flip(plain, -1, 7)), "SAMPLE_WRONG:c7"),
    "a frame too many": Lie(sample(lambda plain: plain.extend(bytes(FRAME))), "SAMPLE_WRONG:c7"),
    "more places than there is room for": Lie(sample(say_too_many_places), "SAMPLE_WRONG:c7"),
    "another salt of who was counted": Lie(sample(lambda plain: flip(plain, 32, 7)), "ACTIVE_WRONG:c7"),
    "another salt of the sample": Lie(sample(lambda plain: flip(plain, 0, 7)), "SAMPLE_WRONG:c7"),
    "a load without its salt": Lie(
        sql("update loads set salt = x'00' where rowid = (select max(rowid) from loads)"), "REGISTRY_WRONG:r0"
    ),
    "a reference that is none": Lie(row("charge", 7, file="a\0b"), "SAMPLE_WRONG:c7"),
    "another key than the file's": Lie(under_another_key, "SAMPLE_WRONG:c7"),
    "a snapshot of what is still to come": Lie(
        row("snapshot", -1, covers=-5, file=""), "LEDGER_STEP_WRONG:c8 SNAPSHOT_WRONG:c8"
    ),
    "a sample with one person left out": Lie(sample(leave_one_out), "SAMPLE_WRONG:c7"),
    "a sample with somebody behind everybody": Lie(
        sample(lambda plain: flip(plain, BITS, PLACES - 1)), "SAMPLE_WRONG:c7"
    ),
    "a sample cut off": Lie(cut_off, "SAMPLE_WRONG:c7"),
    "an empty sample": Lie(lambda site: sample_path(site, 7).write_bytes(b""), "SAMPLE_WRONG:c7"),
    "no sample": Lie(lambda site: sample_path(site, 7).unlink(), "SAMPLE_WRONG:c7"),
    "the sample of another charge": Lie(of_another_charge, "SAMPLE_WRONG:c7"),
    "a sample elsewhere": Lie(elsewhere, "SAMPLE_WRONG:c7"),
    "a roster with somebody else": Lie(somebody_else, "ROSTER_WRONG:s1"),
    "a roster of fewer people": Lie(sql("update rosters set people = people - 1 where number = 2"), "ROSTER_WRONG:s1"),
    "a roster of no number of people": Lie(
        sql("update rosters set people = x'00' where number = 2"), "ROSTER_WRONG:s1"
    ),
    "a roster without its salt": Lie(sql("update rosters set salt = '' where number = 2"), "ROSTER_WRONG:s1"),
    "a roster without its key": Lie(lambda site: roster_files(site)[1].unlink(), "ROSTER_WRONG:s1"),
    "who was in a sample erased too early": Lie(lambda site: erased(site, rows(site, "charge")[7]), "ERASED_EARLY:c7"),
    "a snapshot that was changed": Lie(
        lambda site: charged_otherwise(site, rows(site, "snapshot")[-1], one_less), "SNAPSHOT_WRONG:c8"
    ),
    "a newest snapshot with somebody's charge lowered": Lie(
        lambda site: lowered(site, rows(site, "snapshot")[-1], one_less), "SNAPSHOT_WRONG:c8"
    ),
    "no newest snapshot": Lie(missing("snapshot", -1), "SNAPSHOT_WRONG:c8"),
    "a newest snapshot that is forgotten": Lie(row("snapshot", -1, file=""), "SNAPSHOT_WRONG:c8"),
    "a load that takes nothing over": Lie(missing("load", 1), "CARRY_WRONG:l1"),
    # Its consequence is reported as well: with this carry the ledger has charged too little.
    "a carry that was replaced by an empty one": Lie(
        empty_carry, "CARRY_WRONG:l1 LEDGER_DIGEST:c5 CHARGE_SKIPPED:c5 CHARGE_SKIPPED:c7 SNAPSHOT_WRONG:c8"
    ),
    "a registry with other languages": Lie(other_languages, "REGISTRY_WRONG:r0"),
}
