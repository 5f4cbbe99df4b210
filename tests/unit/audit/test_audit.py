"""Audits of honest exports, of several in a row, and of what is under way; every code has its sentence."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import logs
from fakes.cards import Party
from fakes.history import (
    RELEASE,
    Asked,
    Exports,
    History,
    SignedLog,
    auditor,
    honest,
    in_memory,
    replayed,
    unwatched,
    write,
)
from fakes.randomness import SeededRandomness
from vectors.damages import DAMAGES, begun_with_neighbour, bundle_of, flipped, with_entries

from broker_common.audit import texts
from broker_common.audit.audit import Audited, replay_parts, verify_parts
from broker_common.audit.codes import CODES, ON_SITE
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.findings import MOST_PROBLEMS, Findings
from broker_common.audit.home import AuditorHome
from broker_common.audit.on_site.visit import OnSite
from broker_common.audit.report.page import report_html
from broker_common.audit.report.verdict import report_json, report_text
from broker_common.crypto.signing import Purpose
from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.privacy.accounting import price
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Charged, Delivered, Expired, Refused, parse_entry
from broker_common.tlog.rules import RULES

DAY_MS = 86_400_000
TLOG = Path(__file__).parents[3] / "broker_common" / "tlog"


def codes(audited: Audited) -> list[str]:
    """Codes of the findings."""
    return [problem.code for problem in audited.findings.problems]


# --- honest exports ----------------------------------------------------------------------------------------------------


def test_an_honest_history_holds_and_its_leakage_is_added_up_anew(home: AuditorHome) -> None:
    """Everything holds; answers, units and belief are what the entries say, and what was not checked is named."""
    history = honest(5)
    audited = replayed(history.exports(criteria=True), home)
    assert codes(audited) == []
    report = report_json(audited)
    assert report["verified"] is True
    assert report["answers"] == 5
    assert report["entries"] == history.census.size + history.health.size
    assert report["leakage"]["charged_units"] == 5 * price(30)
    assert report["worst_belief"] == 0.54158
    assert report["pending"] == []
    assert any("oversight key" in text for text in report["not_checked"])
    assert report_text(audited).splitlines()[0] == "Everything that was handed in holds."


PRICE = price(1)
PERSONS = logs.policy(accounting="per_person")
HOUSEHOLDS = logs.policy(accounting="per_person", subject="household")


def leakage(history: History, home: AuditorHome) -> dict[str, Any]:
    """Leakage of a replay; everything else holds."""
    history.cosign()
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    report = report_json(audited)
    claimed = report["leakage"]["claimed"]
    assert any("only a replay on site" in text for text in report["not_checked"]) == claimed
    assert ("as the census agency claims" in report_text(audited)) == claimed
    return {**report["leakage"], "worst_belief": report["worst_belief"]}


def test_what_single_persons_were_charged_is_reported_as_claimed(home: AuditorHome) -> None:
    """Somebody in every sample can have been charged for every answer that fitted, and no more than the cap."""
    history = History(rules=PERSONS).begin()
    assert leakage(history, home) | {"state": ""} == {
        "accounting": "per_person",
        "subject": "person",
        "max_belief": "0.8",
        "param": 4.0,
        "cap": PERSONS.cap,
        "charged_units": 0,
        "worst_units": 0,
        "claimed": False,
        "answers": 0,
        "released": 0,
        "state": "",
        "worst_belief": 0.5,
    }
    history.answer(scale=1)
    once = leakage(history, home)
    assert (once["worst_units"], once["worst_belief"], once["claimed"]) == (PRICE, 0.73106, True)
    for _ in range(3):
        history.answer(scale=1)
    often = leakage(history, home)
    assert (often["charged_units"], often["worst_units"]) == (4 * PRICE, PERSONS.cap)
    assert often["worst_belief"] == 0.8


@pytest.mark.parametrize("is_proved", [True, False])
def test_a_figure_from_on_site_is_claimed_unless_all_of_it_was_proved(is_proved: bool, home: AuditorHome) -> None:
    """Nothing erased is not enough: verdict, figures and sentence go by what the look on site calls proved."""
    history = History(rules=PERSONS).begin()
    history.answer(scale=1)
    history.cosign()
    seen = OnSite(
        charges_checked=1, charges_erased=0, people_charged=1, worst_charged=3, is_proved=is_proved, counts_checked=0
    )
    audited = replay_parts(in_memory(history.exports()), home, unwatched, site=(lambda *_: seen, 0))
    found, text = report_json(audited)["leakage"], report_text(audited)
    assert (found["worst_units"], found["claimed"]) == (3, not is_proved)
    assert ("as the census agency claims" in text) != is_proved
    assert ("on the census agency's word" in text) != is_proved


def test_strict_figures_are_proved_and_not_claimed(home: AuditorHome) -> None:
    """Everybody is charged for everything: the sum is the ceiling, and nothing about it is anybody's word."""
    found = leakage(honest(5), home)
    assert (found["worst_units"], found["claimed"]) == (found["charged_units"], False)


