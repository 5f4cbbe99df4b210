"""`lab assessment`, and `lab checkpoint`, which checks what an assessment says of a log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker_common.cli import Progress, emit, say
from broker_common.commands.options import Whole, json_option
from broker_common.errors import InvalidRequestError
from broker_common.language import LANGUAGES, phrase, said
from broker_common.language import language as language_of
from policy_lab.assessment import cited, texts

if TYPE_CHECKING:
    # Each command imports what it needs when it runs (see PLC0415 in pyproject.toml): --help waits for none of it.
    from broker_common.privacy.policy import Policy
    from policy_lab.assessment.trials import Attacked
    from policy_lab.document.model import Document
    from policy_lab.document.pdf import Paper

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_BOTH = "both"
_PAPERS = ("us-letter", "a4")
# Where an option's name is not its parameter's.
_OPTIONS = {"attacks_file": "--attacks", "names": "--attack"}
_MOST_ROUNDS = 10_000
# Limit of an agency's text about its reasons.
_MOST_CHARACTERS = 20_000
# No log has more.
_MOST_ENTRIES = 1 << 40


@click.command()
@click.option("--out", type=_FOLDER, required=True, metavar="DIR", help=texts.OUT_HELP)
@click.option("--home", type=click.Path(path_type=Path, file_okay=False, exists=True), help=texts.HOME_HELP)
@click.option("--include", "include", type=_FOLDER, multiple=True, metavar="DIR", help=texts.INCLUDE_HELP)
@click.option("--reasons", type=_FILE, help=texts.REASONS_HELP)
@click.option(
    "--language", type=click.Choice((*LANGUAGES, _BOTH)), default=_BOTH, show_default=True, help=texts.LANGUAGE_HELP
)
@click.option("--attacks", "attacks_file", type=_FILE, help=texts.ATTACKS_HELP)
@click.option("--without-attacks", is_flag=True, help=texts.WITHOUT_HELP)
@click.option("--attack", "names", multiple=True, metavar="NAME", help=texts.ATTACK_HELP)
@click.option("--rounds", type=Whole(1, _MOST_ROUNDS), help=texts.ROUNDS_HELP)
@click.option("--paper", type=click.Choice(_PAPERS), default=_PAPERS[0], show_default=True, help=texts.PAPER_HELP)
@json_option
@click.pass_context
def assessment(
    context: click.Context,
    out: Path,
    home: Path | None,
    include: tuple[Path, ...],
    reasons: Path | None,
    language: str,
    attacks_file: Path | None,
    without_attacks: bool,
    names: tuple[str, ...],
    rounds: int | None,
    paper: Paper,
    as_json: bool,
) -> None:
    """Write an assessment to print and sign: what is promised to whom, under which policy, and what remains.

    Every sentence names the command that reproduces it. HTML and tagged PDF, in English and French. Unless --attacks or
    --without-attacks says otherwise, all attacks are made now, on test deployments of made-up people. See docs/lab/assessment.md.
    """
    from broker_common.storage.clock import system_clock
    from policy_lab.assessment.alternatives import read_included
    from policy_lab.assessment.assessment import make_assessment
    from policy_lab.assessment.facts import Facts, read_home, usual_policy
    from policy_lab.document import as_json as json_form
    from policy_lab.document import pdf
    from policy_lab.standing import make_private_folder

    if sum((attacks_file is not None, without_attacks, bool(names) or rounds is not None)) > 1:
        raise click.UsageError(phrase(texts.ONE_OF), context)
    # Mistakes are found before attacks take minutes.
    pdf.typesetter()
    make_private_folder(out)
    included = read_included(include)
    policy, log = (usual_policy(), None) if home is None else read_home(home)
    facts = Facts(policy, system_clock(), log, () if reasons is None else _paragraphs(reasons))
    attacked = None if without_attacks else _attacked(facts.policy, attacks_file, names, rounds)
    document = make_assessment(facts, included, attacked, _command(context.params))
    files = _write(document, out, language, paper)
    shown = said(texts.WRITTEN, folder=str(out), files="\n".join(f"  {file}" for file in files))
    emit(as_json, {**json_form.value(document), "files": [str(file) for file in files]}, shown)


def _paragraphs(file: Path) -> tuple[str, ...]:
    with file.open("rb") as content:
        # As many bytes as so many characters have at most.
        words = content.read(4 * _MOST_CHARACTERS).decode("utf-8", errors="replace")[:_MOST_CHARACTERS]
    found = tuple(" ".join(paragraph.split()) for paragraph in words.split("\n\n") if paragraph.strip())
    if not found:
        raise InvalidRequestError(
            "INVALID_VALUE", name=str(file), problem=phrase(texts.REASONS_EMPTY), remedy=phrase(texts.REASONS_REMEDY)
        )
    return found


def _attacked(policy: Policy, file: Path | None, names: Sequence[str], rounds: int | None) -> Attacked:
    """The attacks of a file, or made now on deployments with the same accounting."""
    from policy_lab.assessment.trials import make_attacks, read_attacks

    return (
        read_attacks(file, policy.accounting)
        if file is not None
        else make_attacks(names, policy.accounting, rounds, say)
    )


def _write(document: Document, out: Path, language: str, paper: Paper) -> list[Path]:
    """In one language, or each in a folder of its own."""
    from policy_lab.document import stored

    codes = LANGUAGES if language == _BOTH else (language,)
    return [
        file
        for code in codes
        for file in stored.write(
            document, out / code if language == _BOTH else out, language_of(code), with_pdf=True, paper=paper
        )
    ]


def _command(given: Mapping[str, Any]) -> str:
    """The command that makes the assessment again. It names no folder of this machine."""
    words = ["tripartite", "lab", "assessment", "--out", _handed_on(given["out"])]
    words += [] if given["home"] is None else ["--home", cited.HOME]
    for option in ("include", "reasons", "attacks_file", "names", "rounds"):
        value = given[option]
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [_OPTIONS.get(option, f"--{option}"), _handed_on(each)]
    words += ["--without-attacks"] if given["without_attacks"] else []
    words += ["--language", given["language"], "--paper", given["paper"]]
    return shlex.join(words)


def _handed_on(value: object) -> str:
    """A path that says where something is on this machine is left with its name."""
    if isinstance(value, Path) and (value.is_absolute() or ".." in value.parts):
        return value.name
    return str(value)


@click.command()
@click.argument("export", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--size", type=Whole(1, _MOST_ENTRIES), required=True, help=texts.SIZE_HELP)
@click.option("--signature", metavar="TEXT", help=texts.SIGNATURE_HELP)
@click.option("--key", metavar="TEXT", help=texts.KEY_HELP)
@json_option
@click.pass_context
def checkpoint(
    context: click.Context, export: Path, size: int, signature: str | None, key: str | None, as_json: bool
) -> None:
    """Check that a log still begins with what an assessment names, and say how it stood then.

    EXPORT is the census agency's log, as 'audit export' writes it. Compare the signature and key that the assessment prints with
    the first entries, however many have come since.
    """
    from policy_lab.assessment.past import read_past, verify_signed

    if (signature is None) != (key is None):
        raise click.UsageError(phrase(texts.WITH_KEY), context)
    past = read_past(export, size, Progress(texts.CHECKING))
    if signature is not None and key is not None:
        verify_signed(past, signature, key)
    found = {
        "origin": past.checkpoint.origin,
        "size": size,
        "root": past.root,
        "answers": past.answers,
        "state": past.state,
        "entries": past.entries,
        "signed": key is not None,
    }
    words = texts.PAST_UNSIGNED if key is None else texts.PAST_SIGNED
    emit(as_json, found, "\n".join((said(texts.PAST, **found | {"state": said(past.state)}), said(words))))
