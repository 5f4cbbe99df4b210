"""Targets on what lies on our own disk: journals, loads, kept samples, slot secrets, checkpoints that were seen. Damage is told as damage, whatever it is.

In the product a load's file is compared with the log's commitment before it is read, and a journal with its signed
checkpoint after; the readers here must stand alone.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fakes import logs
from fakes.clock import FakeClock
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.randomness import SeededRandomness
from fakes.registries import made_names
from fakes.world import FRENCH, make_pseudonyms
from fuzz.logs import key_hash
from fuzz.stored_people import REFUSED, build_store
from fuzz.stored_source import LOADED, WRITINGS, write_all
from fuzz.stored_source import REFUSED as LOAD_REFUSED
from fuzz.target import Cut, Target, fresh_path, require
from unit.audit.on_site.site import sealed

from broker_common.audit.on_site.accounts import NOBODY, Accounts, as_names
from broker_common.audit.on_site.files import Carry as AuditedCarry
from broker_common.audit.on_site.files import (
    DamagedError,
    Load,
    parse_carry,
    parse_snapshot,
    read_load,
)
from broker_common.crypto.commitments import SALT_BYTES, SlotSecret, commit_load, commit_slot
from broker_common.crypto.frames import FRAME_BYTES
from broker_common.query.question import parse_question
from broker_common.storage.database import Database
from broker_common.storage.journal import Journal
from broker_common.storage.source.parquet import ParquetSource
from broker_common.storage.witnessing import WitnessStore, verify_own_log
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.note import Checkpoint, join_note, parse_note
from broker_common.tlog.replay import LogState
from census_node.ledger.accounts import Ledger
from census_node.ledger.columns import write_columns
from census_node.ledger.samples import KeptSample, SampleFolder
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.subjects import Carry, Known, Names
from census_node.registry.loading import read_registry
from census_node.registry.registry import Registry
from census_node.release.publication import verify_witnessed
from census_node.release.slot_secrets import SLOT_SECRET_BYTES, SlotSecrets
from health_node.people.loading import load_people
from health_node.people.store import PeopleStore, read_figures
from researcher_node.trust.census_log import RememberedCheckpoint

# --- journals --------------------------------------------------------------------------------------------------------


def _no_tables(db: Database) -> None:
    del db


def _open(path: Path, make: Callable[..., Journal[CensusState]] = Journal) -> Journal[CensusState]:
    return make(
        path,
        fresh_state=logs.census_state,
        signer=lambda _: logs.SIGNER,
        clock=FakeClock(),
        tables=_no_tables,
    )


_ENTRIES = 7


@cache
def _whole_journal() -> bytes:
    """A journal of seven entries, as one file."""
    path = fresh_path(".db")
    journal = _open(path, Journal.create)
    for event in (*logs.beginning()[1:], logs.adopted(), logs.loaded()):
        with journal.transaction() as transaction:
            transaction.append(event)
    journal.close()
    return path.read_bytes()


@contextlib.contextmanager
def _copy(content: bytes) -> Iterator[Path]:
    path = fresh_path(".db")
    path.write_bytes(content)
    try:
        yield path
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path) -> dict[str, str | int]:
    """A journal's own figures. It is closed however its opening ends: that is Python's business, not its own."""
    journal = _open(path)
    try:
        return journal.state.summary()
    finally:
        journal.close()


_CELLS = {
    b"e": ("entries", "entry"),
    b"c": ("head", "checkpoint"),
    b"s": ("head", "state"),
    b"n": ("entries", "sequence"),
}


def _value(kind: bytes, content: bytes) -> bytes | str | int | float | None:
    """A value of any of SQLite's types: a column of a journal that somebody edited may hold any of them."""
    match kind:
        case b"b":
            return content
        case b"t":
            return content.decode("utf-8", "replace")
        case b"i":
            return int.from_bytes(content[:8], "big", signed=True)
        case b"f":
            return float(int.from_bytes(content[:4], "big")) / 3
        case _:
            return None