def test_a_ceiling_follows_the_caps_that_charges_were_made_under(home: AuditorHome) -> None:
    """A lowered cap takes back nothing, a raised one adds only what is charged under it, and a confirmed one counts."""
    history = History(rules=PERSONS).begin()
    history.answer(scale=1)
    lower = logs.policy(accounting="per_person", max_belief="0.6")
    higher = logs.policy(accounting="per_person", max_belief="0.9")
    history.adopt(lower)
    history.answer()
    # No person charged before can have been charged this as well; the others have come to less.
    assert leakage(history, home)["worst_units"] == PRICE
    history.adopt(higher, confirmed=True)
    assert leakage(history, home)["worst_units"] == PRICE
    history.answer(scale=1)
    assert leakage(history, home)["worst_units"] == 2 * PRICE
    history.answer(scale=1)
    assert leakage(history, home)["worst_units"] == higher.cap < 3 * PRICE
    history.adopt(PERSONS)
    found = leakage(history, home)
    assert (found["cap"], found["worst_units"]) == (PERSONS.cap, higher.cap)


def test_a_ceiling_goes_on_from_one_accounting_to_the_other(home: AuditorHome) -> None:
    """Strict charges fall on everybody, on top of what somebody was charged as a person before, and below it after."""
    history = History(rules=PERSONS).begin()
    history.answer(scale=2)
    history.adopt(logs.policy())
    history.answer(scale=30)
    history.adopt(PERSONS, confirmed=True)
    history.answer(scale=30)
    found = leakage(history, home)
    assert found["worst_units"] == found["charged_units"] == price(2) + 2 * price(30)
    assert found["claimed"]


def test_a_household_may_have_been_charged_up_to_the_cap_by_one_answer(home: AuditorHome) -> None:
    """How many of its people were in the sample stands nowhere: the cap is all that can be said."""
    history = History(rules=HOUSEHOLDS).begin()
    history.answer()
    found = leakage(history, home)
    assert (found["subject"], found["worst_units"], found["claimed"]) == ("household", HOUSEHOLDS.cap, True)


def test_a_log_of_several_bundles_holds(home: AuditorHome) -> None:
    """More than 256 entries: full tiles, partial ones, and a level above."""
    history = History(rules=logs.policy(scales=(30, 1000))).begin()
    for _ in range(80):
        history.answer(scale=1000)
    history.cosign()
    assert history.census.size > 256 < history.health.size
    assert codes(replayed(history.exports(), home)) == []
    assert codes(verify_parts(in_memory(history.exports()), home, unwatched)) == []


def test_verify_says_that_it_has_not_replayed(home: AuditorHome) -> None:
    """A broken rule is for replay: `verify` does not see it and says so."""
    exports = DAMAGES["charge_too_small"].make()
    audited = verify_parts(in_memory(exports), home, unwatched)
    assert codes(audited) == []
    assert any("audit replay" in text for text in audited.findings.not_checked)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in DAMAGES
        if re.match(r"bit_flip|reordered|duplicated|deleted|bundle|tile|unknown_|giant_(?!entry)|two_histories$", name)
        and name not in {"unknown_entry_type", "unknown_version"}
    ],
)
def test_verify_finds_what_replay_finds_of_files_and_signatures(name: str, home: AuditorHome) -> None:
    """Every damage to files and signatures is found without the rules of the logs."""
    damage = DAMAGES[name]
    assert codes(verify_parts(in_memory(damage.make()), home, unwatched))[0] in damage.codes


def test_keys_that_were_changed_in_the_log_are_followed(home: AuditorHome) -> None:
    """After rotations of every key that signs something, old and new notes and receipts hold."""
    history = honest(1)
    for party, append, purposes in (
        (history.census_party, history.write_census, ("log", "witness", "answer")),
        (history.health_party, history.write_health, ("log", "witness")),
    ):
        for purpose in purposes:
            party.renew(purpose, now_ms=history.now_ms, until_ms=history.now_ms + 1)
            append(logs.announced(party))
    history.write_census(logs.registered(history.health_party))
    history.write_health(logs.registered(history.census_party))
    history.pass_time(1000)
    history.cosign()
    history.answer()
    history.cosign()
    assert codes(replayed(history.exports(), home)) == []


def test_a_ticket_whose_key_ended_before_it_was_charged_was_good(home: AuditorHome) -> None:
    """A ticket is verified when it comes; that its key ends before the charge a moment later is nobody's fault."""
    history = honest(1)
    asked = history.ask("submit forward")
    history.researcher.renew("ticket", now_ms=history.now_ms, until_ms=history.now_ms + 1)
    history.pass_time(10)
    history.write_census(logs.registered(history.researcher, projects=("study",)))
    history.charge(asked)
    assert codes(replayed(history.exports(), home)) == []


def test_a_ticket_under_a_key_that_had_ended_long_before_is_not(home: AuditorHome) -> None:
    """A finder of an old key cannot ask with it."""
    history = honest(1)
    thief = history.researcher.copy()
    history.researcher.renew("ticket", now_ms=history.now_ms, until_ms=history.now_ms + 1)
    history.pass_time(1000)
    history.write_census(logs.registered(history.researcher, projects=("study",)))
    history.cosign()
    history.researcher = thief
    history.ask("submit forward charge")
    assert codes(replayed(history.exports(), home)) == ["TICKET_UNSIGNED"]


def test_a_ticket_refused_for_its_key_or_project_is_nobodys_fault(home: AuditorHome) -> None:
    """Nothing was asked of the census agency by it; charged, the same ticket is a charge that must not be."""
    history = honest(1)
    renewed = history.researcher.copy()
    refused = [history.order(project_id="of-somebody-else")]
    renewed.renew("ticket", now_ms=history.now_ms, until_ms=history.now_ms + 1)
    history.researcher, known = renewed, history.researcher
    refused.append(history.order())
    history.researcher = known
    for asked in refused:
        asked.state = "refused"
    verdict = replayed(history.exports(), home)
    assert codes(verdict) == []
    assert texts.UNKNOWN_RESEARCHERS in verdict.findings.not_checked
    for asked in refused:
        history.submit(asked)
        history.forward(asked)
        history.charge(asked)
    assert codes(replayed(history.exports(), home)) == ["TICKET_UNSIGNED", "TICKET_UNSIGNED"]


