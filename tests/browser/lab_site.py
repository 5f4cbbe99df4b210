"""The pages of the policy lab, as their command serves them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_READY = re.compile(r"policy lab ready on (http://127\.0\.0\.1:(\d+))\n")


@dataclass(frozen=True)
class LabSite:
    """One process that serves the lab."""

    address: str
    port: int
    process: subprocess.Popen[str]


@contextmanager
def lab_site(port: int = 0) -> Iterator[LabSite]:
    """The lab's pages; 0: on any free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "broker_common", "lab", "serve", "--port", str(port), "--while-stdin-open"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = _READY.fullmatch(process.stdout.readline())
        assert found is not None
        yield LabSite(found[1], int(found[2]), process)
    finally:
        process.terminate()
        process.communicate()
