"""The end of the demo: an auditor replays what has just happened, and then the same with one bit flipped.

The auditor works with the exports, the cards and the oversight key of the deployment that the demo has made, through the same
functions as `tripartite audit`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker_common.audit.audit import Audited, replay_parts
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.export.writing import ExportFolder
from broker_common.audit.home import AuditorHome
from broker_common.audit.report.verdict import report_json, report_text
from broker_common.cli import called
from broker_common.errors import InternalError
from broker_common.language import said
from census_node.exporting import export as export_census
from deploy import texts
from health_node.exporting import export as export_health
from researcher_node.exporting import export as export_receipts

# The census log last: what the others have seen of it has to be in it.
_EXPORTS = {"researcher": export_receipts, "health": export_health, "census": export_census}
_PRICE = b'"units":'

Say = Callable[[str], None]


def audit_deployment(deployment: Path, directory: Path, *, say: Say) -> dict[str, Any]:
    """Export, replay and tell; then flip one bit of one charge and tell again. Gives what `--json` prints of both."""
    exports, damaged = directory / "exports", directory / "exports-damaged"
    for role, export in _EXPORTS.items():
        export(deployment / role, ExportFolder(exports / role), _quietly)
    say(said(texts.DEMO_AUDIT))
    honest = _replay(deployment, exports)
    say(texts.indented(report_text(honest)))
    shutil.copytree(exports, damaged)
    bundle = _flip_a_bit_of_a_price(damaged / "census")
    say(said(texts.DEMO_FLIPPED, file=bundle.relative_to(damaged)))
    caught = _replay(deployment, damaged)
    say(texts.indented(report_text(caught).partition("\n")[0]))
    say(said(texts.DEMO_AUDIT_AGAIN, program=called(), exports=exports, deployment=deployment))
    return {"honest": report_json(honest), "one_bit_flipped": report_json(caught)}


def _replay(deployment: Path, exports: Path) -> Audited:
    home = AuditorHome(deployment / "auditor")
    opened = OpenedOnSite(FolderPart(deployment / "census" / "openings"), home.oversight_key())
    return replay_parts({role: FolderPart(exports / role) for role in _EXPORTS}, home, lambda _: _quietly, opened)


def _flip_a_bit_of_a_price(census: Path) -> Path:
    """One bit of what the last charge in the log cost; gives the file."""
    bundles = sorted(path for path in (census / "tile" / "entries").rglob("*") if path.is_file())
    for bundle in reversed(bundles):
        data = bytearray(bundle.read_bytes())
        place = data.rfind(_PRICE)
        if place >= 0:
            data[place + len(_PRICE)] ^= 1
            bundle.write_bytes(data)
            return bundle
    raise InternalError("INTEGRITY", problem="the demo has charged nothing")


def _quietly(done: int, total: int) -> None:
    del done, total