# --- under way ---------------------------------------------------------------------------------------------------------


def test_what_is_under_way_is_pending_and_no_problem(home: AuditorHome) -> None:
    """At whatever step exports are made, nothing is a problem, and what is under way is said."""
    history = honest(1)
    asked = history.order()
    seen: list[set[tuple[str, str]]] = []
    for step in (
        lambda: history.submit(asked),
        lambda: history.forward(asked),
        lambda: history.charge(asked),
        lambda: history.report_charge(asked),
        history.cosign,
        lambda: history.release(asked),
        lambda: history.receive(asked),
        lambda: history.deliver(asked),
        lambda: history.settle(asked),
        history.cosign,
    ):
        step()
        audited = replayed(history.exports(), home)
        assert codes(audited) == []
        seen.append(set(audited.findings.pending))
    assert seen[0] == {("OPEN", "health"), ("ENTRIES", "health")}
    assert ("CHARGED", "census") in seen[2]
    assert ("RELEASED", "census") in seen[5]
    assert seen[-1] == set()


def test_samples_that_were_never_charged_are_counted(home: AuditorHome) -> None:
    """A census node that throws questions away leaves this: by researcher and code, and no problem by itself."""
    history = honest()
    history.commit_slots()
    history.cosign()
    report = report_json(replayed(history.exports(), home))
    assert (report["uncharged_samples"], report["refusals"], report["unanswered"]) == (0, [], [])
    waiting, *refused, strange, unsent = (history.order() for _ in range(5))
    for asked in (*refused, strange, unsent, waiting):
        history.submit(asked)
    for asked in (*refused, strange, waiting):
        history.forward(asked)
    report = report_json(replayed(history.exports(), home))
    assert (report["uncharged_samples"], report["refusals"]) == (4, [])
    assert report["unanswered"] == [{"researcher": "alice", "count": 4}]
    for asked in refused:
        history.refuse(asked, "SLOT_UNUSABLE")
    history.write_health(Refused(ticket=unsent.hash, code="ROSTER_NOT_IN_FORCE"))
    history.refuse(strange, "X" * 64)
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    report, text = report_json(audited), report_text(audited)
    assert report["uncharged_samples"] == 4
    assert report["refusals"] == [
        {"researcher": "alice", "code": "SLOT_UNUSABLE", "count": 2, "follows": 0, "without_reason": 0},
        {"researcher": "alice", "code": "UNKNOWN", "count": 1, "follows": 0, "without_reason": 0},
    ]
    assert report["unanswered"] == [{"researcher": "alice", "count": 1}]
    assert "4 handed over and never charged: 3 refused, 1 without a word of the census node" in text
    assert "2 of alice refused with SLOT_UNUSABLE" in text
    assert "1 of alice without a word" in text
    history.charge(waiting)
    report = report_json(replayed(history.exports(), home))
    assert (report["uncharged_samples"], report["unanswered"]) == (3, [])


def test_without_all_of_both_logs_uncharged_samples_are_not_counted(home: AuditorHome) -> None:
    """A charge could stand in what is not there; then the report has no figure, and no line."""
    history = honest()
    before = history.exports()
    history.answer()
    cut = history.exports() | {"census": before["census"]}
    history.health.append_bytes(b"{}")
    damaged = DAMAGES["unknown_entry_type"].make()
    for exports in (cut, damaged, before | {"health": history.health.files()}, {"census": before["census"]}):
        audited = replayed(exports, home)
        assert report_json(audited)["uncharged_samples"] is None
        assert "never charged" not in report_text(audited)


def test_what_one_party_has_not_handed_in_yet_is_pending(home: AuditorHome) -> None:
    """A charge that is newer than what the health agency, as its export shows, had seen is no problem."""
    history = honest(1)
    before = history.exports()
    history.ask("submit forward charge")
    audited = replayed(history.exports() | {"health": before["health"]}, home)
    assert codes(audited) == []
    assert audited.findings.pending["UNSEEN", "health"] == 1


def test_a_log_that_nobody_cosigned_says_so(home: AuditorHome) -> None:
    """Before the first cosignature everything is pending, and the report says that nobody vouches for it."""
    history = History()
    for event in logs.beginning("census"):
        history.write_census(event)
    for event in logs.beginning("health"):
        history.write_health(event)
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert audited.findings.pending["ENTRIES", "census"] == 5
    assert sum("cosigned was handed in" in text for text in audited.findings.not_checked) == 2


def test_without_receipts_their_absence_is_said(home: AuditorHome) -> None:
    """Researchers need not hand anything in; then it is said what was not compared."""
    exports = honest(2).exports()
    del exports["researcher"]
    audited = replayed(exports, home)
    assert codes(audited) == []
    assert any("2 of 2 charged questions" in text for text in audited.findings.not_checked)


def test_a_second_manifest_for_a_ticket_is_found(home: AuditorHome) -> None:
    """Whichever of them was charged: a health agency vouches for one sample of a ticket."""
    for charged_first in (True, False):
        history = honest(1)
        asked = history.ask("submit forward")
        if charged_first:
            history.charge(asked)
        history.forward(asked, manifest=logs.hash_of(5000))
        assert "FORWARDED_TWICE" in codes(replayed(history.exports(), home))


