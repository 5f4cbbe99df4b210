"""`tripartite upgrade`: carry an agency's home of an earlier version over, every charge included."""

from __future__ import annotations

from pathlib import Path

import click

from broker_common.cli import emit
from broker_common.commands import texts
from broker_common.commands.dictionary import agency_at
from broker_common.commands.options import home_option, json_option
from broker_common.language import said


@click.command()
@home_option
@json_option
@click.option(
    "--dictionary", "file", type=click.Path(path_type=Path, dir_okay=False), help=texts.UPGRADE_DICTIONARY_HELP
)
def upgrade(home: Path, as_json: bool, file: Path | None) -> None:
    """Carry an agency's home over that an earlier version of this program has made.

    Stop its node and make a copy of the folder first. The log goes on, and every charge in it: the dictionary that the data in force was
    loaded under is adopted, and put into the home as its dictionary.toml. The other agency and the researchers can be carried over before
    or after; questions are answered again when both agencies are.
    """
    # Imported here: nobody waits for it who asks for help.
    from broker_common.storage.dictionary.file import FILE_NAME, copy_dictionary, read_dictionary  # noqa: PLC0415

    agency, path = agency_at(home), file or home / FILE_NAME
    adopted = agency.upgrade([read_dictionary(path)] if path.is_file() else [])
    if adopted is not None and file is not None:
        copy_dictionary(file, home)
    result = {
        "upgraded": adopted is not None,
        "format": agency.format,
        "dictionary": "" if adopted is None else adopted.dictionary,
    }
    emit(
        as_json, result, said(texts.UPGRADED if adopted is not None else texts.NOTHING_TO_UPGRADE, **result, home=home)
    )
