"""Criteria in all their forms agree: text, message, canonical bytes, and what the store selects.

Random conditions are drawn as raw protobuf trees, in every redundant form that a stranger may send. The reference here
(`holds`, `written`, `decoded`) is slow and obvious, and uses no code of `broker_common.query`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.obvious_criteria import decoded
from fakes.samples import selected
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from properties.counted_passes import passes_made
from tripartite.v1 import condition_pb2

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import canonical_bytes, describe
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.query.messages import parse_message
from broker_common.query.question import parse_question
from broker_common.storage.source.values import MISSING, Values
from health_node.people.cohort import compile_condition
from health_node.people.encoding import Encoding
from health_node.people.store import People, PeopleStore, build_people_store

Wire = condition_pb2.Condition
Person: TypeAlias = Mapping[str, int | frozenset[str] | str | date | None]

SEXES = ("female", "male", "it's")
DRUGS = tuple(f"drug {number}" for number in range(64))
FIRST_DAY = date(2010, 1, 1)
WORLD = 150

DICTIONARY = Dictionary(
    (
        Column(name="age", type=ColumnType.INTEGER, description="Age.", minimum=-3, maximum=3),
        Column(
            name="sex",
            type=ColumnType.CODE,
            description="Sex.",
            codes=tuple(Code(value, value) for value in SEXES),
        ),
        Column(
            name="drug",
            type=ColumnType.CODE,
            multi_valued=True,
            description="Drugs.",
            codes=tuple(Code(value, value) for value in DRUGS),
        ),
        Column(
            name="village",
            type=ColumnType.CODE,
            description="Village, one of more than a byte can number.",
            codes=tuple(Code(f"v{number}", "Village") for number in range(300)),
        ),
        Column(name="admitted", type=ColumnType.DATE, description="Day of admission."),
    )
)


def all_of(parts: list[condition_pb2.Condition]) -> condition_pb2.Condition:
    """A conjunction."""
    return Wire(all_of=condition_pb2.AllOf(parts=parts))


def any_of(parts: list[condition_pb2.Condition]) -> condition_pb2.Condition:
    """A disjunction."""
    return Wire(any_of=condition_pb2.AnyOf(parts=parts))


# --- random raw trees ----------------------------------------------------------------------------------------------------

_EXTREMES = (-(2**63), 2**63 - 1, 2**31, -(2**31))
_LITERALS = {
    "age": (st.integers(-4, 4) | st.sampled_from(_EXTREMES)).map(lambda value: condition_pb2.Literal(integer=value)),
    "admitted": st.integers(-1, 4).map(
        lambda day: condition_pb2.Literal(date=(FIRST_DAY + timedelta(days=day)).isoformat())
    ),
    "sex": st.sampled_from(SEXES).map(lambda value: condition_pb2.Literal(code=value)),
    "drug": st.sampled_from((*DRUGS[:3], DRUGS[-1])).map(lambda value: condition_pb2.Literal(code=value)),
    "village": st.sampled_from(("v0", "v255", "v256", "v299")).map(lambda value: condition_pb2.Literal(code=value)),
}
_EQUALITIES = ("OPERATOR_EQUAL", "OPERATOR_NOT_EQUAL")
_COMPARISONS = {
    "OPERATOR_EQUAL": "=",
    "OPERATOR_NOT_EQUAL": "<>",
    "OPERATOR_LESS": "<",
    "OPERATOR_LESS_OR_EQUAL": "<=",
    "OPERATOR_GREATER": ">",
    "OPERATOR_GREATER_OR_EQUAL": ">=",
}
_ORDERED = ("age", "admitted")


@st.composite
def comparisons(draw: st.DrawFn) -> condition_pb2.Condition:
    """A comparison with any operator that its column knows."""
    column = draw(st.sampled_from(sorted(_LITERALS)))
    operator = draw(st.sampled_from(sorted(_COMPARISONS) if column in _ORDERED else _EQUALITIES))
    return Wire(
        comparison=condition_pb2.Comparison(
            column=column, operator=condition_pb2.Operator.Value(operator), literal=draw(_LITERALS[column])
        )
    )


@st.composite
def memberships(draw: st.DrawFn) -> condition_pb2.Condition:
    """A list of one or more values."""
    column = draw(st.sampled_from(sorted(_LITERALS)))
    literals = draw(st.lists(_LITERALS[column], min_size=1, max_size=4, unique_by=str))
    return Wire(membership=condition_pb2.Membership(column=column, literals=literals))


@st.composite
def ranges(draw: st.DrawFn) -> condition_pb2.Condition:
    """A range, often an empty one."""
    column = draw(st.sampled_from(_ORDERED))
    literals = _LITERALS[column]
    return Wire(range=condition_pb2.Range(column=column, low=draw(literals), high=draw(literals)))


presences = st.sampled_from(sorted(_LITERALS)).map(lambda column: Wire(presence=condition_pb2.Presence(column=column)))
of_columns = comparisons() | memberships() | ranges() | presences


def _larger(parts: st.SearchStrategy[condition_pb2.Condition]) -> st.SearchStrategy[condition_pb2.Condition]:
    lists = st.lists(parts, min_size=2, max_size=4)
    return st.one_of(
        lists.map(all_of),
        lists.map(any_of),
        parts.map(lambda part: Wire(negation=part)),
    )


raw_conditions = st.recursive(of_columns, _larger, max_leaves=8)
# Rarely too deep, never too long: what is said of one column in many places is merged.
long_conditions = st.recursive(of_columns, _larger, max_leaves=40)


# --- the reference -------------------------------------------------------------------------------------------------------


def value_of(literal: condition_pb2.Literal) -> int | str | date:
    """A literal as a Python value."""
    if literal.HasField("date"):
        return date.fromisoformat(literal.date)
    return literal.code if literal.HasField("code") else literal.integer


def holds(message: condition_pb2.Condition, person: Person) -> bool:
    """Whether the condition is true for the person, by the words of condition.proto."""
    kind = message.WhichOneof("kind")
    if kind == "all_of":
        return all(holds(part, person) for part in message.all_of.parts)
    if kind == "any_of":
        return any(holds(part, person) for part in message.any_of.parts)
    if kind == "negation":
        return not holds(message.negation, person)
    return holds_in_column(message, person)


def holds_in_column(message: condition_pb2.Condition, person: Person) -> bool:
    """The same for what is said of one column."""
    kind = message.WhichOneof("kind")
    if kind == "membership":
        column, literals = message.membership.column, message.membership.literals
        return any(compared(person[column], "OPERATOR_EQUAL", value_of(literal)) for literal in literals)
    if kind == "range":
        column, low, high = message.range.column, message.range.low, message.range.high
        value = person[column]
        at_least = compared(value, "OPERATOR_GREATER_OR_EQUAL", value_of(low))
        return at_least and compared(value, "OPERATOR_LESS_OR_EQUAL", value_of(high))
    if kind == "presence":
        value = person[message.presence.column]
        return value is not None and value != frozenset()
    operator = condition_pb2.Operator.Name(message.comparison.operator)
    return compared(person[message.comparison.column], operator, value_of(message.comparison.literal))


def compared(value: object, operator: str, literal: int | str | date) -> bool:
    """One comparison; false without a value, except that NOT_EQUAL is the negation of EQUAL."""
    if operator == "OPERATOR_NOT_EQUAL":
        return not compared(value, "OPERATOR_EQUAL", literal)
    if value is None:
        return False
    if isinstance(value, frozenset):
        return literal in value
    tests: dict[str, Callable[[], bool]] = {
        "OPERATOR_EQUAL": lambda: value == literal,
        "OPERATOR_LESS": lambda: value < literal,  # type: ignore[operator]
        "OPERATOR_LESS_OR_EQUAL": lambda: value <= literal,  # type: ignore[operator]
        "OPERATOR_GREATER": lambda: value > literal,  # type: ignore[operator]
        "OPERATOR_GREATER_OR_EQUAL": lambda: value >= literal,  # type: ignore[operator]
    }
    return tests[operator]()


def written(message: condition_pb2.Condition) -> str:
    """The raw tree as text, in parentheses all over."""
    kind = message.WhichOneof("kind")
    if kind in ("all_of", "any_of"):
        parts = message.all_of.parts if kind == "all_of" else message.any_of.parts
        return f"({(' AND ' if kind == 'all_of' else ' or ').join(map(written, parts))})"
    if kind == "negation":
        return f"not {written(message.negation)}"
    if kind == "membership":
        values = ",".join(map(quoted, message.membership.literals))
        return f"{message.membership.column.upper()} in ({values})"
    if kind == "range":
        return written_range(message.range)
    if kind == "presence":
        return f"{message.presence.column.upper()} is NOT null"
    sign = _COMPARISONS[condition_pb2.Operator.Name(message.comparison.operator)]
    return f"{message.comparison.column}{sign}{quoted(message.comparison.literal)}"


def written_range(message: condition_pb2.Range) -> str:
    """A range as text; with bounds that have changed places it cannot be typed with between."""
    column, low, high = message.column, value_of(message.low), value_of(message.high)
    if low <= high:  # type: ignore[operator]
        return f"{column} between {quoted(message.low)} and {quoted(message.high)}"
    return f"({column} >= {quoted(message.low)} and {column} <= {quoted(message.high)})"


def quoted(literal: condition_pb2.Literal) -> str:
    """A literal as text."""
    value = value_of(literal)
    if isinstance(value, date):
        return f"date '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def rephrased(message: condition_pb2.Condition) -> condition_pb2.Condition:
    """The same condition in other words: everything that is documented to make no difference, at once."""
    kind = message.WhichOneof("kind")
    if kind == "all_of":
        return doubled([rephrased(part) for part in message.all_of.parts], all_of)
    if kind == "any_of":
        return doubled([rephrased(part) for part in message.any_of.parts], any_of)
    if kind == "negation":
        return Wire(negation=rephrased(message.negation))
    return Wire(negation=Wire(negation=reworded(message)))


def doubled(
    parts: list[condition_pb2.Condition], combine: Callable[[list[condition_pb2.Condition]], condition_pb2.Condition]
) -> condition_pb2.Condition:
    """The parts backwards and nested, and one of them again."""
    return combine([combine(parts[::-1]), parts[0]])


def reworded(message: condition_pb2.Condition) -> condition_pb2.Condition:
    """The same comparison in other words."""
    if message.HasField("membership"):
        column, literals = message.membership.column, message.membership.literals[::-1]
        if len(literals) == 1:
            return comparison(column, "OPERATOR_EQUAL", literals[0])
        return Wire(membership=condition_pb2.Membership(column=column, literals=literals))
    if message.HasField("range"):
        upper = comparison(message.range.column, "OPERATOR_LESS_OR_EQUAL", message.range.high)
        lower = comparison(message.range.column, "OPERATOR_GREATER_OR_EQUAL", message.range.low)
        return all_of([upper, lower])
    column, literal = message.comparison.column, message.comparison.literal
    if message.comparison.operator == condition_pb2.OPERATOR_NOT_EQUAL:
        return Wire(negation=comparison(column, "OPERATOR_EQUAL", literal))
    if message.comparison.operator == condition_pb2.OPERATOR_EQUAL:
        return Wire(membership=condition_pb2.Membership(column=column, literals=[literal]))
    return message


def comparison(column: str, operator: str, literal: condition_pb2.Literal) -> condition_pb2.Condition:
    """One comparison."""
    number = condition_pb2.Operator.Value(operator)
    return Wire(comparison=condition_pb2.Comparison(column=column, operator=number, literal=literal))


# --- a random world ------------------------------------------------------------------------------------------------------


def random_world(seed: int) -> list[Person]:
    """People with every kind of gap in their records."""
    dice = np.random.default_rng(seed)

    def some(values: list[int]) -> int | None:
        return None if dice.random() < 0.25 else int(dice.choice(values))

    people: list[Person] = []
    for _ in range(WORLD):
        sex, day, village = some([0, 1, 2]), some([0, 1, 2, 3]), some([0, 255, 256, 299])
        people.append(
            {
                "age": some([-3, -2, -1, 0, 1, 2, 3]),
                "sex": None if sex is None else SEXES[sex],
                "drug": frozenset(DRUGS[at] for at in (0, 1, 2, 63) if dice.random() < 0.4),
                "village": None if village is None else f"v{village}",
                "admitted": None if day is None else FIRST_DAY + timedelta(days=day),
            }
        )
    return people


def stored(people: list[Person]) -> People:
    """The same people as the loader would hand them over; person k has pseudonym k, spread over both halves."""
    places = np.arange(len(people), dtype=np.uint64)

    def numbers(name: str, number: Callable[[object], int]) -> Values:
        return np.array(
            [MISSING if person[name] is None else number(person[name]) for person in people], dtype=np.int32
        )

    def mask(person: Person) -> int:
        drugs = person["drug"]
        assert isinstance(drugs, frozenset)
        return sum(1 << DRUGS.index(drug) for drug in drugs)

    columns: dict[str, Values] = {
        "age": numbers("age", lambda value: int(str(value))),
        "sex": numbers("sex", lambda value: SEXES.index(str(value))),
        "drug": np.array([mask(person) for person in people], dtype=np.uint64),
        "village": numbers("village", lambda value: int(str(value)[1:])),
        "admitted": numbers("admitted", lambda value: (date.fromisoformat(str(value)) - date(1970, 1, 1)).days),
    }
    return People(places // 2, places * 2**56, columns)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Person], PeopleStore]]:
    """One random world, and the store it was written to."""
    people = random_world(1)
    path = Path(tmp_path_factory.mktemp("world")) / "store.people"
    build_people_store(path, stored(people), DICTIONARY, places=len(people))
    with PeopleStore(path, DICTIONARY, threads=3) as store:
        yield people, store


# --- the promises --------------------------------------------------------------------------------------------------------

_Result = TypeVar("_Result")


def outcome(action: Callable[[], _Result]) -> _Result | InvalidRequestError:
    """Result of the action, or its typed error, which can be shown to the caller."""
    try:
        return action()
    except InvalidRequestError as error:
        if not (error.text + error.hint).isprintable():
            raise
        return error


def suggestion(error: InvalidRequestError) -> str:
    """The text that an error of the grammar says to type; empty if it cannot tell one."""
    told, _, text = error.details.get("instead", "").partition(": ")
    return text if told == "Type" and error.code.endswith("_SYNTAX") else ""


_MORE = settings(max_examples=150)


@_MORE
@given(long_conditions)
def test_price_bounds_the_passes_that_are_made_over_people(message: condition_pb2.Condition) -> None:
    """Whatever the condition is, no more passes than were paid for, over nobody, somebody and everybody alike."""
    predicate = compile_condition(condition_from_wire(message, DICTIONARY), DICTIONARY)
    made = {
        passes_made(predicate, {each.name: np.full(8, value, Encoding.of(each).kind) for each in DICTIONARY.columns})
        for value in (0, 1, 3)
    }
    assert len(made) == 1
    assert made.pop() <= predicate.passes


@_MORE
@given(raw_conditions)
def test_condition_survives_the_wire_and_its_own_text(message: condition_pb2.Condition) -> None:
    """The written, the sent and the described condition are one."""
    condition = condition_from_wire(message, DICTIONARY)
    again = parse_message(Wire, condition.to_wire().SerializeToString())
    assert condition_from_wire(again, DICTIONARY) == condition
    assert parse_condition(describe(condition), DICTIONARY) == condition
    assert parse_condition(written(message), DICTIONARY) == condition


@_MORE
@given(raw_conditions)
def test_canonical_bytes_can_be_decoded(message: condition_pb2.Condition) -> None:
    """The encoding is injective: an independent decoder gets the tree back."""
    condition = condition_from_wire(message, DICTIONARY)
    assert decoded(canonical_bytes(condition)) == condition


@_MORE
@given(raw_conditions)
def test_rephrasing_changes_nothing(message: condition_pb2.Condition) -> None:
    """Order, nesting, repetition, double negation and other words for the same comparison leave the bytes as they are."""
    other = outcome(lambda: condition_from_wire(rephrased(message), DICTIONARY))
    if isinstance(other, InvalidRequestError):
        assert other.code == "CRITERIA_TOO_LARGE"  # the other words may be too many
    else:
        assert canonical_bytes(other) == canonical_bytes(condition_from_wire(message, DICTIONARY))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(message=raw_conditions | long_conditions)
def test_store_selects_exactly_whom_the_condition_holds_for(
    world: tuple[list[Person], PeopleStore], message: condition_pb2.Condition
) -> None:
    """The compiled query agrees with the plain meaning of the raw tree, person by person, gaps included."""
    people, store = world
    condition = outcome(lambda: condition_from_wire(message, DICTIONARY))
    if isinstance(condition, InvalidRequestError):
        assert condition.code == "CRITERIA_TOO_LARGE"
        return
    # Everybody's blocks end somewhere, and the last one is shorter.
    found = selected(store, condition, block=32)
    pseudonyms = stored(people)
    expected = [
        int(high).to_bytes(8, "big") + int(low).to_bytes(8, "big")
        for person, high, low in zip(people, pseudonyms.high, pseudonyms.low, strict=True)
        if holds(message, person)
    ]
    assert [row.tobytes() for row in found] == expected


_WORDS = [
    *("age", "sex", "drug", "admitted", "health_card", "and", "or", "not", "in", "between", "is", "null", "like"),
    *(
        "date",
        "case",
        "when",
        "then",
        "end",
        "select",
        "from",
        "exists",
        "any",
        "all",
        "cast",
        "as",
        "true",
        "interval",
        "where",
        "count",
        "male",
        "rest",
        "by",
        "contains",
    ),
    *("=", "<>", "<", ">=", "==", "(", ")", ",", "-", "+", "*", "/", ";", "--", "/*", "*/", ".", "::", "?", ":a", "$1"),
    *(
        "1",
        "-1",
        "1.5",
        "1e5",
        "'male'",
        "'m%'",
        "2010-01-01",
        "&&",
        "=>",
        "\u201cmale\u201d",
        "'2010-01-01'",
        "'",
        '"',
        "`",
        "[",
        "]",
        "{{",
        "}}",
        "||",
        "\0",
        "\u0430",
    ),
]
hostile_texts = (
    st.text(max_size=60)
    | st.text(alphabet="ages='() not<>,1-;\"", max_size=60)
    | st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join)
    | st.lists(st.sampled_from(_WORDS), max_size=25).map("".join)
)


@settings(max_examples=600)
@given(hostile_texts)
@example("age in (select age from people)")
def test_hostile_criteria_end_in_a_typed_error(text: str) -> None:
    """Whatever is typed, the outcome is a condition or a typed error that can be shown."""
    condition = outcome(lambda: parse_condition(text, DICTIONARY))
    if not isinstance(condition, InvalidRequestError):
        assert parse_condition(describe(condition), DICTIONARY) == condition
    elif suggestion(condition):
        parse_condition(suggestion(condition), DICTIONARY)


@settings(max_examples=250)
@given(hostile_texts)
def test_hostile_question_ends_in_a_typed_error(text: str) -> None:
    """Whatever is typed, the outcome is a question or a typed error."""
    question = outcome(lambda: parse_question(text, CENSUS_DICTIONARY))
    if not isinstance(question, InvalidRequestError):
        assert parse_question(question.text, CENSUS_DICTIONARY) == question
    elif suggestion(question):
        parse_question(suggestion(question), CENSUS_DICTIONARY)


@settings(max_examples=250)
@given(st.binary(max_size=80))
def test_hostile_bytes_end_in_a_typed_error(data: bytes) -> None:
    """Whatever is sent, the outcome is a condition or a typed error."""
    condition = outcome(lambda: condition_from_wire(parse_message(Wire, data), DICTIONARY))
    if not isinstance(condition, InvalidRequestError):
        assert condition_from_wire(condition.to_wire(), DICTIONARY) == condition


@settings(max_examples=150)
@given(raw_conditions, st.data())
def test_damaged_message_ends_in_a_typed_error(message: condition_pb2.Condition, data: st.DataObject) -> None:
    """One wrong byte in a good message never ends in anything but a condition or a typed error."""
    good = bytearray(message.SerializeToString())
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    outcome(lambda: condition_from_wire(parse_message(Wire, bytes(good)), DICTIONARY))
