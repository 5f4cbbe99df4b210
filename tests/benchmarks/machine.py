"""The machine of the measurements, and resources used by a process so far, as Linux says it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from broker_common.storage.clock import system_clock

_LIBRARIES = (
    "numpy",
    "grpcio",
    "cryptography",
    "duckdb",
    "polars",
    "openmined-psi",
    "opendp",
    "matplotlib",
)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def machine() -> dict[str, str]:
    """The machine, the interpreter, the libraries, and the day."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "measured": datetime.fromtimestamp(system_clock() / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{memory:.0f} GiB",
        # Load averages of the last minute and of the last quarter of an hour.
        "load": " and ".join(f"{os.getloadavg()[which]:.1f}" for which in (0, 2)),
        "system": f"{platform.system()} {platform.release()}",
        **versions,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources used by a process: processor seconds, and bytes of memory."""

    cpu_seconds: float
    peak: int
    resident: int
    anonymous: int
    of_files: int

    def to_json(self) -> dict[str, float]:
        return {
            "cpu_seconds": self.cpu_seconds,
            "peak": self.peak,
            "resident": self.resident,
            "anonymous": self.anonymous,
            "of_files": self.of_files,
        }


def usage_of(pid: int) -> Usage:
    """Resources used by a process until now; OSError if there is none."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if line
    )
    # After the name in brackets, which may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()

    def size(name: str) -> int:
        return 1024 * int(status[name].split()[0])

    return Usage(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
        peak=size("VmHWM"),
        resident=size("VmRSS"),
        anonymous=size("RssAnon"),
        of_files=size("RssFile"),
    )
