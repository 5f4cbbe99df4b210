"""Numbers, dates and texts that nobody can mean: refused with a sentence that names them, and never with a traceback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, run, run_here
from fakes.nursery import PROGRAM

from broker_common.cli import program
from broker_common.commands.options import Whole

pytestmark = pytest.mark.process

HUGE = f"1{'0' * 30}"
ABSURD = (HUGE, f"-{HUGE}", "-1", "1e400", "nan", "NaN", "inf", "-inf", "9" * 5000, "", "\u0663\u0660", "\uff13\uff10")
ABSURD_TOO = ("1_000", "+7", "0x10", "\u00b2", "\u00bd", "\x1b[2J")
NOT_TEXT = "\udcff"


def commands(command: click.Command = program, path: tuple[str, ...] = ()) -> Iterator[tuple[list[str], click.Command]]:
    """Every command that does something, with the words that call it."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield list(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


def numbers() -> Iterator[tuple[list[str], str]]:
    """Every option of every command that takes a number, a duration or a list of numbers."""
    for words, command in commands():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                kind = option.type
                is_number = isinstance(kind, Whole | click.FloatRange) or kind.name in {"duration", "scales"}
                # A plain one would read digits of any script, and as many as there are.
                assert is_number or kind.name not in {"integer", "integer range", "float", "float range"}, option.opts
                if is_number:
                    yield words, option.opts[0]


NUMBERS = sorted(numbers())


def test_there_are_numbers_to_be_absurd_with() -> None:
    """The search below finds the options that everybody knows."""
    found = {f"{' '.join(words)} {option}" for words, option in NUMBERS}
    assert found >= {
        *("researcher ask --scale", "researcher ask --margin", "researcher ask --wait", "researcher quote --scale"),
        *("researcher answers --last", "census load --max-rejected", "census policy propose --scales"),
        *(
            "census policy propose --max-answers",
            "keys rotate --in",
            "init --seed",
            "attack --rounds",
            "demo --population",
        ),
    }


@pytest.mark.parametrize(
    ("words", "option"), NUMBERS, ids=lambda each: each if isinstance(each, str) else "-".join(each)
)
def test_absurd_number_is_a_usage_error_that_names_its_option(words: list[str], option: str) -> None:
    """Before anything is opened, asked or signed."""
    for value in (*ABSURD, *ABSURD_TOO):
        outcome = run_here(*words, f"{option}={value}", "--json")
        assert (outcome.code, outcome.error["code"]) == (2, "USAGE"), value
        assert f"'{option}'" in outcome.error["text"]
        assert len(outcome.error["text"]) < 300 or value == "9" * 5000
        assert outcome.stderr == ""


@pytest.mark.parametrize("option", ["--scale", "--margin"])
def test_scale_beyond_what_travels_is_refused(served: Deployment, option: str) -> None:
    """With a node that would answer: neither `ask` nor `quote` fails at the message that it cannot be put into."""
    home = served.home("researcher")
    for command in (("ask", "--where", "age >= 65", "--count", "all"), ("quote",)):
        for value in (HUGE, str(2**64), str(2**32), "1000000001"):
            outcome = run_here("researcher", *command, "--home", home, option, value, "--json")
            assert (outcome.code, outcome.error["code"]) == (2, "USAGE"), value


@pytest.mark.parametrize("command", [words for words, _ in commands()], ids="-".join)
def test_bytes_that_are_no_text_are_a_usage_error(command: list[str]) -> None:
    """This holds for every option: they could be neither stored, sent nor shown."""
    outcome = run_here(*command, "--home", f"x{NOT_TEXT}", "--json")
    assert (outcome.code, outcome.error) == (
        2,
        {"code": "USAGE", "text": "An argument is not text in UTF-8.", "hint": "Run 'tripartite --help'."},
    )


