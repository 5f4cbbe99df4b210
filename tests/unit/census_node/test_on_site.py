"""On site: an honest home holds, and whoever skipped, moved or spared one person is found, with the entry and no name."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fakes.dictionaries import CHANGES, put_in_place
from fakes.site import DAY_MS, LIES, Site, SiteWorld, erased, live, looked_at, lowered, rows
from fakes.world import make_policy, verify_stored_log

from broker_common.audit.codes import ON_SITE
from broker_common.audit.findings import Findings
from broker_common.audit.handed_in import FolderPart
from broker_common.audit.openings import OpenedOnSite
from broker_common.crypto.sealing import OpeningKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price_units
from broker_common.query.dictionary import Dictionary
from broker_common.storage.relinking import Rekeyed
from broker_common.tlog.entries import Loaded
from broker_common.values import ExactCount
from census_node import texts
from census_node.dictionary import CENSUS_DICTIONARY
from census_node.ledgers import Decision, Ledgers
from census_node.linked import NOBODY
from census_node.oversight import Oversight
from census_node.registry import Registry
from census_node.units import Carry, Known

Numbers = npt.NDArray[np.uint32]


def site_of(world: SiteWorld, home: Path | None = None) -> Site:
    """The home as it lies there, with the whole log."""
    return Site(world.census_folder if home is None else home, tuple(world.entries()), world.clock())


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
    world = SiteWorld(tmp_path_factory.mktemp("site"))
    live(world)
    site = site_of(world)
    world.close()
    return site


@pytest.fixture
def site(lived: Site, tmp_path: Path) -> Site:
    """A copy to lie about."""
    return Site(Path(shutil.copytree(lived.home, tmp_path / "census")), lived.entries, lived.now_ms)


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
    assert sorted(found(site), key=str) == sorted(((c, site.entry(where)) for c, where in told.problems), key=str)


def test_every_code_of_this_check_is_found_by_some_lie_or_elsewhere() -> None:
    """A code that nothing can raise would be a promise that nobody keeps; a lying count is told of below."""
    assert {code for told in LIES.values() for code, _ in told.problems} | {"COUNT_WRONG"} == set(ON_SITE)


# --- a census node that lies at the charge ---------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SiteWorld]:
    """A home whose node serves."""
    made = SiteWorld(tmp_path / "world")
    yield made
    made.close()


def deciding(change: Callable[[Decision], Decision]) -> Callable[..., Decision]:
    """A node's decision, changed before anything is made of it."""
    honest = Ledgers.decide
    return lambda ledgers, sample, room, *standing: change(honest(ledgers, sample, room, *standing))


