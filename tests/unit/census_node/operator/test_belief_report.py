"""`census status` and its report: the promised keys, the right words, an alert for people at this machine, and a picture."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.deployment import Deployment, make, run_here
from fakes.logs import adopted, beginning, census_state, charged, policy

from broker_common.language import language
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy, Subject
from broker_common.privacy.report import Charges, make_report
from broker_common.tlog.census_state import CensusState, ChargedTicket
from broker_common.tlog.entries import Entry
from census_node.assembly import CensusHome
from census_node.ledger.samples import KeptSamples
from census_node.operator.belief_plot import HEIGHT_PIXELS, WIDTH_PIXELS, draw
from census_node.operator.belief_report import (
    Facts,
    bars_name,
    facts_of,
    plot_text,
    report_of,
    report_text,
    status_of,
    status_text,
)

PRICE = price(30)
ENGLISH = language("en")
SCALES = tuple(range(1, 51))
PER_PERSON = policy(accounting="per_person", scales=SCALES)
STATUS_KEYS = [
    *("state", "accounting", "max_belief", "param", "answers", "worst_charged", "worst_belief"),
    *("people_charged", "people_exhausted", "log_size", "policy_hash"),
    *("dictionary", "dictionary_adopted", "dictionary_changed"),
]
KEPT = KeptSamples(3, 1_234_567)
REPORT_KEYS = [
    *("floor", "cap", "scale", "ceilings", "typical", "bands", "subject", "spread"),
    *("answers_left", "forecast", "plot"),
]


def facts(rules: Policy = PER_PERSON, *, answers: int = 100, **changes: Any) -> Facts:
    """Facts of a log after so many answers at scale 30."""
    strict = rules.accounting == "strict"
    given: dict[str, Any] = {
        "policy": rules,
        "policy_hash": rules.hash.hex(),
        "answers": answers,
        "common": {30: answers} if strict else {},
        "sampled": {} if strict else {30: answers},
        "units": answers * PRICE,
        "log_size": 7,
        "release": "2011",
        "linkage": "0123456789abcdef",
        "dictionary": "ab" * 32,
        "dictionary_adopted": "ab" * 32,
        "dictionary_changed": False,
        "shut_down": False,
        "shutdown_reason": "",
        "shutdown_note": "",
        "shutdown_ms": 0,
    }
    return Facts(**given | changes)


def charges(hits: list[int], *, floor: int = 0) -> Charges:
    """A ledger of subjects whose people were in so many samples."""
    return Charges(np.array(hits, np.uint32) * np.uint32(PRICE), floor)


def said(ledgers: Charges | None, rules: Policy = PER_PERSON, **changes: Any) -> str:
    """The text of the report."""
    found = facts(rules, **changes)
    return report_text(
        make_report(rules, common=found.common, sampled=found.sampled, units=found.units, charges=ledgers), rules
    )


def status_said(ledgers: Charges | None, rules: Policy = PER_PERSON, *, share: int = 5, **changes: Any) -> str:
    """The text of the status."""
    found = facts(rules, **changes)
    return status_text(found, ledgers, KEPT, share)


def has(text: str, line: str) -> bool:
    """Whether a line of the text has these words, however far apart."""
    return any(" ".join(row.split()) == line for row in text.splitlines())


# --- status ------------------------------------------------------------------------------------------------------------


def test_the_status_has_the_promised_keys_and_nothing_else() -> None:
    """Per person: how many were charged, how many have nothing left, the worst of them; strict: null."""
    status = status_of(facts(), charges([0, 1, 2, 41]))
    assert list(status) == STATUS_KEYS
    assert (status["people_charged"], status["people_exhausted"]) == (3, 1)
    assert (status["worst_charged"], status["worst_belief"]) == (41 * PRICE, 0.79685)
    strict = status_of(facts(policy(scales=SCALES), answers=2), None)
    assert list(strict) == STATUS_KEYS
    assert (strict["people_charged"], strict["people_exhausted"]) == (None, None)
    assert strict["worst_charged"] == 2 * PRICE


def test_the_status_says_what_samples_take_on_disk() -> None:
    """Where samples are kept; under strict accounting only while some of before are left."""
    line = "kept samples 3, 1.3 MB on disk"
    assert has(status_said(charges([1])), line)
    strict = facts(policy(scales=SCALES), answers=2)
    assert has(status_text(strict, None, KEPT, 5), line)
    assert "kept samples" not in status_text(strict, None, KeptSamples(0, 0), 5)
    assert has(status_text(facts(), charges([1]), KeptSamples(0, 0), 5), "kept samples 0, 0 bytes on disk")


@pytest.mark.parametrize(("exhausted", "alerts"), [(5, False), (6, True)])
def test_the_alert_is_raised_above_the_share_and_not_at_it(exhausted: int, alerts: bool) -> None:
    """More than five of a hundred people charged; those who were never charged count for nothing."""
    text = status_said(charges([41] * exhausted + [1] * (100 - exhausted) + [0] * 1000))
    assert has(text, f"people 100 persons in the census charged so far; nothing left: {exhausted}")
    assert ("alert" in text) == alerts


def test_the_alert_is_for_people_and_in_no_key(tmp_path: Path) -> None:
    """Scripts compute it from two numbers; nothing named so stands in the object."""
    assert "alert" not in json.dumps(status_of(facts(), charges([41] * 100)))
    assert list(tmp_path.iterdir()) == []


def test_households_without_room_raise_the_alert_where_budgets_are_theirs() -> None:
    """Six of a hundred households: counted and said by that name."""
    rules = policy(accounting="per_person", subject="household", scales=SCALES)
    assert status_of(facts(rules), charges([40] * 100))["people_exhausted"] == 0
    ledgers = charges([41] * 6 + [40] * 94)
    assert status_of(facts(rules), ledgers)["people_exhausted"] == 6
    text = status_said(ledgers, rules)
    assert has(text, "people 100 households charged so far; nothing left: 6")
    assert "more than 5 % of the households charged so far have nothing left (6 of 100)" in text
    assert (
        "per_person with a budget for each household, no belief about one household that stays as it is above 0.8"
        in text
    )


def test_strict_accounting_after_per_person_accounting_states_what_somebody_was_charged() -> None:
    """Its counter, of all answers, decides what is still answered; a belief of 1.0 that nobody can have is not said."""
    rules = policy(scales=SCALES)
    changes: dict[str, Any] = {"answers": 103, "common": {30: 3}, "sampled": {30: 100}}
    ledgers = charges([0, 2, 5], floor=3 * PRICE)
    status = status_of(facts(rules, **changes), ledgers)
    assert (status["worst_charged"], status["worst_belief"]) == (8 * PRICE, 0.56628)
    assert (status["people_charged"], status["people_exhausted"]) == (None, None)
    text = status_said(ledgers, rules, **changes)
    assert has(text, "charged 4473928 units; no belief can have passed 0.56628")
    assert f"{103 * PRICE} of {rules.cap} units: strict accounting counts all answers" in text
    assert "people " not in text.split("counted")[0]
    assert "warning" not in text
    report = said(ledgers, rules, **changes)
    assert has(report, "0 at scale 30: strict accounting counts every answer there ever was")
    (row,) = [row.split() for row in report.splitlines() if row.startswith("  so far")]
    # Three that everybody was charged, and five of those that nobody can have been in more often.
    assert row[2:4] == ["8", "0.56628"]


@pytest.mark.parametrize(
    ("reason", "note", "expected"),
    [
        ("answers", "", "because the policy's number of answers (2) is reached"),
        ("budget", "", "by the budget"),
        ("earlier", "", "because nothing fitted under the policy in force then"),
        ("operator", "a drill", "by the operator: a drill"),
    ],
)
def test_a_shutdown_is_said_with_its_reason_and_no_colon_before_nothing(reason: str, note: str, expected: str) -> None:
    """The number of answers is no budget, and without a note there is nothing after the reason."""
    changes: dict[str, Any] = {"shut_down": True, "shutdown_reason": reason, "shutdown_note": note}
    text = status_said(None, policy(scales=SCALES, max_answers=2), answers=2, **changes)
    (line,) = [line for line in text.splitlines() if line.startswith("  shut down")]
    assert line.split(", ", 1)[1] == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"max_answers": 1}, "answers"),
        ({"max_answers": 5}, "earlier"),
        ({"max_answers": 1, "max_belief": "0.51"}, "budget"),
    ],
)
def test_why_nothing_fits_is_read_off_the_log(rules: dict[str, Any], expected: str) -> None:
    """The log calls it the budget whatever admits no further answer; the policy in force tells which it was."""
    state: CensusState = census_state()
    for sequence, event in enumerate((*beginning(), adopted(policy(scales=(30,), **rules)))):
        state.apply(Entry(event=event, policy=state.policy_hash, sequence=sequence, time_ms=1))
    state.tickets["1"] = ChargedTicket(charged(1, scale=30), state.size, state.policy_hash)
    state.charged_units = state.common_units = PRICE
    state.shut_down, state.shutdown_reason = True, "budget"
    found = facts_of(state)
    assert (found.shutdown_reason, found.common, found.sampled) == (expected, {30: 1}, {})


@pytest.mark.parametrize(("share", "alerts"), [(0, True), (99, True), (100, False)])
def test_the_share_is_the_operators(share: int, alerts: bool) -> None:
    """From any at all to never."""
    assert ("alert" in status_said(charges([41] * 50), share=share)) == alerts


def test_nobody_charged_raises_no_alert() -> None:
    """Nothing of nothing is no share."""
    assert "alert" not in status_said(charges([0, 0]), share=0)
    assert "alert" not in status_said(None, policy(scales=SCALES), answers=1, share=0)


def test_a_charge_above_a_limit_that_was_lowered_is_said() -> None:
    """The warning goes by the one charged most, under both accountings."""
    lowered = policy(accounting="per_person", max_belief="0.6", scales=SCALES)
    assert "passes this cap already" in status_said(charges([41]), lowered)
    # All answers together are far above the cap, nobody alone is.
    assert "passes this cap already" not in status_said(charges([1]), lowered)


def test_the_log_is_read_for_what_the_report_needs() -> None:
    """Strict: what everybody was charged; per person: what was charged beyond that."""

    def after(rules: Policy, charged_units: int, common_units: int) -> Facts:
        state: CensusState = census_state()
        for sequence, event in enumerate((*beginning(), adopted(rules))):
            state.apply(Entry(event=event, policy=state.policy_hash, sequence=sequence, time_ms=1))
        state.charged_units, state.common_units = charged_units, common_units
        return facts_of(state)

    assert after(policy(scales=SCALES), 9, 4).units == 9
    assert after(PER_PERSON, 9, 4).units == 5


# --- the report --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("subject", "counted"), [("person", "persons in the census"), ("household", "households")])
def test_the_report_says_who_stands_where(subject: Subject, counted: str) -> None:
    """Counts of persons, or of households where budgets are theirs; a lowered limit leaves some above it."""
    text = said(charges([0, 0, 1, 41, 60]), policy(accounting="per_person", subject=subject, scales=SCALES))
    assert has(text, f"ceiling {counted}")
    assert has(text, "0.5: not charged 2")
    assert has(text, "up to 0.55 1")
    assert has(text, "up to 0.8 1")
    assert has(text, "above 0.8 1")
    assert f"Of the {counted} charged, charge in units and ceiling" in text
    assert has(text, "the most 33554460 (0.8808)")


def test_the_typical_case_is_said_beside_the_ceiling() -> None:
    """One in 50,000; a chance of 0.204 is nearer to one in five than to one in four."""
    text = said(charges([41]))
    assert has(text, "so far 41 0.79685 0.50563 0.54275 1 in 5 1 in 26 1 in 330 1 in 50,000 1 in 11,000,000")
    assert "scale 30" in text
    once = Charges(np.array([price(1)], np.uint32), 0)
    # After one answer at scale 1: as likely as it is right.
    assert has(said(once, sampled={1: 1}), f"so far 1 0.73106 0.60678 0.73106 {' '.join(['73 in 100'] * 4)} never")
    assert has(said(charges([0])), "so far 0 0.5 0.5 0.5 never never never never never")


def test_the_forecast_is_said_with_its_interval_and_what_it_assumes() -> None:
    """A number, the numbers around it, and the assumption."""
    text = said(charges([20] * 200))
    (line,) = [line for line in text.splitlines() if line.startswith("  50 % of 200")]
    middle, early, late = map(int, re.findall(r"\b\d+\b", line.split("200", 1)[1])[:3])
    assert early < middle < late
    assert "if the same people are asked about as often as before" in text


def test_a_forecast_that_is_reached_or_beyond_reach_is_said_in_words() -> None:
    """Neither a zero nor an invented large number."""
    text = said(charges([41] * 5 + [1] * 195), answers=100_000)
    assert has(text, "1 % of 200 they have none now")
    assert has(text, "50 % of 200 more than 100,000 (nine times out of ten more than 100,000 to more than 100,000)")


def test_too_little_to_go_by_gives_no_forecast() -> None:
    """It says what it would take."""
    assert "none: it takes 10 answers and 100 people" in said(charges([1] * 99))
    assert "none: it takes 10 answers and 100 people" in said(charges([1] * 100), answers=9)


def test_strict_accounting_says_the_answers_left() -> None:
    """No persons, no bands, no forecast: a number of answers."""
    text = said(None, policy(scales=SCALES), answers=11)
    assert has(text, "30 at scale 30: strict accounting charges everybody alike for every answer")
    assert "ceiling of belief (believed" not in text
    assert "Forecast" not in text


@pytest.mark.parametrize("ledgers", [None, charges([]), charges([0]), charges([41] * 200), charges([1, 2, 3])])
def test_the_object_has_its_keys_and_is_plain_json(ledgers: Charges | None) -> None:
    """The same keys whatever there is to say."""
    rules = policy(scales=SCALES) if ledgers is None else PER_PERSON
    found = facts(rules, answers=11)
    report = report_of(
        make_report(rules, common=found.common, sampled=found.sampled, units=found.units, charges=ledgers), rules
    )
    assert list(report) == REPORT_KEYS
    assert json.loads(json.dumps(report)) == report
    assert (report["spread"] is None) == (ledgers is None)


# --- the plot ----------------------------------------------------------------------------------------------------------


def dimensions(png: bytes) -> tuple[int, int]:
    """Width and height as the file itself says."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("ledgers", [None, charges([]), charges([0, 0]), charges([41] * 200), charges([0, 1, 100])])
