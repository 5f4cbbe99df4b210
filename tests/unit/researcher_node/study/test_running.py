"""A run against nodes that refuse, forget and lose: what is asked again, under which query id, and what never is."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.world import FRENCH, make_policy

from broker_common.errors import REASONS, BrokerError, InvalidRequestError, PeerUnavailableError
from broker_common.values import NoisyCounts
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Wanted
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.record import Record, Round
from researcher_node.study.running import Books, StudyRun

TEXT = f"where: age >= 18\nby:\n  age: [18, 40, 65]\ncount: {FRENCH}\n"
YOUNG = "age >= 18 and age <= 39"


class Nodes:
    """A session and a store of answers at once, whose nodes say what a script tells them; by default they answer."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.stored: dict[str, AskedQuestion] = {}
        # Outcome of each next submission of a question, by its condition: the code of an error.
        self.script: dict[str, list[str]] = {}
        self.prepared: list[tuple[str, str, int]] = []
        self.submitted: Counter[str] = Counter()
        # Queries that were charged although they were refused: the census node has their answers.
        self.held: set[str] = set()
        self.under_way = self.most_under_way = 0

    # --- the store

    def get(self, query: str) -> AskedQuestion:
        if query not in self.stored:
            raise InvalidRequestError("UNKNOWN_QUERY", query=query)
        return self.stored[query]

    # --- the session

    async def prepare(self, wanted: Wanted, *, query_id: bytes, quoted_again: int, **_: Any) -> AskedQuestion:
        query = query_id.hex()
        with self.record._db as db:
            ((known,),) = db.execute("select count(*) from attempts where query = ?", [query])
        assert known == 1, "prepared before its id was written down"
        assert query not in self.stored
        self.prepared.append((wanted.where, query, quoted_again))
        asked = AskedQuestion(query, 0, wanted.where, wanted.count, 30, 1_000_000, "", b"", b"", b"", b"")
        self.stored[query] = asked
        return asked

    async def ask(self, asked: AskedQuestion, **_: Any) -> AskedQuestion:
        if asked.state == "answered":
            return asked
        if asked.state == "expired":
            raise InvalidRequestError("ANSWER_EXPIRED", query=asked.query)
        self.submitted[asked.query] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        script = self.script.get(asked.where, [])
        if script:
            self._fail(asked.query, script.pop(0))
        return self._answer(asked.query)

    async def collect_now(self, query: str) -> AskedQuestion:
        if query not in self.held:
            raise PeerUnavailableError("ANSWER_PENDING", query=query)
        return self._answer(query)

    def _fail(self, query: str, code: str) -> None:
        error: BrokerError = REASONS[code].family(code, query=query, scale=30, retry_seconds=1)
        if error.ends_ticket:
            self.stored[query] = replace(self.stored[query], refused=code)
        raise error

    def _answer(self, query: str) -> AskedQuestion:
        self.stored[query] = replace(self.stored[query], noisy=NoisyCounts((1,)), charged=1, refused="")
        return self.stored[query]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Nodes, and a record in a fresh home."""
    record = Record(tmp_path)
    yield Nodes(record)
    record.close()


def made(text: str = TEXT) -> Study:
    """The study of a file: three questions."""
    return design(parse_study_file(text, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")


def run(nodes: Nodes, study: Study | None = None, round_: Round | None = None, *, open_quotes: int = 64) -> str:
    """Run a study; gives the code of its failure, or nothing."""
    study = made() if study is None else study
    round_ = round_ or nodes.record.latest(study.key) or nodes.record.begin(study.key, "", 30, 0)
    ids = (f"{number:032x}" for number in itertools.count(len(nodes.prepared) + 1))
    session: Any = nodes
    books = Books(nodes.record, session)
    study_run = StudyRun(
        study,
        round_,
        session,
        books,
        randomness=lambda _: bytes.fromhex(next(ids)),
        on_progress=lambda *_: None,
        on_busy=lambda _: None,
    )
    try:
        asyncio.run(study_run.finish(replace_quotes(open_quotes), 60))
    except BrokerError as error:
        return error.code
    return ""


def replace_quotes(open_quotes: int) -> Any:
    """A policy with so many open quotes."""
    policy = make_policy()
    return type(policy)(
        **{name: getattr(policy, name) for name in policy.__struct_fields__} | {"open_quotes": open_quotes}
    )


def test_every_question_is_asked_once(nodes: Nodes) -> None:
    """And a second run asks nothing."""
    assert run(nodes) == run(nodes) == ""
    assert sorted(nodes.submitted.values()) == [1, 1, 1]
    assert len(nodes.prepared) == 3


@pytest.mark.parametrize(
    "code", ["TICKET_EXPIRED", "POLICY_MISMATCH", "ROSTER_NOT_IN_FORCE", "RELEASE_MISMATCH", "SLOT_UNUSABLE"]
)
def test_refused_uncharged_gets_a_new_ticket(nodes: Nodes, code: str) -> None:
    """Once in a run, under a query id of its own; a lost quote is told to later readers of the question."""
    nodes.script[YOUNG] = [code]
    assert run(nodes) == ""
    ids = [query for where, query, _ in nodes.prepared if where == YOUNG]
    assert len(set(ids)) == 2
    assert [quoted for where, _, quoted in nodes.prepared if where == YOUNG] == [0, int(code == "SLOT_UNUSABLE")]


def test_the_noise_is_not_drawn_again_and_again(nodes: Nodes) -> None:
    """A census node that refuses every slot gets two tickets in a run, not three."""
    nodes.script[YOUNG] = ["SLOT_UNUSABLE"] * 9
    assert run(nodes) == "SLOT_UNUSABLE"
    assert [quoted for where, _, quoted in nodes.prepared if where == YOUNG] == [0, 1]
    assert run(nodes) == "SLOT_UNUSABLE"
    assert [quoted for where, _, quoted in nodes.prepared if where == YOUNG] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "code", ["ANSWER_PENDING", "PEER_UNAVAILABLE", "BUSY", "LINKAGE_MISMATCH", "PEER_MISBEHAVED", "CRITERIA_TOO_DEAR"]
)
def test_what_may_have_been_charged_keeps_its_ticket(nodes: Nodes, code: str) -> None:
    """The next run submits the same one."""
    nodes.script[YOUNG] = [code]
    assert run(nodes) == code
    assert run(nodes) == ""
    ids = {query for where, query, _ in nodes.prepared if where == YOUNG}
    assert len(ids) == 1
    assert nodes.submitted[ids.pop()] == 2


def test_refused_and_charged_after_all(nodes: Nodes) -> None:
    """An agency that was set back may refuse what was charged before: the census node is asked first, and nothing is prepared."""
    nodes.script[YOUNG] = ["TICKET_EXPIRED", "SERVICE_SHUT_DOWN"]
    assert run(nodes) == "SERVICE_SHUT_DOWN"
    prepared = len(nodes.prepared)
    nodes.held = {query for query, asked in nodes.stored.items() if asked.refused}
    assert run(nodes) == ""
    assert len([each for each in nodes.prepared[prepared:] if each[0] == YOUNG]) == 0


def test_an_answer_that_is_lost_is_not_asked_for_again(nodes: Nodes) -> None:
    """It was charged: only --again charges it once more."""
    assert run(nodes) == ""
    query = next(query for where, query, _ in nodes.prepared if where == YOUNG)
    nodes.stored[query] = replace(nodes.stored[query], noisy=None, expired=True)
    assert run(nodes) == "ANSWER_EXPIRED"
    assert len(nodes.prepared) == 3


def test_nothing_new_is_asked_after_a_failure(nodes: Nodes) -> None:
    """Questions in progress come to their end; the rest is left to the next run."""
    nodes.script[YOUNG] = ["BUDGET_EXHAUSTED"]
    assert run(nodes, open_quotes=1) == "BUDGET_EXHAUSTED"
    assert [where for where, _, _ in nodes.prepared] == [YOUNG]


@pytest.mark.parametrize("open_quotes", [1, 2])
def test_no_more_at_once_than_the_policy_gives_quotes(nodes: Nodes, open_quotes: int) -> None:
    """More would take the quotes of our own questions away."""
    assert run(nodes, open_quotes=open_quotes) == ""
    assert nodes.most_under_way == open_quotes


def test_equal_questions_of_another_study_lend_their_answers(nodes: Nodes) -> None:
    """Not in a round that asks again on purpose."""
    assert run(nodes) == ""
    other = made(TEXT.replace("[18, 40, 65]", "[18, 40]"))
    assert run(nodes, other) == ""
    assert [where for where, _, _ in nodes.prepared[3:]] == ["age >= 18 and age >= 40"]
    again = nodes.record.begin(other.key, "", 30, 0)
    assert run(nodes, other, again) == ""
    assert len(nodes.prepared) == 3 + 1 + 2


def test_what_was_refused_is_not_lent(nodes: Nodes) -> None:
    """Another study asks it under an id of its own."""
    nodes.script[YOUNG] = ["BUDGET_EXHAUSTED"]
    assert run(nodes) == "BUDGET_EXHAUSTED"
    other = made(TEXT.replace("[18, 40, 65]", "[18, 40]"))
    assert run(nodes, other) == ""
    ids = [query for where, query, _ in nodes.prepared if where == YOUNG]
    assert len(set(ids)) == 2
