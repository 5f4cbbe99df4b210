"""A study with real nodes: killed and run again, changed, asked once more on purpose. The census log says what was charged."""

from __future__ import annotations

import csv
import io
import json
import random  # noqa: TID251 - a seeded script of kills, no secret
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fakes import nursery
from fakes.deployment import Deployment, Outcome, make, run_here, run_words, wait_until
from fakes.patience import PATIENCE_SECONDS

from researcher_node.study.record import Record

pytestmark = pytest.mark.process

CRASHING = Path(__file__).with_name("crashing_node.py")
SEED = 20_110_516
KILLS = 8
STEPS = [(step, when) for step in ("attempt", "question", "received") for when in ("before", "after")]
STUDY = """\
study: French by age and sex
where: age >= {age}
by:
  age: [{age}, 45, 60, 75]
  sex: all
count: mother_tongue = 'French'
of: all
estimate:
  - share: French
scale: {scale}
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Both agencies serve; a cap that leaves room for every test of the module."""
    made = make(tmp_path_factory.mktemp("studies") / "deployment", "--max-belief", "0.999999999999", population=500)
    with made.node("census"), made.node("health"):
        yield made


def words(deployment: Deployment, command: str, file: Path, *others: str | Path) -> list[str | Path]:
    """A command of `tripartite study`."""
    return ["study", command, file, "--home", deployment.home("researcher"), *others]


def study(deployment: Deployment, command: str, file: Path, *others: str | Path) -> Outcome:
    """The same, done."""
    return run_here(*words(deployment, command, file, *others))


def charges(deployment: Deployment) -> int:
    """How many answers the census log has charged."""
    return sum(event["type"] == "charged" for event in deployment.events("census"))


def written(folder: Path, scale: int, age: int = 30) -> Path:
    """A study of eight questions; each scale makes another one."""
    file = folder / f"study-{scale}-{age}.yaml"
    file.write_text(STUDY.format(scale=scale, age=age))
    return file


def killed_at_step(deployment: Deployment, file: Path, step: str, when: str) -> None:
    """A run that does not survive a durable step of its own, or comes to its end without taking it."""
    ended = run_words(*(sys.executable, CRASHING, step, when), *words(deployment, "run", file))
    assert ended.code in {-9, 0}, ended.stderr


def killed_after(deployment: Deployment, file: Path, lines: int, stderr_file: Path) -> None:
    """A run that is killed as soon as it has said so many lines of progress, wherever it is then."""
    with stderr_file.open("wb") as stderr:
        run = nursery.start([nursery.PROGRAM, *words(deployment, "run", file)], stderr.fileno(), stderr.fileno())
    try:
        wait_until(
            lambda: stderr_file.read_bytes().count(b"\n") >= lines or run.poll() is not None, "progress was said"
        )
        run.send_signal(signal.SIGKILL)
        assert run.wait(PATIENCE_SECONDS) in {-9, 0}
    finally:
        run.kill()


def test_killed_at_random_moments_nothing_is_charged_twice(deployment: Deployment, tmp_path: Path) -> None:
    """Before and after every durable step and in between, then run to its end: one charge for each question."""
    chance = random.Random(SEED)
    file = written(tmp_path, 20)
    before = charges(deployment)
    for number in range(KILLS):
        if number % 2:
            killed_after(deployment, file, chance.randint(1, 6), tmp_path / "stderr")
        else:
            killed_at_step(deployment, file, *chance.choice(STEPS))
    done = study(deployment, "run", file, "--json").result
    assert (done["answered"], done["missing"]) == (8, 0)
    deployment.wait_until_closed()
    assert charges(deployment) - before == 8
    tickets = [deployment.ticket_of(question["query_id"]) for question in done["questions"]]
    assert len(set(tickets)) == 8
    assert [deployment.tickets("census", "charged")[ticket] for ticket in tickets] == [1] * 8
    # And again: nothing is asked any more.
    assert study(deployment, "run", file, "--json").result["questions"] == done["questions"]
    assert charges(deployment) - before == 8
    deployment.verify_ledger()


@pytest.mark.parametrize(("step", "when"), STEPS)
def test_killed_at_each_durable_step(deployment: Deployment, tmp_path: Path, step: str, when: str) -> None:
    """The next run goes on from whatever is left; of four questions, as there is no other step in more of them."""
    scale = 21 + STEPS.index((step, when))
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.format(scale=scale, age=30).replace("  sex: all\n", ""))
    before = charges(deployment)
    ended = run_words(*(sys.executable, CRASHING, step, when), *words(deployment, "run", file))
    assert ended.code == -9, ended.stderr
    assert study(deployment, "run", file, "--json").result["answered"] == 4
    deployment.wait_until_closed()
    assert charges(deployment) - before == 4


def test_equal_questions_keep_their_answers(deployment: Deployment, tmp_path: Path) -> None:
    """A changed file asks what is new, and says what it did not ask again; a renamed one asks nothing."""
    first = study(deployment, "run", written(tmp_path, 30), "--json").result
    before = charges(deployment)
    changed = tmp_path / "changed.yaml"
    changed.write_text(
        STUDY.format(scale=30, age=30).replace("[30, 45, 60, 75]", "[30, 45, 60]").replace("study:", "study: New")
    )
    done = study(deployment, "run", changed, "--json").result
    assert [question["reused"] for question in done["questions"]] == [True] * 4 + [False] * 2
    assert charges(deployment) - before == 2
    answered = {question["where"]: question["query_id"] for question in first["questions"]}
    for question in done["questions"][:4]:
        assert answered[question["where"]] == question["query_id"]
    text = study(deployment, "run", changed)
    assert "4 of them were asked before" in text.stdout
    assert "  30-44, female\n" in text.stdout
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text(
        written(tmp_path, 30)
        .read_text()
        .replace("French by", "Another name by")
        .replace("share: French", "share: rest")
    )
    assert study(deployment, "run", renamed, "--json").result["questions"] == first["questions"]
    assert charges(deployment) - before == 2


