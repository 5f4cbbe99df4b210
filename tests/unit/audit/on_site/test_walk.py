"""On site: an honest home holds, and a skipped, moved or spared person is found, with the entry and no name."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fakes import logs
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES
from unit.audit.on_site.lies import LIES, change, charged_otherwise, edited, erased, lowered, rows, say_people
from unit.audit.on_site.site import DAY_MS, Carry, Census, Deciding, Site, SiteWorld, carry_between, live, looked_at

from broker_common.audit import texts
from broker_common.audit.codes import ON_SITE
from broker_common.audit.findings import Findings
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Subject
from broker_common.query.dictionary import Dictionary
from broker_common.tlog.entries import Loaded
from broker_common.tlog.replay import replay


def site_of(world: SiteWorld) -> Site:
    """The home as it lies there, with the whole log."""
    return Site(world.home, tuple(world.log), world.now_ms)


def found(site: Site) -> list[tuple[str, int | None]]:
    """Code and entry of every problem; all of them are the census agency's."""
    problems = looked_at(site)[1].problems
    assert all(problem.log == "census" for problem in problems)
    # No pseudonym, no hash.
    assert not any(re.search("[0-9a-f]{8}", problem.text) for problem in problems)
    return [(problem.code, problem.entry) for problem in problems]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A home that has seen everything; its node is down."""
    world = SiteWorld(tmp_path_factory.mktemp("site") / "census")
    live(world)
    site = site_of(world)
    world.close()
    return site


@pytest.fixture
def site(lived: Site, tmp_path: Path) -> Site:
    """A copy to lie about."""
    return Site(Path(shutil.copytree(lived.home, tmp_path / "census")), lived.entries, lived.now_ms)


def test_the_log_of_the_made_home_keeps_the_rules(lived: Site) -> None:
    """The home that is judged on site has passed the offline replay."""
    assert replay(lived.entries, logs.census_state()).answers == 9


def test_an_honest_home_holds(lived: Site) -> None:
    """Every charge that is kept is decided again, before and after loads and keys; what is erased is said to be."""
    seen, findings = looked_at(lived)
    assert findings.problems == []
    assert (seen.charges_checked, seen.charges_erased) == (7, 2)
    assert any("2 charges" in text and "erased" in text for text in findings.not_checked)


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(name: str, site: Site) -> None:
    """Exactly what is wrong is said, at the entry that it is about."""
    told = LIES[name]
    told.tell(site)
    assert sorted(found(site), key=str) == sorted(told.expected(site), key=str)


def test_every_code_of_this_check_is_found_by_some_lie_or_elsewhere() -> None:
    """A code that nothing can raise would be a promise that nobody keeps; a lying count is told of below."""
    assert {problem.partition(":")[0] for told in LIES.values() for problem in told.problems.split()} | {
        "COUNT_WRONG"
    } == set(ON_SITE)


# --- a census node that lies at the charge ---------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SiteWorld]:
    """A home whose node serves."""
    made = SiteWorld(tmp_path / "world")
    yield made
    made.close()


def without_one(_: set[int], fitting: set[int]) -> set[int]:
    """The same without the first who fits."""
    return fitting - {min(fitting)}


def others(_: set[int], fitting: set[int]) -> set[int]:
    """People who do not fit, are not here, or are nobody."""
    return set(range(400)) - fitting


@pytest.mark.parametrize(
    ("decide", "codes"),
    [
        (without_one, ["CHARGE_SKIPPED"]),
        (lambda _here, _fitting: set(), ["CHARGE_SKIPPED"]),
        (lambda here, _fitting: here, ["PERSON_CAP_PASSED"]),
        (lambda _here, _fitting: set(range(400)), ["PERSON_CAP_PASSED"]),
        (others, ["CHARGE_SKIPPED", "PERSON_CAP_PASSED"]),
        (lambda _here, fitting: fitting - {352} | {4}, ["CHARGE_SKIPPED", "PERSON_CAP_PASSED"]),
    ],
    ids=["one is spared", "all are spared", "all here beyond the cap", "everybody", "others", "one for another"],
)
def test_a_node_that_decides_otherwise_for_somebody_is_found(
    decide: Deciding, codes: list[str], world: SiteWorld
) -> None:
    """Its rows, digests and commitments all agree with each other and with the log: offline nothing is to be seen."""
    world.ask(slice(30, 100), scale=1)
    honest, world.decide = world.decide, decide
    world.ask(slice(50, 400), slice(120, 130), scale=2)
    world.decide = honest
    world.ask(slice(0, 400), scale=50)
    replay(world.log, logs.census_state())
    assert sorted(found(site_of(world))) == [(code, site_of(world).entry("c1")) for code in codes]


def test_who_was_skipped_is_missing_in_later_snapshots_too(world: SiteWorld) -> None:
    """Spared people are counted all the same: they may have been counted."""
    honest, world.decide = world.decide, lambda _here, _fitting: set()
    world.ask(slice(0, 10), scale=1)
    world.decide = honest
    world.compact()
    site = site_of(world)
    assert found(site) == [("CHARGE_SKIPPED", site.entry("c0")), ("SNAPSHOT_WRONG", site.entry("c0"))]
    assert looked_at(site)[0].worst_charged == price(1)


def taking_nothing(_: Census, now: Census) -> Carry:
    """A load's carry, without anything in it."""
    return Carry(set(), set(), now.counts)


