"""The same promises with dictionaries of the agencies' own: events, long lists below one another, other ids, own words.

The checks of `test_neighbouring_worlds`, `test_canaries` and `test_wire` on Ontario's dictionaries, made on one recorded life in
each of a few worlds that differ in the events, or the language, of one person x.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain

import pytest
from privacy.canaries import Canary, Exhibit, Finding, Place, Searcher, forms, pseudonym_forms
from privacy.neighbours import World
from privacy.own_worlds import (
    ADMITTED,
    ASKED,
    CAUSES,
    DAYS,
    DIAGNOSED,
    FRENCH_SPEAKERS,
    HEALTH,
    IN_CENSUS,
    LARGE,
    NOBODY,
    ONE,
    OTHER_ADMITTED,
    OTHER_DAYS,
    STAYED,
    TONGUES,
    X_ID,
    OwnLife,
    OwnWorlds,
)
from privacy.private_keys import key_forms
from privacy.wiretap import Link, message_form

from broker_common.query.canonical import canonical_bytes
from broker_common.query.criteria import parse_condition

pytestmark = pytest.mark.process

BASE = "x has stays"
# How many of each sample are active: of those that are asked about x, of nobody, and of many.
_MANY = [0, IN_CENSUS - 1, IN_CENSUS - 2, IN_CENSUS]
ACTIVE = {
    BASE: [1, 1, 0, *_MANY],
    "x has no stay": [0, 0, 0, *_MANY],
    "x's stays have another cause": [1, 0, 0, *_MANY],
    "x has very many stays": [1, 1, 1, *_MANY],
    "x speaks another language": [1, 1, 0, *_MANY],
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> OwnWorlds:
    """Each is made when a test first asks for it."""
    return OwnWorlds(tmp_path_factory, "own worlds")


# --- neighbouring worlds -----------------------------------------------------------------------------------------------


@pytest.fixture(params=[name for name in ACTIVE if name != BASE])
def pair(request: pytest.FixtureRequest, worlds: OwnWorlds) -> tuple[World, World]:
    """Two worlds that the researcher must not tell from each other."""
    return worlds[BASE], worlds[request.param]


def test_the_researcher_sees_the_same(pair: tuple[World, World]) -> None:
    """Commands, calls, lengths, receipts and cards; though the samples differ as the events do."""
    here, there = pair
    assert (here.counted, there.counted) == (ACTIVE[BASE], ACTIVE[there.name])
    assert here.commands == there.commands
    assert here.links == there.links
    assert here.receipts == there.receipts
    assert here.cards == there.cards


def test_samples_and_rosters_have_one_length(pair: tuple[World, World]) -> None:
    """Whatever the health agency sends is as long with one stay, none, or a hundred thousand."""
    counts = [call for world in pair for calls in world.counts for call in calls if call[0] == "Count"]
    assert len(counts) == 2 * len(ASKED)
    assert len({tuple(asked[1:]) for _, asked, _ in counts}) == 1
    assert pair[0].rosters == pair[1].rosters


def test_the_health_agency_sees_the_same(worlds: OwnWorlds) -> None:
    """X's language, in the census agency's own words, changes nothing that it hears, logs or says of itself."""
    here, there = worlds[BASE], worlds["x speaks another language"]
    assert here.counts == there.counts
    assert here.rosters == there.rosters
    assert here.shown == there.shown
    assert here.health_events == there.health_events
    assert here.health_log == there.health_log
    assert here.health_status == there.health_status


def test_the_life_had_everything_in_it(worlds: OwnWorlds) -> None:
    """The comparison has content: answers, and mistakes about codes, tables, criteria and languages."""
    said = str(worlds[BASE].commands)
    for word in ("UNKNOWN_CODE", "UNKNOWN_EVENTS", "CRITERIA_SYNTAX", "UNKNOWN_VALUE", "noisy_count", "Q00-Q79"):
        assert word in said, word


# --- canaries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One secret and every place where it is found; it is nowhere else."""

    name: str
    holds: tuple[str, ...] = ()
    needles: Collection[bytes] = ()
    numbers: Collection[int] = ()


def texts(*found: str) -> set[bytes]:
    """As they are written."""
    return {text.encode() for text in found}


def pseudonym(life: OwnLife) -> set[bytes]:
    """Pseudonym of x, by hand: an id that is no health card follows the name of its form."""
    (key,) = key_forms(life.key())
    named = hmac.digest(key, b"tripartite/linkage-form/v1\0text\0" + X_ID.encode(), "sha256")
    return pseudonym_forms(named[:16])


