"""Every parser on its saved corpus and on mutations of it: refused as documented or read back, and never for long.

The same targets run under a coverage-guided fuzzer with `make fuzz`, which saves what it finds in the corpus.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest
from fakes.processor_time import TookTooLong, limited
from fuzz.mutator import mutations
from fuzz.target import Cut, Finding, Target, joined, require
from fuzz.targets import CORPUS, TARGETS, inputs

from broker_common.errors import InvalidRequestError

SEED = "tripartite"
# Seconds of processor time, so that a busy machine makes no difference. The slowest input takes some hundredths of a second.
SECONDS_PER_INPUT = 5.0
MOST_FILES, MOST_BYTES, MOST_BYTES_EACH = 500, 600_000, 16_384


def accepted(name: str, data: bytes) -> bool:
    """Whether the target accepts `data`; fails, showing the input, if anything but a documented refusal escapes."""
    try:
        with limited(SECONDS_PER_INPUT):
            return TARGETS[name].accepts(data)
    except (Exception, TookTooLong) as error:
        raise AssertionError(f"{name} has a finding; keep it as a file of {CORPUS / name}: {data!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_saved_inputs_are_refused_as_documented_or_read_back(name: str) -> None:
    """Everything that was ever found stays mended, and the inputs that a target begins with get as far as they should."""
    results = {what: accepted(name, data) for what, data in inputs(name).items()}
    expected = {what: not what.startswith("bad") for what in TARGETS[name].seeds()}
    assert {what: results[what] for what in expected} == expected
    assert any(expected.values()), "no seed is accepted: the target may not reach its parser at all"


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_refused_as_documented_or_read_back(name: str) -> None:
    """No crash, no hang, no other exception: a few hundred inputs that are nearly right, the same ones every time."""
    target = TARGETS[name]
    before = list(inputs(name).values())
    for data in mutations(f"{SEED}/{name}", before, target.words, target.mutations, target.max_bytes):
        accepted(name, data)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.guided])
def test_target_reaches_every_parser_that_it_names(name: str) -> None:
    """The table does not claim more than its inputs do."""
    wanted = {_code(function): function.__qualname__ for function in TARGETS[name].covers}
    reached: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            reached.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        for data in inputs(name).values():
            TARGETS[name].accepts(data)
    finally:
        sys.setprofile(before)
    assert {qualname for code, qualname in wanted.items() if code not in reached} == set()


def _code(function: Callable[..., Any]) -> CodeType:
    inner: Any = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]  # of a class we name
    code: CodeType = inspect.unwrap(getattr(inner, "__func__", inner)).__code__
    return code


def test_corpus_is_small_and_belongs_to_targets() -> None:
    """A few hundred small files, none of a target that is no more."""
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= set(TARGETS)
    assert len(files) <= MOST_FILES
    sizes = [path.stat().st_size for path in files]
    assert sum(sizes) <= MOST_BYTES
    assert max(sizes) <= MOST_BYTES_EACH


# --- the fuzzer itself -----------------------------------------------------------------------------------------------


def raising(error: Exception) -> Target[bytes]:
    """A target whose parser raises `error` and documents a code and a type."""

    def parse(data: bytes) -> bytes:
        del data
        raise error

    return Target(
        parse=parse,
        covers=(),
        seeds=dict,
        codes=frozenset({"MALFORMED_MESSAGE"}),
        errors=(UnicodeDecodeError,),
        on_the_wire=True,
    )


def test_documented_errors_are_refusals() -> None:
    """A documented error is no finding."""
    assert not raising(InvalidRequestError("MALFORMED_MESSAGE", problem="x")).accepts(b"")
    assert not raising(UnicodeDecodeError("utf-8", b"", 0, 1, "x")).accepts(b"")


@pytest.mark.parametrize(
    "error", [InvalidRequestError("BAD_SIGNATURE", subject="x"), ValueError("x"), RecursionError()]
)
def test_every_other_error_is_a_finding(error: Exception) -> None:
    """An undocumented code, the parent of a documented type, and a bug all escape."""
    with pytest.raises(type(error)):
        raising(error).accepts(b"")


def test_broken_promise_about_an_accepted_value_is_a_finding() -> None:
    """It escapes even where the parser's own errors are allowed."""

    def check(value: bytes, data: bytes) -> None:
        del data
        require(value == b"right", "it is right")

    target = Target(parse=bytes, covers=(), seeds=dict, errors=(ValueError, Finding), check=check)
    assert target.accepts(b"right")
    with pytest.raises(Finding):
        target.accepts(b"wrong")


def test_refusal_too_long_for_a_trailer_is_a_finding() -> None:
    """A caller would hear of a broken transport instead."""
    with pytest.raises(Finding):
        raising(InvalidRequestError("MALFORMED_MESSAGE", problem="x" * 10_000)).accepts(b"")


def test_endless_parser_is_stopped() -> None:
    """The time limit is real: it ends a parser that catches everything it can."""

    def endless() -> None:
        with limited(0.05):
            while True:
                with contextlib.suppress(Exception):
                    sum(range(1000))

    with pytest.raises(TookTooLong):
        endless()


def test_mutations_repeat() -> None:
    """Two runs with one seed try the same inputs; another seed tries others."""

    def made(seed: str) -> list[bytes]:
        return list(mutations(seed, [b"one", b"twenty"], [b"word"], 50, 30))

    assert made("a") == made("a")
    assert made("a") != made("b")
    assert len(set(made("a"))) > 25
    assert max(map(len, made("a"))) <= 30


def test_pieces_are_cut_as_they_were_joined() -> None:
    """Structured seeds reach their targets as they were meant."""
    cut = Cut(joined(b"", b"one", b"x" * 300) + b"rest")
    assert [cut.piece(), cut.piece(), cut.piece(), cut.rest()] == [b"", b"one", b"x" * 300, b"rest"]
    assert (cut.is_empty, cut.piece(), cut.number(8)) == (True, b"", 0)