def test_a_load_that_forgets_who_moved_is_found(world: SiteWorld) -> None:
    """A person whose card became another's in a load took their charge along, or the registry and the samples tell."""
    world.ask(slice(0, 400))
    world.reload(taking_nothing)
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("l1"))]


def test_an_honest_load_takes_along_who_moved(world: SiteWorld) -> None:
    """The same without the lie: the pairs that follow from samples and registry are in the carry."""
    world.ask(slice(0, 400))
    world.reload()
    world.ask(slice(0, 400))
    world.compact()
    assert found(site_of(world)) == []


# People of one card each, whom no load of these moves otherwise.
RENEWED = (21, 122, 213)


def test_an_honest_load_takes_along_who_moved_under_another_card(world: SiteWorld) -> None:
    """A household follows its people: the new card was in no sample, and the person was."""
    world.ask(slice(0, 400))
    world.reload(renewed=RENEWED)
    world.ask(slice(0, 400))
    world.compact()
    assert found(site_of(world)) == []


def test_a_load_that_follows_cards_alone_is_found(world: SiteWorld) -> None:
    """A person who moves and has another card from the same day on would leave the charge of their household behind."""
    world.ask(slice(0, 400))
    world.reload(lambda before, now: carry_between(before, now, homes=False), renewed=RENEWED)
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("l1"))]


# Where the two cards of one person stand among the people.
FIRST_CARD, SECOND_CARD = slice(9, 10), slice(10, 11)


def given_away(world: SiteWorld) -> Census:
    """The load in which the second of these cards is a newcomer's."""
    before, newcomer = world.census, world.census.counts[0]
    cards = before.cards | {world.names[10]: newcomer}
    return Census(cards, before.homes | {newcomer: 0}, (newcomer + 1, before.counts[1]))


def sparing_the_newcomer(before: Census, now: Census) -> Carry:
    """A load's carry, without what the newcomer takes over."""
    honest = carry_between(before, now)
    told = {pair for pair in honest.persons if pair[0] != now.counts[0] - 1}
    assert told != honest.persons
    return replace(honest, persons=told)


@pytest.mark.parametrize("between", [carry_between, sparing_the_newcomer], ids=["honest", "lying"])
def test_a_load_that_forgets_a_card_that_was_left_out_is_found(
    between: Callable[[Census, Census], Carry], world: SiteWorld
) -> None:
    """A person spent under one card and left out under another is not counted anew as the next holder of that one."""
    charged = [world.ask(card, scale=1, question="all") for card in (FIRST_CARD, SECOND_CARD)]
    world.reload(between, census=given_away(world))
    site = site_of(world)
    assert [world.counts[ticket] for ticket in charged] == [(1,), (0,)]
    assert found(site) == ([] if between is carry_between else [("CARRY_WRONG", site.entry("l1"))])