@pytest.mark.parametrize(
    "name",
    ["settled_and_never_released", "manifest_that_does_not_match_the_charge", "delivered_and_never_received"],
)
def test_where_two_parties_contradict_each_other_neither_is_blamed(name: str, home: AuditorHome) -> None:
    """Either may lie: the problem is one of everything that was handed in, and its text names the entries."""
    audited = replayed(DAMAGES[name].make(), home)
    assert [problem["log"] for problem in report_json(audited)["problems"]] == [""]
    text = report_text(audited)
    assert "in what was handed in." in text.splitlines()[0]
    assert "of the census log" in text


# --- answers that are held back ----------------------------------------------------------------------------------------


def held_back(history: History) -> Asked:
    """A charge that was cosigned, as both agencies show, and whose answer is not out."""
    return history.ask("submit forward charge report_charge cosign")


def test_while_the_node_is_down_nothing_is_held_back(home: AuditorHome) -> None:
    """A month between two starts is no work, whatever an operator writes meanwhile; ten minutes after the start are."""
    history = honest(1)
    held_back(history)
    history.answer()
    history.pass_time(30 * DAY_MS)
    history.write_census(logs.loaded("load2", release="2021"))
    history.pass_time(30 * DAY_MS)
    history.commit_slots(starting=True)
    history.cosign()
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert audited.findings.pending["CHARGED", "census"] == 1
    history.pass_time(700_000)
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == ["ANSWER_SUPPRESSED"]


def test_work_is_added_up_over_all_starts(home: AuditorHome) -> None:
    """A node that starts again every nine minutes works as long as any other."""
    history = honest(1)
    held_back(history)
    history.answer()
    for expected in ([], ["ANSWER_SUPPRESSED"]):
        history.commit_slots(starting=True)
        history.pass_time(540_000)
        history.commit_slots()
        history.cosign()
        assert codes(replayed(history.exports(), home)) == expected


def test_a_witness_that_cosigns_is_at_work(home: AuditorHome) -> None:
    """A census node that writes nothing, and cosigns the health log half an hour later, was there all the time."""
    history = honest(1)
    held_back(history)
    history.answer()
    history.pass_time(1_800_000)
    history.write_health(logs.loaded("load2", release="2021"))
    history.cosign()
    assert codes(replayed(history.exports(), home)) == ["ANSWER_SUPPRESSED"]


def test_where_only_the_witness_says_when_its_clock_may_be_wrong(home: AuditorHome) -> None:
    """Nothing in the census log says when the cosignature came: half an hour after its time is no problem, two hours are."""
    history = honest(1)
    held_back(history)
    history.pass_time(1_800_000)
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == []
    history.pass_time(5_400_000)
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == ["ANSWER_SUPPRESSED"]


def test_a_cosignature_that_is_dated_back_accuses_nobody(home: AuditorHome) -> None:
    """The health agency cosigns this very second, and dates it in 1970: nothing was cosigned before it was written."""
    history = honest(1)
    history.ask("submit forward charge")
    history.pass_time(700_000)
    history.commit_slots()
    history.cosign(time_s=1)
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert audited.findings.pending["CHARGED", "census"] == 1


def test_what_the_health_agency_alone_has_cosigned_accuses_nobody(home: AuditorHome) -> None:
    """It cosigned and died, or never meant to tell: an answer waits for what the census agency has not heard of."""
    history = honest(1)
    before = history.cosigned["census"].encode()
    held_back(history)
    history.pass_time(30 * DAY_MS)
    history.commit_slots()
    exports = history.exports()
    exports["census"][COSIGNED] = before
    audited = replayed(exports, home)
    assert codes(audited) == []
    assert audited.findings.pending["WITNESSED", "census"] == 1
    assert ("CHARGED", "census") not in audited.findings.pending
    assert "shows no cosignature of" in report_text(audited)


def test_whoever_is_passed_by_twice_is_not_held_back_yet(home: AuditorHome) -> None:
    """Answers of one tick are written in any order, and exports are made in between: only a third round is too much."""
    history = honest(1)
    held_back(history)
    for expected in ([], [], [], ["ANSWER_SUPPRESSED"]):
        history.commit_slots()
        history.cosign()
        history.answer(slot=history.next_slot - 1)
        history.cosign()
        assert codes(replayed(history.exports(), home)) == expected


def test_ticks_that_become_shorter_hold_nothing_back(home: AuditorHome) -> None:
    """Questions under a policy of short ticks overtake one that waits for a long one: no problem, until time says so."""
    history = honest(1)
    held_back(history)
    history.answer()
    history.adopt(logs.policy(quote_lifetime_ms=50_000))
    for _ in range(4):
        history.commit_slots()
        history.cosign()
        history.answer(slot=history.next_slot - 1)
    history.cosign()
    assert codes(replayed(history.exports(), home)) == []


def test_ages_are_not_judged_by_a_clock_that_was_ahead(home: AuditorHome) -> None:
    """An answer that expired because the clock ran ahead: no problem, and said. An answer that is only old by that clock is not old."""
    history = honest(1)
    asked = held_back(history)
    history.release(asked)
    held_back(history)
    now_s = history.now_ms // 1000
    history.pass_time(40 * DAY_MS)
    at = history.write_census(Expired(ticket=asked.hash))
    asked.state = "expired"
    history.cosign(time_s=now_s + 2)
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert audited.findings.pending["CHARGED", "census"] == 1
    said = f"Expiries and ages from entry {at} of the census log on: its clock was more than an hour ahead"
    assert any(text.startswith(said) for text in audited.findings.not_checked)


