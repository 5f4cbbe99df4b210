"""Criteria text: what is admitted, what is refused and why, and that nothing but a typed error escapes."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.dictionaries import HEALTH_DICTIONARY
from fakes.processor_time import limited

from broker_common.errors import InvalidRequestError
from broker_common.query.canonical import describe
from broker_common.query.criteria import parse_condition
from broker_common.query.scanner import MAX_NESTING, MAX_TEXT_CHARACTERS

VECTORS: dict[str, Any] = json.loads(Path(__file__).parents[2].joinpath("vectors/criteria.json").read_text("utf-8"))


def refusal(text: str) -> InvalidRequestError:
    """The error that reading `text` ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_condition(text, HEALTH_DICTIONARY)
    return caught.value


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda vector: vector["text"])
def test_admitted_text_has_its_canonical_form(vector: dict[str, str]) -> None:
    """Each form of the language means what the vectors say, and its canonical form means the same."""
    condition = parse_condition(vector["text"], HEALTH_DICTIONARY)
    assert describe(condition) == vector["canonical"]
    assert parse_condition(vector["canonical"], HEALTH_DICTIONARY) == condition


def test_attack_is_refused_with_its_reason() -> None:
    """Everything outside the language is refused with the code that the vectors name."""
    errors = {vector["text"]: refusal(vector["text"]) for vector in VECTORS["refused"]}
    assert {text: error.code for text, error in errors.items()} == {
        vector["text"]: vector["code"] for vector in VECTORS["refused"]
    }
    said = [error.text.replace("question mark", "").replace("'?'", "") for error in errors.values()]
    assert [text for text in said if "?" in text] == []  # no detail of a sentence is missing


@pytest.mark.parametrize("vector", VECTORS["repeated"], ids=lambda vector: vector["why"])
def test_size_attack_ends_quickly_in_a_typed_error(vector: dict[str, Any]) -> None:
    """Deep, long and repetitive texts neither hang nor overflow the parser, and take no five seconds of processor time."""
    text = vector["before"] * vector["times"] + vector["middle"] + vector["after"] * vector["times"]
    with limited(5.0):
        if "canonical" in vector:
            assert describe(parse_condition(text, HEALTH_DICTIONARY)) == vector["canonical"]
        else:
            assert refusal(text).code == vector["code"]


def test_text_at_the_limits_is_still_read() -> None:
    """The limits admit what they name: full length, full nesting."""
    deep = "(" * MAX_NESTING + "age = 1" + ")" * MAX_NESTING
    assert describe(parse_condition(deep, HEALTH_DICTIONARY)) == "age = 1"
    long = "age = 1".ljust(MAX_TEXT_CHARACTERS)
    assert describe(parse_condition(long, HEALTH_DICTIONARY)) == "age = 1"
    assert refusal(long + " ").code == "CRITERIA_TOO_LARGE"


def test_condition_with_too_many_comparisons_is_refused() -> None:
    """A long chain of or is refused by number of comparisons, and the hint names `in`."""
    error = refusal(" or ".join(f"age={age}" for age in range(101)))
    assert error.code == "CRITERIA_TOO_LARGE"
    assert "100 comparisons" in error.text
    assert "in (...)" in error.hint


def test_caller_near_the_end_of_its_stack_gets_a_typed_error() -> None:
    """Even a caller without room for the parser's recursion sees no RecursionError."""

    def below(frames: int, action: Callable[[], None]) -> None:
        if frames:
            below(frames - 1, action)
        else:
            action()

    nested = "(" * MAX_NESTING + "age = 1" + ")" * MAX_NESTING
    codes = []

    def attempt() -> None:
        try:
            parse_condition(nested, HEALTH_DICTIONARY)
        except InvalidRequestError as error:
            codes.append(error.code)

    below(sys.getrecursionlimit() - len(inspect.stack()) - 60, attempt)
    assert codes == ["CRITERIA_TOO_LARGE"]


def test_unknown_column_names_the_nearest() -> None:
    """A misspelt column is answered with columns that exist."""
    assert "hospital_visits" in refusal("hopsital_visits > 3").hint


def test_unknown_code_names_the_nearest_and_the_published_codes() -> None:
    """A misspelt code is answered with the nearest codes and a bounded list of all."""
    error = refusal("procedure = 'Angioplasti'")
    assert "Did you mean: 'angioplasty'" in error.hint
    assert error.details["codes"].count("'") == 24
    assert error.details["codes"].endswith("...")


def test_homoglyph_is_called_by_its_name() -> None:
    """A letter that looks like another is named, since seeing it does not help."""
    assert "cyrillic small letter a" in refusal("\u0430ge = 1").text


def test_error_text_never_repeats_unprintable_input() -> None:
    """Control characters are not echoed to a terminal."""
    for text in ("\x1b[2J = 1", "sex = '\x1b[2J'", "age = 1 \x1b"):
        error = refusal(text)
        assert (error.text + error.hint).isprintable()


def test_long_input_is_cut_in_the_error() -> None:
    """A stranger's long value does not flood the reader."""
    assert len(refusal(f"sex = '{'x' * 3000}'").text) < 200


@pytest.mark.parametrize("name", HEALTH_DICTIONARY.names)
def test_every_published_column_can_be_written(name: str) -> None:
    """No column's name is a word that the parser takes for something else."""
    column = HEALTH_DICTIONARY.column(name)
    value = f"'{column.values[0]}'" if column.codes else "'2010-01-01'" if name.endswith("_date") else "1"
    assert describe(parse_condition(f"{name} = {value}", HEALTH_DICTIONARY)) == f"{name} = {value}"