def test_a_change_of_the_key_that_gives_somebody_another_number_is_found(world: SiteWorld) -> None:
    """Nothing is taken over then: a person with another number afterwards has another person's budget."""
    world.ask(slice(0, 10))
    world.change_key(lambda census: replace(census, cards={name: person or 4 for name, person in census.cards.items()}))
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("r0"))]


# --- proved, or on somebody's word -----------------------------------------------------------------------------------


def says(findings: Findings, text: str, count: int) -> bool:
    """Whether this is said not to have been checked, of so many."""
    return text.format(count=count) in findings.not_checked


def test_what_was_looked_at_whole_is_proved(world: SiteWorld) -> None:
    """From the first charge on, on the load that is in force."""
    world.ask(slice(0, 100))
    world.ask(slice(50, 400))
    world.compact()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.is_proved) == ([], True)
    assert not any("loads took over" in text for text in findings.not_checked)


def test_a_load_before_any_charge_takes_nothing_over(world: SiteWorld) -> None:
    """It is gone, and nothing rests on it."""
    world.reload()
    world.reload()
    world.ask(slice(0, 100))
    assert looked_at(site_of(world))[0].is_proved


def test_charges_on_a_load_that_is_kept_are_proved(world: SiteWorld) -> None:
    """After a load that was checked as well, as long as the one before it is there."""
    world.ask(slice(0, 400))
    world.reload()
    world.ask(slice(0, 400), scale=5)
    world.compact()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 2, True)


@pytest.mark.parametrize("subject", ["person", "household"])
def test_a_charge_whose_load_is_gone_is_said_and_not_passed(subject: Subject, tmp_path: Path) -> None:
    """Everybody here cannot be found any more: that alone is said, and the walk goes on from what is committed to."""
    world = SiteWorld(tmp_path / "census", subject=subject)
    world.keeps_loads = False
    world.ask(slice(0, 400))
    world.compact()
    world.reload()
    world.ask(slice(0, 400), scale=5)
    world.compact()
    seen, findings = looked_at(site_of(world), states=world.states)
    assert (findings.problems, seen.charges_checked, seen.counts_checked, seen.is_proved) == ([], 1, 1, False)
    assert says(findings, texts.SUBJECTS_NOT_CHECKED, 1)
    world.close()


def test_a_charge_whose_roster_is_gone_is_said_and_not_passed(world: SiteWorld) -> None:
    """Nobody knows any more whom its bits stand for; who was counted is known, and is counted again."""
    world.ask(slice(0, 400))
    world.send_roster()
    world.ask(slice(0, 400), scale=5)
    world.compact()
    world.forget_roster(1)
    seen, findings = looked_at(site_of(world), states=world.states)
    assert (findings.problems, seen.charges_checked, seen.counts_checked, seen.is_proved) == ([], 1, 2, False)
    assert says(findings, texts.SUBJECTS_NOT_CHECKED, 1)


def test_what_a_load_takes_over_from_people_nobody_knows_is_said(world: SiteWorld) -> None:
    """A person charged by cards of a roster that is gone may be somebody else in the next load, and nobody would see it."""
    world.ask(slice(0, 400))
    world.send_roster()
    world.forget_roster(1)
    world.reload(taking_nothing)
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.is_proved) == ([], False)
    assert says(findings, texts.CARRIES_NOT_CHECKED, 1)


def test_bits_behind_the_last_person_of_the_roster_are_found(world: SiteWorld) -> None:
    """Both agencies commit to them, and no node takes them: a roster that grew afterwards would give them somebody."""
    world.beside = {440}
    world.ask(slice(0, 400))
    site = site_of(world)
    assert found(site) == [("SAMPLE_WRONG", site.entry("c0"))]


