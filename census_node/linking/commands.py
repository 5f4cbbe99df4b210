"""`tripartite census link`."""

from __future__ import annotations

from pathlib import Path

import click

from broker_common.cli import Progress, emit
from broker_common.commands.options import json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary
from broker_common.storage.home import usual_home
from census_node.linking import texts
from census_node.linking.settings import MODES, SETTINGS_FILE, Mode, read_settings

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
# This tool needs these libraries; a node does not.
_LIBRARIES = frozenset({"splink", "pyarrow"})


def _there(file: Path) -> Path | None:
    """A file of the home, if it is there."""
    return file if file.is_file() else None


@click.command()
@click.option("--home", type=_FOLDER, help=texts.LINK_HOME_HELP)
@json_option
@click.option("--mode", type=click.Choice(MODES), help=texts.MODE_HELP)
@click.option("--settings", "settings_file", type=_FILE, help=texts.SETTINGS_HELP)
@click.option("--decisions", type=_FILE, help=texts.DECISIONS_HELP)
@click.option("--to", type=_FOLDER, help=texts.TO_HELP)
@click.argument("census", type=_FILE)
@click.argument("register", type=_FILE)
def link(
    home: Path | None,
    as_json: bool,
    mode: Mode | None,
    settings_file: Path | None,
    decisions: Path | None,
    to: Path | None,
    census: Path,
    register: Path,
) -> None:
    """Make the card-to-person table from the census file and a register with cards, offline.

    CENSUS has person_id, household_id, given_name, surname, birth_date, sex, postal_code and the language variables; REGISTER has
    health_card, the same five, and client_id if it knows which cards are one client's. Both are CSV or Parquet. It writes people.csv for
    'tripartite census load', review.csv for clerks, and a report for the linkage staff. See docs/linkage.md.
    """
    home = home or usual_home("census")
    folder = to or home
    if folder is None:
        raise click.UsageError(phrase(texts.NOWHERE), click.get_current_context())
    published = None if home is None else _there(home / FILE_NAME)
    settings = read_settings(
        settings_file or (None if home is None else _there(home / SETTINGS_FILE)),
        mode,
        None if published is None else read_dictionary(published),
    )
    try:
        # Imported here: the linkage libraries are an extra that no other command needs.
        from census_node.linking.linking import PEOPLE_FILE, REPORT_FILE, REVIEW_FILE, Linking  # noqa: PLC0415
        from census_node.linking.report import report_text  # noqa: PLC0415
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _LIBRARIES:
            raise
        raise InvalidRequestError("LINKING_NOT_INSTALLED", package=package) from error
    report = Linking(census, register, folder, settings, decisions).run(Progress(texts.LINKING))
    files = {
        "people": str(folder / PEOPLE_FILE),
        "review": str(folder / REVIEW_FILE),
        "report": str(folder / f"{REPORT_FILE}.txt"),
    }
    shown = said(
        texts.DONE,
        text=report_text(report, language_of_environment()),
        **files,
    )
    emit(as_json, report | {"files": files}, shown)
