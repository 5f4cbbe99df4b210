"""Values: an exact count can be held and revealed to a mechanism, and nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from broker_common.values import HASH_BYTES, MOST_CELLS, PSEUDONYM_BYTES, QUERY_ID_BYTES, ExactCounts, NoisyCounts


@pytest.mark.parametrize("value", [0, 1, 2**70])
def test_an_exact_count_is_revealed_to_a_mechanism_only(value: int) -> None:
    """The one way to the number has a name that reviewers search for."""
    assert ExactCounts([value]).reveal_to_mechanism() == (value,)
    assert repr(ExactCounts([value])) == "ExactCounts(<secret>)"


def test_a_count_is_never_negative() -> None:
    """A negative count is a bug before the mechanism."""
    for counts in ([-1], [3, -1], [-1, 3]):
        with pytest.raises(ValueError, match="never negative"):
            ExactCounts(counts)


@pytest.mark.parametrize("number", [0, 17])
def test_an_answer_has_one_to_sixteen_numbers(number: int) -> None:
    """No answer is without a number, and none has more than the formats hold."""
    for made in (ExactCounts, NoisyCounts):
        with pytest.raises(ValueError, match="1 to 16 cells"):
            made((5,) * number)


@pytest.mark.parametrize("number", [1, 2, 16])
def test_a_padded_answer_shows_no_number_of_cells(number: int) -> None:
    """It is the numbers in their order, then zeros, sixteen in all."""
    noisy = NoisyCounts(tuple(range(-1, number - 1)))
    assert noisy.padded[:number] == noisy.values
    assert noisy.padded[number:] == (0,) * (MOST_CELLS - number)


def test_an_exact_count_is_no_number() -> None:
    """It cannot be compared, added, indexed or encoded by accident."""
    count = ExactCounts([5])
    assert [count] not in ([5], [ExactCounts([5])])
    for use in (
        lambda: count + 1,  # type: ignore[operator]
        lambda: int(count),  # type: ignore[call-overload]
        lambda: [0] * count,  # type: ignore[operator]
        lambda: count < 6,  # type: ignore[operator]
        lambda: f"{count:d}",
        lambda: json.dumps(count),
        lambda: msgspec.json.encode(count),
        lambda: vars(count),
    ):
        with pytest.raises(TypeError):
            use()


def test_a_noisy_count_is_a_plain_value() -> None:
    """It may be negative, compared and printed: it is safe."""
    assert NoisyCounts((-3,)) == NoisyCounts((-3,))
    assert repr(NoisyCounts((-3,))) == "NoisyCounts(values=(-3,))"


def test_lengths_are_those_of_the_protocol() -> None:
    """Pseudonyms and query ids of 128 bits, hashes of 256."""
    assert (PSEUDONYM_BYTES, QUERY_ID_BYTES, HASH_BYTES) == (16, 16, 32)
