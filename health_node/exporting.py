"""The health agency's export to an auditor: its log and, on site only, the criteria that its tickets commit to."""

from __future__ import annotations

from pathlib import Path

from tripartite.v1 import condition_pb2

from broker_common.audit.export.documents import OpenedCriteria
from broker_common.audit.export.writing import ExportFolder, ExportReport, export_log
from broker_common.audit.findings import Report
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.dictionary import Dictionary
from broker_common.query.messages import parse_message
from broker_common.values import base64_text
from health_node.assembly import HealthHome
from health_node.query.questions import KeptQuestion, Questions


def export(home: Path, folder: ExportFolder, report: Report) -> ExportReport:
    """Export the log of a health home."""
    opened = HealthHome(home)
    with opened.journal() as journal:
        return export_log(journal, opened.dictionaries, folder, report)


def export_with_criteria(home: Path, folder: ExportFolder, report: Report) -> ExportReport:
    """Export the log, and beside it what opens the commitment of every ticket in it.

    SECURITY: criteria are the health agency's and the researcher's. They are opened on site, where the auditor is bound by
    the agency's rules, and never go to the census agency.
    """
    opened_home = HealthHome(home)
    with opened_home.journal() as journal:
        # Before the log, so that the log has every ticket that they belong to.
        with journal.reading() as state:
            kept = Questions(journal.db).all()
            dictionaries = {question.load: opened_home.dictionaries.of_load(state, question.load) for question in kept}
        exported = export_log(journal, opened_home.dictionaries, folder, report)
        for question in kept:
            opened = _opened(question, dictionaries[question.load])
            folder.put_secret(opened.name, opened.to_bytes())
        folder.flush()
    return ExportReport(exported.size, folder.written)


def _opened(question: KeptQuestion, dictionary: Dictionary) -> OpenedCriteria:
    condition = condition_from_wire(parse_message(condition_pb2.Condition, question.criteria), dictionary)
    return OpenedCriteria(
        ticket=question.ticket_hash,
        criteria=base64_text(canonical_bytes(condition)),
        nonce=base64_text(question.criteria_nonce),
    )