def test_who_is_counted_beyond_the_cap_is_found_without_load_and_roster(world: SiteWorld) -> None:
    """No matter who was in the sample, nobody is charged more than the cap."""
    world.keeps_loads = False
    world.ask(slice(0, 400), scale=1)
    world.decide = lambda here, _fitting: here
    world.ask(slice(0, 400), scale=1)
    world.reload()
    world.forget_roster(1)
    site = site_of(world)
    assert found(site) == [("PERSON_CAP_PASSED", site.entry("c1"))]


def test_a_sample_is_held_against_its_own_roster(world: SiteWorld) -> None:
    """Places of another roster of the same agency name other people: it is the number in the charge that counts."""
    world.ask(slice(0, 200))
    world.strangers = world.strangers[5:]
    world.send_roster()
    world.ask(slice(100, 300))
    world.compact()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 2, True)


def test_a_load_that_lied_and_was_replaced_is_not_proved(world: SiteWorld) -> None:
    """Nobody can see any more what it should have taken over, nor who was whose before the load after it."""
    world.keeps_loads = False
    world.ask(slice(0, 400))
    world.reload(taking_nothing)
    world.reload()
    world.ask(slice(0, 400), scale=50)
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 1, False)
    assert says(findings, texts.CARRIES_NOT_CHECKED, 2)


def test_a_load_under_charges_that_are_erased_is_not_checked(world: SiteWorld) -> None:
    """A snapshot has the charges that it took over, and nothing else has."""
    world.ask(slice(0, 400))
    world.reload(taking_nothing)
    world.now_ms += 2 * DAY_MS
    world.erase()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_erased, seen.is_proved) == ([], 1, False)
    assert says(findings, texts.CARRIES_NOT_CHECKED, 1)


def test_a_sample_in_which_nobody_is_linked_is_found_while_it_can_be(world: SiteWorld) -> None:
    """It charges nobody at all: found with its load and its roster, and never called proved without them."""
    world.keeps_loads = False
    world.decide = lambda _here, _fitting: set()
    world.ask(slice(0, 400))
    site = site_of(world)
    assert found(site) == [("CHARGE_SKIPPED", site.entry("c0"))]
    world.reload()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 0, False)
    assert says(findings, texts.SUBJECTS_NOT_CHECKED, 1)


def test_a_problem_leaves_nothing_proved(world: SiteWorld) -> None:
    """Whatever figure stands beside it."""
    world.ask(slice(0, 400))
    world.compact()
    site = site_of(world)
    row = rows(site, "snapshot")[-1]
    (site.home / "ledgers" / str(row["file"])).unlink()
    assert not looked_at(site)[0].is_proved


def test_budgets_per_household_are_decided_again(tmp_path: Path) -> None:
    """A household that does not fit drops whole; and one that is spared is found."""
    world = SiteWorld(tmp_path / "census", subject="household")
    live(world)
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked) == ([], 7)
    world.decide = without_one
    world.ask(slice(0, 400), scale=50)
    assert found(site_of(world)) == [("CHARGE_SKIPPED", site_of(world).entry("c9"))]
    world.close()


# --- what is erased, newer, or not at hand ---------------------------------------------------------------------------


def begun(world: SiteWorld) -> None:
    """Three charges, of which the first is erased, under a snapshot that holds all of them."""
    world.ask(slice(0, 200))
    world.now_ms += DAY_MS // 2
    world.ask(slice(100, 300))
    world.ask(slice(0, 400, 3))
    world.now_ms += DAY_MS // 2
    world.erase()


def test_what_is_kept_behind_an_erased_charge_is_decided_back_from_the_snapshot(world: SiteWorld) -> None:
    """A snapshot holds more than what is erased: nobody who is still kept goes unchecked for it."""
    begun(world)
    world.ask(slice(0, 400))
    seen, findings = looked_at(site_of(world))
    assert findings.problems == []
    assert (seen.charges_checked, seen.charges_erased) == (3, 1)
    assert not any("could not be worked out" in text for text in findings.not_checked)