def test_the_plot_is_a_picture_of_the_promised_size(ledgers: Charges | None) -> None:
    """Under both accountings, with nobody, with everybody exhausted, with bars beyond the limit."""
    rules = policy(scales=SCALES) if ledgers is None else PER_PERSON
    found = facts(rules, answers=11)
    report = make_report(rules, common=found.common, sampled=found.sampled, units=found.units, charges=ledgers)
    png = draw(report, rules)
    assert dimensions(png) == (WIDTH_PIXELS, HEIGHT_PIXELS)
    assert len(png) > 10_000
    assert "0.8" in plot_text(report, rules, ENGLISH)


@pytest.mark.parametrize(
    ("subject", "name"), [("person", "persons in the census (1)"), ("household", "households (1)")]
)
def test_the_bars_say_whom_they_count(subject: Subject, name: str) -> None:
    """In the legend and in words."""
    rules = policy(accounting="per_person", subject=subject, scales=SCALES)
    report = make_report(rules, common={}, sampled={30: 41}, units=PRICE, charges=charges([1]))
    assert report.spread is not None
    assert bars_name(report.spread, rules, ENGLISH) == name
    assert name[1:] in plot_text(report, rules, ENGLISH)


def test_the_plot_shows_the_charges() -> None:
    """Other charges, another picture; the same charges, the same picture."""
    one, other = (
        make_report(PER_PERSON, common={}, sampled={30: 41}, units=PRICE, charges=charges(hits))
        for hits in ([1, 2], [1, 40])
    )
    assert draw(one, PER_PERSON) == draw(one, PER_PERSON)
    assert draw(one, PER_PERSON) != draw(other, PER_PERSON)


