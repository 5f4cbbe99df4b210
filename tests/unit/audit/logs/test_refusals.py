"""Refusals held against the census log: what follows from it, what it contradicts, and what it cannot say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes import logs
from fakes.history import Asked, History, replayed

from broker_common.audit.home import AuditorHome
from broker_common.audit.report.verdict import report_json
from broker_common.crypto.signing import Purpose
from broker_common.tlog.entries import Revoked, Slots


def handed_over(history: History, **order: Any) -> Asked:
    """A sample that was sent, and of which nothing has been heard yet."""
    return history.ask("submit forward", order=order)


def judged(home: AuditorHome, history: History) -> tuple[int, int, list[str]]:
    """How many refusals follow, how many have no reason, and the codes of all problems."""
    report = report_json(replayed(history.exports(), home))
    refusals = report["refusals"]
    assert isinstance(refusals, list)
    return (
        sum(each["follows"] for each in refusals),
        sum(each["without_reason"] for each in refusals),
        [problem["code"] for problem in report["problems"]],
    )


CODES = [
    "BUDGET_EXHAUSTED",
    "POLICY_MISMATCH",
    "QUOTA_REACHED",
    "RELEASE_MISMATCH",
    "ROSTER_NOT_IN_FORCE",
    "SCALE_REFUSED",
    "SERVICE_SHUT_DOWN",
    "TICKET_EXPIRED",
    "UNKNOWN_PROJECT",
    "UNKNOWN_RESEARCHER",
]


@pytest.mark.parametrize("code", CODES)
def test_reason_that_the_log_contradicts_is_found(home: AuditorHome, code: str) -> None:
    """Nothing of the kind was ever so."""
    history = History().begin()
    history.refuse(handed_over(history), code)
    history.cosign()
    assert judged(home, history) == (0, 1, ["REFUSED_WITHOUT_REASON"])


def other_policy(history: History) -> None:
    """The ticket's is replaced."""
    history.adopt(logs.policy(open_quotes=7))


def fewer_scales(history: History) -> None:
    """The ticket's is none of them."""
    history.adopt(logs.policy(scales=(40, 50)))


def voided(history: History) -> None:
    """The census node starts anew."""
    first = history.next_slot
    history.write_census(Slots(first=first, void_below=first, commitments=(logs.hash_of(77),)))


def revoked(history: History) -> None:
    """The researcher is unknown from here on."""
    history.write_census(Revoked(role="researcher", name="alice", note="a mistake"))


def other_roster(history: History) -> None:
    """The next load's."""
    history.write_health(logs.rostered(2))
    history.write_census(logs.rostered(2))


def expired(history: History) -> None:
    """Eleven minutes later."""
    history.pass_time(660_000)


TRUE: dict[str, Callable[[History], object]] = {
    "POLICY_MISMATCH": other_policy,
    "SCALE_REFUSED": fewer_scales,
    "SLOT_UNUSABLE": voided,
    "UNKNOWN_RESEARCHER": revoked,
    "ROSTER_NOT_IN_FORCE": other_roster,
    "TICKET_EXPIRED": expired,
}


@pytest.mark.parametrize("is_shown", [True, False], ids=["shown", "not shown yet"])
@pytest.mark.parametrize("code", TRUE)
def test_reason_that_stands_in_the_log_follows(home: AuditorHome, code: str, is_shown: bool) -> None:
    """Whether or not the entry that it follows from was shown when the sample came."""
    history = History().begin()
    asked, size = handed_over(history), history.census.size
    TRUE[code](history)
    history.refuse(asked, code, roster=1, size=history.census.size if is_shown else size)
    history.cosign()
    assert judged(home, history) == (1, 0, [])


def test_what_no_log_shows_is_neither(home: AuditorHome) -> None:
    """A slot that is open may still be quoted to somebody else; a value of a dictionary stands nowhere."""
    history = History().begin()
    for code in ("SLOT_UNUSABLE", "UNKNOWN_VALUE"):
        history.refuse(handed_over(history), code)
    history.cosign()
    assert judged(home, history) == (0, 0, [])


def test_refusal_that_is_newer_than_the_census_export_is_under_way(home: AuditorHome) -> None:
    """Entries that decided it may come with the next export."""
    history = History().begin()
    history.cosign()
    history.refuse(handed_over(history), "POLICY_MISMATCH")
    assert judged(home, history) == (0, 0, [])
    history.cosign()
    assert judged(home, history) == (0, 1, ["REFUSED_WITHOUT_REASON"])


@pytest.mark.parametrize("changes", [{"key": logs.HEALTH.signing(Purpose.MANIFEST)}, {"log": "census.test/other"}])
def test_refusal_that_the_census_agency_did_not_sign_is_found(home: AuditorHome, changes: dict[str, Any]) -> None:
    """Under a key of the health agency's own, or of another log."""
    history = History().begin()
    history.refuse(handed_over(history), "SERVICE_SHUT_DOWN", **changes)
    history.cosign()
    assert judged(home, history) == (0, 0, ["REFUSAL_FORGED"])


def test_refusal_that_claims_a_later_time_is_found(home: AuditorHome) -> None:
    """It says that it left when the next policy was in force; a sample that was sent later was charged before."""
    history = History().begin()
    history.refuse(handed_over(history), "POLICY_MISMATCH", time_ms=history.now_ms + 3_600_000)
    history.answer()
    history.adopt(logs.policy(open_quotes=7))
    history.cosign()
    assert judged(home, history) == (0, 1, ["REFUSED_WITHOUT_REASON"])
