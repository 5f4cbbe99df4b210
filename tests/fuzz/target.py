"""A fuzz target: a parser of the product, the errors that it documents, and the properties of every value that it accepts.

`Target.accepts` is the whole of it: bytes in, and a bool that says whether they were accepted. Exactly the documented
errors are a refusal; everything else that escapes is a finding. What is checked of an accepted value stands in `check`,
outside of the errors that are allowed, so that a broken round trip can never be taken for a refusal.

Structured input is cut from the bytes by `Cut` and put together by `joined`, its counterpart for seeds.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from broker_common.errors import BrokerError
from broker_common.rpc.status import trailing_metadata

ValueT = TypeVar("ValueT")
_PIECE_LENGTH_BYTES = 2
# gRPC's default limit of a message.
_MOST_TRAILER_BYTES = 8 * 1024


class Finding(Exception):  # noqa: N818 - it is what a fuzzer looks for
    """The accepted value breaks its promise."""


def require(holds: bool, promise: str) -> None:
    """Raise a finding unless the promise holds."""
    if not holds:
        raise Finding(promise)


def nothing_more(value: object, data: bytes) -> None:
    """The check of a parser that has no writer."""
    del value, data


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Generic[ValueT]):
    """One way into the product."""

    # Decodes the bytes and calls the parser.
    parse: Callable[[bytes], ValueT]
    # The functions and methods of the product that `parse` and `check` reach, for the test that none is forgotten.
    covers: tuple[Callable[..., Any], ...]
    # Inputs made afresh from the product as it is now; all of them are accepted but those whose name begins with `bad`.
    seeds: Callable[[], Mapping[str, bytes]]
    # Codes of the BrokerErrors, and types of other errors, that the parser documents.
    codes: frozenset[str] = frozenset()
    errors: tuple[type[Exception], ...] = ()
    # Raises a finding when an accepted value is not what its bytes say.
    check: Callable[[ValueT, bytes], None] = nothing_more
    # Words of the format, for the mutators.
    words: tuple[bytes, ...] = ()
    # How many mutated inputs `make test` tries: fewer of what is slow, so that none takes more than a second or two.
    mutations: int = 800
    max_bytes: int = 4096
    # True when a refusal is told to a caller in another process.
    on_the_wire: bool = False
    # False when the parser runs in a process of its own, where no coverage can be seen.
    guided: bool = True

    def accepts(self, data: bytes) -> bool:
        """Run the parser on `data`; False for a refusal as documented. Anything else that is wrong escapes."""
        self._forget()
        try:
            value = self.parse(data)
        except BrokerError as error:
            if error.code not in self.codes:
                raise
            require((error.text + error.hint).isprintable(), "a refusal does nothing to a terminal")
            if self.on_the_wire:
                _require_tellable(error)
            return False
        except self.errors:
            return False
        self.check(value, data)
        return True

    def _forget(self) -> None:
        """The product's cache of an input it has seen would keep the parser from seeing it again."""
        for function in self.covers:
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def _require_tellable(error: BrokerError) -> None:
    """A refusal must fit into what a call may end with, however long the words were that it refuses."""
    _, text, trailing = trailing_metadata(error)
    size = len(quote(text)) + sum(len(b64encode(value)) for _, value in trailing)
    require(size <= _MOST_TRAILER_BYTES, "a refusal fits into a trailer")


class Cut:
    """Cuts bytes into pieces; what is missing at the end is empty or zero, so that any bytes can be cut."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.take(size), "big")

    def piece(self) -> bytes:
        """The bytes after a length of two bytes."""
        return self.take(self.number(_PIECE_LENGTH_BYTES))

    def rest(self) -> bytes:
        return self.take(len(self._data))


def joined(*pieces: bytes) -> bytes:
    """The inverse of `Cut.piece`."""
    return b"".join(len(piece).to_bytes(_PIECE_LENGTH_BYTES, "big") + piece for piece in pieces)


_counter = itertools.count()


def fresh_path(suffix: str = "") -> Path:
    """A path that nobody has used, in a folder that goes when the process ends."""
    return _folder() / f"{next(_counter)}{suffix}"


@cache
def _folder() -> Path:
    folder = mkdtemp(prefix="tripartite-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
