"""Every verdict of an attack can fail: here stand deployments that break a promise, and attackers that notice.

Error rate: the honest worlds below are drawn from fixed seeds, so a test either always passes or always fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count

import numpy as np
import pytest
from fakes.world import make_policy

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy import table_laplace
from broker_common.privacy.discrete_laplace import draw
from deploy.attacks.average import Averaged, average_findings
from deploy.attacks.dear import Told, dear_findings, lateness
from deploy.attacks.equality import Pair, equality_findings
from deploy.attacks.findings import Finding, Guesses, Report, Same, Within
from deploy.attacks.neighbour import Known, neighbour_findings
from deploy.attacks.race import race_findings
from deploy.attacks.reconstruction import reconstruction_findings
from deploy.attacks.records import apart_findings, counted_twice, together
from deploy.attacks.tables import Tabled, sum_findings, value_findings
from deploy.attacks.times import Timed, due_ms, times_findings
from deploy.attacks.tracker import Tracked, tracker_findings
from deploy.attacks.worlds import told_apart

BOLD, BEYOND, EVEN = (1, 3, 19), (1,) * 5, (30,) * 41


def seeds(name: str) -> Iterator[NoiseStream]:
    """Fresh noise for every draw, the same in every run."""
    return (NoiseStream(sha256(f"{name} {number}".encode()).digest()) for number in count())


class Dice:
    """Noise and coins of one test."""

    def __init__(self, name: str) -> None:
        self._seeds = seeds(name)

    def noise(self, scale: int) -> int:
        return draw(scale, next(self._seeds))

    def table(self, cells: int, scale: int) -> tuple[int, ...]:
        return table_laplace.draw(cells, scale, next(self._seeds))

    def coin(self) -> bool:
        return bool(next(self._seeds).bits(1))


def broken(findings: Sequence[Finding]) -> set[str]:
    """Findings that did not hold. All of it can be said in JSON and in words."""
    assert json.loads(json.dumps([finding.as_json() for finding in findings]))
    assert all(finding.line() for finding in findings)
    return {finding.name for finding in findings if not finding.held}


# --- neighbour ---------------------------------------------------------------------------------------------------------


def spent(
    dice: Dice, people: int, within: Sequence[int], beyond: Sequence[int] = (), *, weaker: int = 1, leaks: bool = False
) -> list[Known]:
    """People whose budget was spent and who were asked about afterwards; honest unless told otherwise."""
    known = []
    for _ in range(people):
        truth = dice.coin()
        answers = [truth + dice.noise(max(1, scale // weaker)) for scale in within]
        answers += [truth * leaks + dice.noise(scale) for scale in beyond]
        known.append(Known(truth, tuple(answers)))
    return known


def test_neighbour_holds_against_an_honest_deployment() -> None:
    """300 people boldly, 6 the paper's way."""
    dice = Dice("honest")
    findings = neighbour_findings(BOLD, BEYOND, spent(dice, 300, BOLD, BEYOND), EVEN, spent(dice, 6, EVEN))
    assert broken(findings) == set()
    assert len(findings) == 10


def test_neighbour_notices_noise_of_half_the_scale_that_was_charged() -> None:
    """At the numbers that the command usually plays."""
    dice = Dice("half")
    known = spent(dice, 50, BOLD, BEYOND), spent(dice, 3, EVEN, weaker=2)
    assert broken(neighbour_findings(BOLD, BEYOND, known[0], EVEN, known[1])) == {"noise"}


def test_neighbour_notices_answers_that_count_somebody_beyond_their_budget() -> None:
    """People who are not dropped although nothing is left."""
    dice = Dice("beyond")
    known = spent(dice, 50, BOLD, BEYOND, leaks=True), spent(dice, 4, EVEN)
    assert broken(neighbour_findings(BOLD, BEYOND, known[0], EVEN, known[1])) == {"beyond_budget"}


