"""Questions as a researcher's store gives them, made by hand."""

from __future__ import annotations

from typing import Any

from tripartite.v1 import ticket_pb2

from broker_common.values import NoisyCounts
from researcher_node.answers.store import AskedQuestion

NOW_MS = 1_774_949_400_000  # 2026-03-31T09:30:00Z
LATER_MS = NOW_MS + 600_000


def question(number: int = 1, *, expires_ms: int = LATER_MS, project: str = "study", **changes: Any) -> AskedQuestion:
    """A question asked just now; pending, until told otherwise."""
    ticket = ticket_pb2.Ticket(project_id=project, expires_ms=expires_ms).SerializeToString()
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "asked_ms": NOW_MS,
        "where": "age >= 65",
        "question": "mother_tongue = 'French'",
        "scale": 30,
        "fraction_millionths": 1_000_000,
        "policy_hash": "ab" * 32,
        "signed_quote": b"",
        "signed_ticket": ticket_pb2.SignedTicket(ticket=ticket).SerializeToString(),
        "criteria": b"",
        "criteria_nonce": b"",
    }
    return AskedQuestion(**fields | changes)


ANSWERED: dict[str, Any] = {
    "noisy": NoisyCounts((-12,)),
    "charged": 559241,
    "checkpoint": "note",
    "answered_ms": NOW_MS + 1000,
}
