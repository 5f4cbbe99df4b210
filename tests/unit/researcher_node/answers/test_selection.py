"""Which questions are listed: filters that combine, days and instants in UTC, and an error for anything else."""

from __future__ import annotations

from typing import Any

import pytest
from tripartite.v1 import ticket_pb2

from broker_common.errors import InvalidRequestError
from broker_common.values import NoisyCounts
from researcher_node.answers.selection import STATES, Selection, parse_since, parse_until
from researcher_node.answers.store import AskedQuestion

DAY_MS = 86_400_000


def question(number: int, *, project: str = "one", asked_ms: int | None = None, **changes: Any) -> AskedQuestion:
    """A pending question, asked `number` days after 1970 began."""
    ticket = ticket_pb2.Ticket(project_id=project).SerializeToString()
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "asked_ms": number * DAY_MS if asked_ms is None else asked_ms,
        "where": "age >= 65",
        "question": "all",
        "scale": 30,
        "fraction_millionths": 1_000_000,
        "policy_hash": "",
        "signed_quote": b"",
        "signed_ticket": ticket_pb2.SignedTicket(ticket=ticket).SerializeToString(),
        "criteria": b"",
        "criteria_nonce": b"",
    }
    return AskedQuestion(**fields | changes)


QUESTIONS = [
    question(0),
    question(1, noisy=NoisyCounts((7,))),
    question(2, refused="BUDGET_EXHAUSTED", project="two"),
    question(3, expired=True),
    # Refused when it came again, and answered all the same.
    question(4, refused="TICKET_EXPIRED", noisy=NoisyCounts((-3,)), project="two"),
    question(5, refused="TICKET_EXPIRED", expired=True),
    question(6, project="two", label="pilot"),
]


def chosen(**wanted: Any) -> list[int]:
    """The numbers of the questions that a selection takes."""
    return [int(asked.query, 16) for asked in Selection(**wanted).choose(QUESTIONS)]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"states": ("answered",)}, [1, 4]),
        ({"label": "pilot"}, [6]),
        ({"label": "another"}, []),
        ({"states": ("pending",)}, [0, 6]),
        ({"states": ("refused",)}, [2]),
        ({"states": ("expired",)}, [3, 5]),
        ({"states": ("refused", "answered")}, [1, 2, 4]),
        ({"project": "two"}, [2, 4, 6]),
        ({"project": "three"}, []),
        ({"since_ms": 2 * DAY_MS}, [2, 3, 4, 5, 6]),
        ({"since_ms": 2 * DAY_MS + 1}, [3, 4, 5, 6]),
        ({"until_ms": 2 * DAY_MS}, [0, 1]),
        ({"until_ms": 2 * DAY_MS + 1}, [0, 1, 2]),
        ({"last": 2}, [5, 6]),
        ({"last": 99}, [0, 1, 2, 3, 4, 5, 6]),
        ({"states": ("answered", "expired"), "since_ms": DAY_MS, "until_ms": 5 * DAY_MS, "last": 2}, [3, 4]),
        ({"project": "two", "last": 1, "until_ms": 5 * DAY_MS}, [4]),
    ],
)
def test_filters_combine_and_keep_the_order(wanted: dict[str, Any], numbers: list[int]) -> None:
    """Oldest first; the newest so many are counted among those that the other filters leave."""
    assert chosen(**wanted) == numbers


def test_every_state_can_be_chosen() -> None:
    """The option takes every state of a question."""
    assert {asked.state for asked in QUESTIONS} == set(STATES)


@pytest.mark.parametrize(
    ("text", "since_ms", "until_ms"),
    [
        ("1970-01-01", 0, DAY_MS),
        ("1970-01-02", DAY_MS, 2 * DAY_MS),
        ("1970-01-01T00:00:01", 1000, 2000),
        ("1970-01-01 00:00:01", 1000, 2000),
        ("1970-01-01T00:01", 60_000, 61_000),
        ("1970-01-01T00:00:01Z", 1000, 2000),
        ("1970-01-01T00:00:01+00:00", 1000, 2000),
        ("1970-01-01T00:00:00-05:00", 18_000_000, 18_001_000),
        ("1970-01-01T06:00:00+05:30", 1_800_000, 1_801_000),
        ("1969-12-31", -DAY_MS, 0),
        ("9999-12-31", 253_402_214_400_000, 253_402_300_800_000),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000, -62_135_647_199_000),
    ],
)
def test_days_and_instants_are_read_as_utc(text: str, since_ms: int, until_ms: int) -> None:
    """A day from its beginning to its end, an instant to the end of its second, as lists show it."""
    assert (parse_since(text), parse_until(text)) == (since_ms, until_ms)


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2026", "2026-03", "20260331", "2026-W14-2", "31.3.2026", "2026-3-1", "2026-02-30"),
        *("2026-03-31T", "2026-03-31T9:30", "2026-03-31T25:00", "2026-03-31T09:30:61", "2026-03-31x09:30"),
        *("2026-03-31T09:30:00.5", "2026-03-31T09:30:00+5", "2026-03-31T09:30:00+99:00", "2026-03-31T09:30:00 EST"),
        *("٢٠٢٦-٠٣-٣١", " 2026-03-31", "2026-03-31\n", "1774915200"),
    ],
)
def test_anything_else_is_an_error_that_says_how_to_write_it(text: str) -> None:
    """Never another day than the one that was meant."""
    for parse, name in ((parse_since, "--since"), (parse_until, "--until")):
        with pytest.raises(InvalidRequestError) as caught:
            parse(text)
        assert (caught.value.code, caught.value.details["name"]) == ("INVALID_VALUE", name)
        assert "2026-03-31T09:30:00" in caught.value.hint