def test_neighbour_notices_whoever_is_counted_for_more_than_they_were_charged() -> None:
    """An answer in which a person counts as three is not what the price of one person paid for."""
    dice = Dice("thrice")
    people = [
        Known(truth := dice.coin(), (*(3 * truth - 1 + dice.noise(s) for s in BOLD), *BEYOND)) for _ in range(100)
    ]
    findings = neighbour_findings(BOLD, BEYOND, people, EVEN, spent(dice, 1, EVEN))
    assert "whole_budget" in broken(findings)


def test_a_belief_above_its_ceiling_is_noticed() -> None:
    """However little."""
    assert Within("highest_belief", 0.79685, 0.79685).held
    assert not Within("highest_belief", 0.79686, 0.79685).held


# --- tables --------------------------------------------------------------------------------------------------------------


def tabled(dice: Dice, people: int, *, weight: int = 1, leaks: bool = False) -> list[Tabled]:
    """People of whom tables were asked; honest unless a person counts as several, or beyond the budget."""
    known = []
    for _ in range(people):
        truth, answers = dice.coin(), []
        for number, scale in enumerate((*BOLD, *BEYOND)):
            noise = dice.table(2, scale)
            there = weight * (number < len(BOLD) or leaks)
            answers.append((noise[0] + truth * there, noise[1] + (not truth) * there))
        known.append(Tabled(truth, tuple(answers)))
    return known


def test_tables_hold_against_an_honest_deployment() -> None:
    """At the numbers that the commands usually play, and at more."""
    dice = Dice("honest tables")
    assert broken(value_findings(BOLD, BEYOND, tabled(dice, 150))) == set()
    assert broken(sum_findings(30, [dice.table(4, 30) for _ in range(30)])) == set()


def test_a_draw_for_each_cell_is_noticed() -> None:
    """As much noise as a count has in each of four cells is less than a table has."""
    dice = Dice("apart")
    apart = [tuple(dice.noise(30) for _ in range(4)) for _ in range(100)]
    assert "table_noise" in broken(sum_findings(30, apart))


def test_tables_that_count_somebody_for_more_than_was_charged_are_noticed() -> None:
    """As nine, and beyond the budget."""
    dice = Dice("weights")
    assert "table_guess" in broken(value_findings(BOLD, BEYOND, tabled(dice, 100, weight=9)))
    assert broken(value_findings(BOLD, BEYOND, tabled(dice, 50, leaks=True))) == {"table_beyond"}


def test_tables_with_less_noise_than_was_charged_are_noticed() -> None:
    """Half the scale, and noise that adds up to nothing."""
    dice = Dice("less")
    narrow = [dice.table(4, 10) for _ in range(30)]
    assert broken(sum_findings(30, narrow)) == {"table_sum", "table_noise"}
    first_three = [dice.table(3, 60) for _ in range(30)]
    assert broken(sum_findings(30, [(*z, -sum(z)) for z in first_three])) == {"table_sum"}


# --- average -----------------------------------------------------------------------------------------------------------


# How often each of the answers to 15 groups was charged.
ONCE = [1] * 135


def averaged(dice: Dice, rounds: int, scale: int = 30, **changed: object) -> list[Averaged]:
    """Rounds of an honest deployment; `changed` says in what it is not."""
    made = []
    for _ in range(rounds):
        same = tuple(dice.noise(scale) for _ in range(4))
        parts = tuple(dice.noise(scale) for _ in range(5))
        tables = tuple(dice.table(4, scale) for _ in range(2))
        made.append(replace(Averaged(same, parts, 2, (), tables), **changed))  # type: ignore[arg-type]
    return made


def test_average_holds_against_an_honest_deployment() -> None:
    """15 groups, 9 answers each."""
    assert broken(average_findings(30, averaged(Dice("a"), 15), ONCE)) == set()


def test_average_notices_a_retry_that_draws_anew() -> None:
    """Other bytes for the same ticket."""
    rounds = averaged(Dice("b"), 15, different=("retry 1: other bytes",))
    assert broken(average_findings(30, rounds, ONCE)) == {"retry"}