def _parse_cell(data: bytes) -> dict[str, str | int]:
    """Which cell, of which row, which type of value, and the value."""
    table, column = _CELLS.get(data[:1], _CELLS[b"e"])
    with _copy(_whole_journal()) as path:
        with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.Error):
            connection.execute(
                f"update {table} set {column} = ? where rowid = (select min(rowid) + ? from {table})",  # noqa: S608
                [_value(data[2:3], data[3:]), (data[1] if len(data) > 1 else 0) % _ENTRIES],
            )
            connection.commit()
        return _opened(path)


def _parse_journal(data: bytes) -> dict[str, str | int]:
    """Places and bytes that damage a whole file."""
    content = bytearray(_whole_journal())
    for at in range(0, len(data) - 4, 5):
        place = int.from_bytes(data[at : at + 4], "big") % len(content)
        content[place] = data[at + 4]
    with _copy(bytes(content)) as path:
        return _opened(path)


def _check_journal(summary: dict[str, str | int], data: bytes) -> None:
    del data
    require(summary["size"] == _ENTRIES, "a damaged journal is not taken for a shorter one")


def _cell_seeds() -> dict[str, bytes]:
    with _copy(_whole_journal()) as path, contextlib.closing(sqlite3.connect(path)) as connection:
        ((entry,),) = connection.execute("select entry from entries where sequence = 4").fetchall()
        ((note, state),) = connection.execute("select checkpoint, state from head").fetchall()
    return {
        "entry": b"e\x04b" + entry,
        "checkpoint": b"c\x00t" + note.encode(),
        "state": b"s\x00t" + state.encode(),
        **{
            f"bad {cell.decode()} {kind.decode()}": cell + b"\x00" + kind + b"\x7f" * 8
            for cell in (b"e", b"c", b"s")
            for kind in (b"b", b"t", b"i", b"f", b"0")
        },
        "bad sequence": b"n\x01i" + bytes(7) + b"\x09",
    }


# --- loads and samples -----------------------------------------------------------------------------------------------


def _parse_registry(data: bytes) -> Registry:
    path = fresh_path(".npz")
    path.write_bytes(data)
    try:
        return Registry.read(path, "load")
    finally:
        path.unlink()


def _check_registry(registry: Registry, data: bytes) -> None:
    del data
    cards, people = registry.cards, registry.people
    require(len(cards.low) == len(cards.persons) == len(cards.households) == registry.size, "a card is of somebody")
    require(set(people.values) == set(CENSUS_DICTIONARY.names), "every variable can be asked for")
    for values in people.values.values():
        require(len(values) == people.person_count, "every person has one value of every variable")
    if max(people.person_count, people.household_count) < _MANY:
        require(len(people.homes.of_person) == people.person_count, "everybody lives somewhere")


# More would make no test: nobody has a card, and everybody has a number.
_MANY = 1_000


def _parse_remembered(data: bytes) -> tuple[Names, Known]:
    path = fresh_path(".npz")
    path.write_bytes(data)
    try:
        return Names.read(path, "load"), Known.read(path, "load")
    finally:
        path.unlink()


def _check_remembered(remembered: tuple[Names, Known], data: bytes) -> None:
    del data
    names, known = remembered
    for cards in (known.cards, known.former):
        for numbers, given in ((cards.persons, names.persons), (cards.households, names.households)):
            require(max(numbers.tolist(), default=-1) < len(given), "everybody who has a card has a name")
    require(known.homes.tolist() == names.homes.tolist(), "one list of homes")
    require(len(known.homes) == len(names.persons), "everybody who has a number has lived somewhere")
    now = Known.none().cards
    require(known.former_after(now).size == known.cards.size + known.former.size, "nobody is forgotten")


def _parse_carry(data: bytes) -> Carry:
    path = fresh_path(".npz")
    path.write_bytes(data)
    try:
        carry = Carry.read(path)
        again = SnapshotFolder(path.parent).read_carry(path.name, _CARRY.content_hash)
        require(again.content_hash == carry.content_hash, "the ledgers take over what was read")
        return carry
    finally:
        path.unlink()


