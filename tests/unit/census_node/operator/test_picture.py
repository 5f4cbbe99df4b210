"""The public face: never less than what may have been learned, and no alarm where all is well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

import pytest
from fakes.logs import adopted, beginning, census_state, charged, loaded, policy, rostered, shut_down, slots
from msgspec.structs import replace as varied

from broker_common.dashboard.log_picture import Witnessed, time_problems
from broker_common.dashboard.now import Now, OwnCertificates
from broker_common.dashboard.parts import LOADS, POLICIES, happened, happening_rows
from broker_common.language import language
from broker_common.monitoring import Figures as NodeFigures
from broker_common.storage.follower import Followed, Head
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Entry, Event
from broker_common.tlog.history import History, Point, Use
from census_node.operator.picture import DAY_MS, Picture, answers_per_day, picture_of
from census_node.operator.public_face import CensusNow
from census_node.operator.staff_figures import Band, Figures, Milestone
from census_node.operator.staff_pages import _forecast, _roster_rows, _round_above, _spent, morning_rows
from census_node.registry.rosters import KeptRoster

Step: TypeAlias = Event | Callable[[CensusState], Event]
ENGLISH, FRENCH = language("en"), language("fr")
READY: tuple[Step, ...] = (*beginning(), adopted(), loaded(), rostered(), slots())
MINUTE_MS = 60_000


def told(*steps: Step) -> tuple[CensusState, History]:
    """State and history of a log with these entries."""
    state, history = census_state(), History()
    for step in steps:
        event = step(state) if callable(step) else step
        entry = Entry(sequence=state.size, time_ms=state.time_ms, policy=state.policy_hash, event=event)
        state.apply(entry)
        history.take(state, entry)
    return state, history


def shown(*steps: Step) -> Picture:
    """The picture of a log with these entries, which nobody has cosigned."""
    return picture_of(*told(*steps), Head("", ()))


def problems(picture: Picture, cosigned: int | None) -> Sequence[str]:
    """Problems a minute after the last entry."""
    witnessed = None if cosigned is None else Witnessed(cosigned, picture.log_ms, "health-on")
    found = time_problems(
        due_size=picture.due_size,
        due_ms=picture.due_ms,
        log_ms=picture.log_ms,
        witnessed=witnessed,
        certificates=[],
        now_ms=picture.log_ms + MINUTE_MS,
    )
    return [each.text for each in found]


def test_a_log_without_charges_waits_for_no_cosignature() -> None:
    """Before the first noise slots nothing of it is shown: no alarm on a node that was made a minute ago, or was shut down."""
    assert problems(shown(*READY[:-1]), None) == []
    assert problems(shown(*READY[:-1], shut_down), None) == []


def test_an_idle_log_is_not_late() -> None:
    """Entries after the newest charge are shown with the next question; the charge itself must have been cosigned."""
    picture = shown(*READY, charged(1), shut_down)
    assert picture.log_size == picture.due_size + 1
    assert problems(picture, picture.due_size) == []
    assert len(problems(picture, picture.due_size - 1)) == 1
    assert len(problems(picture, None)) == 1


@pytest.mark.parametrize(
    ("belief", "said"), [("0.75244", "75.3%"), ("0.8", "80.0%"), ("0.79961", "80.0%"), ("0.5", "50.0%")]
)
def test_a_belief_is_never_understated(belief: str, said: str) -> None:
    """'At most' is rounded up."""
    assert ENGLISH.at_most(Decimal(belief)) == said


@pytest.mark.parametrize(("share", "said"), [("0.8", "80%"), ("0.7995", "79.95%"), ("0.80", "80%"), ("0.501", "50.1%")])
def test_a_limit_is_shown_with_all_its_digits(share: str, said: str) -> None:
    """A limit of 79.95% is not shown as 80%."""
    assert ENGLISH.exact_percent(share) == said


def test_a_policy_s_row_says_what_changed() -> None:
    """Two policies with one limit are told apart; the first one changes nothing. A limit follows the language's numbers."""
    _, history = told(*beginning(), adopted(), adopted(policy(scales=(2, 30), open_quotes=3)))
    first, second = (happened(ENGLISH, each) for each in history.happenings if each.kind in POLICIES)
    assert "Changed" not in first
    assert second.endswith("Changed: noise scales, quotes")
    assert "80\u00a0%" in happened(FRENCH, history.happenings[-1])
    assert "0.8" not in happened(FRENCH, history.happenings[-1])


def test_a_reason_that_is_a_script_is_text() -> None:
    """A hash is set as one, and nothing else of a row is taken for markup."""
    _, history = told(*beginning(), adopted())
    happening = next(each for each in history.happenings if each.kind in POLICIES)
    evil = replace(happening, details={**happening.details, "accounting": "<b>x</b>"}, note="<script>")
    ((_, _, sentence, note),) = happening_rows(ENGLISH, [evil], POLICIES)
    assert "&lt;b&gt;x&lt;/b&gt;" in sentence
    assert f"<code>{happening.details['hash']}</code>" in sentence
    assert not hasattr(note, "__html__")