def without_one(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The same without the first who is chosen."""
    changed = chosen.copy()
    changed[np.flatnonzero(chosen)[0]] = False
    return changed


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            lambda decided: Decision(without_one(decided.fits), decided.active & without_one(decided.fits)),
            "CHARGE_SKIPPED",
        ),
        (lambda decided: Decision(without_one(decided.fits), decided.active), "CHARGE_SKIPPED"),
        (lambda decided: Decision(decided.fits, without_one(decided.active)), "ACTIVE_WRONG"),
        (lambda decided: Decision(np.ones_like(decided.fits), np.ones_like(decided.fits)), "PERSON_CAP_PASSED"),
        (lambda decided: Decision(decided.fits, np.ones_like(decided.fits)), "PERSON_CAP_PASSED"),
    ],
    ids=["skipped", "counted for nothing", "not counted", "charged beyond the cap", "counted beyond the cap"],
)
def test_a_node_that_decides_otherwise_for_somebody_is_found(
    change: Callable[[Decision], Decision], code: str, world: SiteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows, digests and commitments all agree with each other and with the log: offline nothing is to be seen."""
    world.ask(slice(0, 100), scale=1)
    monkeypatch.setattr(Ledgers, "decide", deciding(change))
    world.ask(slice(50, 400), scale=1)
    monkeypatch.undo()
    world.ask(slice(0, 400), scale=50)
    verify_stored_log(world.census_folder / "journal.db", world.census_state(), world.census_log)
    assert found(site_of(world)) == [(code, site_of(world).entry("c1"))]


def test_who_was_skipped_is_missing_in_later_snapshots_too(world: SiteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever was counted for nothing is reckoned with all the same: what was learned of them was."""
    monkeypatch.setattr(
        Ledgers, "decide", deciding(lambda decided: Decision(np.zeros_like(decided.fits), decided.active))
    )
    world.ask(slice(0, 10), scale=1)
    monkeypatch.undo()
    world.compact()
    site = site_of(world)
    assert found(site) == [("CHARGE_SKIPPED", site.entry("c0")), ("SNAPSHOT_WRONG", site.entry("c0"))]
    assert looked_at(site)[0].worst_charged == price_units(1)


def test_a_node_that_charges_another_unit_is_found(world: SiteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges that should fall on one person fall on another one who never minds."""
    honest = Registry.link_into

    def another(registry: Registry, pseudonyms: Any, rows: Numbers, persons: Numbers, households: Numbers) -> None:
        honest(registry, pseudonyms, rows, persons, households)
        persons[persons == 0] = 4

    world.ask(slice(0, 10))
    monkeypatch.setattr(Registry, "link_into", another)
    world.ask(slice(0, 10))
    monkeypatch.undo()
    world.compact()
    site = site_of(world)
    assert found(site) == [("UNITS_WRONG", site.entry("c1")), ("SNAPSHOT_WRONG", site.entry("c1"))]


def taking_nothing(_: Known, now: Registry) -> Carry:
    """A load's carry, without anything in it."""
    none = np.empty(0, np.uint32)
    return Carry(none, none, none, none, now.person_count, now.household_count)


def test_a_load_that_forgets_who_moved_is_found(world: SiteWorld) -> None:
    """Whoever's card became another person's in a load took their charge along, or the registry and the samples tell."""
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


# Of one card each, whom no load of these moves otherwise.
RENEWED = (21, 122, 213)


def test_an_honest_load_takes_along_who_moved_under_another_card(world: SiteWorld) -> None:
    """A household follows its people: the new card was in no sample, and the person was."""
    world.ask(slice(0, 400))
    world.renewed = RENEWED
    world.reload()
    world.ask(slice(0, 400))
    world.compact()
    assert found(site_of(world)) == []


def test_a_load_that_follows_cards_alone_is_found(world: SiteWorld) -> None:
    """Whoever moves and has another card from the same day on would leave the charge of their household behind."""
    world.ask(slice(0, 400))
    world.renewed = RENEWED

    def by_card(known: Known, now: Registry) -> Carry:
        nobody = Known(known.cards, known.former, known.homes[:0])
        return Carry.between(nobody, now.cards, now.person_count, now.household_count)

    world.reload(by_card)
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("l1"))]


def test_a_change_of_the_key_that_gives_somebody_another_unit_is_found(
    world: SiteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken over then: whoever is another person afterwards has another person's budget."""
    honest = Registry.relinked

    def relinked(registry: Registry, load: str, rekeyed: Rekeyed) -> Registry:
        made = honest(registry, load, rekeyed)
        return replace(made, persons=np.where(made.persons == 0, np.uint32(4), made.persons))

    world.ask(slice(0, 10))
    monkeypatch.setattr(Registry, "relinked", relinked)
    world.change_key()
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


def test_a_load_that_was_checked_leaves_the_samples_before_it_unproved(world: SiteWorld) -> None:
    """The units of those samples could not be compared any more, and that alone is said."""
    world.ask(slice(0, 400))
    world.reload()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.is_proved) == ([], False)
    assert says(findings, texts.UNITS_NOT_CHECKED, 1)
    assert not any("loads took over" in text for text in findings.not_checked)


def test_a_load_that_lied_and_was_replaced_is_not_proved(world: SiteWorld) -> None:
    """Nobody can see any more what it should have taken over, nor who had which unit before the load after it."""
    world.ask(slice(0, 400))
    world.reload(taking_nothing)
    world.reload()
    world.ask(slice(0, 400), scale=50)
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 2, False)
    assert says(findings, texts.CARRIES_NOT_CHECKED, 2)


def test_a_load_under_charges_that_are_erased_is_not_checked(world: SiteWorld) -> None:
    """What it took over stands in a snapshot, and in that alone."""
    world.ask(slice(0, 400))
    world.reload(taking_nothing)
    world.clock.advance(2 * DAY_MS)
    world.erase()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_erased, seen.is_proved) == ([], 1, False)
    assert says(findings, texts.CARRIES_NOT_CHECKED, 1)