_CARRY = Carry(
    np.array([0, 2], np.uint32), np.array([1, 0], np.uint32), np.array([1], np.uint32), np.array([0], np.uint32), 3, 2
)


def _check_carry(carry: Carry, data: bytes) -> None:
    del data
    require(carry.content_hash == _CARRY.content_hash, "a carry that is read is one that was written")


def _carry_seeds() -> dict[str, bytes]:
    path = fresh_path(".npz")
    _CARRY.write(path)
    whole = path.read_bytes()
    path.unlink()
    foreign = io.BytesIO()
    np.savez(foreign, allow_pickle=False, counts=np.array([3, 2], np.uint64))
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    return {"whole": whole, "bad end": whole[:-1], "bad columns": foreign.getvalue(), "bad single": single.getvalue()}


def _load_file(**changed: Any) -> bytes:
    """A load's file of four cards, with some columns changed."""
    halves = make_pseudonyms(4).view(">u8").astype(np.uint64)
    numbers = {
        f"{when}{subject}s": np.array([0, 1, 1, 0], np.uint32)
        for when in ("", "former_")
        for subject in ("person", "household")
    }
    columns: dict[str, Any] = {
        "high": halves[:, 0],
        "low": halves[:, 1],
        **{f"value.{name}": np.arange(3, dtype=np.uint8) for name in CENSUS_DICTIONARY.names},
        "dictionary.meaning": np.frombuffer(CENSUS_DICTIONARY.meaning, np.uint8),
        "counts": np.array([3, 2], np.uint64),
        **made_names(3, 2).columns(),
        "former_high": halves[:, 0] + np.uint64(1),
        "former_low": halves[:, 1],
        **numbers,
    }
    save = changed.pop("save", None)
    if save is not None:
        file = io.BytesIO()
        save(file, allow_pickle=False, **{**columns, **changed})
        return file.getvalue()
    path = fresh_path(".npz")
    write_columns(path, {**columns, **changed})
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def _remembered_seeds() -> dict[str, bytes]:
    return {
        **_registry_seeds(),
        "bad former number": _load_file(former_households=np.array([0, 1, 2, 0], np.uint32)),
        "bad former length": _load_file(former_low=np.zeros(3, np.uint64)),
        "bad salt": _load_file(salt=np.zeros(16, np.uint8)),
        "bad names": _load_file(person_names=np.zeros(3, "S15")),
        "bad number of names": _load_file(person_names=np.zeros(2, "S16")),
        "bad home": _load_file(homes=np.array([0, 2, 0], np.uint32)),
        "bad number of homes": _load_file(homes=np.zeros(2, np.uint32)),
    }


def _registry_seeds() -> dict[str, bytes]:
    whole = _load_file()
    strings, short = np.zeros(4, "U2"), np.zeros(2, np.uint64)
    return {
        "whole": whole,
        # Columns that could not be used in the file.
        "bad places": _load_file(save=np.savez),
        "bad compression": _load_file(save=np.savez_compressed),
        "bad type": _load_file(high=strings),
        "bad shape": _load_file(high=short),
        "bad number": _load_file(persons=np.array([0, 1, 3, 0], np.uint32)),
        "bad counts": _load_file(counts=np.array([2**63, 2], np.uint64)),
        # Compression method and encryption flag of the first member, in its own header and in the directory.
        "bad method": _patched(whole, 8, 10, b"\x63"),
        "bad lock": _patched(whole, 6, 8, b"\x01"),
        "bad size": whole.replace(b"'shape': (4,), }", b"'shape': (9**9,)"),
        "bad much": whole.replace(b"'shape': (4,), }    ", b"'shape': (99999999,)"),
    }