def test_average_notices_an_answer_that_was_not_charged() -> None:
    """One of 135."""
    assert broken(average_findings(30, averaged(Dice("c"), 15), [*ONCE[1:], 0])) == {"charged_each"}


def test_average_notices_an_answer_cache() -> None:
    """The same answer to the same sample."""
    rounds = averaged(Dice("d"), 15, same=(7, 7, 7, 7))
    assert "answer_repeated" in broken(average_findings(30, rounds, ONCE))


def test_average_notices_noise_that_cancels() -> None:
    """Repeats whose noise adds up to nothing, and parts whose noise adds up to the whole's."""
    dice = Dice("e")
    rounds = [
        Averaged(
            (one := dice.noise(30), -one, other := dice.noise(30), -other),
            (one, other, 5, -9, one + other - 4),
            2,
            (),
            (dice.table(4, 30),),
        )
        for _ in range(15)
    ]
    assert {"average_error", "parts_error"} <= broken(average_findings(30, rounds, ONCE))


def test_average_notices_noise_of_half_the_scale() -> None:
    """135 answers are enough."""
    rounds = averaged(Dice("f"), 15, scale=15)
    assert "noise" in broken(average_findings(30, rounds, ONCE))


# --- tracker and reconstruction ----------------------------------------------------------------------------------------


def tracked(dice: Dice, *, shared: bool, scale: int = 3) -> list[Tracked]:
    """50 targets; with `shared`, overlapping cohorts share their noise."""
    made = []
    for _ in range(50):
        x, others, padding = dice.coin(), 1, 2
        first, second = dice.noise(scale), dice.noise(scale)
        noise = (first, first, second, second) if shared else (first, dice.noise(scale), second, dice.noise(scale))
        truths = (others + x, others, others + padding + x, others + padding)
        answers = tuple(truth + of for truth, of in zip(truths, noise, strict=True))
        made.append(Tracked(x, answers, others, padding, coin=dice.coin()))
    return made


def test_tracker_holds_against_an_honest_deployment_and_notices_shared_noise() -> None:
    """A difference of two cohorts that share their noise is the person between them."""
    assert broken(tracker_findings(3, tracked(Dice("t"), shared=False))) == set()
    assert {"by_difference", "difference_error"} <= broken(tracker_findings(3, tracked(Dice("u"), shared=True)))


@pytest.mark.parametrize(("quiet", "wanted"), [(False, set()), (True, {"reconstructed", "noise"})])
def test_reconstruction_holds_unless_the_noise_is_far_too_small(quiet: bool, wanted: set[str]) -> None:
    """Six groups of 16; quiet noise is a twentieth of what was charged for."""
    dice, generator = Dice("r"), np.random.Generator(np.random.Philox(1))
    truths = [generator.integers(0, 2, 16).astype(bool) for _ in range(6)]
    cohorts = [generator.integers(0, 2, (24, 16)).astype(bool) for _ in truths]
    answers = [
        [int(row @ truth.astype(int)) + int(dice.noise(5) / (20 if quiet else 1)) for row in chosen]
        for chosen, truth in zip(cohorts, truths, strict=True)
    ]
    assert broken(reconstruction_findings(5, 6, cohorts, answers, truths)) == wanted


# --- oracles -----------------------------------------------------------------------------------------------------------


def test_worlds_are_told_apart_by_any_line_and_by_any_missing_one() -> None:
    """A refusal that shows, a size that differs, a question that says less."""
    seen = ["STAGE_CHARGED 2 bytes", "sealed 17520 bytes"]
    assert told_apart("spent_or_fresh", [seen], [seen]).held
    for other in (["submit BUDGET_EXHAUSTED", seen[1]], [seen[0], "sealed 17521 bytes"], seen[:1]):
        assert not told_apart("spent_or_fresh", [seen], [other]).held


