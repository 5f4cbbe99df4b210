"""The price of a question: from its text and declared figures, and how much of it a policy's delay pays for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fakes import event_worlds
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.world import make_policy
from numpy.typing import NDArray

from broker_common.crypto.sampling import WHOLE_MILLIONTHS
from broker_common.errors import InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP, declared_for, least_forward_delay_ms, usual_forward_delay_ms
from broker_common.query.branches import Branches
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.normal_form import MAX_TERMS, count_terms
from health_node.config import LimitConfig
from health_node.people import cohort
from health_node.people.cohort import Edges, compile_condition, compiling_work
from health_node.people.tables import Declared
from health_node.query import marks
from health_node.query.marks import price, verify_affordable

WORK = LimitConfig().work_per_second
ODD = ",".join(map(str, range(1, 10, 2)))
ORDINARY = (
    "age between 40 and 80 and sex = 'female' and diagnosis in ('stroke', 'copd') and not diagnosis = 'dementia' and "
    "procedure = 'dialysis' and census_division in ('Huron', 'Bruce', 'Grey', 'Simcoe') and hospital_visits > 1 and "
    "last_admission_date >= '2010-01-01' and emergency_visits < 10 or birth_year < 1920 and sex = 'male'"
)


def of(text: str) -> Condition:
    """The condition."""
    return parse_condition(text, HEALTH_DICTIONARY)


def dear(terms: int) -> Condition:
    """So many comparisons, two by two, none of which is merged with another, five single values each."""
    pairs = [
        f"(hospital_visits in ({','.join(str(1 + at + 2 * i) for i in range(5))}) and emergency_visits in ({ODD}))"
        for at in range(terms // 2)
    ]
    return of(" or ".join(pairs))


@pytest.mark.parametrize("population", [100_000, 1_000_000, 15_000_000, 20_000_000])
def test_ordinary_criteria_pass_at_the_usual_delays(population: int) -> None:
    """A dozen comparisons on every column, of all and of a fraction, and even at the shortest delay that covers everybody."""
    places = declared_for(population)
    assert count_terms(of(ORDINARY)) == 12
    for delay_ms in (usual_forward_delay_ms(places), least_forward_delay_ms(places)):
        for fraction in (WHOLE_MILLIONTHS, 500_000):
            policy = make_policy(tick_ms=250, delay_ms=delay_ms)
            verify_affordable(
                of(ORDINARY),
                fraction,
                HEALTH_DICTIONARY,
                declared=Declared(places),
                policy=policy,
                work_per_second=WORK,
            )


@pytest.mark.parametrize("population", [100_000, 1_000_000, 15_000_000])
def test_the_number_of_terms_that_would_do_does(population: int) -> None:
    """A researcher who is told a number and asks with so many of the same kind is not told another one."""
    places = declared_for(population)
    policy = make_policy(tick_ms=250, delay_ms=least_forward_delay_ms(places))
    with pytest.raises(InvalidRequestError, match="CRITERIA_TOO_DEAR") as caught:
        verify_affordable(
            dear(MAX_TERMS),
            WHOLE_MILLIONTHS,
            HEALTH_DICTIONARY,
            declared=Declared(places),
            policy=policy,
            work_per_second=WORK,
        )
    told = int(caught.value.details["terms"])
    assert 12 <= told < MAX_TERMS
    verify_affordable(
        dear(told - told % 2),
        WHOLE_MILLIONTHS,
        HEALTH_DICTIONARY,
        declared=Declared(places),
        policy=policy,
        work_per_second=WORK,
    )


def of_places(condition: Condition, fraction: int, places: int) -> int:
    """The part of a price that is for places: all but the compiling costs."""
    compiling = price(condition, fraction, Declared(0), HEALTH_DICTIONARY)
    return price(condition, fraction, Declared(places), HEALTH_DICTIONARY) - compiling


def test_price_grows_with_places_terms_and_a_fraction() -> None:
    """Each of them alone makes it larger."""
    one, two = (of_places(of("age = 3"), WHOLE_MILLIONTHS, steps * DECLARED_STEP) for steps in (1, 2))
    assert two == 2 * one
    assert price(of("age = 3"), 999_999, Declared(DECLARED_STEP), HEALTH_DICTIONARY) > price(
        of("age = 3"), WHOLE_MILLIONTHS, Declared(DECLARED_STEP), HEALTH_DICTIONARY
    )
    prices = [
        price(dear(terms), WHOLE_MILLIONTHS, Declared(DECLARED_STEP), HEALTH_DICTIONARY)
        for terms in range(4, MAX_TERMS, 2)
    ]
    assert prices == sorted(set(prices))


def test_a_slower_machine_affords_less() -> None:
    """The operator's setting decides, down to nothing; the told number is never negative."""
    policy = make_policy(tick_ms=250, delay_ms=400)
    for work, told in ((WORK // 4, range(1, MAX_TERMS)), (1_000_000, range(1))):
        with pytest.raises(InvalidRequestError, match="CRITERIA_TOO_DEAR") as caught:
            verify_affordable(
                dear(MAX_TERMS),
                WHOLE_MILLIONTHS,
                HEALTH_DICTIONARY,
                declared=Declared(DECLARED_STEP),
                policy=policy,
                work_per_second=work,
            )
        assert int(caught.value.details["terms"]) in told


def test_without_ticks_nothing_is_too_dear() -> None:
    """Delays promise nothing then: for tests and benchmarks."""
    policy = make_policy(tick_ms=0, delay_ms=0)
    verify_affordable(
        dear(MAX_TERMS), 1, HEALTH_DICTIONARY, declared=Declared(40 * DECLARED_STEP), policy=policy, work_per_second=1
    )


@pytest.mark.parametrize("fraction", [1, 500_000, WHOLE_MILLIONTHS])
def test_price_is_that_of_the_passes_and_of_the_places(fraction: int) -> None:
    """From the text and the declared places alone: each pass over each place, and what is done for every question."""
    base = of_places(of("age = 3"), fraction, 1) - 1
    assert base == (6 if fraction == WHOLE_MILLIONTHS else 66)
    for condition in (of(ORDINARY), dear(20)):
        passes = compile_condition(condition, HEALTH_DICTIONARY).passes
        assert of_places(condition, fraction, 3 * DECLARED_STEP) == 3 * DECLARED_STEP * (base + passes)


# --- events --------------------------------------------------------------------------------------------------------------

STAYS = 300_000_000
EVENTFUL = Declared(
    declared_for(15_000_000),
    {"diagnosis": DECLARED_STEP, "symptom": DECLARED_STEP, "stay": declared_for(STAYS), "visit": 0},
)
TWO_STAYS = (
    "any(stay where cause under 'c001' and admitted between '2005-01-01' and '2005-12-31') and "
    "count(stay where cause in ('c007', 'c070', 'c100') and admitted >= '2005-06-01') >= 3 and age >= 6 and sex = 'f'"
)


def about(text: str) -> Condition:
    """A condition on a world with events."""
    return parse_condition(text, event_worlds.DICTIONARY)


def event_price(text: str, declared: Declared = EVENTFUL) -> int:
    """Price of a condition, but for compiling it."""
    nobody = Declared(0, dict.fromkeys(declared.tables, 0))
    compiling = price(about(text), WHOLE_MILLIONTHS, nobody, event_worlds.DICTIONARY)
    return price(about(text), WHOLE_MILLIONTHS, declared, event_worlds.DICTIONARY) - compiling


@pytest.mark.parametrize("fraction", [1, WHOLE_MILLIONTHS])
def test_two_conditions_on_events_pass_at_the_shortest_delay(fraction: int) -> None:
    """With 300 million events of 15 million people; a dozen are too dear, and the number that is told is not."""
    delay_ms = EVENTFUL.least_forward_delay_ms
    assert delay_ms == least_forward_delay_ms(EVENTFUL.places, EVENTFUL.events) > 2_000
    policy = make_policy(tick_ms=250, delay_ms=delay_ms)

    def verify(text: str) -> None:
        settings = {"policy": policy, "work_per_second": WORK}
        verify_affordable(about(text), fraction, event_worlds.DICTIONARY, declared=EVENTFUL, **settings)  # type: ignore[arg-type]

    verify(TWO_STAYS)
    many = [f"any(stay where cause = 'c{number:03}' and days = {number % 6})" for number in range(20)]
    with pytest.raises(InvalidRequestError, match="CRITERIA_TOO_DEAR") as caught:
        verify(" and ".join(many))
    terms_each = count_terms(about(many[0]))
    told = int(caught.value.details["terms"]) // terms_each
    assert 2 <= told < len(many)
    verify(" and ".join(many[:told]))


def test_events_are_paid_for_by_what_was_declared() -> None:
    """Each condition on a table by its declared rows, whatever others hold; the same rows are counted once."""
    once, twice = "any(stay where days > 2)", "any(stay where days > 2) or any(stay where days < 2)"
    rows = EVENTFUL.tables["stay"]
    of_one = event_price(once) - event_price("any(visit)")
    assert of_one == 3 * rows
    assert event_price(twice) - event_price(once) > of_one
    again = event_price("count(stay where days > 2) between 3 and 5")
    assert again - event_price("count(stay where days > 2) >= 3") < EVENTFUL.places * 5
    more = Declared(EVENTFUL.places, {**EVENTFUL.tables, "stay": 2 * rows})
    assert event_price(once, more) == event_price(once) + 3 * rows
    assert event_price("any(visit where days > 2)", more) == event_price("any(visit where days > 2)")


def test_a_long_list_is_paid_for_like_events() -> None:
    """Its declared values decide, however many codes are named; several parts about one list are counted once."""
    codes = ", ".join(f"'c{number:03}'" for number in range(0, 90, 2))
    values = EVENTFUL.tables["diagnosis"]
    assert (
        event_price(f"diagnosis in ({codes})") == event_price("drug is null") + values * (8 + 2) + EVENTFUL.places * 39
    )
    joined = event_price("diagnosis = 'c001' or diagnosis = 'c003' or diagnosis = 'c005'")
    assert joined == event_price("diagnosis in ('c001', 'c003', 'c005')")


def test_households_are_paid_for_by_their_members() -> None:
    """Every pass goes over the declared people, and what is found is gathered by place."""
    homes = Declared(DECLARED_STEP, {"people": 4 * DECLARED_STEP})
    for criteria in ("age >= 3", "age >= 3 and sex = 'f'"):
        asked = about(criteria)
        by_place = price(asked, WHOLE_MILLIONTHS, Declared(DECLARED_STEP), event_worlds.HOUSEHOLDS)
        assert price(asked, WHOLE_MILLIONTHS, homes, event_worlds.HOUSEHOLDS) > 3 * by_place
    assert homes.least_forward_delay_ms == least_forward_delay_ms(4 * DECLARED_STEP)


def test_what_is_found_of_a_household_is_paid_for_at_each_of_its_members() -> None:
    """Once for each number of events that is compared, beside what the comparison costs anybody."""
    tables = dict.fromkeys(("diagnosis", "symptom", "stay", "visit"), DECLARED_STEP)
    people = 4 * DECLARED_STEP
    homes = Declared(DECLARED_STEP, {**tables, "people": people})

    def second(declared: Declared, dictionary: Dictionary) -> int:
        one, two = about("any(visit)"), about("any(visit) or count(visit) >= 2")
        return price(two, WHOLE_MILLIONTHS, declared, dictionary) - price(one, WHOLE_MILLIONTHS, declared, dictionary)

    of_persons = second(Declared(people, tables), event_worlds.DICTIONARY)
    assert second(homes, event_worlds.HOUSEHOLDS) == of_persons + 30 * people


# --- compiling -----------------------------------------------------------------------------------------------------------


def _long(name: str, under: Callable[[int], tuple[str, ...]], *, multi_valued: bool = False) -> Column:
    """A column of many codes, each under some before it."""
    codes = tuple(Code(f"c{number:04}", "A code", under=under(number)) for number in range(LONG))
    return Column(name=name, type=ColumnType.CODE, description="Codes.", codes=codes, multi_valued=multi_valued)


LONG = 3_000
LONG_LISTS = Dictionary(
    (
        _long("other", lambda number: ("c0000",) if number % 2 else ()),
        _long("chain", lambda number: (f"c{number - 1:04}",) if number else ()),
        _long("graph", lambda number: tuple(sorted({f"c{number // 3:04}", f"c{number // 2:04}"})) if number else ()),
        _long("list", lambda number: ("c0000",) if number % 2 else (), multi_valued=True),
        Column(name="day", type=ColumnType.DATE, description="Day."),
    )
)
NAMES = LONG_LISTS.names[:-1]
# Joined by `and` and `or` in turn, of branches that have as many gaps as codes.
NESTED = (
    "(" * 9
    + "{0} under 'c0000'"
    + "".join(f" {'and' if number % 2 else 'or'} {{0}} <> 'c{2 * number + 2:04}')" for number in range(9))
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "{0} under 'c0000'",
        "{0} under 'c0000' and {0} <> 'c0004'",
        " or ".join(f"({{0}} under 'c0000' and {{0}} <> 'c{2 * number:04}')" for number in range(1, 30)),
        " and ".join(f"{{0}} under ('c0000', 'c{number:04}')" for number in range(1, 60)),
        "{0} under (" + ",".join(f"'c{number:04}'" for number in range(100, 300)) + ")",
        " and ".join(f"{{0}} <> 'c{2 * number:04}'" for number in range(90)),
        " and ".join(f"(day <> '2000-01-{number:02}' or {{0}} under 'c0001')" for number in range(1, 29)),
        NESTED,
    ],
)
def test_price_bounds_what_compiling_handles(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of branches that are looked at, and edges of sets that are made or joined: at most a few for each that is paid for."""
    handled = []
    beneath = Branches.beneath

    def looked_at(branches: Branches, codes: list[int]) -> NDArray[np.int64]:
        ranges = list(branches._ranges(codes))
        handled.append(len(ranges))
        found = beneath(branches, codes)
        handled.append(len(found))
        return found

    class CountedEdges:
        """NumPy as `cohort` calls it; counts the edges of sets that are joined or negated."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def concatenate(self, arrays: Sequence[Edges]) -> Edges:
            handled.append(sum(map(len, arrays)))
            return np.concatenate(arrays)

    monkeypatch.setattr(Branches, "beneath", looked_at)
    monkeypatch.setattr(cohort, "np", CountedEdges())
    condition = parse_condition(text.format(name), LONG_LISTS)
    handled.clear()
    paid = compiling_work(condition, LONG_LISTS)
    assert handled == [], "a price is known before anything is compiled"
    compile_condition(condition, LONG_LISTS)
    # An edge at either end; joined, and negated before and behind.
    assert 0 < sum(handled) <= 8 * (paid + count_terms(condition))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_too_dear_to_compile_is_not_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or criteria that are refused would make everybody's samples late."""
    compiled = []
    monkeypatch.setattr(marks, "compile_condition", lambda *_: compiled.append(1))
    text = " or ".join(f"({name} under 'c0000' and {name} <> 'c{2 * number:04}')" for number in range(1, 49))
    declared = Declared(DECLARED_STEP, dict.fromkeys(("list",), DECLARED_STEP))
    with pytest.raises(InvalidRequestError, match="CRITERIA_TOO_DEAR"):
        verify_affordable(
            parse_condition(text, LONG_LISTS),
            WHOLE_MILLIONTHS,
            LONG_LISTS,
            declared=declared,
            policy=make_policy(tick_ms=250, delay_ms=40),
            work_per_second=WORK,
        )
    assert compiled == []