def test_the_plot_in_words_counts_everybody() -> None:
    """For readers who do not see it: every bar with its number."""
    report = make_report(PER_PERSON, common={}, sampled={30: 41}, units=PRICE, charges=charges([0, 0, 1, 41, 60]))
    text = plot_text(report, PER_PERSON, ENGLISH)
    assert "2 0.5: not charged, 1 up to 0.55, 1 up to 0.8, 1 above 0.8." in text


# --- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment in which nothing runs."""
    return make(tmp_path_factory.mktemp("reported") / "deployment", "--accounting", "strict", population=10)


@pytest.mark.process
def test_the_command_adds_the_report_only_where_it_is_asked_for(stopped: Deployment, tmp_path: Path) -> None:
    """Exactly the promised keys without, one more with; the picture is written where it is told to be."""
    status = ("census", "status", "--home", stopped.home("census"))
    assert list(run_here(*status, "--json").result) == [*STATUS_KEYS, "rosters"]
    assert list(run_here(*status, "--json", "--report").result) == [*STATUS_KEYS, "rosters", "report"]
    file = tmp_path / "belief.png"
    drawn = run_here(*status, "--json", "--report", "--plot", file).result["report"]
    assert drawn["plot"]["file"] == str(file)
    assert dimensions(file.read_bytes()) == (WIDTH_PIXELS, HEIGHT_PIXELS)
    assert file.stat().st_mode & 0o777 == 0o600
    text = run_here(*status, "--report", "--plot", file).stdout
    assert str(file) in text
    assert drawn["plot"]["text"] in text


