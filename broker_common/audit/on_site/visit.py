"""On site: what an audit asks of somebody who can look into an agency's private stores, and what it takes back.

The check is given the log as it was handed in and verified, and holds the stores against that, never against what a home says
of itself. It writes nothing. No pseudonym, no count and no size of a sample gets into a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from broker_common.audit.findings import Findings, Report
from broker_common.tlog.entries import Entry
from broker_common.values import ExactCounts


@dataclass(frozen=True, slots=True)
class AuditedLog:
    """A census log that was handed in, as far as it holds."""

    # Every entry that was folded in, from the first on, each time anew.
    entries: Callable[[], Iterator[Entry]]
    # Whether an exact count is the one in the opening of a ticket; None where none was opened. Neither is told.
    is_opened_count: Callable[[str, ExactCounts], bool | None]
    # The auditor's clock.
    now_ms: int


@dataclass(frozen=True, slots=True)
class OnSite:
    """Result of checking the private stores."""

    # Charges to the people of a sample whose decision was made again, person by person, and those whose membership is erased.
    charges_checked: int
    charges_erased: int
    # Subjects that were ever charged, and the most that one of them was charged in all; None where the ledger could not be
    # followed to its end.
    people_charged: int | None
    worst_charged: int | None
    # Whether that was worked out from the first charge on and nothing in it is the agency's word: no problem, nothing erased, roster
    # and load of every charge there, every load's and every new key's step followed, every charge decided.
    is_proved: bool
    # Openings whose exact count was counted again.
    counts_checked: int


SiteCheck: TypeAlias = Callable[[AuditedLog, Findings, Callable[[str], Report]], OnSite]
"""A home's check, bound to the home."""
