"""The commands of an audit: `tripartite audit export` for every home, `verify` and `replay` for the auditor.

A role makes its export known through the entry points `tripartite.exports`; which role a home is, its config.toml says. The party that
looks on site brings a judge of their own: nothing that the home's node is made of decides there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, TypeAlias

import click

from broker_common.audit import texts
from broker_common.audit.audit import Audited, replay_parts, verify_parts
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.reading import FolderPart, Part
from broker_common.audit.export.writing import ExportFolder, ExportReport
from broker_common.audit.findings import Report
from broker_common.audit.home import AuditorHome
from broker_common.audit.on_site.visit import SiteCheck
from broker_common.audit.report.verdict import report_json, report_text, verdict
from broker_common.cli import Progress, emit
from broker_common.commands.options import home_option, home_option_of, json_option
from broker_common.errors import ExitCode, InvalidRequestError
from broker_common.language import LANGUAGES, language_of_environment, said
from broker_common.language import language as language_named
from broker_common.storage.clock import system_clock
from broker_common.storage.durable import replace_file
from broker_common.storage.home import stated_role

_EXPORTS: Final = "tripartite.exports"
_ROLES: Final = ("researcher", "health", "census")
# The name of the entry point that opens criteria as well.
_WITH_CRITERIA: Final = "{role}-with-criteria"
_Export: TypeAlias = Callable[[Path, ExportFolder, Report], ExportReport]


@click.group()
def audit() -> None:
    """Export what an auditor needs; verify and replay it offline."""


@audit.command()
@home_option
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), required=True, help=texts.TO_HELP)
@click.option("--criteria", is_flag=True, help=texts.CRITERIA_HELP)
@json_option
def export(home: Path, to: Path, criteria: bool, as_json: bool) -> None:
    """Export a home's part of an audit: an agency's log, or a researcher's receipts.

    Works while the node serves and while it does not. Exporting to the same folder again adds what is new. Export the census
    home last: what the others have seen of its log has to be in it.
    """
    role = stated_role(home)
    points = {point.name: point for point in entry_points(group=_EXPORTS)}
    point = points.get(_WITH_CRITERIA.format(role=role) if criteria else role)
    if role not in points:
        raise InvalidRequestError(
            "CONFIG_INVALID", file=str(home / "config.toml"), problem="its role is none that can be exported"
        )
    if point is None:
        raise InvalidRequestError(
            "INVALID_VALUE", name="--criteria", problem=texts.NO_CRITERIA, remedy=texts.NO_CRITERIA_REMEDY
        )
    make: _Export = point.load()
    exported = make(home, ExportFolder(to), Progress(texts.EXPORTING))
    result = {"role": role, "to": str(to), "size": exported.size, "written": exported.written}
    emit(as_json, result, said(texts.EXPORTED, **(result | {"role": said(role), "what": said(texts.WHAT[role])})))


@audit.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@home_option_of("auditor")
@json_option
def verify(directory: Path, home: Path, as_json: bool) -> int:
    """Verify files, hashes and signatures of what was handed in.

    DIRECTORY holds the exports of the parties, DIRECTORY/census, DIRECTORY/health and DIRECTORY/researcher; --home is the
    auditor's home.
    """
    return _audit(verify_parts, directory, home, as_json)


@audit.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@home_option_of("auditor")
@click.option("--openings", type=click.Path(path_type=Path, exists=True, file_okay=False), help=texts.OPENINGS_HELP)
@click.option("--on-site", type=click.Path(path_type=Path, exists=True, file_okay=False), help=texts.ON_SITE_HELP)
@json_option
def replay(directory: Path, home: Path, openings: Path | None, on_site: Path | None, as_json: bool) -> int:
    """Verify, replay both logs, and compare them and the receipts query by query.

    DIRECTORY holds the exports of the parties, DIRECTORY/census, DIRECTORY/health and DIRECTORY/researcher; --home is the
    auditor's home. Ends with exit code 1 if anything does not hold.
    """
    opened = None if openings is None else OpenedOnSite(FolderPart(openings), AuditorHome(home).oversight_key())
    site = None if on_site is None else (_site_check(on_site), system_clock())
    return _audit(partial(replay_parts, opened=opened, site=site), directory, home, as_json)


@audit.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@home_option_of("auditor")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), required=True, help=texts.REPORT_TO_HELP)
@click.option("--language", type=click.Choice(LANGUAGES), help=texts.LANGUAGE_HELP)
@click.option("--openings", type=click.Path(path_type=Path, exists=True, file_okay=False), help=texts.OPENINGS_HELP)
@json_option
def report(directory: Path, home: Path, to: Path, language: str | None, openings: Path | None, as_json: bool) -> int:
    """Replay, and write a report that a commissioner can read: one HTML file, in English or French.

    The verdict comes first, then what could not be checked, the leakage, a timeline, and who asked how much. Ends with exit
    code 1 if anything does not hold; the report is written all the same, and says what.
    """
    # Imported here: no other audit has to wait for the libraries of pages.
    from broker_common.audit.report.page import report_html  # noqa: PLC0415

    opened = None if openings is None else OpenedOnSite(FolderPart(openings), AuditorHome(home).oversight_key())
    audited, parts = _audited(partial(replay_parts, opened=opened), directory, home)
    tongue = language_of_environment() if language is None else language_named(language)
    page = report_html(audited, tongue, made_ms=system_clock(), parts=sorted(parts))
    replace_file(to, page.encode("utf-8"))
    result = {"verified": not audited.findings.count, "problems": audited.findings.count, "report": str(to)}
    emit(as_json, result, said(texts.REPORTED, verdict=verdict(audited), file=to))
    return ExitCode.AUDIT_FAILED if audited.findings.count else ExitCode.OK


def _site_check(home: Path) -> SiteCheck:
    # Imported here: no other audit has to wait for NumPy.
    from broker_common.audit.on_site.walk import check  # noqa: PLC0415

    if stated_role(home) != "census":
        raise InvalidRequestError("INVALID_VALUE", name=str(home), problem=texts.NO_SITE, remedy=texts.NO_SITE_REMEDY)
    return partial(check, home)


def _audit(
    run: Callable[[Mapping[str, Part], AuditorHome, Callable[[str], Report]], Audited],
    directory: Path,
    home: Path,
    as_json: bool,
) -> int:
    audited, _ = _audited(run, directory, home)
    emit(as_json, report_json(audited), report_text(audited))
    return ExitCode.AUDIT_FAILED if audited.findings.count else ExitCode.OK


def _audited(
    run: Callable[[Mapping[str, Part], AuditorHome, Callable[[str], Report]], Audited], directory: Path, home: Path
) -> tuple[Audited, Mapping[str, Part]]:
    opened = AuditorHome(home)
    found = sorted(directory.iterdir())
    parts: dict[str, Part] = {
        path.name: FolderPart(path) for path in found if path.name in _ROLES and path.is_dir() and not path.is_symlink()
    }
    if not parts.keys() & {"census", "health"}:
        raise InvalidRequestError(
            "INVALID_VALUE", name=str(directory), problem=texts.DIRECTORY_MISSING, remedy=texts.DIRECTORY_REMEDY
        )
    audited = run(parts, opened, Progress)
    for path in found:
        # The auditor's own home may lie beside the exports.
        if path.name not in parts and path.resolve() != home.resolve():
            audited.findings.problem("UNKNOWN_FILE", "", None, path.name)
    return audited, parts