@pytest.mark.process
def test_the_command_takes_persons_from_the_ledger(stopped: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under per-person accounting the figures are those that the home reads from its ledger, and the alert is said."""
    monkeypatch.setattr(CensusHome, "charges", lambda _: charges([41, 41, 1]))
    monkeypatch.setattr(CensusHome, "read", lambda *_: facts())
    status = ("census", "status", "--home", stopped.home("census"))
    found = run_here(*status, "--json", "--report").result
    assert (found["people_charged"], found["people_exhausted"], found["worst_charged"]) == (3, 2, 41 * PRICE)
    assert found["report"]["spread"]["charged"] == 3
    assert "more than 5 % of the persons in the census charged so far have nothing left (2 of 3)" in " ".join(
        run_here(*status).stdout.split()
    )


@pytest.mark.process
def test_a_plot_without_a_report_is_a_usage_error(stopped: Deployment, tmp_path: Path) -> None:
    """Nothing is drawn that was not asked about."""
    outcome = run_here("census", "status", "--home", stopped.home("census"), "--plot", tmp_path / "belief.png")
    assert (outcome.code, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.process
def test_a_plot_that_cannot_be_written_is_an_error_with_a_name(stopped: Deployment, tmp_path: Path) -> None:
    """A folder that is not there: said, without a trace of half a file."""
    file = tmp_path / "nowhere" / "belief.png"
    outcome = run_here("census", "status", "--home", stopped.home("census"), "--report", "--plot", file, "--json")
    assert outcome.error["code"] == "FILE_UNUSABLE"


def test_other_commands_do_not_load_the_plotting_library() -> None:
    """It takes most of a second; only a plot spends it."""
    code = "import sys, census_node.cli; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
