"""How fast an audit is, and how much memory it takes: `make bench-audit`, or `python -m benchmarks.audit_speed [QUERIES]`.

A whole history of many questions is made with real keys and written as its parties would export it: slots, charges, a
cosignature for every answer, releases, deliveries, receipts. Then `audit replay` (which verifies as well) runs on it, in a
process of its own, and beside it the floor below which no verifier can be: hashing the same bytes once, and as many
Ed25519 checks. Printed is the ratio, and how much more memory the long log takes than one of a tenth of its length.
Nothing is asserted: the figures depend on the machine, the ratio hardly.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes import logs
from fakes.history import History, SignedLog, auditor

from broker_common.audit.audit import replay_parts
from broker_common.audit.export.documents import ReceiptFile
from broker_common.audit.export.reading import FolderPart, Part
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.home import AuditorHome
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.tlog.tiles import CHECKPOINT_PATH, TILE_WIDTH, encode_entry_bundle, entries_path, hash_tiles

_QUERIES = 100_000
# The price of an answer is 17 units, so that the usual cap admits more than a million.
_SCALE = 1_000_000
# Between two lines about how far the generator is.
_REPORT_EVERY = 10_000


class _Entries(list[bytes]):
    """Entries of a log whose full bundles are on disk; what is asked for again is what was written last."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._count = 0
        self._first = 0

    def __len__(self) -> int:
        return self._count

    def append(self, data: bytes) -> None:
        super().append(data)
        self._count += 1
        if self._count % TILE_WIDTH == 0:
            # One bundle back stays.
            while self._count - self._first > 2 * TILE_WIDTH:
                self._forget()
            self._write(self._count // TILE_WIDTH - 1, self._recent(TILE_WIDTH))

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index - self._first)

    def finish(self) -> None:
        rest = self._count % TILE_WIDTH
        if rest:
            self._write(self._count // TILE_WIDTH, self._recent(rest))

    def _recent(self, count: int) -> list[bytes]:
        return [self[index] for index in range(self._count - count, self._count)]

    def _forget(self) -> None:
        super().pop(0)
        self._first += 1

    def _write(self, number: int, bundle: list[bytes]) -> None:
        path = self._folder / entries_path(number, len(bundle))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_entry_bundle(bundle))


def make_exports(directory: Path, queries: int, report: Callable[[int], None]) -> None:
    """A history of this many answered questions, streamed to disk."""
    history = History(rules=logs.policy(scales=(30, _SCALE)), slots_at_once=256)
    streams: list[tuple[SignedLog, _Entries, Path]] = []
    for role, log in (("census", history.census), ("health", history.health)):
        log.entries = entries = _Entries(directory / role)
        streams.append((log, entries, directory / role))
    receipts = directory / "researcher" / "receipts"
    receipts.mkdir(parents=True)
    history.begin()
    for done in range(queries):
        asked = history.answer(scale=_SCALE)
        file = ReceiptFile.of(asked.query, asked.state, asked.quote, asked.signed.SerializeToString(), asked.receipt)
        (receipts / f"{asked.query}.json").write_bytes(file.to_bytes())
        history.asked[-1] = None  # type: ignore[call-overload]  # counted, and not needed any more
        if done % _REPORT_EVERY == 0:
            report(done)
    history.cosign()
    for log, entries, folder in streams:
        entries.finish()
        leaves = (log.tree.subtree(0, index) for index in range(log.size))
        for name, content in hash_tiles(leaves):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (folder / CHECKPOINT_PATH).write_text(log.note())
    for role, note in history.cosigned.items():
        other = "health" if role == "census" else "census"
        (directory / role / COSIGNED).write_text(note)
        (directory / other / WITNESSED).write_text(note)


def _measure(directory: Path, home: Path) -> dict[str, float]:
    """One audit, in this process."""
    checks = 0
    verify = VerifyKey.verify_signature

    def counted(key: VerifyKey, message: bytes, signature: bytes, **purpose: Any) -> None:
        nonlocal checks
        checks += 1
        verify(key, message, signature, **purpose)

    VerifyKey.verify_signature = counted  # type: ignore[method-assign,assignment]
    parts: dict[str, Part] = {role: FolderPart(directory / role) for role in ("researcher", "health", "census")}
    started = time.perf_counter()
    audited = replay_parts(parts, AuditorHome(home), lambda _: lambda _done, _total: None)
    seconds = time.perf_counter() - started
    if audited.findings.count:
        raise SystemExit(f"not verified: {audited.findings.problems[0]}")
    return {
        "seconds": seconds,
        "checks": checks,
        "entries": sum(audited.entries.values()),
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _floor(directory: Path, checks: int) -> tuple[float, float, int]:
    """Seconds for hashing every byte of the export once, and for so many signature checks; and the bytes."""
    started, size = time.perf_counter(), 0
    for path in directory.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            size += len(content)
            hashlib.sha256(content).digest()
    hashing = time.perf_counter() - started
    key = SigningKey(Purpose.LOG, bytes(32))
    message = bytes(200)
    signature, public = key.sign(message), key.verify_key
    started = time.perf_counter()
    for _ in range(checks):
        public.verify_signature(message, signature)
    return hashing, time.perf_counter() - started, size


def _audited(directory: Path, queries: int) -> dict[str, float]:
    """Make an export, and audit it in a process of its own."""
    started = time.perf_counter()
    make_exports(directory, queries, lambda done: print(f"  made {done:,} of {queries:,}", file=sys.stderr))  # noqa: T201
    made = time.perf_counter() - started
    home = auditor(directory.parent / f"auditor-{queries}")
    words = [sys.executable, "-m", "benchmarks.audit_speed", "--measure", str(directory), "--home", str(home)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    hashing, checking, size = _floor(directory, int(measured["checks"]))
    return measured | {"made": made, "hashing": hashing, "checking": checking, "bytes": size}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="?", type=int, default=_QUERIES)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--home", type=Path)
    words = parser.parse_args()
    if words.measure is not None:
        print(json.dumps(_measure(words.measure, words.home)))  # noqa: T201
        return
    results = {}
    for queries in (words.queries // 10, words.queries):
        with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
            results[queries] = result = _audited(Path(folder) / "exports", queries)
        floor = result["hashing"] + result["checking"]
        print(  # noqa: T201
            f"{queries:>9,} queries  {result['entries']:>9,.0f} entries  {result['bytes'] / 1e6:8.1f} MB  "
            f"{result['checks']:>9,.0f} signature checks\n"
            f"          audit {result['seconds']:7.1f} s   floor {floor:7.1f} s "
            f"(hashing {result['hashing']:.1f}, signatures {result['checking']:.1f})   "
            f"ratio {result['seconds'] / floor:.2f}   peak {result['peak_kib'] / 1024:.0f} MiB"
        )
    short, long = results.values()
    growth = (long["peak_kib"] - short["peak_kib"]) / 1024
    print(f"ten times the log takes {growth:+.1f} MiB more memory at its peak")  # noqa: T201


if __name__ == "__main__":
    main()