def _patched(archive: bytes, local_at: int, central_at: int, value: bytes) -> bytes:
    patched = bytearray(archive)
    central = archive.index(b"PK\x01\x02")
    patched[local_at : local_at + 1] = patched[central + central_at : central + central_at + 1] = value
    return bytes(patched)


_SAMPLE = KeptSample(
    salt=bytes(range(32)),
    active_salt=bytes(range(32, 64)),
    bits=np.frombuffer(b"\xaa" * 8, np.uint8),
    active=np.frombuffer(b"\xff\x00\xf0", np.uint8),
    persons=20,
)
_SAMPLE_FILE, _SAMPLE_KEY = "ab" * 16, bytes(32)


def _parse_sample(data: bytes) -> KeptSample:
    """A file as it is, or anything that a node has sealed under the key in its row."""
    folder = fresh_path()
    folder.mkdir()
    content = data[1:] if data.startswith(b"\0") else sealed(_SAMPLE_KEY, data[1:].ljust(FRAME_BYTES, b"\0"))
    (folder / f"{_SAMPLE_FILE}.sample").write_bytes(content)
    try:
        return SampleFolder(folder).read(f"{_SAMPLE_FILE}:{_SAMPLE_KEY.hex()}")
    finally:
        shutil.rmtree(folder)


def _check_sample(sample: KeptSample, data: bytes) -> None:
    counts = (8 * len(sample.bits), sample.persons)
    again = sample.salt + sample.active_salt + b"".join(count.to_bytes(8, "big") for count in counts)
    again += sample.bits.tobytes() + sample.active.tobytes()
    require(8 * len(sample.active) >= sample.persons, "there is a mark for every person")
    if not data.startswith(b"\0") and not int.from_bytes(data[65:73], "big") % 8:
        require(data[1:].ljust(FRAME_BYTES, b"\0").startswith(again), "a sample is read back")


def _written_sample() -> tuple[bytes, bytes]:
    """A sample's file as the product writes it, under a key that is known; and what stands in it."""
    folder = fresh_path()
    name = SampleFolder(folder).write(_SAMPLE, bytes).partition(":")[0]
    whole = (folder / f"{name}.sample").read_bytes()
    shutil.rmtree(folder)
    counts = b"".join(count.to_bytes(8, "big") for count in (64, 20))
    plain = _SAMPLE.salt + _SAMPLE.active_salt + counts + _SAMPLE.bits.tobytes() + _SAMPLE.active.tobytes()
    return whole, plain


def _sample_seeds() -> dict[str, bytes]:
    whole, plain = _written_sample()
    return {
        "whole": b"\0" + whole,
        "plain": b"s" + plain,
        "nobody": b"s" + bytes(80),
        "bad end": b"\0" + whole[:-1],
        "bad empty": b"\0",
        "bad counts": b"s" + bytes(64) + b"\xff" * 16,
    }


_LEDGER = Ledger(3, 1, np.array([3, 0, 5], np.uint32))


def _snapshot() -> bytes:
    folder = fresh_path()
    name, _ = SnapshotFolder(folder).write(_LEDGER, SeededRandomness("snapshot"))
    content = (folder / name).read_bytes()
    shutil.rmtree(folder)
    return content


def _parse_snapshot(data: bytes) -> Ledger:
    folder = fresh_path()
    folder.mkdir()
    (folder / "a.ledgers").write_bytes(data)
    try:
        return SnapshotFolder(folder).read("a.ledgers", hashlib.sha256(_snapshot()).digest())
    finally:
        shutil.rmtree(folder)


def _check_snapshot(ledger: Ledger, data: bytes) -> None:
    folder = fresh_path()
    name, _ = SnapshotFolder(folder).write(ledger, SeededRandomness("snapshot"))
    require((folder / name).read_bytes() == data, "a ledger is written back to the same bytes")
    shutil.rmtree(folder)


# --- what an auditor reads of them -----------------------------------------------------------------------------------


