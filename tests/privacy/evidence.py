"""Everything that a party holds or was told, byte by byte: files, outputs, logs, processes, and what came over the wire.

Files count as they lie on disk, SQLite's write-ahead logs and pages of deleted rows included, and once more as they read: SQLite row by
row, `.npz`, Parquet and stores of people column by column, because a format may compress, split or pack what a search of its bytes would
then miss. A peer's words count for every hearer: every decrypted byte of the connection, and every gRPC message put together again with
the numbers in its fields.
"""

from __future__ import annotations

import io
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import duckdb
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.homes import PARTIES, part_of, stored_message
from google.protobuf.message import Message
from privacy.canaries import Exhibit, Place
from privacy.private_keys import key_forms
from privacy.wiretap import Call, Link, Traffic
from tripartite.v1 import answer_pb2, census_service_pb2, roster_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import UnsealingKey, roster_info, sample_bits_info, unseal_with_any
from broker_common.query.dictionary import Dictionary
from broker_common.storage.source.values import Values
from health_node.people.encoding import Encoding
from health_node.people.store import PeopleStore
from health_node.people.tables import shapes_of, small_columns

# Messages that travel inside others as the bytes that were signed.
_NESTED: dict[str, type[Message]] = {
    "tripartite.v1.SignedTicket.ticket": ticket_pb2.Ticket,
    "tripartite.v1.SignedManifest.manifest": sample_pb2.Manifest,
    "tripartite.v1.SignedRosterManifest.manifest": roster_pb2.RosterManifest,
    "tripartite.v1.SignedReceipt.receipt": answer_pb2.Receipt,
}
# Overhead of a sealed sample, whatever its roster: encapsulation, salt and tag.
_SEALED_BYTES = 1120 + 32 + 16


class Snapshots:
    """Copies of all homes as they were at several instants; a file that did not change counts once."""

    def __init__(self, directory: Path, dictionary: Dictionary = HEALTH_DICTIONARY) -> None:
        """`dictionary`: of every load of the health agency's."""
        self._directory = directory
        self._dictionary = dictionary
        self._seen: set[tuple[str, bytes]] = set()
        self.exhibits: list[Exhibit] = []
        # Every private key that was ever there, by party and file in `keys/`.
        self._keys: dict[tuple[str, str], set[bytes]] = {}

    def take(self, instant: str) -> None:
        """Keep every file of every home. Nobody should be writing just now."""
        with tempfile.TemporaryDirectory() as folder:
            # Read by a separate process: closing a file of SQLite's would let go of the locks that this process holds on it.
            subprocess.run(["cp", "-R", self._directory, folder], check=True)  # noqa: S607 - from the path, as anybody's
            for party in PARTIES:
                self._keep(party, Path(folder) / self._directory.name / party, instant)
            self._keep_store(Path(folder) / self._directory.name / "witness", instant)

    def _keep_store(self, store: Path, instant: str) -> None:
        """The census agency's, on what is another disk elsewhere."""
        for path in sorted(store.iterdir()):
            self.exhibits.append(
                Exhibit(Place("census", "witness store"), f"{path.name}, {instant}", path.read_bytes())
            )

    def keys(self, party: str, *names: str) -> set[bytes]:
        """Every form of every private key that a party held at one of the instants, of all files or of these."""
        held = {name: keys for (whose, name), keys in self._keys.items() if whose == party}
        return set().union(*(held[name] for name in names or held))

    def key_files(self, party: str) -> set[str]:
        """Which files of private keys a party has."""
        return {name for whose, name in self._keys if whose == party}

    def _keep(self, party: str, home: Path, instant: str) -> None:
        files = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
        for path, content in files.items():
            relative = path.relative_to(home)
            # A store of SQLite's reads as file and write-ahead log together.
            log = files.get(path.with_name(f"{path.name}-wal"), b"")
            key = (f"{party}/{relative}", sha256(content + log).digest())
            if key not in self._seen:
                self._seen.add(key)
                place = Place(party, part_of(relative))
                self.exhibits.append(Exhibit(place, f"{relative}, {instant}", content))
                if place.part == "keys" and path.suffix == ".key":
                    self._keys.setdefault((party, path.stem), set()).update(key_forms(content))
                self.exhibits += _as_read(path, place, f"{relative} as read, {instant}", content, self._dictionary)


