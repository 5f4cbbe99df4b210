"""The files of one exported log: is everything there, nothing else, and does it lead to the signed checkpoint?

Other modules interpret the entries and check who signed. Entries and hash tiles say the same thing twice, so that where they
differ, the one that leads to the checkpoint's root convicts the other: a damaged entry is named by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker_common.audit import texts
from broker_common.audit.export.reading import Part, UnreadableError
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.findings import MOST_PROBLEMS, Findings, Report
from broker_common.audit.logs.disk_backed import DiskBackedTree
from broker_common.crypto.certificates import Role
from broker_common.tlog.entries import MAX_ENTRY_BYTES
from broker_common.tlog.merkle import HASH_BYTES, CompactTree, leaf_hash
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, parse_checkpoint
from broker_common.tlog.tiles import (
    CHECKPOINT_PATH,
    TILE_WIDTH,
    entries_path,
    hash_tiles,
    parse_entry_bundle,
    parse_hash_tile,
    tile_path,
    tile_paths,
)

_MOST_BUNDLE_BYTES = TILE_WIDTH * (2 + MAX_ENTRY_BYTES)
_MOST_TILE_BYTES = TILE_WIDTH * HASH_BYTES
_TILES = "tile/"
_LEAVES = "tile/0/"


class LogFiles:
    """One log, as files."""

    def __init__(self, role: Role, part: Part, findings: Findings) -> None:
        self._role = role
        self._part = part
        self._findings = findings
        # The signed text, and what it says; None if there is none that can be read.
        self.note = ""
        self.checkpoint: Checkpoint | None = None
        # How many entries could be read, up to the first file that is not there.
        self.readable = 0
        # The tree of the entries that the checkpoint covers, as far as they could be read.
        self.tree = DiskBackedTree()
        self._bundle: tuple[int, list[bytes]] = (-1, [])

    @property
    def is_whole(self) -> bool:
        """Whether everything is there and leads to the checkpoint."""
        checkpoint = self.checkpoint
        return checkpoint is not None and (self.tree.size, self.tree.root()) == (checkpoint.size, checkpoint.root)

    def read(self, report: Report, *, others: Callable[[str], bool] = lambda _: False) -> None:
        """Read and compare everything; `others` says which further files may be there.

        1. the checkpoint's form, 2. which files there are, 3. bundles to entries, entries to tiles, 4. to the root.
        """
        # 1
        note = self.read_note(CHECKPOINT_PATH)
        if note is not None:
            self.note = note
            try:
                self.checkpoint = parse_checkpoint(self.note)
            except ValueError as error:
                self._findings.problem("CHECKPOINT_MALFORMED", self._role, None, str(error))
        # 2
        self._find_strangers(others)
        if self.checkpoint is None:
            self._findings.skip(texts.NO_CHECKPOINT, role=self._role)
            return
        # 3
        size, root = self.checkpoint.size, self.checkpoint.root
        entries, told = CompactTree(), CompactTree()
        wrong = self._compare_tiles(size, entries, told, report)
        # 4
        self.readable = entries.size
        if entries.size < size:
            self._findings.skip(texts.LOG_NOT_READ, role=self._role, entry=entries.size)
        elif entries.root() != root and (told.size, told.root()) == (size, root):
            self._take_told(size)
            return
        elif entries.root() != root:
            self._findings.problem("ROOT_WRONG", self._role)
        for name, entry in wrong:
            self._findings.problem("TILE_WRONG", self._role, entry, name)

    def _compare_tiles(
        self, size: int, entries: CompactTree, told: CompactTree, report: Report
    ) -> list[tuple[str, int | None]]:
        """Fill one tree from the entries and one from the tiles; gives the tiles that are not what the entries make them."""
        wrong: list[tuple[str, int | None]] = []
        for name, content in hash_tiles(self._leaves(size, entries, report)):
            there = self._read_tile(name, content)
            if there != content and len(wrong) < MOST_PROBLEMS:
                wrong.append((name, self._first_difference(name, content, there)))
            # Only for as long as all of them can be read: then it is a tree.
            if name.startswith(_LEAVES) and told.size == entries.size - len(content) // HASH_BYTES:
                for leaf in _hashes(there):
                    told.append_leaf(leaf)
        return wrong

    def read_note(self, name: str) -> str | None:
        """A note that stands beside the log; None if it cannot be read, which is a problem, as is that it is missing."""
        try:
            return self._part.read(name, MAX_NOTE_BYTES).decode()
        except UnreadableError as error:
            self._findings.problem(error.code, self._role, None, error.name)
        except UnicodeDecodeError:
            self._findings.problem("CHECKPOINT_MALFORMED", self._role, None, name)
        return None

    def has(self, name: str) -> bool:
        """Whether there is anything at all under this name."""
        try:
            self._part.read(name, 0)
        except UnreadableError as error:
            return error.code != "FILE_MISSING"
        return True

    def entries(self, report: Report) -> Iterator[tuple[int, bytes, bool]]:
        """Number and bytes of every entry that could be read, and whether it is the one that the checkpoint covers."""
        for index in range(min(self.readable, self.tree.size)):
            data = self._read_entry(index)
            if index % TILE_WIDTH == 0:
                report(index, self.readable)
            yield index, data, leaf_hash(data) == self.tree.subtree(0, index)
        report(1, 1)

    def entry(self, index: int) -> bytes:
        """One entry that the checkpoint covers; empty if it is not what it was."""
        data = self._read_entry(index)
        return data if leaf_hash(data) == self.tree.subtree(0, index) else b""

    def close(self) -> None:
        self.tree.close()

    def _find_strangers(self, others: Callable[[str], bool]) -> None:
        found = list(self._part.names())
        # A made-up size must not have us list its tiles; then there is no saying which of them belong.
        size = self.checkpoint.size if self.checkpoint else 0
        is_plausible = 0 < size <= TILE_WIDTH * len(found)
        known = {CHECKPOINT_PATH, COSIGNED, WITNESSED, *(tile_paths(size) if is_plausible else ())}
        for name, is_file in found:
            if not is_file:
                self._findings.problem("FILE_UNUSABLE", self._role, None, name)
            elif name not in known and not others(name) and (is_plausible or not name.startswith(_TILES)):
                self._findings.problem("UNKNOWN_FILE", self._role, None, name)

    def _leaves(self, size: int, entries: CompactTree, report: Report) -> Iterator[bytes]:
        for first in range(0, size, TILE_WIDTH):
            bundle = self._read_bundle(first // TILE_WIDTH, min(TILE_WIDTH, size - first))
            if bundle is None:
                return
            report(first, size)
            for entry in bundle:
                leaf = leaf_hash(entry)
                entries.append_leaf(leaf)
                self.tree.append_leaf(leaf)
                yield leaf
        report(1, 1)

    def _read_bundle(self, number: int, width: int) -> list[bytes] | None:
        name = entries_path(number, width)
        try:
            return parse_entry_bundle(self._part.read(name, _MOST_BUNDLE_BYTES), width)
        except UnreadableError as error:
            self._findings.problem(error.code, self._role, number * TILE_WIDTH, name)
        except ValueError as error:
            self._findings.problem("BUNDLE_MALFORMED", self._role, number * TILE_WIDTH, f"{name}, {error}")
        return None

    def _read_entry(self, index: int) -> bytes:
        number, place = divmod(index, TILE_WIDTH)
        if self._bundle[0] != number:
            size = self.checkpoint.size if self.checkpoint else 0
            width = min(TILE_WIDTH, size - number * TILE_WIDTH)
            try:
                content = self._part.read(entries_path(number, width), _MOST_BUNDLE_BYTES)
                self._bundle = (number, parse_entry_bundle(content, width))
            except (UnreadableError, ValueError):
                # It could be read a moment ago. Its content is no longer what the checkpoint covers.
                self._bundle = (number, [b""] * width)
        return self._bundle[1][place]

    def _read_tile(self, name: str, content: bytes) -> bytes:
        try:
            return self._part.read(name, _MOST_TILE_BYTES)
        except UnreadableError as error:
            self._findings.problem(error.code, self._role, None, name)
            # Said once.
            return content if error.code == "FILE_MISSING" else b""

    def _first_difference(self, name: str, content: bytes, there: bytes) -> int | None:
        """The first entry whose hash a tile of the lowest level has wrong."""
        if not name.startswith(_LEAVES):
            return None
        at = next((at for at in range(len(content)) if content[at : at + 1] != there[at : at + 1]), len(content))
        number = self.tree.size // TILE_WIDTH - (self.tree.size % TILE_WIDTH == 0)
        return number * TILE_WIDTH + at // HASH_BYTES

    def _take_told(self, size: int) -> None:
        """The tiles lead to the checkpoint and the entries do not: entries will be held against the tiles."""
        self.tree.close()
        self.tree = DiskBackedTree()
        try:
            for name, content in hash_tiles(self._told(size)):
                if not name.startswith(_LEAVES) and self._read_tile(name, content) != content:
                    self._findings.problem("TILE_WRONG", self._role, None, name)
        except UnreadableError as error:
            # It could be read a moment ago.
            self._findings.problem("FILE_UNUSABLE", self._role, None, error.name)

    def _told(self, size: int) -> Iterator[bytes]:
        for first in range(0, size, TILE_WIDTH):
            width = min(TILE_WIDTH, size - first)
            name = tile_path(0, first // TILE_WIDTH, width)
            try:
                leaves = parse_hash_tile(self._part.read(name, _MOST_TILE_BYTES), width)
            except ValueError as error:
                raise UnreadableError("FILE_UNUSABLE", name) from error
            for leaf in leaves:
                self.tree.append_leaf(leaf)
                yield leaf


def _hashes(content: bytes) -> list[bytes]:
    return [content[at : at + HASH_BYTES] for at in range(0, len(content) - HASH_BYTES + 1, HASH_BYTES)]