def _parse_audited_load(data: bytes) -> Load:
    """Committed to, whatever it is: an agency may have written anything."""
    path, salt = fresh_path(".npz"), bytes(SALT_BYTES)
    path.write_bytes(data)
    commitment = commit_load(salt, hashlib.sha256(data).digest())
    try:
        return read_load(path, salt, commitment.hex(), CENSUS_DICTIONARY.hash.hex())
    finally:
        path.unlink()


def _check_audited_load(load: Load, data: bytes) -> None:
    del data
    persons, households = load.link(as_names(make_pseudonyms(4)))
    for numbers, count in ((persons, load.person_count), (households, load.household_count)):
        require((numbers[numbers != NOBODY] < count).all(), "people who are found have numbers that were given")
    require(len(load.homes()) == load.person_count, "every person has a household, or none")
    everybody = load.homes() != NOBODY
    for text in (FRENCH, "all"):
        counted = load.count(everybody, parse_question(text, load.dictionary)).reveal_to_mechanism()
        require(sum(counted) <= int(np.count_nonzero(everybody)), "nobody is counted twice")


def _check_audited_carry(carry: AuditedCarry, data: bytes) -> None:
    del data
    again = Carry(**{each.name: getattr(carry, each.name) for each in fields(carry)})
    require(again.content_hash == _CARRY.content_hash, "a carry that is read is the one that the row means")


def _check_audited_snapshot(accounts: Accounts, data: bytes) -> None:
    del data
    counts = {0, accounts.persons, accounts.households}
    require(len(accounts.charged) in counts, "everybody who is charged has a number, and everybody with one a charge")
    require(accounts.is_same(accounts), "what is read can be compared")


_BATCH = 3
_SLOT_SECRETS = [SlotSecret(bytes([slot + 1]) * SLOT_SECRET_BYTES) for slot in range(2 * _BATCH)]


def _parse_slots(data: bytes) -> tuple[int, SlotSecret]:
    """Which slot; and what stands where the first of two batches was. Then it is wiped, and all others are swept."""
    slot, folder = data[0] % (2 * _BATCH) if data else 0, fresh_path()
    secrets = SlotSecrets(folder)
    for first in (0, _BATCH):
        secrets.write(first, _SLOT_SECRETS[first : first + _BATCH])
    damaged = folder / "0000000000000000.slots"
    damaged.write_bytes(data[1:])
    try:
        secret = secrets.read(slot, commit_slot(_SLOT_SECRETS[slot], slot))
        others = {path: path.read_bytes() for path in folder.iterdir()}
        secrets.wipe(slot)
        require(sum(path.read_bytes() != content for path, content in others.items()) == 1, "one secret is wiped")
        return slot, secret
    finally:
        secrets.sweep({_BATCH})
        for path in folder.iterdir():
            content, at = path.read_bytes(), (_BATCH - int(path.stem)) * SLOT_SECRET_BYTES
            require(len(content) > at, "a file without a secret that is kept is removed")
            require(not any(content[:at] + content[at + SLOT_SECRET_BYTES :]), "what is not kept is wiped")
        shutil.rmtree(folder)


def _check_slots(read: tuple[int, SlotSecret], data: bytes) -> None:
    slot, secret = read
    require(secret == _SLOT_SECRETS[slot], "a secret is the one that the log has committed to")
    at = 1 + slot * SLOT_SECRET_BYTES
    require(slot >= _BATCH or data[at : at + SLOT_SECRET_BYTES] == secret.expose(), "a secret stands in its place")


def _slot_seeds() -> dict[str, bytes]:
    whole = b"".join(secret.expose() for secret in _SLOT_SECRETS[:_BATCH])
    return {
        "first": b"\0" + whole,
        "last": b"\2" + whole,
        "last of a longer one": b"\2" + whole + bytes(40),
        "other batch": b"\5",
        "bad cut": b"\2" + whole[:-1],
        "bad empty": b"\1",
        "bad zeros": b"\1" + bytes(len(whole)),
        "bad place": b"\1" + whole[1:],
    }


# --- the witness store -----------------------------------------------------------------------------------------------


