"""Criteria that the health agency has opened, on site: each is what its ticket commits to, and what the log says was accepted.

What they select is not looked at here.
"""

from __future__ import annotations

from broker_common.audit.documents import CRITERIA, MAX_DOCUMENT_BYTES, parse_criteria_file
from broker_common.audit.findings import Findings
from broker_common.audit.handed_in import Part, UnreadableError
from broker_common.crypto.base64_text import parse_base64
from broker_common.crypto.commitments import SALT_BYTES, commit_criteria
from broker_common.tlog.health_state import HealthState

__all__ = ["check_criteria", "is_criteria"]


def is_criteria(name: str) -> bool:
    """Whether a file stands where opened criteria do."""
    return name.startswith(f"{CRITERIA}/")


def check_criteria(part: Part, state: HealthState, findings: Findings) -> int:
    """Check every file; gives how many commitments hold."""
    held = 0
    for name, is_file in part.names():
        if not is_file or not is_criteria(name):
            continue
        try:
            opened = parse_criteria_file(part.read(name, MAX_DOCUMENT_BYTES))
        except UnreadableError as error:
            findings.problem(error.code, "health", None, name)
            continue
        except ValueError as error:
            findings.problem("DOCUMENT_MALFORMED", "health", None, f"{name}, {error}")
            continue
        accepted = state.tickets.get(opened.ticket)
        nonce = parse_base64(opened.nonce)
        if opened.name != name:
            findings.problem("UNKNOWN_FILE", "health", None, name)
        elif accepted is None:
            findings.problem("CRITERIA_UNASKED", "health", None, name)
        elif (
            len(nonce) != SALT_BYTES
            or commit_criteria(nonce, parse_base64(opened.criteria)).hex() != accepted.submission.criteria
        ):
            findings.problem("CRITERIA_DIFFER", "health", None, name)
        else:
            held += 1
    return held