def months(answers: int, days: int) -> Picture:
    """A picture with so many answers, evenly over so many days before day 1000."""
    start = (1000 - days) * DAY_MS
    points = tuple(Point(start + number * days * DAY_MS // answers, number, number) for number in range(1, answers + 1))
    return replace(shown(*READY), answers=answers, answers_left=20, points=points)


NOW_MS = 1000 * DAY_MS
NOW: CensusNow = Now(Followed(0, 0, 0, None), NodeFigures(b"", (), 0), True, 1.0, False, OwnCertificates(), NOW_MS)
FIGURES = Figures(
    as_of_ms=0, next_ms=1, answers=70, sampled=70, bands=(), charged=100, exhausted=None, alert_share=None, expected_belief=None,
    best_guess_right=None, forecast=(),
)  # fmt: skip


def test_the_pace_is_that_of_the_last_month() -> None:
    """Ten a day for a hundred days; then none for fifteen; nothing is said in the first day."""
    assert answers_per_day(months(1000, 100), NOW_MS) == pytest.approx(10, rel=0.05)
    assert answers_per_day(months(1000, 100), NOW_MS + 15 * DAY_MS) == pytest.approx(5, rel=0.05)
    assert answers_per_day(months(1000, 100), NOW_MS + 45 * DAY_MS) == 0
    assert answers_per_day(months(10, 1), NOW_MS - DAY_MS // 2) is None
    assert answers_per_day(shown(*READY), NOW_MS) is None


def kept(number: int, *, file: str = "a file") -> KeptRoster:
    """A roster that was received, of 417 people."""
    return KeptRoster(
        health="health-on", number=number, linkage="", commitment="", salt="", manifest="", places=524_288, people=417,
        file=file, received_ms=NOW_MS,
    )  # fmt: skip


def test_the_staff_see_which_roster_is_in_force_and_which_is_staged() -> None:
    """With declared places; how many people are on a roster would tell whether somebody is. The log tells when each came."""
    picture = shown(*READY)
    rows = _roster_rows(ENGLISH, picture, [kept(1), kept(2)])
    assert [row[:3] for row in rows] == [("health-on", "1", "in force"), ("health-on", "2", "staged")]
    assert {row[4] for row in rows} == {"524,288"}
    assert "417" not in str(rows)
    assert _roster_rows(ENGLISH, picture, [kept(1, file="")])[0][2] == "lost: it is sent again"
    assert "Roster 1 of health-on in force" in [row[2] for row in happening_rows(ENGLISH, picture.happenings, LOADS)]


def test_the_staff_read_first_when_answers_end_and_what_used_most() -> None:
    """Under strict accounting the number and its day; where people are charged one by one, how many have nothing left."""
    strict = replace(
        months(100, 50), use={("alice", "study"): Use(70, 0, 0, 0, 0), ("bob", "other"): Use(30, 0, 0, 0, 0)}
    )
    now = replace(NOW, now_ms=NOW_MS)
    assert morning_rows(ENGLISH, now, strict, None) == [
        ("Further answers", "20", "then no further answer; about 7 Oct 1972 at the pace of the last 30 days"),
        ("Used most by", "study", "70 of 100 answers"),
    ]
    per_person = replace(strict, policy=policy(accounting="per_person"), answers_left=None)
    assert morning_rows(ENGLISH, now, per_person, None)[0][:2] == ("People with nothing left", "not known yet")
    few = varied(FIGURES, bands=(Band(0.5, 0.5, 410),))
    assert morning_rows(ENGLISH, now, per_person, few)[0][1] == "fewer than 10"
    many = varied(few, exhausted=20)
    assert morning_rows(ENGLISH, now, per_person, many)[0][1] == "20"


def test_the_line_goes_on_to_where_it_ends() -> None:
    """With a pace the chart has a dashed line up to the last answer; without one it has none."""
    with_pace, _ = _spent(ENGLISH, months(100, 50), None, NOW_MS)
    assert 'class="forecast"' in with_pace
    assert "120: no further answer" in with_pace
    without, _ = _spent(ENGLISH, shown(*READY), None, NOW_MS)
    assert 'class="forecast"' not in without


def test_a_forecast_counts_answers_since_it_was_made() -> None:
    """30 of 50 further answers were given since: the date is 20 answers away, at two a day."""
    figures = varied(FIGURES, exhausted=0, forecast=(Milestone(0.01, 40, 50, 60), Milestone(0.5, 100, None, None)))
    table = _forecast(ENGLISH, figures, months(100, 50), NOW_MS)
    assert ENGLISH.day(NOW_MS + 10 * DAY_MS) in table
    assert "in more than ten years" in table


@pytest.mark.parametrize(
    ("count", "top"), [(0, 2), (1, 2), (2, 2), (3, 4), (9, 10), (11, 20), (41, 50), (79, 80), (101, 200)]
)
def test_a_scale_ends_at_a_round_number(count: int, top: int) -> None:
    """Its half is a whole number."""
    assert _round_above(count) == top
    assert top % 2 == 0