@cache
def _witnessed_journal() -> Journal[CensusState]:
    """An open journal that was served: it commits to noise slots."""
    journal = _open(fresh_path(".db"), Journal.create)
    with journal.transaction() as transaction:
        for event in (*logs.beginning()[1:], logs.adopted(), logs.loaded(), logs.slots()):
            transaction.append(event)
    atexit.register(journal.close)
    return journal


def _parse_witness(data: bytes) -> int:
    """A file of the store; or, after `s`, the text of a checkpoint that the log's own key signs; gives its size."""
    content = data[1:]
    if data[:1] == b"s":
        short = key_hash(logs.ORIGIN, logs.LOG_KEY.verify_key)
        content = join_note(
            content.decode("utf-8", "replace"), [(logs.ORIGIN, short + logs.LOG_KEY.sign(content))]
        ).encode()
    folder = fresh_path()
    folder.mkdir()
    (folder / "checkpoint").write_bytes(content)
    store = WitnessStore(folder)
    try:
        verify_witnessed(_witnessed_journal(), store)
        return parse_note(store.read() or "")[0].size
    finally:
        shutil.rmtree(folder)


def _check_witness(size: int, data: bytes) -> None:
    journal = _witnessed_journal()
    checkpoint = Checkpoint(logs.ORIGIN, size, journal.root(size))
    require(checkpoint.to_text().encode() in data[1:], "what was seen is what the log was")


def _witness_seeds() -> dict[str, bytes]:
    journal = _witnessed_journal()

    def signed(size: int, root: bytes) -> bytes:
        return b"s" + Checkpoint(logs.ORIGIN, size, root).to_text().encode()

    return {
        "newest": b"w" + journal.checkpoint().encode(),
        "older": b"w" + journal.checkpoint(3).encode(),
        "signed": signed(2, journal.root(2)),
        "cosigned": b"w" + logs.WITNESS.cosign(journal.checkpoint(), 0).encode(),
        "bad longer": signed(99, bytes(32)),
        "bad beside": signed(2, bytes(32)),
        "bad empty": b"w",
        "bad huge": b"w" + journal.checkpoint().encode() + b"x" * 20_000,
        "bad other": b"w" + logs.SIGNER.sign_checkpoint(2**60, bytes(32)).encode(),
    }