def test_a_load_that_forgets_behind_an_erased_charge_is_found(world: SiteWorld) -> None:
    """The people in kept samples are not forgotten over the snapshot that they were decided back from."""
    begun(world)
    world.reload(taking_nothing)
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("l1"))]


def test_who_is_skipped_behind_an_erased_charge_is_found(world: SiteWorld) -> None:
    """Although the snapshot after it agrees with the node that skipped."""
    world.decide = without_one
    begun(world)
    site = site_of(world)
    assert [entry for code, entry in found(site) if code == "CHARGE_SKIPPED"] == [site.entry("c1"), site.entry("c2")]


def test_a_snapshot_that_holds_less_than_the_charges_that_are_kept_is_found(world: SiteWorld) -> None:
    """Back from it somebody would have been charged less than nothing."""
    begun(world)
    world.close()
    site = site_of(world)
    (row,) = rows(site, "snapshot")
    lowered(site, row)
    assert ("SNAPSHOT_WRONG", site.entry("c1")) in found(site)


@pytest.mark.parametrize("subject", ["person", "household"])
def test_numbers_of_nobody_behind_an_erased_charge_convict_the_home(tmp_path: Path, subject: Subject) -> None:
    """A damaged sample does not stop the audit that would find it, however far back the audit has to go."""
    world = SiteWorld(tmp_path / "census", subject=subject)
    begun(world)
    site = site_of(world)
    # More than any load has.
    edited(site, 2, lambda plaintext: say_people(plaintext, 10**6))
    assert ("ACTIVE_WRONG", site.entry("c2")) in found(site)
    world.close()


def of_other_subjects(site: Site, row: Mapping[str, object]) -> None:
    """A snapshot of this row's, whose charges are as many as households, where persons were charged."""

    def of_households(charged: list[int]) -> None:
        charged[:] = [0] * 134

    change(site, row, content=charged_otherwise(site, row, of_households))


@pytest.mark.parametrize("keeps", [False, True], ids=["nothing is kept before it", "charges are kept before it"])
def test_a_snapshot_of_other_subjects_convicts_the_home(keeps: bool, world: SiteWorld) -> None:
    """The audit goes on from no table that is not of those who were charged, neither forward nor back."""
    if keeps:
        begun(world)
    else:
        world.ask(slice(0, 200))
        world.now_ms += 2 * DAY_MS
        world.erase()
    world.ask(slice(0, 100))
    site = site_of(world)
    of_other_subjects(site, rows(site, "snapshot")[-1])
    covered = site.entry("c2" if keeps else "c0")
    assert [problem for problem in found(site) if problem[0] == "SNAPSHOT_WRONG"] == [("SNAPSHOT_WRONG", covered)]


def test_an_erased_charge_is_good_only_when_its_time_has_come(world: SiteWorld) -> None:
    """The auditor's clock decides, or the log's where that is ahead."""
    begun(world)
    site = site_of(world)
    early = Site(site.home, site.entries, site.now_ms - DAY_MS // 2)
    assert found(early) == [("ERASED_EARLY", site.entry("c0"))]


def test_what_a_log_that_is_ahead_calls_late_is_late(world: SiteWorld) -> None:
    """A home goes by its log's time where its clock was wrong; an auditor with a right one accuses nobody."""
    begun(world)
    world.ask(slice(0, 10))
    site = site_of(world)
    assert found(Site(site.home, site.entries, site.now_ms - DAY_MS)) == []


def test_what_is_erased_under_no_snapshot_is_found(world: SiteWorld) -> None:
    """However late: of such a charge nothing would be left at all."""
    world.ask(slice(0, 100))
    world.now_ms += 2 * DAY_MS
    world.close()
    site = site_of(world)
    erased(site, rows(site, "charge")[0])
    assert found(site) == [("ERASED_EARLY", site.entry("c0"))]


def test_what_everybody_was_charged_counts_for_everybody(world: SiteWorld) -> None:
    """Strict answers in between leave less room for everybody, and stand in the worst figure."""
    world.ask(slice(0, 100), scale=2)
    again = world.policy
    strict = msgspec.structs.replace(again, accounting="strict")
    world.take_policy(strict)
    world.ask(slice(0, 10), scale=2)
    world.take_policy(again)
    # Who was in the first sample has no room any more.
    world.ask(slice(0, 200), scale=2)
    world.compact()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked) == ([], 2)
    assert seen.people_charged == len({world.census.cards[name] for name in world.names[:200]})
    assert seen.worst_charged == 2 * price(2)


