"""The pages of the policy lab, as their command serves them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fakes.dashboards import Process, pages_of

_READY = re.compile(r"policy lab ready on (http://127\.0\.0\.1:(\d+))\n")


@dataclass(frozen=True)
class LabSite:
    """One process that serves the lab."""

    address: str
    port: int
    process: Process


@contextmanager
def lab_site(port: int = 0) -> Iterator[LabSite]:
    """The lab's pages; 0: on any free port."""
    with pages_of(_READY, "lab", "serve", "--port", str(port)) as (found, process):
        yield LabSite(found[1], int(found[2]), process)