def pairs(dice: Dice, **same: object) -> list[Pair]:
    """60 pairs that look alike; `same` says what is different of those about the same people."""
    made = []
    for _ in range(60):
        kind = "same" if dice.coin() else "others"
        pair = Pair(kind, ("sealed",), 0.3 + dice.noise(9) / 1000, answers_equal=False)
        made.append(replace(pair, **same) if kind == "same" else pair)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("same", "wanted"),
    [
        ({}, set()),
        ({"answers_equal": True}, {"equal_answers"}),
        ({"seconds": 0.1}, {"equal_by_time"}),
        ({"lines": ("sealed", "from the cache")}, {"equal_seen"}),
    ],
)
def test_equality_holds_unless_answers_or_times_or_messages_show_it(same: dict[str, object], wanted: set[str]) -> None:
    """An answer cache shows in all three."""
    assert broken(equality_findings(50, pairs(Dice("q"), **same), in_ticks=True)) == wanted


def told(late: Sequence[int], of_everybody: Sequence[int], *, lines: tuple[str, str] = ("", "")) -> list[Told]:
    """Observations of questions about nobody, and about everybody."""
    nobody = [Told(everybody=False, late=ticks, lines=("accepted", lines[0])) for ticks in late]
    return nobody + [Told(everybody=True, late=ticks, lines=("accepted", lines[1])) for ticks in of_everybody]


REFUSED = [("CRITERIA_TOO_DEAR 40", "CRITERIA_TOO_DEAR 40"), ("answered", "answered")]


@pytest.mark.parametrize(
    ("seen", "refusals", "wanted"),
    [
        (told([0] * 20, [0] * 20), REFUSED, set()),
        # A busy machine is late with anything, and a little later with what is more.
        (told([1] * 6 + [0] * 14, [2] + [1] * 9 + [0] * 10), REFUSED, set()),
        # A node without the price: large samples miss their tick.
        (told([0] * 20, [1] * 16 + [0] * 4), REFUSED, {"dear_late"}),
        # A slow one, where everything is late and large samples are later.
        (told([1] * 20, [2] * 17 + [3] * 3), REFUSED, {"dear_late"}),
        # One that does all the work there is for nobody.
        (told([1] * 18 + [0] * 2, [0] * 20), REFUSED, {"dear_late"}),
        (told([0] * 20, [0] * 20), [("answered", "CRITERIA_TOO_DEAR 40")], {"dear_refusals"}),
        (told([0] * 20, [0] * 20), [("CRITERIA_TOO_DEAR 40", "CRITERIA_TOO_DEAR 39")], {"dear_refusals"}),
        (told([0] * 20, [0] * 20, lines=("16 bytes", "32 bytes")), REFUSED, {"dear_seen"}),
    ],
)
def test_dear_criteria_hold_unless_ticks_or_refusals_tell_sizes(
    seen: list[Told], refusals: list[tuple[str, str]], wanted: set[str]
) -> None:
    """Planted nodes that are late with large samples only, or refuse by who matches, at the numbers usually played."""
    assert broken(dear_findings(refusals, seen)) == wanted


def test_a_charge_is_late_from_the_tick_after_the_one_that_it_is_due_at() -> None:
    """Due is the second tick after the first one that the delay admits: at one the sample is taken, at the next its charge is told."""
    policy = make_policy(tick_ms=100, delay_ms=200)
    assert [lateness(policy, 1_050, told_ms) for told_ms in (1_500, 1_599, 1_600, 1_799)] == [0, 0, 1, 2]
    assert lateness(policy, 1_000, 1_400) == 0
    assert lateness(make_policy(), 1_000, 1_000) is None


KINDS = ("nobody", "few", "half", "everybody", "unlinked", "spent")
INSTANTS = ("forwarded", "charged", "released", "answer", "quote")