def rows(life: OwnLife) -> list[Row]:
    """Secrets of the agencies' own data, of the criteria, and of what was counted."""
    kept = ("researcher: store", "health: from researcher", "health: store")
    hashed = [canonical_bytes(parse_condition(where, HEALTH)) for where in ASKED[:-1]]
    exact = {IN_CENSUS - 1, IN_CENSUS - 2, FRENCH_SPEAKERS, FRENCH_SPEAKERS - 1, FRENCH_SPEAKERS - 2}
    return [
        Row("id of a person", ("health: source", "census: source"), texts(X_ID, X_ID.lower())),
        Row("pseudonym of a person", ("health: loads", "census: loads"), pseudonym(life)),
        Row(
            "an event that nobody asks about",
            ("health: source", "health: loads"),
            texts(OTHER_ADMITTED, OTHER_ADMITTED.replace("-", "")),
            {OTHER_DAYS},
        ),
        Row(
            "an event that criteria name",
            (*kept, "researcher: output", "health: source", "health: loads"),
            texts(ADMITTED, ADMITTED.replace("-", "")),
            {DAYS},
        ),
        Row("own codes of the health agency", ("health: source",), texts(*CAUSES)),
        Row("own codes of the census agency", ("census: source",), texts(*TONGUES)),
        Row("own names of columns", ("health: source",), texts("CAUSE_QX", "DUREE_QX")),
        Row("criteria as text", ("researcher: store", "researcher: output"), texts(ONE, LARGE, NOBODY)),
        Row("criteria as they travel", kept, set(chain.from_iterable(map(forms, life.stored())))),
        Row("criteria as they are hashed", (), set(chain.from_iterable(map(forms, hashed)))),
        Row("exact counts and sizes of samples", (), (), {STAYED, DIAGNOSED, *exact} - life.noisy_counts()),
    ]


@pytest.fixture(scope="module")
def life(worlds: OwnWorlds) -> OwnLife:
    """The life that is searched."""
    return worlds.evidence(BASE)


def test_secrets_are_where_they_may_be_and_nowhere_else(life: OwnLife) -> None:
    """Files, outputs, logs and every decrypted byte: events, own codes and criteria are found with their holders alone."""
    canaries = rows(life)
    searcher = Searcher(Canary(row.name, row.needles, row.numbers) for row in canaries)
    exhibits = life.exhibits()
    assert {each.name for each in exhibits if each.place.part == "other" and each.data} == set()
    findings: set[Finding] = searcher.search(exhibits)
    for row in canaries:
        found = {str(each.place) for each in findings if each.canary == row.name}
        assert found == set(row.holds), (row.name, [each for each in findings if each.canary == row.name])


def test_secrets_would_be_found(life: OwnLife) -> None:
    """Also those that rightly are nowhere."""
    for row in rows(life):
        assert row.needles or row.numbers
        searcher = Searcher([Canary(row.name, row.needles, row.numbers)])
        for form in row.needles:
            assert searcher.search([Exhibit(Place("", ""), "", b"\xfe(" + form + b") \xfe")]), form
        for number in row.numbers:
            assert searcher.search([Exhibit(Place("", ""), "", b"", frozenset({number}))])


# --- the wire ----------------------------------------------------------------------------------------------------------


def test_what_passes_has_one_form_whatever_the_events(life: OwnLife) -> None:
    """Calls, order and lengths are alike for nobody, for one person and for thousands; but the researcher's own words."""
    submissions = Link("researcher", "health")
    links = (submissions, Link("researcher", "census"), Link("health", "census"))
    shown = []
    for number in range(len(ASKED)):
        # A question is submitted and its answer asked for at once.
        calls = sorted(life.calls(number), key=lambda call: links.index(call.link))
        shown.append(
            [
                (
                    call.link,
                    call.method,
                    [] if call.link == submissions else [message_form(request) for request in call.requests],
                    [message_form(response) for response in call.responses],
                )
                for call in calls
            ]
        )
    assert [(link, method) for link, method, *_ in shown[0]] == list(
        zip(links, ("Submit", "Collect", "Count"), strict=True)
    )
    assert shown == [shown[0]] * len(ASKED)


def test_progress_is_four_stages_in_order(life: OwnLife) -> None:
    """Every question goes through the same stages, once each, no matter who is meant."""
    submissions = [call for number in range(len(ASKED)) for call in life.calls(number) if call.method == "Submit"]
    stages = [[response.stage for response in call.responses] for call in submissions]  # type: ignore[attr-defined]
    assert stages == [[1, 2, 3, 4]] * len(ASKED)
