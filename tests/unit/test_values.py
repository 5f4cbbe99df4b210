"""Values: an exact count can be held and revealed to a mechanism, and nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from broker_common.values import HASH_BYTES, PSEUDONYM_BYTES, QUERY_ID_BYTES, ExactCount, NoisyCount


@pytest.mark.parametrize("value", [0, 1, 2**70])
def test_an_exact_count_is_revealed_to_a_mechanism_only(value: int) -> None:
    """The one way to the number has a name that reviewers search for."""
    assert ExactCount(value).reveal_to_mechanism() == value
    assert repr(ExactCount(value)) == "ExactCount(<secret>)"


def test_a_count_is_never_negative() -> None:
    """A negative count is a bug before the mechanism."""
    with pytest.raises(ValueError, match="never negative"):
        ExactCount(-1)


def test_an_exact_count_is_no_number() -> None:
    """It cannot be compared, added, indexed or encoded by accident."""
    count = ExactCount(5)
    assert [count] not in ([5], [ExactCount(5)])
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
    assert NoisyCount(-3) == NoisyCount(-3)
    assert repr(NoisyCount(-3)) == "NoisyCount(value=-3)"


def test_lengths_are_those_of_the_protocol() -> None:
    """Pseudonyms and query ids of 128 bits, hashes of 256."""
    assert (PSEUDONYM_BYTES, QUERY_ID_BYTES, HASH_BYTES) == (16, 16, 32)
