"""The Python client against real nodes: from a script, from inside a running event loop, and from the notebook of the documents."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment

from broker_common.errors import BrokerError, InvalidRequestError
from researcher_node import connect
from researcher_node.client.researcher import QuestionWarning, Researcher
from researcher_node.estimates.tables import (
    Counts,
    Group,
    difference,
    rate_ratio,
    ratio,
    share,
    standardised_rate,
    trend,
)

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
HALVES = {"under 65": "age < 65", "65 and over": "age >= 65"}


@pytest.fixture
def researcher(served: Deployment) -> Iterator[Researcher]:
    """The researcher's home, opened."""
    with connect(served.home("researcher")) as opened:
        yield opened


def answers(served: Deployment) -> int:
    """How many answers were charged."""
    found = served.json("census", "status")["answers"]
    assert isinstance(found, int)
    return found


def test_an_answer_is_what_the_command_tells(researcher: Researcher, served: Deployment) -> None:
    """The same object as `answers --json`, with the figures of its one cell at hand."""
    answer = researcher.ask("age >= 71", FRENCH, scale=20, label="by client")
    (listed,) = served.json("researcher", "answers", answer.query_id)["answers"]
    assert {name: told for name, told in answer.told.items() if name != "warnings"}.items() <= listed.items()
    assert (answer.noisy_count, answer.margin_95) == (listed["noisy_count"], 60)
    assert (answer.where, answer.question, listed["label"]) == ("age >= 71", FRENCH, "by client")
    assert [(cell.label, cell.values) for cell in answer.cells] == [("French", ("French",))]
    assert "age >= 71" in repr(answer)
    assert "project official-languages" in answer._repr_html_()


def test_a_cell_that_is_run_again_charges_nothing(researcher: Researcher, served: Deployment) -> None:
    """The answer is read from the store, however the criteria are written; anew only if that is said."""
    first = researcher.ask("age >= 72", "all")
    charged = answers(served)
    assert researcher.ask("  age>=72 AND age >= 72", "all") == first
    with connect(served.home("researcher")) as another:
        assert another.ask("(age >= 72)", "all").query_id == first.query_id
    assert answers(served) == charged
    assert researcher.ask("age >= 72", "all", again=True).query_id != first.query_id
    assert researcher.ask("age >= 72", "all", fraction="0.5").query_id != first.query_id
    assert answers(served) == charged + 2


def test_a_warning_comes_before_anything_is_charged(researcher: Researcher, served: Deployment) -> None:
    """As the command warns; a filter that makes errors of warnings keeps the question from being asked."""
    charged = answers(served)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuestionWarning)
        with pytest.raises(QuestionWarning, match="Nobody can match"):
            researcher.ask("age < 10 and age > 20", "all")
    assert answers(served) == charged
    with pytest.warns(QuestionWarning, match="Nobody can match"):
        answer = researcher.ask("age < 10 and age > 20", "all")
    assert [warned["code"] for warned in answer.told["warnings"]] == ["MATCHES_NOBODY"]
    assert researcher.ask("age < 10 and age > 20", "all").warnings == (), "read from the home, charged no more"


def test_a_question_that_nobody_has_taken_is_submitted_again(researcher: Researcher, served: Deployment) -> None:
    """A ticket that was left behind, by a notebook that was killed, is charged once and answered."""
    served.leave("age >= 73", "all")
    charged = answers(served)
    assert researcher.ask("age >= 73", "all").noisy_count is not None
    assert answers(served) == charged


def test_a_table_asks_one_question_for_each_group(researcher: Researcher, served: Deployment) -> None:
    """Named groups in their order; running it again charges nothing, and a group that is new is asked alone."""
    charged = answers(served)
    table = researcher.table(by=HALVES, count=FRENCH)
    assert answers(served) == charged + 2
    assert table.groups == tuple(HALVES)
    assert [table[group].where for group in table] == ["age < 65", "age >= 65"]
    wider = researcher.table(by={**HALVES, "80 and over": "age >= 80"}, count=FRENCH)
    assert answers(served) == charged + 3
    assert wider["under 65"] == table["under 65"]
    lines = repr(table).splitlines()
    assert lines[0].split() == ["group", "French"]
    assert lines[1].startswith("under 65")
    assert table._repr_html_().count("<tr>") == 3