def _as_read(path: Path, place: Place, name: str, content: bytes, dictionary: Dictionary) -> Iterator[Exhibit]:
    match path.suffix:
        case ".db":
            yield from _rows(path, place, name)
        case ".npz":
            yield from _arrays(place, name, content)
        case ".people":
            yield from _people(path, place, name, dictionary)
        case ".parquet":
            yield from _columns(place, name, content)


def _rows(path: Path, place: Place, name: str) -> Iterator[Exhibit]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        tables = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            cursor = db.execute(f'select * from "{table}"')  # noqa: S608 - names that SQLite itself gave
            columns = [column[0] for column in cursor.description]
            for row in cursor:
                for column, value in zip(columns, row, strict=True):
                    yield _cell(place, name, f"{table}.{column}", value)


def _cell(place: Place, file: str, column: str, value: object) -> Exhibit:
    name = f"{file}: {column}"
    if isinstance(value, int):
        return Exhibit(place, name, b"", frozenset({value}))
    if isinstance(value, bytes):
        kind = stored_message(column)
        numbers = numbers_in(kind.FromString(value)) if kind is not None else frozenset()
        return Exhibit(place, name, value, numbers)
    return Exhibit(place, name, str(value or "").encode())


def _arrays(place: Place, name: str, content: bytes) -> Iterator[Exhibit]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        for array in stored.files:
            yield Exhibit(place, f"{name}: {array}", stored[array].tobytes())


def _people(path: Path, place: Place, name: str, dictionary: Dictionary) -> Iterator[Exhibit]:
    # Pseudonyms stand in the file as they are.
    with PeopleStore(path, dictionary) as store:
        for column in small_columns(dictionary):
            yield _values(place, f"{name}: {column.name}", store.column(column.name))
        tables = store.in_order(*store.halves, np.arange(store.size)).tables
        for shape in shapes_of(dictionary):
            for piece in tables[shape.name].pieces():
                for column in shape.columns:
                    values = Encoding.of(column).values(piece[column.name])
                    yield _values(place, f"{name}: {shape.name}.{column.name}", values)


def _values(place: Place, name: str, values: Values) -> Exhibit:
    return Exhibit(place, name, values.tobytes(), frozenset(np.unique(values).tolist()))


def _columns(place: Place, name: str, content: bytes) -> Iterator[Exhibit]:
    with tempfile.NamedTemporaryFile(suffix=".parquet") as copy, duckdb.connect(":memory:") as db:
        copy.write(content)
        copy.flush()
        for column, values in db.execute(f"select * from '{copy.name}'").fetchnumpy().items():  # noqa: S608
            plain = np.ma.getdata(values)
            numbers = frozenset(np.unique(plain).tolist()) if plain.dtype.kind in "iu" else frozenset()
            data = "\n".join(map(str, plain)).encode() if plain.dtype.kind in "OM" else plain.tobytes()
            yield Exhibit(place, f"{name}: rows.{column}", data, numbers)


def on_the_wire(traffic: Traffic) -> Iterator[Exhibit]:
    """All messages between all parties."""
    for connection in traffic.connections:
        for by_client in (True, False):
            place = heard(connection.link, by_client=by_client)
            said = connection.said(by_client=by_client)
            yield Exhibit(place, f"connection {connection.number}", said)
    for call in traffic.calls():
        for by_client, side, messages in ((True, call.client, call.requests), (False, call.server, call.responses)):
            place = heard(call.link, by_client=by_client)
            for part, message in zip(side.messages, messages, strict=True):
                yield Exhibit(place, f"{call.method} {type(message).__name__}", part.data, numbers_in(message))


@dataclass(frozen=True)
class OpenedRoster:
    """One attempt to hand a roster over, opened with the census agency's key and read by hand."""

    call: Call
    frame_key: bytes
    # Salt of the roster's commitment.
    salt: bytes
    manifest: roster_pb2.RosterManifest
    # The hash of its bytes.
    manifest_hash: bytes
    declared: int
    pseudonyms: list[bytes]