def test_what_was_held_back_before_the_clock_ran_ahead_is_found(home: AuditorHome) -> None:
    """A wrong clock is no excuse for what was old by the right one."""
    history = honest(1)
    held_back(history)
    history.answer()
    history.pass_time(DAY_MS)
    history.answer()
    now_s = history.now_ms // 1000
    history.pass_time(40 * DAY_MS)
    history.commit_slots()
    history.cosign(time_s=now_s)
    audited = replayed(history.exports(), home)
    assert codes(audited) == ["ANSWER_SUPPRESSED"]
    assert any("ahead" in text for text in audited.findings.not_checked)


def test_honest_clocks_are_not_said_to_be_ahead(home: AuditorHome) -> None:
    """A witness half an hour behind is nothing to be said."""
    history = honest(1)
    history.cosign(time_s=history.now_ms // 1000 - 1800)
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert not any("ahead" in text for text in audited.findings.not_checked)


def test_the_clock_of_an_agency_that_nobody_knows_says_nothing(home: AuditorHome) -> None:
    """A health agency of the census agency's own making cannot make ages uncertain."""
    history = begun_with_neighbour(History())
    cosigner = Cosigner(logs.NEIGHBOUR.card.card.origin, logs.NEIGHBOUR.signing(Purpose.WITNESS))
    history.cosigned["census"] = cosigner.cosign(history.cosigned["census"], 1)
    history.answer()
    history.cosign()
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    assert not any("ahead" in text for text in audited.findings.not_checked)


# --- audits in a row ---------------------------------------------------------------------------------------------------


def test_a_later_audit_goes_on_from_the_one_before(home: AuditorHome) -> None:
    """The newest verified checkpoint of each log is kept."""
    history = honest(1)
    assert codes(replayed(history.exports(), home)) == []
    first = home.seen("census")
    history.answer()
    history.cosign()
    assert codes(replayed(history.exports(), home)) == []
    assert home.seen("census") == history.census.note() != first


def test_a_log_that_shrank_since_the_last_audit_is_rolled_back(home: AuditorHome) -> None:
    """Yesterday's database, with nothing in it that is wrong, is found out by what this auditor saw."""
    history = honest(1)
    yesterday = history.exports()
    history.answer()
    history.cosign()
    assert codes(replayed(history.exports(), home)) == []
    before = home.seen("census")
    assert sorted(codes(replayed(yesterday, home))) == ["ROLLED_BACK", "ROLLED_BACK"]
    assert home.seen("census") == before


def test_a_withheld_tail_with_new_keys_in_it_is_called_what_it_is(home: AuditorHome) -> None:
    """A known key also signed the proof that the log is longer: unknown keys beside it are no excuse."""
    history = honest()
    before = history.exports()
    for party, purpose in ((history.census_party, "log"), (history.health_party, "witness")):
        party.renew(purpose, now_ms=history.now_ms, until_ms=history.now_ms + 3_600_000)
    history.write_census(logs.announced(history.census_party))
    history.write_census(logs.registered(history.health_party))
    history.write_health(logs.announced(history.health_party))
    history.write_health(logs.registered(history.census_party))
    history.answer()
    history.cosign()
    audited = replayed(history.exports() | {"census": before["census"]}, home)
    assert set(codes(audited)) == {"LOG_BEHIND"}


def test_two_auditors_who_are_shown_two_histories_find_out_by_their_notes(home: AuditorHome, tmp_path: Path) -> None:
    """Each history holds by itself; one auditor's note convicts the other history, by the log's own signature."""
    history = History().begin()
    history.answer()
    exports = history.exports()
    other = SignedLog(history.census_party)
    other.policy = history.census.policy
    for entry in history.census.entries[:-1]:
        other.append_bytes(entry)
    other.append(Delivered(ticket=history.asked[-1].hash, by="collect"), history.now_ms)
    # Nobody has cosigned the last entry, so that nothing else is wrong with it.
    notes = {name: exports["census"][name] for name in (COSIGNED, WITNESSED)}
    beside = exports | {"census": other.files() | notes}
    alone = AuditorHome(auditor(tmp_path / "other"))
    assert codes(replayed(beside, alone)) == []
    home.remember("census", alone.seen("census"))
    assert codes(replayed(exports, home)) == ["SPLIT_VIEW"]


# --- whom the auditor trusts -------------------------------------------------------------------------------------------


def test_a_log_of_another_root_is_refused(tmp_path: Path) -> None:
    """A second deployment under the same names does not have the keys that the auditor's cards name."""
    stranger = Party(logs.CENSUS.identity, logs.ORIGIN, randomness=SeededRandomness("stranger"))
    home = AuditorHome(auditor(tmp_path / "auditor", (stranger, logs.HEALTH)))
    found = codes(replayed(honest(1).exports(), home))
    assert found[0] == "CARD_INVALID"


def test_a_second_log_of_the_same_agency_is_refused(tmp_path: Path) -> None:
    """A separate log for the auditor needs another name than the real one, which is not the card's."""
    history = honest(1)
    identity = history.census_party.signing(Purpose.IDENTITY)
    other = Party(logs.CENSUS.identity, "second.test/log", given={"identity": identity})
    home = AuditorHome(auditor(tmp_path / "auditor", (other, logs.HEALTH, logs.ALICE)))
    found = codes(replayed(history.exports(), home))
    assert "LOG_NOT_TRUSTED" in found
    assert home.seen("census") == ""


def test_receipts_under_keys_that_a_cut_log_does_not_tell_are_not_judged(home: AuditorHome) -> None:
    """Questions that half a log cannot settle are said not to be checked; the entry where it breaks is the one problem."""
    history = honest(1)
    history.census.append_bytes(b"{}")
    history.census_party.renew("answer", now_ms=history.now_ms, until_ms=history.now_ms + 1)
    history.write_census(logs.announced(history.census_party))
    history.answer()
    history.cosign()
    audited = replayed(history.exports(), home)
    assert codes(audited) == ["ENTRY_MALFORMED"]
    assert any("answer keys" in text for text in audited.findings.not_checked)
    assert ("CHARGED", "census") not in audited.findings.pending


def test_a_link_among_receipts_is_named(home: AuditorHome, tmp_path: Path) -> None:
    """On disk as in memory: what is no plain file is a problem and is not followed."""
    directory = write(honest(1).exports(), tmp_path / "exports")
    (directory / "researcher" / "receipts" / "link.json").symlink_to("/dev/zero")
    (directory / "census" / "tile" / "pipe").symlink_to("/dev/zero")
    parts = {role: FolderPart(directory / role) for role in ("researcher", "health", "census")}
    audited = replay_parts(parts, home, unwatched)
    assert codes(audited) == ["FILE_UNUSABLE", "FILE_UNUSABLE"]


def test_a_home_without_cards_is_no_auditors_home(tmp_path: Path) -> None:
    """Without anybody to trust nothing can be verified."""
    path = auditor(tmp_path / "auditor", (logs.HEALTH,))
    with pytest.raises(InvalidRequestError, match="no card of a census agency"):
        AuditorHome(path)


def test_parties_whose_cards_the_auditor_lacks_are_named(tmp_path: Path) -> None:
    """Nobody is taken for known on another's word without the report saying so."""
    home = AuditorHome(auditor(tmp_path / "auditor", (logs.CENSUS, logs.HEALTH)))
    audited = replayed(honest(1).exports(), home)
    assert codes(audited) == []
    assert any("researcher alice" in text for text in audited.findings.not_checked)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("charged_to_an_agency_of_its_own", []),
        # A ticket that one agency accepted is no ticket of the other's.
        ("ticket_of_one_agency_charged_to_another", ["CHARGE_DIFFERS"]),
    ],
)
def test_an_auditor_may_trust_several_health_agencies(name: str, expected: list[str], tmp_path: Path) -> None:
    """The log of one is looked at; of the other's charges it is said that its log was not handed in."""
    path = auditor(tmp_path / "auditor", (logs.CENSUS, logs.HEALTH, logs.NEIGHBOUR, logs.ALICE))
    with pytest.raises(InvalidRequestError, match="several health agencies"):
        AuditorHome(path)
    (path / "config.toml").write_text('role = "auditor"\nhealth = "health-on"\n')
    audited = replayed(DAMAGES[name].make(), AuditorHome(path))
    assert codes(audited) == expected
    assert "1 charges for health-x: its log was not handed in." in audited.findings.not_checked


