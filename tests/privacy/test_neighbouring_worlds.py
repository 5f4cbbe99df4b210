"""Worlds that differ in one person x look the same, but for the noise, to everyone who is not to know x.

To the researcher (R-only): whether x has a health record, what stands in it, whether x is in the census, what x speaks;
hence also whether a cohort is of nobody or of one person, and whether a roster fits into one frame. To health agency and
researcher together (HR): what x speaks, and whether the census knows x at all.
"""

from __future__ import annotations

from math import ceil

import pytest
from privacy.neighbours import DELAY_MS, PEOPLE, TICK_MS, World, Worlds
from privacy.wiretap import Link

pytestmark = pytest.mark.process

BASE = "x is there"
R_NEIGHBOURS = ("x is absent", "x's record is another", "x is not in the census", "x speaks another language")
HR_NEIGHBOURS = ("x is not in the census", "x speaks another language")
ACCEPTED, FORWARDED, CHARGED, RELEASED = 1, 2, 3, 4
# How late a message may be for reasons of the machine alone. The best of several worlds is looked at, so that a machine that
# is busy now and then passes; what is never excused is being early.
ALLOWANCE_MS = TICK_MS // 2


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Each is made when a test first asks for it."""
    return Worlds(tmp_path_factory, "worlds")


@pytest.fixture(scope="module")
def persons(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Under per-person accounting, which drops exhausted people."""
    return Worlds(tmp_path_factory, "worlds of persons", persons=True)


@pytest.fixture(params=R_NEIGHBOURS)
def pair(request: pytest.FixtureRequest, worlds: Worlds) -> tuple[World, World]:
    """Two worlds that the researcher must not tell from each other."""
    return worlds[BASE], worlds[request.param]


def test_commands_say_the_same(pair: tuple[World, World]) -> None:
    """Quotes, prices, progress, refusals, answers and receipts: same fields, same values, noise and ids apart."""
    here, there = pair
    assert here.commands == there.commands


def test_links_show_the_same(pair: tuple[World, World]) -> None:
    """On the researcher's links: same calls, in the same order, with messages of the same lengths; refusals, too."""
    here, there = pair
    assert here.links == there.links


def test_cards_are_exchanged_alike(pair: tuple[World, World]) -> None:
    """On every link, also between the agencies: cards of the same lengths, in the same order."""
    here, there = pair
    assert here.cards == there.cards
    assert {link for link, exchanges in here.cards if exchanges} == {
        *(Link("researcher", "health"), Link("researcher", "census"), Link("health", "census"))
    }


def test_receipts_are_of_one_form(pair: tuple[World, World]) -> None:
    """Signed answers name the same places in logs of the same length, and charges of the same form."""
    here, there = pair
    assert here.receipts == there.receipts


@pytest.mark.parametrize("name", HR_NEIGHBOURS)
def test_the_health_agency_sees_the_same(name: str, worlds: Worlds) -> None:
    """Messages of the same lengths in the same order from the census node, and the same events, codes and log lines."""
    here, there = worlds[BASE], worlds[name]
    assert here.counts == there.counts
    assert here.rosters == there.rosters
    assert here.shown == there.shown
    assert here.health_events == there.health_events
    assert here.health_log == there.health_log
    assert here.health_status == there.health_status


def test_the_life_had_everything_in_it(worlds: Worlds) -> None:
    """The comparison has content: answers, every kind of refusal, both sides of the boundary of a roster's frame."""
    said = str(worlds[BASE].commands)
    for word in (
        *("UNKNOWN_COLUMN", "UNKNOWN_CODE", "UNKNOWN_VALUE", "SCALE_REFUSED", "UNKNOWN_PROJECT", "ANSWER_PENDING"),
        *("BUDGET_EXHAUSTED", "SERVICE_SHUT_DOWN", "noisy_count", "The sealed answer is out."),
    ):
        assert word in said or word in str(worlds[BASE].receipts), word
    assert PEOPLE - 1 == 16_384


@pytest.mark.parametrize("name", R_NEIGHBOURS)
def test_samples_and_rosters_have_one_length(name: str, worlds: Worlds) -> None:
    """Not only what the health agency hears: whatever it sends is of one length, for nobody, one person or everybody."""
    here, there = worlds[BASE], worlds[name]
    counts = [call for world in (here, there) for calls in world.counts for call in calls if call[0] == "Count"]
    assert len({tuple(requests[1:]) for _, requests, _ in counts}) == 1
    assert {tuple(asked) for world in (here, there) for _, asked, _ in world.rosters} == {tuple(here.rosters[0][1])}


def test_messages_keep_to_fixed_instants_whatever_the_cohort(worlds: Worlds) -> None:
    """At the default tick nothing is early, and nobody's, one person's and everybody's questions are on time alike.

    `forwarded` at the first tick that is a fixed delay after the question came; the charge at the first tick after its sample was
    there, as its entry says; `charged` a tick later; `released` at the first tick that is a full period after that before which the
    health agency had cosigned the charge. Never early; on time, within the allowance, in the best of the worlds.
    """
    lived = [worlds[name] for name in (BASE, *R_NEIGHBOURS)]
    for cohort, times in (("nobody", 2), ("one person", 3), ("everyone", 5)):
        late = []
        for instants in (each for world in lived for each in world.instants if each.cohort == cohort):
            stages = instants.stages
            lateness = (
                stages[FORWARDED] - tick_from(instants.submitted + DELAY_MS),
                instants.entry - tick_from(instants.sent),
                stages[CHARGED] - (instants.entry + TICK_MS),
                stages[RELEASED] - (tick_from(instants.cosigned) + TICK_MS),
            )
            assert min(lateness) >= 0, "said before its instant"
            late.append(lateness)
        assert len(late) == times
        assert all(min(each) < ALLOWANCE_MS for each in zip(*late, strict=True)), (cohort, late)


def tick_from(instant_ms: int) -> int:
    """The first tick not before an instant."""
    return ceil(instant_ms / TICK_MS) * TICK_MS


# Active of the samples of x, of y, of x again and of everybody, who are 16,385.
ACTIVE = {
    BASE: [1, 1, 0, 12_286],
    "x is y": [1, 0, 0, 12_286],
    "x is absent": [0, 1, 0, 12_286],
    "x is not in the census": [0, 1, 0, 12_286],
}


@pytest.mark.parametrize("name", [name for name in ACTIVE if name != BASE])
def test_drops_show_nothing_to_the_researcher(name: str, persons: Worlds) -> None:
    """Dropped by the ledger, or nobody there to be dropped: commands, links and receipts are the same."""
    here, there = persons[BASE], persons[name]
    assert (here.counted, there.counted) == (ACTIVE[BASE], ACTIVE[name])
    assert here.commands == there.commands
    assert here.links == there.links
    assert here.receipts == there.receipts
    assert here.cards == there.cards


@pytest.mark.parametrize("name", ["x is y", "x is not in the census"])
def test_drops_of_the_ledger_show_nothing_to_the_health_agency(name: str, persons: Worlds) -> None:
    """Whether two cards are one person's, and whether x is in the census at all, changes nothing that it sees."""
    here, there = persons[BASE], persons[name]
    assert here.counts == there.counts
    assert here.rosters == there.rosters
    assert here.shown == there.shown
    assert here.health_events == there.health_events
    assert here.health_log == there.health_log
    assert here.health_status == there.health_status