def test_a_snapshot_that_no_charge_commits_to_is_said(world: SiteWorld) -> None:
    """Until the next charge nothing in the log keeps the agency from making another one."""
    begun(world)
    assert any("no charge in the log commits" in text for text in looked_at(site_of(world))[1].not_checked)
    world.ask(slice(0, 10))
    assert not any("no charge in the log commits" in text for text in looked_at(site_of(world))[1].not_checked)


def test_what_is_newer_than_the_export_is_left_alone(world: SiteWorld) -> None:
    """A node that goes on serving makes no problem, and no figure counts what was not handed in."""
    world.ask(slice(0, 100))
    entries = tuple(world.log)
    world.ask(slice(0, 100))
    world.reload()
    world.compact()
    seen, findings = looked_at(Site(world.home, entries, world.now_ms))
    assert (findings.problems, seen.charges_checked, seen.worst_charged) == ([], 1, price(3))
    assert any(text.startswith("2 charges, loads") for text in findings.not_checked)


def test_what_a_node_erases_meanwhile_is_no_problem(world: SiteWorld) -> None:
    """Rows of one instant name files that are gone at the next; that is said, and nobody is accused."""
    world.ask(slice(0, 100))
    world.ask(slice(0, 100))
    site = site_of(world)

    def go_on() -> None:
        world.now_ms += DAY_MS
        world.erase()

    seen, findings = looked_at(Site(site.home, site.entries, site.now_ms + DAY_MS), meanwhile=go_on)
    assert (findings.problems, seen.charges_checked, seen.charges_erased) == ([], 0, 2)
    assert any("while they were being checked" in text for text in findings.not_checked)


def test_without_linkage_keys_the_charges_are_compared(site: Site) -> None:
    """The keys may be kept elsewhere; a charge that was lowered is found all the same."""
    (site.home / "keys" / "linkage.key").unlink()
    seen, findings = looked_at(site)
    assert (findings.problems, seen.charges_checked) == ([], 7)
    assert any("keys are not in this home" in text for text in findings.not_checked)
    assert not seen.is_proved
    LIES["a newest snapshot with somebody's charge lowered"].tell(site)
    assert ("SNAPSHOT_WRONG", site.entry("c8")) in found(site)


def test_another_home_is_refused(site: Site) -> None:
    """An auditor in the wrong place is told so, instead of a thousand problems."""
    other = msgspec.structs.replace(site.entries[0], time_ms=1)
    with pytest.raises(InvalidRequestError, match="is not the home of the census log"):
        looked_at(Site(site.home, (other, *site.entries[1:]), site.now_ms))


# --- counts ----------------------------------------------------------------------------------------------------------


def test_every_opened_count_is_counted_again(world: SiteWorld) -> None:
    """Counts of people with two cards, of dropped ones, of strangers; a node that counts one more is found, and no figure told."""
    world.ask(slice(0, 100), scale=1)
    world.ask(slice(50, 400), scale=1)
    world.ask(slice(0, 0))
    for question in (
        "all",
        "mother_tongue by rest, 'Other', ('English', 'French')",
        "home_language in ('Other', 'French')",
    ):
        world.ask(slice(0, 400, 3), question=question, scale=50)
    seen, findings = looked_at(site_of(world), states=world.states)
    assert (findings.problems, seen.counts_checked) == ([], 6)
    assert all(world.counts[ticket] > (0,) for ticket in list(world.counts)[3:])
    world.miscounted = 1
    world.ask(slice(0, 100))
    site = site_of(world)
    seen, findings = looked_at(site, states=world.states)
    assert [(problem.code, problem.entry) for problem in findings.problems] == [("COUNT_WRONG", site.entry("c6"))]
    assert not re.search("[0-9]", findings.problems[0].text)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_counts_of_another_dictionary_are_counted_by_that_one(
    tmp_path: Path, change: Callable[[Dictionary], Dictionary]
) -> None:
    """A load says itself what its numbers mean: whatever an agency's program has by now, it is not accused of it."""
    world = SiteWorld(tmp_path / "census", dictionary=change(CENSUS_DICTIONARY))
    world.ask(slice(0, 100), scale=1)
    world.ask(slice(50, 400), scale=1)
    seen, findings = looked_at(site_of(world), states=world.states)
    assert findings.problems == []
    assert (seen.counts_checked, seen.charges_checked, seen.is_proved) == (2, 2, True)
    world.close()