class _Reader:
    """A reader of files in a process of its own, which a damaged file may end; the next file gets a new one."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[str] | None = None

    def read(self, named: str) -> str:
        """The line that the reader says of what is named, or how it ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{named}\n")
        process.stdin.flush()
        said = process.stdout.readline().strip()
        return said or f"the reader ended with {self.close()}"

    def close(self) -> int | None:
        """End the process, if there is one; gives how it ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


_people_reader, _source_reader = _Reader("fuzz.stored_people"), _Reader("fuzz.stored_source")
for _each in (_people_reader, _source_reader):
    atexit.register(_each.close)


@cache
def _whole_store() -> bytes:
    path = fresh_path(".people")
    build_store(path)
    return path.read_bytes()


def _parse_people(data: bytes) -> str:
    """Places and bytes that damage a whole file, or a file that is too short."""
    content = bytearray(_whole_store())
    if data[:1] == b"x":
        content = content[: int.from_bytes(data[1:4], "big")]
    else:
        for at in range(0, len(data) - 4, 5):
            content[int.from_bytes(data[at : at + 4], "big") % len(content)] = data[at + 4]
    path = fresh_path(".people")
    path.write_bytes(content)
    try:
        return _people_reader.read(str(path))
    finally:
        path.unlink()


def _check_people(said: str, data: bytes) -> None:
    del data
    require(said in {"read", *REFUSED}, f"a damaged store is told as one, not: {said}")


# --- Parquet sources ---------------------------------------------------------------------------------------------------


@cache
def _whole_sources() -> list[bytes]:
    folder = fresh_path()
    folder.mkdir()
    try:
        return write_all(folder)
    finally:
        shutil.rmtree(folder)


# Places with this bit are counted from the end: there Parquet says how all the rest is to be read.
_FROM_END = 1 << 15


def _parse_parquet(data: bytes) -> str:
    """Which of the writings; then places with the bytes to put there, or, after `x`, how much of its end is missing."""
    cut = Cut(data)
    which = cut.number() % len(WRITINGS)
    content = bytearray(_whole_sources()[which])
    if data[1:2] == b"x":
        del content[max(0, len(content) - int.from_bytes(data[2:4], "big")) :]
    else:
        while not cut.is_empty:
            place, byte = cut.number(2), cut.number()
            at = -1 - (place - _FROM_END) % len(content) if place & _FROM_END else place % len(content)
            content[at] = byte
    path = fresh_path(".parquet")
    path.write_bytes(content)
    try:
        return _source_reader.read(f"{WRITINGS[which][0]} {path}")
    finally:
        path.unlink()


def _check_parquet(said: str, data: bytes) -> None:
    del data
    require(said in {LOADED, LOAD_REFUSED}, f"a source is loaded or refused, not: {said}")


# --- the researcher's checkpoint -------------------------------------------------------------------------------------


def _parse_seen(data: bytes) -> Checkpoint | None:
    """The file in a researcher home that says what was seen of the census log."""
    path = fresh_path(".checkpoint")
    path.write_bytes(data)
    try:
        return RememberedCheckpoint(path).read()
    finally:
        path.unlink()


def _check_seen(seen: Checkpoint | None, data: bytes) -> None:
    require(seen is not None and data.startswith(seen.to_text().encode()), "what was seen is what the file says")


TARGETS: Mapping[str, Target[Any]] = {
    "seen": Target(
        parse=_parse_seen,
        check=_check_seen,
        covers=(RememberedCheckpoint.read,),
        seeds=lambda: {
            "note": logs.SIGNER.sign_checkpoint(42, bytes(range(32))).encode(),
            "bad empty": b"",
            "bad text": b"\xff",
            "bad length": b"x" * 20_000,
        },
        codes=frozenset({"FILE_UNUSABLE"}),
        max_bytes=20_000,
    ),
    "journal_cell": Target(
        parse=_parse_cell,
        check=_check_journal,
        covers=(Journal, LogState.apply),
        seeds=_cell_seeds,
        codes=frozenset({"INTEGRITY"}),
        mutations=100,
    ),
    "journal_file": Target(
        parse=_parse_journal,
        check=_check_journal,
        covers=(Journal,),
        # A store that SQLite calls malformed is a store that failed: the node stops in both cases.
        codes=frozenset({"INTEGRITY", "STORE_FAILED"}),
        seeds=lambda: {
            "whole": b"",
            "bad begin": bytes(5),
            "bad pages": b"\0\0\x10\0\xff\0\0\x20\0\xff\0\0\x30\x01\xff",
        },
        mutations=100,
    ),
    "registry": Target(
        parse=_parse_registry,
        check=_check_registry,
        covers=(Registry.read,),
        seeds=lambda: {
            **_registry_seeds(),
            "bad dictionary": _load_file(**{"dictionary.meaning": np.frombuffer(b"[]", np.uint8)}),
            "bad shape of a dictionary": _load_file(**{"dictionary.meaning": np.zeros((2, 2), np.uint8)}),
        },
        # Whether the file is the one that was loaded is asked before.
        codes=frozenset({"DICTIONARY_CHANGED", "INTEGRITY"}),
        mutations=250,
        max_bytes=8192,
        words=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"'shape': (", b"'<u8'", b"'O'", b"9**9"),
    ),
    "remembered_subjects": Target(
        parse=_parse_remembered,
        check=_check_remembered,
        covers=(Names.read, Known.read),
        seeds=_remembered_seeds,
        codes=frozenset({"INTEGRITY"}),
        mutations=150,
        max_bytes=8192,
        words=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"'shape': (", b"'<u4'", b"'|S16'", b"9**9"),
    ),
    "carry": Target(
        parse=_parse_carry,
        check=_check_carry,
        covers=(Carry.read, SnapshotFolder.read_carry),
        seeds=_carry_seeds,
        codes=frozenset({"INTEGRITY"}),
        mutations=150,
        words=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"'shape': (", b"'<u4'", b"9**9"),
    ),
    "kept_sample": Target(
        parse=_parse_sample,
        check=_check_sample,
        covers=(SampleFolder.read,),
        seeds=_sample_seeds,
        codes=frozenset({"SAMPLE_LOST"}),
        mutations=150,
    ),
    "ledger_snapshot": Target(
        parse=_parse_snapshot,
        check=_check_snapshot,
        covers=(SnapshotFolder.read,),
        seeds=lambda: {"whole": _snapshot(), "bad end": _snapshot()[:-1], "bad": b""},
        codes=frozenset({"INTEGRITY"}),
        mutations=100,
    ),
    "audited_load": Target(
        parse=_parse_audited_load,
        check=_check_audited_load,
        covers=(read_load,),
        seeds=lambda: {
            name.replace("bad places", "places").replace("bad compression", "compression"): data
            for name, data in _registry_seeds().items()
        },
        errors=(DamagedError,),
        mutations=150,
        max_bytes=8192,
        words=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"'shape': (", b"'<u8'", b"'O'", b"9**9"),
    ),
    "audited_carry": Target(
        parse=lambda data: parse_carry(data, _CARRY.content_hash),
        check=_check_audited_carry,
        covers=(parse_carry,),
        seeds=_carry_seeds,
        errors=(DamagedError,),
        mutations=150,
        words=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"'shape': (", b"'<u4'", b"9**9"),
    ),
    "audited_snapshot": Target(
        parse=lambda data: parse_snapshot(data, hashlib.sha256(data).digest()),
        check=_check_audited_snapshot,
        covers=(parse_snapshot,),
        seeds=lambda: {"whole": _snapshot(), "bad end": _snapshot()[:-1], "bad more": _snapshot() + b"x", "bad": b""},
        errors=(DamagedError,),
        mutations=150,
        words=(b"\x93NUMPY", b"'shape': (", b"'<u8'", b"'<u4'", b"'O'", b"9**9", b'{"health.example":2}'),
    ),
    "slot_secrets": Target(
        parse=_parse_slots,
        check=_check_slots,
        covers=(SlotSecrets.read,),
        seeds=_slot_seeds,
        codes=frozenset({"SAMPLE_LOST"}),
        mutations=100,
        max_bytes=400,
    ),
    "witness_store": Target(
        parse=_parse_witness,
        check=_check_witness,
        covers=(WitnessStore.read, verify_witnessed, verify_own_log),
        seeds=_witness_seeds,
        codes=frozenset({"ROLLED_BACK"}),
        mutations=250,
        words=("\u2014 ".encode(), b"\n\n", b"\n3\n", b"=", b"00", b"\xff"),
    ),
    "people_store": Target(
        parse=_parse_people,
        check=_check_people,
        covers=(PeopleStore, read_figures),
        seeds=lambda: {"whole": b"", "short": b"x\0\x30\0", "pages": b"\0\0\x20\x08\xff\0\0\x30\x08\xff"},
        mutations=30,
        guided=False,
    ),
    "parquet_source": Target(
        parse=_parse_parquet,
        check=_check_parquet,
        covers=(read_registry, load_people, ParquetSource),
        seeds=lambda: {
            **{f"whole {number}": bytes([number]) for number in range(len(WRITINGS))},
            "short": b"\0x\0\x20",
            "magic": b"\0\x80\0x",
            "pages": b"\x03\0\x40\xff\0\x80\xff",
            "footer": b"\x03\x80\x40\xff\x80\x80\xff",
        },
        mutations=50,
        max_bytes=64,
        guided=False,
    ),
}