def test_a_columns_codes_are_groups(researcher: Researcher) -> None:
    """Every published code, within the criteria that all have in common."""
    column = next(each for each in researcher.dictionary().health.columns if 2 <= len(each.codes) <= 4)
    table = researcher.table(where="age >= 18", by=column.name, count="all")
    assert table.groups == column.values
    assert all("age >= 18" in answer.where for answer in table.answers.values())
    frame = table.to_pandas()
    assert list(frame[column.name]) == list(column.values)
    assert list(frame["noisy_count"]) == [answer.noisy_count for answer in table.answers.values()]
    assert frame["noisy_count"].dtype == "int64"
    assert set(frame["project"]) == {"official-languages"}


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"by": "aeg", "count": "all"}, "UNKNOWN_COLUMN", "age"),
        ({"by": "age", "count": "all"}, "INVALID_VALUE", "whole numbers"),
        ({"by": {}, "count": "all"}, "INVALID_VALUE", "0 groups"),
        ({"by": HALVES | {"wrong": "aeg > 1"}, "count": "all"}, "UNKNOWN_COLUMN", "age"),
        ({"by": HALVES, "count": "mother_tongue = 'Frnch'"}, "UNKNOWN_VALUE", "French"),
        ({"by": HALVES, "count": "all", "where": "age >="}, "CRITERIA_SYNTAX", "age"),
    ],
)
def test_a_mistake_is_told_before_anything_is_asked(
    researcher: Researcher, served: Deployment, wrong: dict[str, Any], code: str, said: str
) -> None:
    """As the command tells it; what to do about it stands in the traceback, too."""
    charged = answers(served)
    with pytest.raises(InvalidRequestError) as caught:
        researcher.table(**wrong)
    assert caught.value.code == code
    assert said in caught.value.text + caught.value.hint
    assert caught.value.__notes__ == [caught.value.hint]
    assert answers(served) == charged


def test_a_quote_and_the_dictionary_are_those_of_the_commands(researcher: Researcher, served: Deployment) -> None:
    """Neither charges anything."""
    told = served.json("researcher", "quote", "--count", FRENCH, "--margin", "90")
    quote = researcher.quote(FRENCH, margin=90)
    assert (quote.scale, quote.margin_95, quote.charged, quote.remaining) == (
        *(told["scale"], told["margin_95"], told["charged"], told["remaining"]),
    )
    published = researcher.dictionary()
    columns = served.json("researcher", "dictionary")
    meant = {code["value"]: code["label"] for code in columns["census"]["columns"][0]["codes"]}
    assert published.codes(columns["census"]["columns"][0]["name"]) == meant
    assert published.codes("age") == {}
    assert set(published.to_pandas()["side"]) == {"where", "count"}
    with pytest.raises(InvalidRequestError, match="UNKNOWN_COLUMN"):
        published.codes("mother_tong")


def test_answers_are_listed_and_filtered(researcher: Researcher, served: Deployment) -> None:
    """With the command's filters; what has no answer is among them."""
    asked = researcher.ask("age >= 74", "all", label="seventy-four")
    (only,) = researcher.answers(label="seventy-four")
    assert only.query == asked.query_id
    assert len(researcher.answers()) == len(served.json("researcher", "answers")["answers"])
    assert researcher.answers(label="seventy-four").to_pandas()["noisy_count"][0] == asked.noisy_count
    assert "seventy-four" in repr(researcher.answers(state="answered", last=1))


@pytest.mark.parametrize("label", ["two\nlines", "x" * 65])
def test_a_label_is_one_short_line(researcher: Researcher, served: Deployment, label: str) -> None:
    """It stands in tables; nothing is asked under another."""
    charged = answers(served)
    with pytest.raises(ValueError, match="one line"):
        researcher.ask("age >= 75", "all", label=label)
    assert answers(served) == charged


async def test_it_works_where_an_event_loop_runs_already(served: Deployment) -> None:
    """As in a notebook, whose cells run inside one."""
    assert asyncio.get_running_loop().is_running()
    with connect(served.home("researcher")) as researcher:
        assert researcher.ask("age >= 72", "all").cells


