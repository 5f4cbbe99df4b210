"""Evidence opened on site: criteria by the health agency, the noise of every answer with the oversight key.

Opened criteria are what their ticket commits to, and what the log says was accepted; what they select is not looked at. Checks of an
opening:

1. the file is the sealed opening of a charged ticket, 2. its slot secret is the one that the log committed to before the ticket
was made, 3. its load is that of the charge, 4. the answer that follows from it and from the charge's commitment to the sample is the
one on the receipt.
This module does not check the counts: that takes the samples and the registry (`on_site`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker_common.audit.export.documents import CRITERIA, MAX_DOCUMENT_BYTES, parse_criteria_file
from broker_common.audit.export.reading import Part, UnreadableError
from broker_common.audit.findings import Findings
from broker_common.audit.logs.census_log import CensusLog
from broker_common.crypto.commitments import SALT_BYTES, commit_criteria
from broker_common.crypto.sealing import UnsealingKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.opening import OPENING_SUFFIX, SEALED_OPENING_BYTES, Opening, unseal_opening
from broker_common.query.question import read_question
from broker_common.tlog.census_state import ChargedTicket
from broker_common.tlog.health_state import HealthState
from broker_common.values import ExactCounts, parse_base64


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


@dataclass(frozen=True, slots=True)
class OpenedOnSite:
    """The openings that a census agency keeps, and the key that reads them."""

    part: Part
    key: UnsealingKey

    def states(self, ticket: str, exact: ExactCounts) -> bool | None:
        """Whether the opening of a ticket states these counts; None if there is none that can be opened."""
        try:
            sealed = self.part.read(ticket + OPENING_SUFFIX, SEALED_OPENING_BYTES)
            return unseal_opening(sealed, ticket, self.key).states(exact)
        except (UnreadableError, InvalidRequestError):
            # Said where all openings are read.
            return None


def check_openings(opened: OpenedOnSite, census: CensusLog, answers: Mapping[str, str], findings: Findings) -> int:
    """Check every file; gives of how many answers the noise is proved. `answers` has the answer hash of every receipt."""
    proved = 0
    for name, _ in opened.part.names():
        ticket = name.removesuffix(OPENING_SUFFIX)
        charged = census.audit.state.tickets.get(ticket) if ticket != name else None
        if charged is None:
            # Newer than the export, or no opening at all: either way it proves nothing of any charge here.
            findings.wait("OPENING", "census")
            continue
        opening = _read(opened, name, ticket, charged, findings)
        if opening is not None and _holds(opening, census, charged, findings):
            proved += _verify_answer(opening, answers.get(ticket), charged, findings)
    return proved


def _read(opened: OpenedOnSite, name: str, ticket: str, charged: ChargedTicket, findings: Findings) -> Opening | None:
    # 1
    try:
        return unseal_opening(opened.part.read(name, SEALED_OPENING_BYTES), ticket, opened.key)
    except UnreadableError as error:
        findings.problem(error.code, "census", charged.index, name)
    except InvalidRequestError as error:
        findings.problem("OPENING_UNREADABLE", "census", charged.index, error.text)
    return None


def _holds(opening: Opening, census: CensusLog, charged: ChargedTicket, findings: Findings) -> bool:
    charge = charged.charge
    committed = census.slot(charge.slot)
    figures: list[tuple[str, object, object]] = [
        ("slot", opening.slot, charge.slot),
        # 2
        ("slot secret", opening.slot_commitment, "" if committed is None else committed[1]),
        # 3
        ("load", opening.load, charge.load),
        ("cells", len(opening.counts), len(read_question(charge.question).cells)),
    ]
    differing = [what for what, said, done in figures if said != done]
    if differing:
        findings.problem("OPENING_DIFFERS", "census", charged.index, ", ".join(differing))
    return not differing


def _verify_answer(opening: Opening, answer_hash: str | None, charged: ChargedTicket, findings: Findings) -> bool:
    # 4
    if answer_hash is None:
        return False
    if opening.answer_hash(charged.charge.scale, charged.charge.submitted) != answer_hash:
        findings.problem("NOISE_WRONG", "census", charged.index, f"query {charged.charge.query}")
        return False
    return True