def test_an_auditor_who_lacks_the_card_of_a_second_agency_is_told_how_it_is_taken(tmp_path: Path) -> None:
    """Cosignatures of that agency alone count for nothing until then, and an honest log looks damaged."""
    home = AuditorHome(auditor(tmp_path / "auditor", (logs.CENSUS, logs.HEALTH, logs.ALICE)))
    audited = replayed(DAMAGES["slot_under_a_checkpoint_of_an_agency_of_its_own"].make(), home)
    (found,) = (each for each in audited.findings.problems if each.code == "NOT_COSIGNED")
    assert "'auditor register'" in found.text


# --- codes and texts ---------------------------------------------------------------------------------------------------


def test_every_code_of_the_logs_rules_has_a_sentence() -> None:
    """Every code that replay raises is in the table, and nothing else is called a rule of the logs."""
    source = "".join((TLOG / name).read_text() for name in ("census_state.py", "health_state.py", "replay.py"))
    policy = (TLOG.parent / "privacy" / "policy.py").read_text()
    raised = set(re.findall(r'_(?:require|refuse)\(\s*entry,\s*(?:[^"]|"[a-z_ ]*")*?"([A-Z_]+)"', source))
    raised |= set(re.findall(r'Weakness\(\s*"([A-Z_]+)"', policy))
    raised |= {"CARD_INVALID", "NOT_REGISTERED"}
    assert raised == set(RULES)


def test_every_code_is_found_by_some_damage_or_said_why_not() -> None:
    """A code that nothing can raise would be a promise that nobody keeps."""
    elsewhere = {
        # Files on a disk, the command itself, more than can be listed.
        *("FILE_UNUSABLE", "TOO_MANY_PROBLEMS"),
        # A census agency's sealed evidence: `test_openings`.
        *("OPENING_UNREADABLE", "OPENING_DIFFERS", "NOISE_WRONG"),
        # Private stores: `test_on_site` of the census node.
        *ON_SITE,
        # Rules of the logs, which the tests of `broker_common.tlog` break one by one.
        *RULES,
    }
    raised = set().union(*(damage.codes for damage in DAMAGES.values()))
    assert set(CODES) - raised <= elsewhere


def test_problems_are_bounded_and_printable() -> None:
    """Whatever is handed in, the report is short, counts everything, and does nothing to a terminal."""
    findings = Findings()
    for number in range(MOST_PROBLEMS + 50):
        findings.problem("UNKNOWN_FILE", "census", number, "\x1b[2J" + "x" * 10_000)
    assert findings.count == MOST_PROBLEMS + 50
    assert len(findings.problems) == MOST_PROBLEMS + 1
    assert findings.problems[-1].code == "TOO_MANY_PROBLEMS"
    assert all(problem.text.isprintable() and len(problem.text) < 500 for problem in findings.problems)


