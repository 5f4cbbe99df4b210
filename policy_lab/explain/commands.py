"""`lab explain`: prints figures for the settings that are asked for, and writes them into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_common.cli import emit
from broker_common.commands.options import json_option
from broker_common.language import language_of_environment, phrase, said

if TYPE_CHECKING:
    # Each command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from policy_lab.document.model import Document
    from policy_lab.figures.setting import Setting

_SET_HELP = "Move a setting, e.g. cap=90; may be given more than once. 'lab explain --list' shows all of them, and their bounds."
_OUT_HELP = "Also write page, JSON, plots (PNG) and tables (CSV) into this folder."


@click.command()
@click.argument("figure", required=False)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=_SET_HELP)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help=_OUT_HELP)
@click.option("--list", "listed", is_flag=True, help="List the figures and what may be moved in each.")
@json_option
def explain(figure: str | None, settings: tuple[str, ...], out: Path | None, listed: bool, as_json: bool) -> None:
    """Show what a policy buys and costs: tables and plots, each explained to a citizen and to a specialist.

    FIGURE is one of 'lab explain --list'; without it all are shown, and a setting is moved in every figure that has it. No
    data file is read. The pages of the policy lab show the same figures with sliders.
    """
    from policy_lab.document import stored
    from policy_lab.explain.report import Wish, make_report, parse_settings

    if listed:
        if settings or out is not None:
            raise click.UsageError(phrase("--list goes with neither --set nor --out."), click.get_current_context())
        _list(figure, as_json)
        return
    wish = Wish(figure, parse_settings(settings))
    document, values = make_report(wish)
    files = [] if out is None else [str(path) for path in stored.write(document, out, language_of_environment())]
    text = (
        _text(document)
        if out is None
        else said("Written to {folder}: {files} files.", folder=str(out), files=len(files))
    )
    emit(as_json, _as_json(document, values, files), text)


def _text(document: Document) -> str:
    from policy_lab.document import terminal

    return terminal.text(document, language_of_environment())


def _as_json(document: Document, values: Mapping[str, Mapping[str, str]], files: list[str]) -> dict[str, Any]:
    from policy_lab.document import as_json

    return {**as_json.value(document), "settings": values, "files": files}


def _list(figure: str | None, as_json: bool) -> None:
    from policy_lab.explain.report import asked

    figures = asked(figure)
    result = {
        "figures": [
            {"key": each.key, "title": each.title, "settings": [_setting(setting) for setting in each.settings]}
            for each in figures
        ]
    }
    parts = [f"{each.key}: {said(each.title)}\n{_table(each.settings)}" for each in figures]
    emit(as_json, result, "\n\n".join(parts))


def _setting(setting: Setting) -> dict[str, Any]:
    numbers = {
        "low": float(setting.low),
        "high": float(setting.high),
        "step": float(setting.step),
        "unit": setting.unit,
    }
    of_a_kind: dict[str, Any] = {"choices": dict(setting.choices)} if setting.choices else numbers
    default = setting.default if setting.choices else float(setting.default)
    return {"key": setting.key, "label": setting.label, "default": default, **of_a_kind}


def _table(settings: tuple[Setting, ...]) -> str:
    from broker_common.terminal import table

    heads = [said("setting"), said("usual"), said("values"), said("meaning")]
    return table(heads, [row for setting in settings for row in _rows(setting)])


def _rows(setting: Setting) -> list[list[str]]:
    choices = [["", "", key, said(label)] for key, label in setting.choices]
    return [[setting.key, str(setting.default), _values(setting), said(setting.label)], *choices]


def _values(setting: Setting) -> str:
    if setting.choices:
        return said("one of these:")
    text = said(
        "{low} to {high}, steps of {step}", low=str(setting.low), high=str(setting.high), step=str(setting.step)
    )
    return f"{text} {said(setting.unit)}" if setting.unit else text