def test_asked_again_on_purpose_alone(deployment: Deployment, tmp_path: Path) -> None:
    """--again makes a new round, which is charged, can be resumed, and is what is reported."""
    file = written(tmp_path, 31)
    first = study(deployment, "run", file, "--json").result
    before = charges(deployment)
    ended = run_words(*(sys.executable, CRASHING, "received", "after"), *words(deployment, "run", file, "--again"))
    assert ended.code == -9, ended.stderr
    # Unfinished: a further round would charge once more for questions that have no answer yet.
    assert study(deployment, "run", file, "--again", "--json").error["code"] == "STUDY_UNFINISHED"
    second = study(deployment, "run", file, "--json").result
    deployment.wait_until_closed()
    assert charges(deployment) - before == 8
    queries = [{question["query_id"] for question in each["questions"]} for each in (first, second)]
    assert not queries[0] & queries[1]
    report = json.loads(study(deployment, "report", file, "--format", "json").stdout)
    assert {question["query_id"] for question in report["questions"]} == queries[1]


def test_nothing_is_asked_for_a_plan_or_a_report(deployment: Deployment, tmp_path: Path) -> None:
    """Only what is published is read: no quote, no ticket, no charge. A report needs no node at all."""
    file = written(tmp_path, 32)
    before = charges(deployment)
    assert study(deployment, "report", file).code == 3
    plan = study(deployment, "plan", file, "--json").result
    # The accounting is strict: every answer is charged to everybody.
    assert (plan["answers"], plan["new_answers"], plan["most_charged"]["answers"]) == (8, 8, 8)
    assert study(deployment, "plan", file, "--offline", "--json").result == plan
    assert "Nothing has been asked" in study(deployment, "report", file).stderr
    assert charges(deployment) == before
    with closing(sqlite3.connect(deployment.home("researcher") / "studies.db")) as db:
        assert db.execute(
            "select count(*) from attempts where study in (select study from rounds where scale = 32)"
        ).fetchone() == (0,)


def test_report_holds_what_answers_hold(deployment: Deployment, tmp_path: Path) -> None:
    """Its counts are those that `researcher answers` lists under the same query ids, and so are charges."""
    file = written(tmp_path, 33)
    assert study(deployment, "run", file).code == 0
    rows = list(csv.DictReader(io.StringIO(study(deployment, "report", file, "--format", "csv").stdout)))
    assert [row["kind"] for row in rows] == ["count"] * 16 + ["share"] * 8
    asked = {row["query_id"]: row for row in deployment.json("researcher", "answers")["answers"]}
    for row in rows[:16]:
        cells = {cell["label"]: cell for cell in asked[row["queries"]]["cells"]}
        cell = cells[row["cell"]]
        assert float(row["value"]) == cell["noisy_count"]
        assert float(row["noise_high"]) == cell["noisy_count"] + cell["margin_95"]
    report = json.loads(study(deployment, "report", file, "--json").stdout)
    for question in report["questions"]:
        assert question["charged"] == asked[question["query_id"]]["charged"]
        assert question["where"] == asked[question["query_id"]]["where"]


def test_two_runs_at_once_do_not_ask_twice(deployment: Deployment, tmp_path: Path) -> None:
    """The second one is told to wait, also for another file: both could ask the same question."""
    home = deployment.home("researcher")
    with closing(Record(home)) as record, record.running() as is_ours:
        assert is_ours
        assert study(deployment, "run", written(tmp_path, 34), "--json").error["code"] == "STUDY_RUNNING"


def test_a_sample_of_the_page_is_rehearsed(tmp_path: Path) -> None:
    """With little noise, so that every count is known to be that of its own question."""
    sample = Path(__file__).parents[2] / "docs" / "studies" / "diabetes-by-age.yaml"
    file = tmp_path / "sample.yaml"
    file.write_text(sample.read_text().replace("scale: 20", "scale: 1"))
    found = run_here("study", "rehearse", file, "--population", "5000", "--json").result
    assert (found["answered"], found["missing"], len(found["counts"])) == (10, 0, 20)
    # A cell of two at scale 1 is off by more than 20 with a probability below 1e-7.
    assert all(abs(count["count"] - count["truth"]) <= 20 for count in found["counts"])
    assert sum(count["truth"] > 20 for count in found["counts"]) > 5
    # Each interval holds with 95 percent: that less than half of 19 do has a probability below 1e-6.
    assert found["noise_only_intervals"] >= 15
    assert found["noise_only_intervals_that_hold"] >= found["noise_only_intervals"] / 2


def test_a_study_of_other_columns_is_not_rehearsed(tmp_path: Path) -> None:
    """Made-up people have no columns and events of an agency's own, and the author of the study did not misspell them."""
    file = tmp_path / "own.yaml"
    file.write_text("where: any(hospitalisation where cause under 'I21')\ncount: all\n")
    error = run_here("study", "rehearse", file, "--population", "20", "--json").error
    assert error["code"] == "STUDY_INVALID"
    assert "There are no events 'hospitalisation'." in error["text"]
    assert error["hint"].startswith("A rehearsal is on made-up people")