def test_the_first_line_names_the_first_problem(home: AuditorHome) -> None:
    """Who reads one line reads the verdict, the code and the place."""
    text = report_text(replayed(DAMAGES["charge_too_small"].make(), home))
    assert text.splitlines()[0] == "NOT VERIFIED: 1 problem; the first is CHARGE_WRONG in census log, entry 12."


# --- the report for a commissioner -------------------------------------------------------------------------------------

PARTS = ("census", "health", "researcher")
DRILL = "complaint <b>114</b> under review"


def page_of(audited: Audited, code: str = "en") -> str:
    """The report as somebody reads it, tag by tag on a line of its own."""
    return report_html(audited, language(code), made_ms=DAY_MS, parts=PARTS)


def read(page: str) -> str:
    """Words of the page, in its order."""
    body = page[page.index("<main") :]
    return html.unescape(re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", body))).strip()


def eventful() -> History:
    """A history with one of each thing that a commissioner wants to hear of."""
    history = honest(2, accounting="per_person")
    for name, order in (("shutdown", logs.shut_down), ("reopen", logs.reopened)):
        history.write_census(order(history.census_state(), DRILL if name == "shutdown" else "closed without finding"))
    history.adopt(logs.policy(accounting="per_person", max_belief="0.85"), confirmed=True)
    history.census_party.renew(Purpose.ANSWER.value)
    history.write_census(logs.announced(history.census_party))
    history.write_health(logs.loaded("load2", release=RELEASE, commitment=logs.hash_of(2)))
    history.write_health(logs.revoked(logs.ALICE, note="end of contract"))
    history.cosign()
    return history


def damaged_exports() -> Exports:
    """The hand-in, with one bit of the last charge flipped."""
    exports = honest(3).exports()
    entries = bundle_of(exports, "census")
    last = max(number for number, entry in enumerate(entries) if b'"units":' in entry)
    entries[last] = flipped(entries[last], entries[last].index(b'"units":') + len(b'"units":'))
    return with_entries(exports, "census", entries)


def test_a_commissioner_reads_the_verdict_first(home: AuditorHome) -> None:
    """Then what was handed in, the belief with its limit, and what could not be checked, before any table of figures."""
    text = read(page_of(replayed(honest(2).exports(), home)))
    order = [
        text.index(each)
        for each in (
            "Everything that was handed in holds",
            "Handed in: census (census-ca), health (health-on), researcher.",
            "Nobody who started at even odds can be surer than",
            "What could not be checked",
            "Figures, and where they come from",
            "Timeline",
            "Questions by researcher and project",
            "Glossary",
        )
    ]
    assert text.startswith("✓ Everything that was handed in holds")
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("code", "verdict"), [("en", "NOT VERIFIED: 1 problem"), ("fr", "NON CONFORME\u00a0: 1 problème")]
)
def test_a_damaged_export_gives_a_report_whose_verdict_says_so_first(
    home: AuditorHome, code: str, verdict: str
) -> None:
    """With the problem and its place, and no figure without the warning that it proves nothing."""
    audited = replayed(damaged_exports(), home)
    text = read(page_of(audited, code))
    assert text.startswith(f"! {verdict} ")
    t = language(code)
    (problem,) = audited.findings.problems
    assert text.index(t(CODES[problem.code])) < text.index(t("What could not be checked"))
    warning = t("While there are problems, the figures below are what could be read and prove nothing.")
    belief = t(
        "Nobody who started at even odds can be surer than {worst} of one person's language; the limit is {limit}."
    )
    assert text.count(warning) == text.count(belief.partition("{")[0]) == 2
    assert text.index(warning) < text.index(belief.partition("{")[0])


def test_a_log_that_cannot_be_replayed_is_not_said_to_have_had_no_policy(home: AuditorHome) -> None:
    """Nothing readable is no promise: the report says that leakage could not be computed."""
    exports = honest(1).exports()
    audited = replayed({"census": {}, "health": exports["health"]}, home)
    text = read(page_of(audited))
    assert text.startswith("! NOT VERIFIED")
    assert "could not be computed" in text
    assert "No policy was ever in force" not in text


def test_the_timeline_tells_what_people_decided_with_reasons_and_entries(home: AuditorHome) -> None:
    """Policies, orders, registrations, a revocation, loads and new keys: each with its entry, and with the reason given."""
    history = eventful()
    audited = replayed(history.exports(), home)
    assert codes(audited) == []
    text = read(page_of(audited))
    size = history.census.size
    for each in (
        "census log, entry 2 Registered health-on (health)",
        "census log, entry 3 Registered alice (researcher); projects: study",
        "Policy adopted: no belief above 80%",
        f"census log, entry {size - 4} Shut down by the operator. Reason: {DRILL}",
        f"census log, entry {size - 3} Reopened by the operator. Reason: closed without finding",
        f"census log, entry {size - 2} Weaker policy adopted, confirmed by the operator: no belief above 85%",
        f"census log, entry {size - 1} New keys of census-ca (census): answer",
        f"health log, entry {history.health.size - 2} Load load2 in force",
        f"health log, entry {history.health.size - 1} Revoked alice (researcher). Reason: end of contract",
    ):
        assert each in text