@dataclass(frozen=True)
class OpenedSample:
    """One attempt to hand a sample over, opened in the same way; its places are read in the roster that it names."""

    call: Call
    # Salt of the set commitment.
    salt: bytes
    roster: OpenedRoster
    pseudonyms: list[bytes]


def open_rosters(traffic: Traffic, snapshots: Snapshots) -> list[OpenedRoster]:
    """Every attempt whose roster passed whole. Layouts: FORMAT.md, `broker_common/crypto/frames.py`."""
    opened = []
    for call in traffic.calls(Link("health", "census")):
        parts = [part for part in call.requests if isinstance(part, census_service_pb2.SendRosterRequest)]
        if len(parts) > 1 and parts[-1].frame.last:
            signed, sealed = parts[0].header.manifest, parts[0].header.sealed_key
            hashed = hash_bytes(signed.manifest)
            payload = unseal_with_any(_sample_keys(snapshots), sealed, roster_info(hashed), subject="roster")
            key, salt, places, people = payload[8:40], payload[40:72], payload[72:80], payload[80:88]
            plain = b"".join(_plaintext(key, part.frame) for part in parts[1:])
            count, declared = int.from_bytes(people, "big"), int.from_bytes(places, "big")
            assert len(plain) == 16 * declared
            names = [plain[16 * at : 16 * at + 16] for at in range(count)]
            manifest = roster_pb2.RosterManifest.FromString(signed.manifest)
            opened.append(OpenedRoster(call, key, salt, manifest, hashed, declared, names))
    return opened


def open_samples(traffic: Traffic, snapshots: Snapshots) -> list[OpenedSample]:
    """Every attempt whose sample passed whole. Layout: `broker_common/crypto/sample_bits.py`."""
    rosters = {roster.manifest.number: roster for roster in open_rosters(traffic, snapshots)}
    opened = []
    for call in traffic.calls(Link("health", "census")):
        parts = [part for part in call.requests if isinstance(part, census_service_pb2.CountRequest)]
        if not parts:
            continue
        head = parts[0].head
        roster = rosters[sample_pb2.Manifest.FromString(head.manifest.manifest).roster]
        sealed = head.sealed_head + b"".join(part.bits for part in parts[1:])
        if len(sealed) < _SEALED_BYTES + roster.declared // 8:
            # The connection was cut.
            continue
        info = sample_bits_info(hash_bytes(head.ticket.ticket), roster.manifest_hash)
        payload = unseal_with_any(_sample_keys(snapshots), sealed, info, subject="sample")
        bits = np.unpackbits(np.frombuffer(payload, np.uint8, offset=32))
        assert len(bits) == roster.declared
        names = [roster.pseudonyms[place] for place in np.flatnonzero(bits).tolist()]
        opened.append(OpenedSample(call, payload[:32], roster, names))
    return opened


def _sample_keys(snapshots: Snapshots) -> list[UnsealingKey]:
    return [UnsealingKey(raw) for raw in sorted(snapshots.keys("census", "sample"))]


def _plaintext(key: bytes, frame: roster_pb2.RosterFrame) -> bytes:
    nonce = bytes(7) + frame.index.to_bytes(4, "big") + bytes([frame.last])
    return AESGCM(key).decrypt(nonce, frame.ciphertext, None)


def heard(link: Link, *, by_client: bool) -> Place:
    """Where something lies that one side of a link said: with the one who heard it."""
    said, listened = link if by_client else (link.server, link.client)
    return Place(listened, f"from {said}")


def numbers_in(message: Message) -> frozenset[int]:
    """Every number in a message, signed messages within it included."""
    return frozenset(_numbers(message))


def _numbers(message: Message) -> Iterator[int]:
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            nested = _NESTED.get(field.full_name)
            if nested is not None:
                yield from _numbers(nested.FromString(each))
            elif isinstance(each, Message):
                yield from _numbers(each)
            elif isinstance(each, int) and not isinstance(each, bool):
                yield each