def test_bytes_that_are_no_text_are_refused_as_a_shell_gives_them(served: Deployment) -> None:
    """Found in criteria, a study's name or a query id, they were an unforeseen failure; a shell is needed for one of them."""
    home = str(served.home("researcher"))
    words = [str(PROGRAM).encode(), b"researcher", b"ask", b"--again", b"\xff", b"--home", home.encode()]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    told = [Outcome(ended.returncode, ended.stdout, ended.stderr)]
    others = (
        ("ask", "--where", f"procedure = '{NOT_TEXT}'", "--count", "all"),
        ("ask", "--where", "age >= 65", "--count", "all", "--project", NOT_TEXT),
        ("answers", NOT_TEXT),
    )
    told += [run("researcher", *each, "--home", home) for each in others]
    assert told == [Outcome(2, "", "Error: An argument is not text in UTF-8.\nRun 'tripartite --help'.\n")] * 4


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--fraction", (*ABSURD, *ABSURD_TOO, "0", "0.0000001", "1.0000001", "\u0660.\u0665", "1e-1", "0.2_5", " 1")),
        (
            "--project",
            (*(each for each in ABSURD if each not in {HUGE, "1e400", "nan", "inf"}), "a" * 100_000, "A", " "),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_absurd_text_of_a_question_is_refused_before_it_is_kept(
    served: Deployment, option: str, values: tuple[str, ...]
) -> None:
    """With the name of the option, without a quote, and without a question that stays pending."""
    before = served.json("researcher", "answers")
    for value in values:
        outcome = served_ask(served, "age >= 65", "all", f"{option}={value}")
        assert (outcome[0], outcome[1]) == (3, "INVALID_VALUE"), value
        assert outcome[2].startswith(option)
    assert served.json("researcher", "answers") == before


def served_ask(served: Deployment, where: str, count: str, *words: str) -> tuple[int, str, str]:
    """How `ask` fails: exit code, code and text."""
    home = served.home("researcher")
    outcome = run_here("researcher", "ask", "--home", home, f"--where={where}", f"--count={count}", *words, "--json")
    assert "Traceback" not in outcome.stderr
    return outcome.code, outcome.error["code"], outcome.error["text"]


@pytest.mark.parametrize(
    "number", [value for value in (*ABSURD, *ABSURD_TOO) if value != "-1"], ids=lambda each: ascii(each)[:20]
)
def test_absurd_number_in_criteria_or_question_is_refused(served: Deployment, number: str) -> None:
    """On either side of the question, as a number and as a code; nothing is charged."""
    before = served.json("census", "status")["worst_charged"]
    for where in (f"age >= {number}", f"age = '{number}'", f"procedure = '{number}'"):
        assert served_ask(served, where, FRENCH)[0] == 3
    for count in (number, f"mother_tongue = '{number}'"):
        assert served_ask(served, "age >= 65", count)[0] == 3
    assert served.json("census", "status")["worst_charged"] == before


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_absurd_date_is_refused(served: Deployment, option: str) -> None:
    """Days that there are not, other calendars' digits, and offsets beyond a day."""
    for value in (
        *(*ABSURD, *ABSURD_TOO, "0000-00-00", "2026-02-30", "2026-13-01", "99999-01-01", "2026-03-31T25:00"),
        *("2026-03-31T09:30:00+99:99", "\u0662\u0660\u0662\u0666-\u0660\u0663-\u0663\u0661", "2026-3-1", "today"),
    ):
        outcome = run_here("researcher", "answers", "--home", served.home("researcher"), f"{option}={value}", "--json")
        assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE"), value
        assert outcome.error["text"].startswith(option)


@pytest.mark.parametrize(
    "value", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "9999-12-31", "0001-01-01"]
)
def test_first_and_last_date_that_can_be_written_are_dates(served: Deployment, value: str) -> None:
    """They are beyond what a clock can show, and compare like others."""
    home = served.home("researcher")
    for option in ("--since", "--until"):
        assert isinstance(
            run_here("researcher", "answers", "--home", home, option, value, "--json").result["answers"], list
        )


@pytest.mark.parametrize("name", ["init", "propose"])
def test_absurd_limit_on_belief_is_refused(tmp_path: Path, served: Deployment, name: str) -> None:
    """A policy's limit is an exact decimal in plain digits; nothing is made or signed for another."""
    words = {
        "init": ("init", tmp_path / "new", "--population", "10"),
        "propose": ("census", "policy", "propose", "--home", served.home("census")),
    }[name]
    for value in (*ABSURD, *ABSURD_TOO, "0", "1", "0.5", "0.5e0", "0.\u0668", ".8", f"0.{'9' * 63}"):
        outcome = run_here(*words, f"--max-belief={value}", "--json")
        assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE"), value
    assert not list(tmp_path.glob("new/*"))