def timed(
    dice: Dice,
    *,
    slow: dict[tuple[str, str], int] | None = None,
    odd: tuple[str, str] = ("", ""),
) -> list[Timed]:
    """20 questions of each kind on a machine that is a little late by chance; `slow` by kind and event, in milliseconds."""
    slow = slow or {}

    def one(kind: str, events: Sequence[str]) -> Timed:
        # A busy machine misses a tick of 50 ms now and then, with anything.
        late = {event: abs(dice.noise(3)) + 50 * (dice.coin() and dice.coin()) for event in events}
        lines = ("STAGE_CHARGED 2 bytes", odd[1] if kind == odd[0] else "sealed 17520 bytes")
        return Timed(kind, {event: each + slow.get((kind, event), 0) for event, each in late.items()}, lines)

    made = [one(kind, INSTANTS) for _ in range(20) for kind in KINDS]
    return made + [one(f"{kind} refusal", ["refusal"]) for _ in range(20) for kind in ("nobody", "everybody")]


@pytest.mark.parametrize(
    ("slow", "wanted"),
    [
        ({}, set()),
        # A desk that does more for everybody: their charges and all that follows come a tick later.
        (
            {("everybody", event): 100 for event in ("charged", "released", "answer")},
            {"times_charged", "times_released", "times_answer"},
        ),
        # A desk that is one tick later with many, where anything is a tick late every fourth time.
        (
            {(kind, event): 50 for kind in ("half", "everybody") for event in ("charged", "released")},
            {"times_charged", "times_released"},
        ),
        # A node that lets a sample go when it is drawn.
        ({("half", "forwarded"): 120}, {"times_forwarded"}),
        # A gather that jumps for linked people, and a ledger that skips spent ones.
        ({("unlinked", "charged"): -100}, {"times_charged"}),
        ({("spent", "answer"): -100}, {"times_answer"}),
        # Quotes that wait for the desk; and a refusal that says how far verifying came.
        ({("everybody", "quote"): 100}, {"times_quote"}),
        ({("everybody refusal", "refusal"): 100}, {"times_refusal"}),
    ],
)
def test_times_hold_unless_some_kind_of_people_comes_later(slow: dict[tuple[str, str], int], wanted: set[str]) -> None:
    """Planted nodes whose work depends on who is asked about, at the numbers usually played."""
    assert broken(times_findings(timed(Dice("times"), slow=slow), in_ticks=True)) == wanted


def test_times_without_ticks_promise_nothing_and_messages_are_compared_all_the_same() -> None:
    """At tick 0, which is for tests, an instant tells; a length may not, of a question or of a refusal."""
    late = {("everybody", "charged"): 500}
    assert broken(times_findings(timed(Dice("zero"), slow=late), in_ticks=False)) == set()
    assert broken(times_findings(timed(Dice("long"), odd=("half", "2 bytes")), in_ticks=True)) == {"times_seen"}
    refused = ("everybody refusal", "2 bytes")
    assert broken(times_findings(timed(Dice("less"), odd=refused), in_ticks=True)) == {"times_refused_seen"}


def test_events_are_due_on_the_grid_of_ticks() -> None:
    """Forwarded at the first tick after the delay, charged two later, out two after that; a refusal is due with the charge."""
    policy = make_policy(tick_ms=100, delay_ms=200)
    events = ("forwarded", "charged", "refusal", "released", "answer")
    assert [due_ms(policy, 1_050, event) for event in events] == [1_300, 1_500, 1_500, 1_700, 1_700]
    assert due_ms(make_policy(), 1_050, "charged") == 1_050


def two_records(dice: Dice, *, joined: bool) -> tuple[list[bool], list[list[int]]]:
    """150 pairs of records and an answer about each; not `joined`, the second has a budget of its own."""
    truths = [dice.coin() for _ in range(150)]
    return truths, [[truth + dice.noise(1), truth * (not joined) + dice.noise(1)] for truth in truths]


def test_two_records_hold_when_they_are_joined_and_not_otherwise() -> None:
    """A second budget for the same secret."""
    assert broken(apart_findings((1,), *two_records(Dice("v"), joined=True))) == set()
    assert "second_record" in broken(apart_findings((1,), *two_records(Dice("w"), joined=False)))