def test_a_count_of_what_no_load_holds_is_wrong(world: SiteWorld) -> None:
    """A question that the load's dictionary does not have can have no right count; an audit says so and goes on."""
    # No count of nobody is right by chance either.
    world.ask(slice(0, 0))
    site = site_of(world)
    place = site.entry("c0")
    asked = [
        msgspec.structs.replace(each, event=msgspec.structs.replace(each.event, question="shoe_size = '42'"))
        if each.sequence == place
        else each
        for each in site.entries
    ]
    assert found(Site(site.home, tuple(asked), site.now_ms)) == []
    _, findings = looked_at(Site(site.home, tuple(asked), site.now_ms), states=world.states)
    assert [(problem.code, problem.entry) for problem in findings.problems] == [("COUNT_WRONG", place)]


def test_a_load_that_names_another_dictionary_than_the_log_is_found(world: SiteWorld) -> None:
    """Or an agency could have its counts left unread: the file that the log commits to tells its dictionary too."""
    world.ask(slice(0, 100))
    site = site_of(world)
    told = [
        msgspec.structs.replace(each, event=msgspec.structs.replace(each.event, dictionary="ab" * 32))
        if isinstance(each.event, Loaded)
        else each
        for each in site.entries
    ]
    assert found(Site(site.home, tuple(told), site.now_ms)) == [("REGISTRY_WRONG", site.entry("l0"))]


# --- nothing is written ----------------------------------------------------------------------------------------------


def content_of(home: Path) -> dict[str, bytes]:
    """Every file of a home; the index of the write-ahead log is memory that processes share, and holds nothing."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def killed(site: Site, folder: Path) -> Site:
    """The home as a killed node leaves it: its last writes are in the write-ahead log alone."""
    shutil.copytree(site.home, folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
    return Site(folder / "killed", site.entries, site.now_ms)


@pytest.mark.parametrize("state", ["serving", "stopped", "killed"])
def test_looking_leaves_no_trace(state: str, world: SiteWorld, tmp_path: Path) -> None:
    """With the node up, down, or killed with its last writes in the write-ahead log alone."""
    world.ask(slice(0, 100))
    site = site_of(world)
    if state == "killed":
        site = killed(site, tmp_path)
    if state == "stopped":
        world.close()
    before, names = content_of(site.home), sorted(site.home.rglob("*"))
    assert ("journal.db-wal" in before) == (state != "stopped")
    seen, findings = looked_at(site)
    assert (findings.problems, seen.charges_checked) == ([], 1)
    assert (content_of(site.home), sorted(site.home.rglob("*"))) == (before, names)


def test_an_audit_that_is_killed_leaves_no_copy(
    world: SiteWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first look at a row on nothing of the home lies in the temporary folder, with the node down or killed."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    world.ask(slice(0, 100))
    looks: list[list[Path]] = []
    site = site_of(world)
    left = killed(site, tmp_path)
    world.close()
    for home in (site, left):
        seen, _ = looked_at(home, meanwhile=lambda: looks.append(list(temporary.iterdir())))
        assert seen.charges_checked == 1
    assert len(looks) > 2
    assert not any(looks)