@pytest.mark.parametrize("code", ["en", "fr"])
def test_every_figure_says_which_entries_it_comes_from(home: AuditorHome, code: str) -> None:
    """And they are entries of that type, the first and the last of the log."""
    history, t = eventful(), language(code)
    audited = replayed(history.exports(), home)
    page = page_of(audited, code)
    table = page[page.index(t("Figures, and where they come from")) :]
    rows = re.findall(
        r"<th[^>]*><span>(.+?)</span></th>\s*<td[^>]*><span>(.+?)</span></td>\s*<td[^>]*><span>(.+?)</span></td>",
        table.partition("</table>")[0],
    )
    assert len(rows) == 10
    sources = {html.unescape(name): html.unescape(source) for name, _, source in rows}
    charged, adopted = audited.histories["census"].entries["charged"], audited.histories["census"].entries["adopted"]
    found = [
        number for number, entry in enumerate(history.census.entries) if parse_entry(entry).event.__class__ is Charged
    ]
    assert charged == (found[0], found[-1])
    assert sources[t("Answers charged")] == t(
        "entries of type {type}, {first} to {last}",
        type="charged",
        first=t.number(charged[0]),
        last=t.number(charged[1]),
    )
    assert str(adopted[1]) in sources[t("Limit of belief")]
    assert t("entries {first} to {last}", first=t.number(charged[0]), last=t.number(charged[1])) in read(page)


def test_a_strangers_words_are_text_in_the_report(home: AuditorHome) -> None:
    """No tag of a reason or of a researcher's project is one on the page, and no control character reaches it."""
    history = eventful()
    page = page_of(replayed(history.exports(), home))
    assert "<b>114" not in page
    assert "&lt;b&gt;114&lt;/b&gt;" in page
    assert not re.search(r"<script|\son[a-z]+=|https?://", page)


def test_a_code_that_no_node_says_does_not_fill_the_report(home: AuditorHome) -> None:
    """A health log with an endless code of refusal is counted as unknown."""
    history = History().begin()
    asked = history.ask("submit forward")
    history.refuse(asked, "X" * 64)
    history.cosign()
    page = page_of(replayed(history.exports(), home))
    assert "X" * 64 not in page
    assert "UNKNOWN" in page


def test_what_persons_were_charged_is_a_claim_in_the_verdict(home: AuditorHome) -> None:
    """Under strict accounting everybody is charged, which needs no claim."""
    sentence = "That nobody was charged more is the census agency's claim"
    assert sentence in read(page_of(replayed(honest(1, accounting="per_person").exports(), home)))
    assert sentence not in read(page_of(replayed(honest(1).exports(), home)))


def test_the_french_report_is_french(home: AuditorHome) -> None:
    """No sentence of the English one is left in it, decimals have a comma, and spaces before signs do not break."""
    audited = replayed(eventful().exports(), home)
    english, french = read(page_of(audited)), read(page_of(audited, "fr"))
    for text in (
        "Timeline",
        "Reason",
        "Nobody who",
        "Entries of",
        "handed in",
        "charged to",
        "Registered",
        "Figures",
        "from",
    ):
        assert text in english
        assert text not in french
    assert re.search(r"[0-9],[0-9]{2}\u00a0%", french)
    assert not re.search(r"[0-9]\.[0-9]|[0-9] %| :| »|« |\ufffd", french)


# --- quotes that honest nodes give -------------------------------------------------------------------------------------


def test_quote_before_an_answer_is_let_out(home: AuditorHome) -> None:
    """Its release stands in the log, and it is told at its tick: until then one answer more is left."""
    history = honest()
    history.release(held_back(history))
    history.order(quoted={"remaining": 40})
    history.order(quoted={"remaining": 39})
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == []


def test_quote_of_a_round_that_takes_many_ticks(home: AuditorHome) -> None:
    """A machine that stood still for an hour in the middle of a round has let nothing out meanwhile."""
    history = honest()
    history.release(held_back(history))
    history.pass_time(3_600_000)
    history.commit_slots()
    history.cosign()
    history.order(quoted={"remaining": 40})
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == []


def test_quote_after_a_start_counts_what_can_never_be_answered(home: AuditorHome) -> None:
    """A charge whose sample is gone is spent; before that start nobody was told of it."""
    history = honest()
    held_back(history)
    slot = history.next_slot
    history.commit_slots(starting=True)
    history.cosign()
    history.order(slot=slot, quoted={"remaining": 39})
    history.order(slot=slot + 1, quoted={"remaining": 40})
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == []


def test_quote_is_read_beside_a_policy_that_is_adopted_at_that_instant(home: AuditorHome) -> None:
    """The operator's command and the node have one millisecond, or clocks that differ: the order between them is not known."""
    history = honest()
    before, rules = bytes.fromhex(history.census.policy), history.rules
    history.adopt(logs.policy(quote_lifetime_ms=61_000))
    history.order(policy_hash=before, expires_ms=history.now_ms + rules.quote_lifetime_ms)
    history.order()
    history.commit_slots()
    assert codes(replayed(history.exports(), home)) == []


def test_quote_newer_than_what_the_census_agency_has_handed_in_is_pending(home: AuditorHome) -> None:
    """Its policy, its release and its key may stand in entries that were not handed in."""
    history = honest()
    census = history.exports()["census"]
    history.adopt(logs.policy(quote_lifetime_ms=61_000))
    history.order()
    history.order(census_release="2026")
    history.census_party.renew(Purpose.ANSWER.value)
    history.order(policy_hash=bytes(32))
    audited = replayed(history.exports() | {"census": census}, home)
    assert codes(audited) == []
    assert audited.findings.pending["QUOTED", "researcher"] == 3
