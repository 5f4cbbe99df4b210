"""The floor: the least that anybody could do who filters, encrypts, sends, decrypts, looks up and remembers one sample.

One filter of the health columns in memory (Polars); AES-GCM over the sample's bytes twice; the same bytes through a raw
socket under mutual TLS to another process, on a connection that stays open; one gather of the sample's rows from a column
of the registry (NumPy); and one write of the sample's bitmap with fsync. No check, no log, no charge, no signature, no noise:
nothing that makes the product what it is. `python -m benchmarks.floor FOLDER` is the process at the other end.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from benchmarks.children import environment, module
from benchmarks.cohorts import Cohort, HealthSource
from benchmarks.credentials import write_ed25519
from benchmarks.extras import extra
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Floor"]

_PSEUDONYM_BYTES = 16
_FRAME_BYTES = 256 * 1024
_SIZE_BYTES = 8
_DONE = b"k"


class Floor:
    """Measures the floor of a sample, in a folder of its own on the disk that the nodes write to."""

    def __init__(self, folder: Path, source: HealthSource) -> None:
        self._source = source
        self._polars = extra("polars")
        columns = {"age": source.age, "sex": source.sex, "division": source.division}
        self._frame: Any = None if self._polars is None else self._polars.DataFrame(columns)
        self._column = np.random.default_rng(0).integers(0, 12, source.people).astype(np.uint8)
        self._key = AESGCM(os.urandom(32))
        self._samples: dict[Cohort, tuple[bytes, Any, bytes]] = {}
        self._file = os.open(folder / "floor.bitmap", os.O_CREAT | os.O_WRONLY, 0o600)
        write_ed25519(folder)
        self._peer = subprocess.Popen(module("floor", folder), env=environment(), stdout=subprocess.PIPE)
        assert self._peer.stdout is not None
        port = int(self._peer.stdout.readline())
        connection = socket.create_connection(("127.0.0.1", port))
        # Without it a short sample waits 40 ms for an acknowledgement, and the floor would flatter whoever is beside it.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = _context(folder, ssl.PROTOCOL_TLS_CLIENT)
        self._socket = context.wrap_socket(connection, server_hostname="localhost")

    @property
    def filtered_by(self) -> str:
        """Polars; NumPy where it is not installed."""
        return "numpy (polars is not installed)" if self._polars is None else "polars"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._peer.wait(10)
        assert self._peer.stdout is not None
        self._peer.stdout.close()
        os.close(self._file)

    def measure(self, cohort: Cohort) -> dict[str, float]:
        """Seconds of each part for a sample of this size."""
        sample, rows, bitmap = self._sample(cohort)
        return {
            "filter": _timed(lambda: self._filter(cohort)),
            "encrypting twice": _timed(lambda: self._encrypt_twice(sample)),
            "sending": _timed(lambda: self._send(sample)),
            "gathering": _timed(lambda: self._column[rows]),
            "remembering": _timed(lambda: self._remember(bitmap)),
        }

    def _sample(self, cohort: Cohort) -> tuple[bytes, Any, bytes]:
        if cohort not in self._samples:
            # Who is in a sample stands anywhere in a registry that ascends by pseudonym.
            rows = np.random.default_rng(1).choice(self._source.people, cohort.people, replace=False)
            rows = np.sort(rows).astype(np.uint32)
            taken = np.zeros(self._source.people, np.bool_)
            taken[rows] = True
            self._samples[cohort] = os.urandom(_PSEUDONYM_BYTES * cohort.people), rows, np.packbits(taken).tobytes()
        return self._samples[cohort]

    def _filter(self, cohort: Cohort) -> object:
        if self._polars is None:
            return np.flatnonzero(self._source.mask(cohort))
        column = self._polars.col
        wanted = column("age") >= cohort.age
        if cohort.sex is not None:
            wanted &= column("sex") == cohort.sex
        if cohort.division is not None:
            wanted &= column("division") == cohort.division
        return self._frame.lazy().select(self._polars.arg_where(wanted)).collect()

    def _encrypt_twice(self, sample: bytes) -> None:
        # Once to encrypt; decrypting is the same work.
        for _ in range(2):
            for start in range(0, len(sample), _FRAME_BYTES):
                self._key.encrypt(bytes(12), sample[start : start + _FRAME_BYTES], None)

    def _send(self, sample: bytes) -> None:
        self._socket.sendall(len(sample).to_bytes(_SIZE_BYTES, "big"))
        self._socket.sendall(sample)
        assert self._socket.recv(1) == _DONE

    def _remember(self, bitmap: bytes) -> None:
        os.pwrite(self._file, bitmap, 0)
        os.fsync(self._file)


def _timed(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


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