def test_two_cards_that_count_for_two_are_noticed() -> None:
    """In one sample, and so in a household that is not dropped whole."""
    dice = Dice("x")
    noise = [dice.noise(1) for _ in range(100)]
    truths = [dice.coin() for _ in noise]
    assert counted_twice(1, [1 + each for each in noise]).held
    assert not counted_twice(1, [2 + each for each in noise]).held
    assert together(1, truths, noise).held
    assert not together(1, truths, [2 * truth + each for truth, each in zip(truths, noise, strict=True)]).held


@pytest.mark.parametrize(
    ("ends", "charges", "may_refuse", "held"),
    [
        ([{"a": "answered"}, {"a": "answered"}], {"a": 1}, False, True),
        ([{"a": "answered"}], {"a": 2}, False, False),
        ([{"a": "answered"}], {}, False, False),
        ([{"a": "answered"}, {"a": "BUDGET_EXHAUSTED"}], {"a": 1}, True, False),
        ([{"a": "BUDGET_EXHAUSTED"}, {"a": "SERVICE_SHUT_DOWN"}], {}, True, True),
        ([{"a": "BUDGET_EXHAUSTED"}], {"a": 1}, True, False),
        ([{"a": "BUDGET_EXHAUSTED"}], {}, False, False),
        ([{"a": "PEER_FAILED"}], {}, True, False),
        ([{}], {}, True, False),
    ],
)
def test_a_race_holds_when_each_ticket_is_charged_as_often_as_it_is_answered(
    ends: list[dict[str, str]], charges: dict[str, int], may_refuse: bool, held: bool
) -> None:
    """Once, by whichever racer; refused alike to all, where it may be."""
    (finding,) = race_findings(["a"], ends, charges, may_refuse=may_refuse)
    assert finding.held == held


# --- findings ----------------------------------------------------------------------------------------------------------


def test_a_report_holds_when_all_of_it_does_and_says_each_finding() -> None:
    """One line each, in words and in JSON."""
    good, bad = Guesses("beyond_budget", 30, 60, 0.5), Same("quotes", 3, ("one", "other"))
    report = Report("quote", (good, bad), answers=5)
    assert not report.held
    assert Report("quote", (good,), answers=5).held
    assert [line[:7].strip() for line in report.text().splitlines()[1:3]] == ["ok", "FAIL"]
    assert report.text().endswith("one\n      other")
    rows = report.as_json()["findings"]
    assert [(row["name"], row["held"]) for row in rows] == [("beyond_budget", True), ("quotes", False)]
    assert (rows[0]["rate"], rows[0]["curve"], rows[1]["different"]) == (0.5, 0.5, 2)


def test_what_a_line_says_it_fails_above_is_where_it_fails() -> None:
    """Neither sooner nor later, and in JSON as in words."""
    for right in range(61):
        guesses = Guesses("first_record", right, 60, 0.5)
        assert guesses.fails_above == pytest.approx(0.8)
        assert guesses.held == (right / 60 <= 0.8)
        assert "fails above 80.0 %" in guesses.line()
        assert guesses.as_json()["fails_above"] == 0.8


def test_guesses_that_no_luck_makes_suspicious_say_so() -> None:
    """Two right guesses of two are nothing to accuse anybody of."""
    guesses = Guesses("first_record", 2, 2, 0.5)
    assert (guesses.fails_above, guesses.held) == (None, True)
    assert guesses.line().endswith("cannot fail")


def test_units_are_said_as_they_are_and_beliefs_to_the_fifth_digit() -> None:
    """No power of ten where somebody compares with the cap."""
    assert Within("counted_units", 23258159, 23258160).line().endswith(": 23258159, at most 23258160")
    assert Within("highest_belief", 0.796851234, 0.8).line().endswith(": 0.79685, at most 0.8")
