"""A researcher's export to an auditor: every quote and ticket, and every answer's receipt; never a count, a salt or criteria."""

from __future__ import annotations

from pathlib import Path

from broker_common.audit.export.documents import ReceiptFile
from broker_common.audit.export.writing import ExportFolder, ExportReport
from broker_common.audit.findings import Report
from researcher_node.assembly import ResearcherHome


def export(home: Path, folder: ExportFolder, report: Report) -> ExportReport:
    """Export the receipts of a researcher home."""
    answers = ResearcherHome(home).open_answers()
    try:
        kept = answers.receipts()
    finally:
        answers.close()
    for done, one in enumerate(kept):
        report(done, len(kept))
        shown = ReceiptFile.of(one.query, one.state, one.signed_quote, one.signed_ticket, one.signed_receipt)
        folder.put(shown.name, shown.to_bytes())
    folder.flush()
    report(1, 1)
    return ExportReport(len(kept), folder.written)
