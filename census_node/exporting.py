"""The census agency's export to an auditor: its log, and the dictionaries that it names."""

from __future__ import annotations

from pathlib import Path

from broker_common.audit.export.writing import ExportFolder, ExportReport, export_log
from broker_common.audit.findings import Report
from census_node.assembly import CensusHome


def export(home: Path, folder: ExportFolder, report: Report) -> ExportReport:
    """Export the log of a census home."""
    opened = CensusHome(home)
    with opened.journal() as journal:
        return export_log(journal, opened.dictionaries, folder, report)
