"""The commands about dictionaries: `tripartite dictionary` for the files that an agency writes, and each node's own `dictionary`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_common.cli import emit, load_installed
from broker_common.commands import texts
from broker_common.commands.options import home_option, json_option, usual_home_of
from broker_common.errors import InvalidRequestError
from broker_common.language import language_of_environment, phrase, said
from broker_common.terminal import fitted

if TYPE_CHECKING:
    # A command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from broker_common.agency.home import AgencyHome
    from broker_common.query.dictionary import Column, Dictionary
    from broker_common.query.dictionary_changes import Change

# Who has a dictionary, and how a home of theirs is opened.
_AGENCIES = ("census", "health")
_HOMES = "tripartite.homes"
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


class _CodeList(click.ParamType[tuple[str, Path]]):
    """A column and its code list."""

    name = "COLUMN=FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        column, separator, file = str(value).partition("=")
        if not (column and separator and file):
            self.fail(phrase(texts.CODES_FORM, text=str(value)), param, ctx)
        return column, Path(file)


@click.group()
def dictionary() -> None:
    """The dictionary files of an agency: draft one, check it, compare two, adopt one."""


@dictionary.command()
@click.option("--home", "home", type=_FOLDER, help=texts.CHECK_HOME_HELP)
@json_option
@click.argument("file", required=False, type=_FILE)
@click.pass_context
def check(context: click.Context, home: Path | None, as_json: bool, file: Path | None) -> None:
    """Read a dictionary FILE and say what it publishes, or what is wrong in which line."""
    from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary

    if file is None:
        home = home or usual_home_of(context)
        path = home / FILE_NAME
    else:
        path = file
    found = read_dictionary(path)
    if home is not None:
        agency_at(home).verify_dictionary(found)
    emit(as_json, {"file": str(path), **_checked_json(found)}, "\n".join(_checked_lines(path, found)))


@dictionary.command()
@json_option
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
def diff(as_json: bool, old: Path, new: Path) -> None:
    """Say what the dictionary file NEW changes against OLD: for questions, and for data that is loaded."""
    from broker_common.query.dictionary_changes import changes
    from broker_common.storage.dictionary.file import read_dictionary

    found = changes(read_dictionary(old), read_dictionary(new))
    result = _changes_json(found)
    head = said(texts.NEEDS_LOAD, old=old, new=new) if result["needs_load"] else said(texts.NEEDS_NO_LOAD)
    emit(as_json, result, fitted("\n".join([head, *_change_lines(found)])) if found else said(texts.SAME_DICTIONARY))


@dictionary.command()
@home_option
@json_option
@click.argument("file", required=False, type=_FILE)
def adopt(home: Path, as_json: bool, file: Path | None) -> None:
    """Sign the dictionary in an agency's home, and load data under it from now on.

    FILE, with the code lists that it names, is first put into the home as its dictionary.toml. The present load stays in force, under
    its own dictionary, until the next load.
    """
    from broker_common.query.dictionary_changes import changes
    from broker_common.storage.dictionary.file import FILE_NAME, copy_dictionary, read_dictionary

    agency = agency_at(home)
    new = read_dictionary(file or home / FILE_NAME)
    before = agency.adopted_dictionary()
    adopted = agency.adopt_dictionary(new)
    if file is not None:
        # CRASH: the home's file is an older one; adopting the same again changes nothing but that.
        copy_dictionary(file, home)
    found = [] if before is None else changes(before, new)
    result = {"version": adopted.version, "hash": adopted.dictionary} | _changes_json(found) | {"first": before is None}
    lines = [said(texts.ADOPTED, version=adopted.version, hash=adopted.dictionary), *_change_lines(found)]
    if before is None or result["needs_load"]:
        lines.append(said(texts.LOAD_NOW, role=agency.home.role, home=home))
    emit(as_json, result, fitted("\n".join(lines)))


@dictionary.command()
@json_option
@click.option("--id", "ids", multiple=True, required=True, metavar="COLUMN", help=texts.ID_HELP)
@click.option("--codes", "code_lists", multiple=True, type=_CodeList(), help=texts.CODES_HELP)
@click.option("--to", "to", type=_FILE, help=texts.DRAFT_TO_HELP)
@click.argument("sources", nargs=-1, required=True, type=_FILE, metavar="SOURCE...")
def draft(
    as_json: bool,
    ids: tuple[str, ...],
    code_lists: tuple[tuple[str, Path], ...],
    to: Path | None,
    sources: tuple[Path, ...],
) -> None:
    """Propose a dictionary for the columns of a CSV or Parquet file, to go on with by hand.

    The first SOURCE has a row for each person, each other one is an event table of its name. Columns and their types are proposed by the
    shape of the values: whole numbers, dates, or codes. Codes are never taken from the data, nor are limits of numbers: a dictionary is public.
    """
    from broker_common.storage.dictionary.draft import draft_toml
    from broker_common.storage.durable import SHARED_FILE, replace_file

    people, *events = sources
    text = draft_toml(people, events, ids, dict(code_lists))
    if to is not None:
        replace_file(to, text.encode(), mode=SHARED_FILE)
    result = {"file": None if to is None else str(to), "dictionary": text}
    emit(as_json, result, text.rstrip("\n") if to is None else said(texts.DRAFTED, file=to))


def agency_at(path: Path) -> AgencyHome[Any]:
    """The agency's home at this path.

    Raises:
        InvalidRequestError: HOME_INVALID, it is another role's.
    """
    from broker_common.storage.home import stated_role

    role = stated_role(path)
    if role not in _AGENCIES:
        raise InvalidRequestError(
            "HOME_INVALID",
            home=str(path),
            role="agency's",
            problem=texts.NO_DICTIONARY,
            remedy=texts.NO_DICTIONARY_REMEDY,
        )
    (point,) = entry_points(group=_HOMES, name=role)
    home: AgencyHome[Any] = load_installed(point)(path)
    return home


def _changes_json(found: Sequence[Change]) -> dict[str, Any]:
    return {
        "needs_load": any(change.needs_load for change in found),
        "changes": [
            {
                "kind": change.kind,
                "place": change.place,
                "needs_load": change.needs_load,
                "text": str(change.sentence),
                "effect": str(change.effect),
            }
            for change in found
        ],
    }


def _change_lines(found: Sequence[Change]) -> Sequence[str]:
    return [said(texts.CHANGE, sentence=said(change.sentence), effect=said(change.effect)) for change in found]


def dictionary_command(published: Callable[[Path], Dictionary]) -> click.Command:
    """`dictionary` of a node: what `published` gives for its home."""

    @click.command("dictionary")
    @home_option
    @json_option
    @click.option("--search", "word", metavar="WORD", help=texts.SEARCH_HELP)
    @click.option("--under", "under", metavar="CODE", help=texts.UNDER_HELP)
    @click.argument("column", required=False)
    def command(home: Path, as_json: bool, word: str | None, under: str | None, column: str | None) -> None:
        """The published columns and codes: what questions may speak of.

        With COLUMN one of them, or an event table, with all its codes.
        """
        from broker_common.query.dictionary_pages import excerpt_json, excerpt_text, looked_up

        found = looked_up(published(home), column, word, under)
        text = excerpt_text(found, language_of_environment())
        emit(as_json, excerpt_json(found), fitted(text or said(texts.NOTHING_FOUND, word=word)))

    return command


def _checked_json(found: Dictionary) -> dict[str, Any]:
    from broker_common.query.dictionary_pages import levels

    def of(column: Column) -> dict[str, Any]:
        counted = {"codes": len(column.codes), "levels": levels(column)} if column.codes else {}
        return {"name": column.name, "type": column.type.name.lower(), **counted}

    return {
        "agency": found.agency,
        "version": found.version,
        "id_form": found.id_form,
        "linkage": found.linkage,
        "hash": found.hash.hex(),
        "columns": [of(column) for column in found.columns],
        "events": [{"name": table.name, "columns": [of(column) for column in table.columns]} for table in found.events],
        "without_french": _without_french(found),
    }


def _checked_lines(path: Path, found: Dictionary) -> Iterator[str]:
    yield said(
        texts.DICTIONARY_CHECKED,
        file=path,
        agency=found.agency or said(texts.NO_AGENCY),
        version=found.version,
        id_form=found.id_form,
        linkage=found.linkage,
        hash=found.hash.hex(),
    )
    yield from _column_lines("", found.columns)
    for table in found.events:
        yield said(texts.EVENTS, name=table.name)
        yield from _column_lines("  ", table.columns)
    missing = _without_french(found)
    if missing:
        yield said(texts.NO_FRENCH, n=missing)


def _column_lines(indent: str, columns: Sequence[Column]) -> Iterator[str]:
    from broker_common.query.dictionary_pages import kinds, levels

    width = max(len(column.name) for column in columns)
    for column in columns:
        parts = list(kinds(column, language_of_environment()))
        if column.codes:
            deep = levels(column)
            parts[0] = said(texts.CODE_LEVELS if deep > 1 else texts.CODE_COUNT, n=len(column.codes), levels=deep)
        yield indent + said(texts.COLUMN, name=column.name.ljust(width), kind=", ".join(parts))


def _without_french(found: Dictionary) -> int:
    """How many descriptions and labels there are in English alone."""
    columns = [*found.columns, *(column for table in found.events for column in table.columns)]
    french = [column.description_fr for column in columns] + [table.description_fr for table in found.events]
    french += [code.label_fr for column in columns for code in column.codes]
    return sum(not text for text in french)