def test_units_that_were_never_compared_are_not_proved(world: SiteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample in which nobody is linked charges no unit at all; once its load is replaced, nothing contradicts it."""
    honest = Registry.link

    def nobody(registry: Registry, pseudonyms: Any) -> tuple[Numbers, Numbers, Numbers]:
        rows, _, _ = honest(registry, pseudonyms)
        return rows, np.full_like(rows, NOBODY), np.full_like(rows, NOBODY)

    monkeypatch.setattr(Registry, "link", nobody)
    world.ask(slice(0, 400))
    monkeypatch.undo()
    world.reload()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.is_proved) == ([], 1, False)
    assert says(findings, texts.UNITS_NOT_CHECKED, 1)


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
    world = SiteWorld(tmp_path, unit="household")
    live(world)
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked) == ([], 7)
    world.close()


# --- what is erased, newer, or not at hand ---------------------------------------------------------------------------


def begun(world: SiteWorld) -> None:
    """Three charges, of which the first is erased, under a snapshot that holds all of them."""
    world.ask(slice(0, 200))
    world.clock.advance(DAY_MS // 2)
    world.ask(slice(100, 300))
    world.ask(slice(0, 400, 3))
    world.clock.advance(DAY_MS // 2)
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
    """What the samples that are kept say of units is not forgotten over the snapshot that they were decided back from."""
    begun(world)
    world.reload(taking_nothing)
    site = site_of(world)
    assert found(site) == [("CARRY_WRONG", site.entry("l1"))]


def test_who_is_skipped_behind_an_erased_charge_is_found(world: SiteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the snapshot after it agrees with the node that skipped."""
    monkeypatch.setattr(
        Ledgers, "decide", deciding(lambda decided: Decision(without_one(decided.fits), decided.active))
    )
    begun(world)
    monkeypatch.undo()
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


def test_an_erased_charge_is_good_only_when_its_time_has_come(world: SiteWorld) -> None:
    """By the auditor's clock, or the log's where that is ahead."""
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
    world.clock.advance(2 * DAY_MS)
    world.close()
    site = site_of(world)
    erased(site, rows(site, "charge")[0])
    assert found(site) == [("ERASED_EARLY", site.entry("c0"))]


def test_what_everybody_was_charged_counts_for_everybody(world: SiteWorld) -> None:
    """Strict answers in between leave less room for everybody, and stand in the worst figure."""
    world.ask(slice(0, 100), scale=2)
    strict = make_policy(accounting="strict", sample_retention_ms=DAY_MS)
    again = world.policy
    world.take_policy(strict)
    world.ask(slice(0, 10), scale=2)
    world.take_policy(again)
    # Who was in the first sample has no room any more.
    world.ask(slice(0, 200), scale=2)
    world.compact()
    seen, findings = looked_at(site_of(world))
    assert (findings.problems, seen.charges_checked, seen.people_charged) == ([], 2, 200)
    assert seen.worst_charged == 2 * price_units(2)


def test_a_snapshot_that_no_charge_commits_to_is_said(world: SiteWorld) -> None:
    """Until the next charge nothing in the log keeps the agency from making another one."""
    begun(world)
    assert any("no charge in the log commits" in text for text in looked_at(site_of(world))[1].not_checked)
    world.ask(slice(0, 10))
    assert not any("no charge in the log commits" in text for text in looked_at(site_of(world))[1].not_checked)


def test_what_is_newer_than_the_export_is_left_alone(world: SiteWorld) -> None:
    """A node that goes on serving makes no problem, and no figure counts what was not handed in."""
    world.ask(slice(0, 100))
    entries = tuple(world.entries())
    world.ask(slice(0, 100))
    world.reload()
    world.compact()
    seen, findings = looked_at(Site(world.census_folder, entries, world.clock()))
    assert (findings.problems, seen.charges_checked, seen.worst_charged) == ([], 1, price_units(3))
    assert any(text.startswith("2 charges, loads") for text in findings.not_checked)


def test_what_a_node_erases_meanwhile_is_no_problem(world: SiteWorld) -> None:
    """Rows of one instant name files that are gone at the next; that is said, and nobody is accused."""
    world.ask(slice(0, 100))
    world.ask(slice(0, 100))
    site = site_of(world)

    def go_on() -> None:
        world.clock.advance(DAY_MS)
        world.erase()

    seen, findings = looked_at(Site(site.home, site.entries, site.now_ms + DAY_MS), meanwhile=go_on)
    assert (findings.problems, seen.charges_checked, seen.charges_erased) == ([], 0, 2)
    assert any("while they were being looked at" in text for text in findings.not_checked)


def test_without_linkage_keys_the_charges_are_compared_without_names(site: Site) -> None:
    """The keys may be kept elsewhere; a charge that was lowered under way is found all the same."""
    (site.home / "keys" / "linkage.key").unlink()
    seen, findings = looked_at(site)
    assert (findings.problems, seen.charges_checked) == ([], 7)
    assert any("keys are not in this home" in text for text in findings.not_checked)
    assert not seen.is_proved
    LIES["relinked ledgers with a charge lowered"].tell(site)
    assert ("SNAPSHOT_WRONG", site.entry("r0")) in found(site)


def test_another_home_is_refused(site: Site, world: SiteWorld) -> None:
    """Whoever stands in the wrong place is told so, instead of a thousand problems."""
    with pytest.raises(InvalidRequestError, match="is not the home of the census log"):
        looked_at(Site(world.census_folder, site.entries, site.now_ms))


# --- counts ----------------------------------------------------------------------------------------------------------


def overseen(world: SiteWorld) -> OpenedOnSite:
    """From here on the node keeps openings."""
    key = OpeningKey.generate(os.urandom)
    folder = world.census_folder / "openings"
    world.oversight = Oversight(folder, key.sealing_key, DAY_MS)
    world.census.journal.close()
    world.open_census().recover()
    return OpenedOnSite(FolderPart(folder), key)


def test_every_opened_count_is_counted_again(world: SiteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of people with two cards, of dropped ones, of strangers; a node that counts one more is found, and no figure told."""
    opened = overseen(world)
    world.ask(slice(0, 100), scale=1)
    world.ask(slice(50, 400), scale=1)
    world.ask(slice(0, 0))
    site = site_of(world)
    seen, findings = looked_at(site, states=opened.states)
    assert (findings.problems, seen.counts_checked) == ([], 3)
    honest = Registry.count
    monkeypatch.setattr(Registry, "count", lambda *words: ExactCount(honest(*words).reveal_to_mechanism() + 1))
    world.ask(slice(0, 100))
    monkeypatch.undo()
    site = site_of(world)
    seen, findings = looked_at(site, states=opened.states)
    assert [(problem.code, problem.entry) for problem in findings.problems] == [("COUNT_WRONG", site.entry("c3"))]
    assert not re.search("[0-9]", findings.problems[0].text)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_counts_of_another_dictionary_accuse_nobody(
    world: SiteWorld, monkeypatch: pytest.MonkeyPatch, change: Callable[[Dictionary], Dictionary]
) -> None:
    """An auditor's program with another dictionary says how many counts it cannot read, and checks everything else."""
    opened = overseen(world)
    world.ask(slice(0, 100), scale=1)
    world.ask(slice(50, 400), scale=1)
    site = site_of(world)
    put_in_place("CENSUS_DICTIONARY", change(CENSUS_DICTIONARY), monkeypatch.setattr)
    seen, findings = looked_at(site, states=opened.states)
    assert findings.problems == []
    assert (seen.counts_checked, seen.charges_checked, seen.is_proved) == (0, 2, True)
    assert texts.COUNTS_NOT_CHECKED.format(count=2) in findings.not_checked
    # Nothing is said of counts that nobody has opened.
    _, findings = looked_at(site)
    assert not any("dictionary" in sentence for sentence in findings.not_checked)


def test_a_load_that_names_another_dictionary_than_the_log_is_found(
    world: SiteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an agency could have its counts left unread: the file that the log commits to tells its dictionary too."""
    with monkeypatch.context() as patch:
        patch.setattr("broker_common.storage.loads.Loaded", lambda **words: Loaded(**words | {"dictionary": "ab" * 32}))
        load = world.reload()
    site = site_of(world)
    (entry,) = [each.sequence for each in site.entries if isinstance(each.event, Loaded) and each.event.load == load]
    assert ("REGISTRY_WRONG", entry) in found(site)


# --- nothing is written ----------------------------------------------------------------------------------------------


def content_of(home: Path) -> dict[str, bytes]:
    """Every file of a home; the index of the write-ahead log is memory that processes share, and holds nothing."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


@pytest.mark.parametrize("state", ["serving", "stopped", "killed"])
def test_looking_leaves_no_trace(state: str, world: SiteWorld) -> None:
    """With the node up, down, or killed with its last writes in the write-ahead log alone."""
    world.ask(slice(0, 100))
    site = site_of(world)
    if state == "killed":
        site = Site(world.copy_census(), site.entries, site.now_ms)
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
    killed = Site(world.copy_census(), site.entries, site.now_ms)
    world.close()
    for home in (site, killed):
        seen, _ = looked_at(home, meanwhile=lambda: looks.append(list(temporary.iterdir())))
        assert seen.charges_checked == 1
    assert len(looks) > 2
    assert not any(looks)
