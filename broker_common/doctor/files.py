"""The folder of a home: who may read it, and whether its disk keeps what it is told to keep."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from broker_common.doctor import texts
from broker_common.doctor.findings import Finding, ok, problem, warning
from broker_common.language import phrase
from broker_common.storage.home import CONFIG, KEYS

_OTHERS_READ, _OTHERS_WRITE = 0o077, 0o022
# Nobody but the owner may read these, in any folder of the home.
_PRIVATE = ("*.key", "source.toml", "people.csv", "people.parquet", "*.db", "*.db-wal")
_SHOWN_FILES = 5
# How often a write is flushed to the disk, to see how long that takes.
_FLUSHES = 7
_FLUSH_BYTES = 4096
# No disk is that quick, and no store that forgets nothing at a power cut: a flush that takes less was not one.
_LEAST_FLUSH_SECONDS = 20e-6
# Slower, a node that answers several times a second waits for its disk.
_SLOW_FLUSH_SECONDS = 0.1
_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_OVER_A_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})
_GIGABYTE = 10**9
# Bytes free, and the share of the disk.
_LEAST_FREE_BYTES, _LITTLE_FREE_BYTES = _GIGABYTE // 10, _GIGABYTE
_LITTLE_FREE_SHARE = 0.05


def file_findings(home: Path) -> Iterator[Finding]:
    """Permissions, owner, disk and space of a home."""
    yield from _permissions(home)
    yield from disk_findings(home)
    yield _space(home)


def _permissions(home: Path) -> Iterator[Finding]:
    open_to_others = [home] if _mode(home) & _OTHERS_READ else []
    open_to_others += [path for path in _private_files(home) if _mode(path) & _OTHERS_READ]
    if open_to_others:
        yield problem(
            "permissions",
            phrase(texts.OPEN_TO_OTHERS, files=_listed(home, open_to_others)),
            phrase(texts.OPEN_TO_OTHERS_REMEDY, home=home),
        )
    writable = [path for path in (home / CONFIG, home / KEYS) if path.exists() and _mode(path) & _OTHERS_WRITE]
    if writable:
        yield problem(
            "permissions",
            phrase(texts.WRITABLE, files=_listed(home, writable)),
            phrase(texts.OPEN_TO_OTHERS_REMEDY, home=home),
        )
    owners = {path.stat().st_uid for path in (home, *_private_files(home))}
    if len(owners) > 1:
        yield warning("permissions", texts.OWNERS, texts.OWNERS_REMEDY)
    if not open_to_others and not writable and len(owners) == 1:
        yield ok("permissions", texts.PRIVATE)


def _private_files(home: Path) -> list[Path]:
    found = {path for pattern in _PRIVATE for folder in (home, home / KEYS) for path in folder.glob(pattern)}
    return sorted(path for path in found if path.is_file())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _listed(home: Path, paths: list[Path]) -> str:
    names = [str(path.relative_to(home)) if path != home else str(home) for path in paths]
    more = ["..."] if len(names) > _SHOWN_FILES else []
    return ", ".join(names[:_SHOWN_FILES] + more)


def disk_findings(folder: Path) -> Iterator[Finding]:
    """Whether what is flushed to the disk of a folder stays there, as far as that can be told."""
    kind = file_system_of(folder)
    if kind in _IN_MEMORY:
        yield warning("disk", phrase(texts.IN_MEMORY, folder=folder, kind=kind), texts.IN_MEMORY_REMEDY)
        return
    if kind in _OVER_A_NETWORK:
        yield warning("disk", phrase(texts.OVER_A_NETWORK, folder=folder, kind=kind), texts.OVER_A_NETWORK_REMEDY)
    seconds = flush_seconds(folder)
    shown = f"{1000 * seconds:.3f}"
    if seconds < _LEAST_FLUSH_SECONDS:
        yield warning("disk", phrase(texts.NO_FLUSH, milliseconds=shown), texts.NO_FLUSH_REMEDY)
    elif seconds > _SLOW_FLUSH_SECONDS:
        yield warning("disk", phrase(texts.SLOW_FLUSH, milliseconds=shown), texts.SLOW_FLUSH_REMEDY)
    elif kind not in _OVER_A_NETWORK:
        yield ok("disk", phrase(texts.FLUSHES, milliseconds=shown, kind=kind or "?"))


def file_system_of(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The kind of file system that a folder is on; empty where the machine does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found: dict[str, str] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        # Later mounts hide earlier ones.
        found[before.split()[4].replace("\\040", " ")] = after.split()[0]
    resolved = folder.resolve()
    return next((found[str(path)] for path in (resolved, *resolved.parents) if str(path) in found), "")


def flush_seconds(folder: Path) -> float:
    """How long the disk takes to keep a few kilobytes; the file has no name left when this returns."""
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_FLUSHES):
            file.write(os.urandom(_FLUSH_BYTES))
            file.flush()
            before = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - before)
    return median(taken)


def _space(home: Path) -> Finding:
    disk = os.statvfs(home)
    free = disk.f_bavail * disk.f_frsize
    share = disk.f_bavail / max(disk.f_blocks, 1)
    shown = phrase(texts.FREE, gigabytes=f"{free / _GIGABYTE:.1f}", percent=round(100 * share))
    if free < _LEAST_FREE_BYTES:
        return problem("space", shown, texts.FREE_REMEDY)
    if free < _LITTLE_FREE_BYTES or share < _LITTLE_FREE_SHARE:
        return warning("space", shown, texts.FREE_REMEDY)
    return ok("space", shown)
