"""The floor: the least that anybody could do with a sample of one bit a place, at the same fixed size no matter who is in it.

One filter of the health columns in memory (Polars, whose finds are bits already); AES-GCM over the bits twice; the same bytes through a raw
socket under mutual TLS to another process, on a connection that stays open; the bare passes over everybody in NumPy (look up,
compare, add, count two cells) by two threads; and sample and active bits written and flushed. No check, no log, no
commitment, no second card, no signature, no noise: nothing that makes the product what it is. `python -m benchmarks.floor FOLDER`
is the process at the other end.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from benchmarks.children import environment, module
from benchmarks.cohorts import Cohort, HealthSource
from benchmarks.credentials import write_ed25519
from benchmarks.extras import extra
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from broker_common.privacy.accounting import price
from broker_common.privacy.delays import declared_for

CELLS: Final = ({0}, {1, 2})
"""Values of two cells that are counted."""
PRICE: Final = price(10_000)
MOST: Final = price(1) * 100
_FRAME_BYTES = 256 * 1024
_SIZE_BYTES = 8
_DONE = b"k"
_BLOCK = 1 << 16
_THREADS = 2
_OCTET = 8

Bits: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.uint32]
ResultT = TypeVar("ResultT")


class Peer:
    """Another process that takes bytes under mutual TLS, on a connection that stays open."""

    def __init__(self, folder: Path) -> None:
        write_ed25519(folder)
        self._peer = subprocess.Popen(module("floor", folder), env=environment(), stdout=subprocess.PIPE)
        assert self._peer.stdout is not None
        port = int(self._peer.stdout.readline())
        connection = socket.create_connection(("127.0.0.1", port))
        # Without it a short sample waits 40 ms for an acknowledgement, and the floor would flatter the product.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = _context(folder, ssl.PROTOCOL_TLS_CLIENT)
        self._socket = context.wrap_socket(connection, server_hostname="localhost")

    def send(self, sample: bytes) -> None:
        """Send it, and wait until it is there."""
        self._socket.sendall(len(sample).to_bytes(_SIZE_BYTES, "big"))
        self._socket.sendall(sample)
        assert self._socket.recv(1) == _DONE

    def close(self) -> None:
        self._socket.close()
        self._peer.wait(10)
        assert self._peer.stdout is not None
        self._peer.stdout.close()


class Columns:
    """The columns of a health source in memory, to be filtered by Polars, or NumPy where it is not installed."""

    def __init__(self, source: HealthSource) -> None:
        self._source = source
        self._polars = extra("polars")
        columns = {"age": source.age, "sex": source.sex, "division": source.division}
        self._frame: Any = None if self._polars is None else self._polars.DataFrame(columns)

    @property
    def filtered_by(self) -> str:
        return "numpy (polars is not installed)" if self._polars is None else "polars"

    def mask(self, cohort: Cohort) -> Mask:
        return self._source.mask(cohort)

    def find(self, cohort: Cohort) -> object:
        """Who is in it, as bits. Those of Polars stay where they are: its way to NumPy takes longer than the filter."""
        if self._polars is None:
            return np.packbits(self._source.mask(cohort))
        column = self._polars.col
        wanted = column("age") >= cohort.age
        if cohort.sex is not None:
            wanted &= column("sex") == cohort.sex
        if cohort.division is not None:
            wanted &= column("division") == cohort.division
        return self._frame.lazy().select(wanted.alias("found")).collect()


class Floor:
    """Measures the floor of samples of so many people, in a folder of its own on the disk that the nodes write to."""

    def __init__(self, folder: Path, people: int) -> None:
        generator = np.random.default_rng(1)
        self.people, self.declared = people, declared_for(people)
        # Who stands where in a roster has nothing to do with anybody's number.
        self.places = generator.permutation(people).astype(np.uint32)
        self.values = generator.integers(0, 12, people).astype(np.uint8)
        self._passes = _BarePasses(self.places, self.values)
        self._key = AESGCM(os.urandom(32))
        self._file = os.open(folder / "floor.bits", os.O_CREAT | os.O_WRONLY, 0o600)
        self._peer = Peer(folder)
        # Time of this process, for the sample that was measured last.
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._peer.close()
        self._passes.close()
        os.close(self._file)

    def measure(self, find: Callable[[], object], found: Mask) -> dict[str, float]:
        """Seconds of each part for a sample; `find` is its filter, `found` whom it finds."""
        bits = self._packed(found)
        began = time.process_time()
        parts = {
            "filter": timed(find)[0],
            "sealing": timed(lambda: self._encrypt_twice(bits))[0],
            "passes": timed(lambda: self._passes.run(bits))[0],
            **self.moving(bits),
        }
        self.cpu_seconds = time.process_time() - began
        return parts

    def moving(self, bits: Bits) -> dict[str, float]:
        """Seconds that a sample of these bits takes through the socket and to the disk."""
        sent = bits.tobytes()
        return {"socket": timed(lambda: self._peer.send(sent))[0], "flush": timed(lambda: self._flush(sent))[0]}

    def _packed(self, marks: Mask) -> Bits:
        bits = np.zeros(self.declared // _OCTET, np.uint8)
        packed = np.packbits(marks)
        bits[: len(packed)] = packed
        return bits

    def _encrypt_twice(self, bits: Bits) -> None:
        # Once to encrypt; decrypting is the same work.
        for _ in range(2):
            self._key.encrypt(bytes(12), bits.data, None)

    def _flush(self, bits: bytes) -> None:
        os.pwrite(self._file, bits + self._passes.active.tobytes(), 0)
        os.fsync(self._file)


class _BarePasses:
    """The desk's passes with nothing around them: a card each, nobody unlinked, two cells."""

    def __init__(self, places: Numbers, values: npt.NDArray[np.uint8]) -> None:
        self.active = np.zeros(-(-len(places) // _OCTET), np.uint8)
        self._octets, self._masks = places >> 3, np.right_shift(np.uint8(128), (places & 7).astype(np.uint8))
        self._charged, self._values = np.zeros(len(places), np.uint32), values
        self._pool = ThreadPoolExecutor(_THREADS)
        self._memory = [
            [np.ones(_BLOCK, kind) for kind in (np.uint32, np.intp, np.uint8, np.uint8, np.bool_)] for _ in range(2)
        ]
        self._cells = np.full(256, 255, np.uint8)
        for cell, of_cell in enumerate(CELLS):
            self._cells[list(of_cell)] = cell

    def close(self) -> None:
        self._pool.shutdown()

    def run(self, sample: Bits) -> list[int]:
        """All of them: one after the other, so that each finds what it reads more than once in the cache."""
        self._sweep(lambda memory, block: self._find(memory, block, sample))
        self._sweep(self._charge)
        totals: list[int] = np.sum(self._sweep(self._count), axis=0).tolist()
        return totals

    def _sweep(self, work: Callable[[list[npt.NDArray[Any]], slice], ResultT]) -> list[ResultT]:
        def share(thread: int) -> list[ResultT]:
            firsts = range(thread * _BLOCK, len(self._octets), _THREADS * _BLOCK)
            return [work(self._memory[thread], slice(first, first + _BLOCK)) for first in firsts]

        return [each for of_thread in self._pool.map(share, range(_THREADS)) for each in of_thread]

    def _find(self, memory: list[npt.NDArray[Any]], block: slice, sample: Bits) -> None:
        octets = self._octets[block]
        _, index, marks, _, fits = (each[: len(octets)] for each in memory)
        np.copyto(index, octets)
        np.take(sample, index, out=marks, mode="clip")
        np.bitwise_and(marks, self._masks[block], out=marks)
        np.less_equal(self._charged[block], np.uint32(MOST - PRICE), out=fits)
        np.logical_and(marks, fits, out=fits)
        self._active_of(block)[:] = np.packbits(fits)

    def _charge(self, memory: list[npt.NDArray[Any]], block: slice) -> None:
        charged = self._charged[block]
        numbers = memory[0][: len(charged)]
        np.copyto(numbers, np.unpackbits(self._active_of(block), count=len(charged)))
        np.multiply(numbers, np.uint32(PRICE), out=numbers)
        np.add(charged, numbers, out=charged)

    def _count(self, memory: list[npt.NDArray[Any]], block: slice) -> list[int]:
        values = self._values[block]
        _, index, _, cells, fits = (each[: len(values)] for each in memory)
        marks = np.unpackbits(self._active_of(block), count=len(values)).view(np.bool_)
        np.copyto(index, values)
        np.take(self._cells, index, out=cells, mode="clip")
        counts = []
        for cell in range(len(CELLS)):
            np.equal(cells, cell, out=fits)
            np.logical_and(fits, marks, out=fits)
            counts.append(int(np.count_nonzero(fits)))
        return counts

    def _active_of(self, block: slice) -> Bits:
        """The bits of a block, which begins at a multiple of 8."""
        return self.active[block.start // _OCTET : -(-block.stop // _OCTET)]


def timed(step: Callable[[], ResultT]) -> tuple[float, ResultT]:
    """Seconds that it took, and what it made."""
    started = time.perf_counter()
    made = step()
    return time.perf_counter() - started, made


def _context(folder: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    context.load_verify_locations(folder / "certificate.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _serve(folder: Path) -> None:
    """Take samples until the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with _context(folder, ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True) as peer:
        buffer = memoryview(bytearray(_FRAME_BYTES))
        while size := peer.recv(_SIZE_BYTES):
            left = int.from_bytes(size, "big")
            while left:
                received = peer.recv_into(buffer[: min(left, len(buffer))])
                if not received:
                    return
                left -= received
            peer.sendall(_DONE)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