def client_threads() -> list[threading.Thread]:
    """The threads of connections that are open."""
    return [thread for thread in threading.enumerate() if thread.name == "researcher client"]


def test_it_closes_by_hand_at_the_end_of_a_block_and_when_it_is_forgotten(served: Deployment) -> None:
    """Its thread ends and its store is closed; what is asked of it afterwards says so."""
    before = len(client_threads())
    with connect(served.home("researcher")) as researcher:
        assert len(client_threads()) == before + 1
        assert "open" in repr(researcher)
    assert len(client_threads()) == before
    assert "closed" in repr(researcher)
    researcher.close()
    with pytest.raises(RuntimeError, match="closed"):
        researcher.quote()
    forgotten = connect(served.home("researcher"))
    assert len(client_threads()) == before + 1
    del forgotten
    gc.collect()
    assert len(client_threads()) == before


def test_a_script_that_never_closes_ends_by_itself(served: Deployment) -> None:
    """Without a word on standard error."""
    script = f"from researcher_node import connect; print(connect({str(served.home('researcher'))!r}).quote().scale)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "30\n", "")


def test_importing_the_package_is_light() -> None:
    """`connect` is there, and nothing that it needs is imported before it is called."""
    script = "import sys, researcher_node; print(researcher_node.connect.__name__, 'grpc' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["connect", "False", "False"]


def test_without_pandas_the_error_says_what_to_install(researcher: Researcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """All else goes on without it."""
    researcher.ask("age >= 61 and age < 90", FRENCH)
    listed = researcher.answers()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'tripartite[notebook]'")):
        listed.to_pandas()
    assert listed.rows()


def test_a_home_that_is_none_is_told_as_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named or not."""
    with pytest.raises(BrokerError, match="HOME_INVALID"):
        connect(tmp_path)
    monkeypatch.delenv("TRIPARTITE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokerError, match="HOME_INVALID"):
        connect()


def test_estimates_of_a_table_are_those_of_its_answers(researcher: Researcher) -> None:
    """Estimates by the labels of cells; each with both intervals, and in a row for each group."""
    table = researcher.table(by=HALVES, count=FRENCH, of="all", scale=10)
    shares = table.share("French")
    counts = {group: Counts(tuple(cell.noisy_count for cell in table[group].cells), 10) for group in table}
    assert {group: shares[group] for group in shares} == {group: share(Group(counts[group], (0,))) for group in table}
    young, old = (Group(counts[group], (0,)) for group in HALVES)
    assert table.difference("French", "under 65", "65 and over") == difference(young, old)
    assert table.ratio("French", "65 and over", "under 65") == ratio(old, young)
    assert table.standardised("French", {"under 65": 3, "65 and over": 1}) == standardised_rate([young, old], [3, 1])
    assert table.trend("French", {"under 65": 40, "65 and over": 75}) == trend([young, old], [40, 75])
    inside, outside = table["65 and over"], table["under 65"]
    assert inside.share("French", of=["French", "rest"]) == shares["65 and over"]
    assert inside.rate_ratio(outside, "French") == rate_ratio(counts["65 and over"], counts["under 65"], (0,))
    frame = shares.to_pandas()
    assert list(frame["value"]) == [shares[group].value for group in shares]
    assert repr(shares).count(" to ") + repr(shares).count("cannot be told") == 4


def test_what_cannot_be_compared_is_refused(researcher: Researcher) -> None:
    """An answer with itself, whose noise would not be independent; a label that no cell has; an answer of one cell as a share."""
    table = researcher.table(by={"one": "age >= 65", "the same": "(age >= 65)"}, count=FRENCH, of="all", scale=13)
    assert table["one"].query_id == table["the same"].query_id, "groups of one meaning are asked once"
    with pytest.raises(InvalidRequestError, match=table["one"].query_id):
        table.ratio("French", "one", "the same")
    with pytest.raises(InvalidRequestError, match="Klingon"):
        table["one"].share("Klingon")
    with pytest.raises(InvalidRequestError, match=table["one"].query_id):
        table["one"].rate_ratio(table["one"], "French")
    with pytest.raises(ValueError, match="2 cells"):
        _ = table["one"].noisy_count
