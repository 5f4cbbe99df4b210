"""An answer says of whom it is, and a question that its researcher would regret is not asked without their word."""

from __future__ import annotations

import contextlib
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import nursery
from fakes.deployment import FRENCH, Deployment, Outcome, make, run_here
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS

from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin

pytestmark = pytest.mark.process

EVERYBODY = "age >= 0"
# At scale 2 noise beyond this has a probability below e**-100.
FAR = 200


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Deployment]:
    """A budget for each person, of ln 4: two answers at scale 2, and no third."""
    made = make(directory, accounting="per_person")
    with made.node("census"), made.node("health"):
        made.wait_until_still()
        yield made


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One for all tests that do not count what was asked before."""
    with serving(tmp_path_factory.mktemp("honest") / "d") as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Deployment]:
    """One of which nothing was asked yet."""
    with serving(tmp_path / "d") as made:
        yield made


def ask(deployment: Deployment, where: str, *words: str) -> Outcome:
    """`researcher ask` as a script calls it: no terminal."""
    home = deployment.home("researcher")
    return run_here("researcher", "ask", "--home", home, "--where", where, *words)


def warned(outcome: Outcome) -> list[str]:
    """The codes of the warnings that a program is given with its answer."""
    return [warning["code"] for warning in outcome.result["warnings"]]


def test_four_identical_questions_no_longer_end_in_zeros_that_look_like_counts(fresh: Deployment) -> None:
    """They answered 8874, 8850, 0, 0, each 'noise within 6': the third needs a word, and says that everybody may be missing."""
    question = ("--count", "all", "--scale", "2")
    counts = []
    for _ in range(2):
        answer = ask(fresh, EVERYBODY, *question, "--yes", "--json").result
        assert not answer["own_use"]["can_leave_out"]
        assert "MAY_LEAVE_OUT" not in [warning["code"] for warning in answer["warnings"]]
        counts.append(answer["noisy_count"])
    assert min(counts) > FAR

    before = fresh.charged_status()
    refused = ask(fresh, EVERYBODY, *question)
    assert (refused.code, refused.stdout) == (3, "")
    for words in ("[UNCONFIRMED]", "People whose budget is used up are left out of the count", "--yes"):
        assert words in refused.stderr
    assert fresh.charged_status() == before
    assert len(fresh.json("researcher", "answers")["answers"]) == 2

    third = ask(fresh, EVERYBODY, *question, "--yes")
    assert third.code == 0
    assert "Warning: With this question your own can have used 108.3 % of somebody's budget." in third.stderr
    assert "left out  perhaps everybody" in third.stdout

    fourth = ask(fresh, EVERYBODY, *question, "--json")
    assert warned(fourth) == ["ASKED_BEFORE", "DEAR", "MAY_LEAVE_OUT"]
    assert abs(fourth.result["noisy_count"]) < FAR, "everybody's budget is used up, so this is of nobody"
    assert fourth.result["own_use"] == {"units": 4 << 23, "share_of_budget": 1.4427, "can_leave_out": True}
    assert fourth.result["leaves_out_used_up"] is True
    listed = fresh.json("researcher", "answers")["answers"]
    assert [row["own_use"]["can_leave_out"] for row in listed] == [False, False, True, True]


def test_a_table_is_one_answer_with_its_sum(deployment: Deployment) -> None:
    """Cells in the order asked for, the rest last, at the price of one count; people read them one below the other."""
    before = deployment.json("census", "status")["answers"]
    words = ("--count", FRENCH, "--count", "mother_tongue in ('English', 'Other')", "--of", "all", "--scale", "20")
    table = ask(deployment, "age >= 2", *words, "--json").result
    assert deployment.json("census", "status")["answers"] == before + 1
    assert table["question"] == "mother_tongue by 'French', ('English', 'Other'), rest"
    assert [(cell["label"], cell["values"]) for cell in table["cells"]] == [
        ("French", ["French"]),
        ("English, Other", ["English", "Other"]),
        ("rest", None),
    ]
    assert {cell["margin_95"] for cell in table["cells"]} == {margin(20, 3)} == {table["sum"]["margin_95"]}
    assert table["sum"]["noisy_count"] == sum(cell["noisy_count"] for cell in table["cells"])
    assert table["charged"] == price(20)
    lines = deployment.run("researcher", "answers", table["query_id"]).stdout.splitlines()
    shown = [line.split(" ± ")[0].split()[-1] for line in lines[2:6]]
    assert shown == [str(each["noisy_count"]) for each in (*table["cells"], table["sum"])]


def test_a_margin_buys_the_largest_scale_for_so_many_cells(deployment: Deployment) -> None:
    """A table of four values needs a smaller scale than a count for the same margin."""
    quotes = [
        deployment.run("researcher", "quote", "--count", count, "--margin", "100", "--json").result
        for count in ("all", "mother_tongue = 'French'", "mother_tongue by 'French', rest", "mother_tongue")
    ]
    cells = [len(quote["cells"]) for quote in quotes]
    assert cells[:3] == [1, 1, 2]
    assert cells[3] > 2
    largest = [max(scale for scale in range(1, 51) if margin(scale, d) <= 100) for d in cells]
    assert [quote["scale"] for quote in quotes] == largest
    assert len(set(largest)) == 3


WARNINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "nobody": ("MATCHES_NOBODY", "age >= 70 and age < 60", ()),
    "everybody": ("MATCHES_EVERYBODY", "age >= 70 or not age >= 70", ()),
    "dear": ("DEAR", "age >= 71", ("--scale", "2")),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_stops_a_command_that_nobody_watches_and_is_told_to_a_program(
    deployment: Deployment, name: str
) -> None:
    """Without --yes nothing is charged; --json goes on and carries the warning; --yes says it and goes on."""
    code, where, words = WARNINGS[name]
    before = deployment.charged_status()
    stopped = ask(deployment, where, "--count", "all", *words)
    assert (stopped.code, "[UNCONFIRMED]" in stopped.stderr) == (3, True)
    tried = ask(deployment, where, "--count", "all", *words, "--dry-run", "--json")
    assert code in warned(tried)
    assert deployment.charged_status() == before
    assert code in warned(ask(deployment, where, "--count", "all", *words, "--json"))
    confirmed = ask(deployment, where, "--count", "all", *words, "--yes")
    assert (confirmed.code, "Warning: " in confirmed.stderr) == (0, True)


def test_a_question_that_is_refused_anyway_needs_no_word(deployment: Deployment) -> None:
    """The refusal is told, with its own exit code: a warning would hide it."""
    refused = ask(deployment, "age >= 70 and age < 60", "--count", "all", "--scale", "999999")
    assert (refused.code, "[SCALE_REFUSED]" in refused.stderr) == (4, True)


def test_a_dry_run_says_everything_and_asks_nothing(deployment: Deployment) -> None:
    """Price, margin, cells, own use and warnings; no question is stored, charged or sent."""
    before, listed = deployment.charged_status(), deployment.json("researcher", "answers")
    health = deployment.json("health", "status")["tickets"]
    words = ("--count", FRENCH, "--fraction", "0.5", "--scale", "25")
    told = ask(deployment, "age >= 80", *words, "--dry-run", "--json").result
    assert (told["where"], told["fraction"], told["question"]) == ("age >= 80", "0.5", FRENCH)
    assert (told["scale"], told["charged"], told["answers_per_budget"]) == (25, 671089, 34)
    assert told["cells"] == [{"label": "French", "values": ["French"], "margin_95": told["margin_95"]}]
    text = ask(deployment, "age >= 80", *words, "--dry-run")
    assert (text.code, text.stdout.splitlines()[0]) == (0, f"Nothing was asked or charged: {FRENCH}")
    assert "671089 units: 2.9 % of a budget, 34 such answers a person" in text.stdout
    assert deployment.charged_status() == before
    assert deployment.json("researcher", "answers") == listed
    assert deployment.json("health", "status")["tickets"] == health


def test_a_part_is_scaled_up_to_everybody_who_matches(deployment: Deployment) -> None:
    """The noisy count stays as it came."""
    asked = ask(deployment, "age >= 1", "--count", "all", "--fraction", "0.5", "--json").result
    (cell,) = asked["cells"]
    assert (cell["scaled_count"], cell["scaled_margin_95"]) == (2 * asked["noisy_count"], 2 * asked["margin_95"])
    shown = deployment.run("researcher", "answers", asked["query_id"])
    assert shown.stdout.startswith(f"Estimated count {cell['scaled_count']}: ")
    assert "within 180 either way" in shown.stdout


def at_terminal(deployment: Deployment, reply: str, *words: str) -> tuple[int, str]:
    """Run `researcher ask` at a terminal where somebody types `reply`; exit code, and what the terminal showed."""
    ours, theirs = pty.openpty()
    ask_words: list[str | Path] = [PROGRAM, "researcher", "ask", "--home", deployment.home("researcher"), *words]
    with Path(os.devnull).open("wb") as stdout:
        asking = nursery.start(ask_words, stdout.fileno(), theirs, stdin=theirs)
    try:
        os.close(theirs)
        os.write(ours, reply.encode())
        code = asking.wait(PATIENCE_SECONDS)
    finally:
        asking.kill()
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    return code, shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # Nobody writes to it any more.
        return b""


@pytest.mark.parametrize(("reply", "code"), [("n\n", 3), ("\n", 3), ("y\n", 0)])
def test_somebody_at_a_terminal_is_asked(deployment: Deployment, reply: str, code: int) -> None:
    """Also under --json; only a yes goes on."""
    before = deployment.json("census", "status")["answers"]
    words = ("--where", "age >= 72 and age < 60", "--count", "all", "--json")
    ended, shown = at_terminal(deployment, reply, *words)
    assert (ended, "Nobody can match these criteria" in shown, "Ask all the same?" in shown) == (code, True, True)
    assert deployment.json("census", "status")["answers"] == before + (code == 0)
