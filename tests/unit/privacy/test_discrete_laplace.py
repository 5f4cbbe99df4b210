"""The sampler's law is exact: its probabilities are counted as fractions, its bits are replayed from vectors.

Counting: the sampler is run on every string of bits up to a depth. A run that ends after n bits has probability 2**-n,
so summing them gives a lower bound for each outcome; the probability of the runs still undecided is the slack above it.
Rejections make that slack wide, so the law is also counted layer by layer: each function is run on every choice that
the functions below it can make, with the probabilities already proven for them. That closes the slack to 10**-20.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy import discrete_laplace
from broker_common.privacy.discrete_laplace import (
    UniformBits,
    bernoulli,
    bernoulli_exp,
    draw,
    probability,
    uniform_below,
)

ExpSeries = Callable[[Fraction], tuple[Fraction, Fraction]]

VECTORS = Path(__file__).parents[2] / "vectors" / "discrete_laplace.json"

DEPTH = 16
DRAW_DEPTH = 18
"""Bits tried: at most 2**18 strings, enough to leave no more than the following shares of runs undecided."""
MAX_UNDECIDED_BERNOULLI_EXP = Fraction(1, 4)
MAX_UNDECIDED_DRAW = {1: Fraction(1, 13), 2: Fraction(3, 20), 3: Fraction(2, 5)}
WHOLE = 10**40
NEGLIGIBLE = 10**16
"""Where whole decisions are counted instead of bits: parts that make up 1, and branches too thin to follow."""
LAYER_ACCURACY = Fraction(1, 10**20)
PROBABILITY_ERROR = Fraction(1, 10**25)
"""What `probability` promises, relative."""


class ExhaustedError(Exception):
    """The bits of this run are used up."""


class GivenBits:
    """A stream that holds a given string of bits and raises beyond its end."""

    def __init__(self, value: int, length: int) -> None:
        self._value = value
        self.left = length

    def bits(self, n: int) -> int:
        """The next n bits, or `ExhaustedError`."""
        if n > self.left:
            raise ExhaustedError
        self.left -= n
        return self._value >> self.left & ((1 << n) - 1)


def exact_masses(sample: Callable[[UniformBits], int], depth: int) -> tuple[dict[int, Fraction], Fraction]:
    """The probability of each outcome decided within `depth` bits, and the probability still undecided."""
    masses: dict[int, Fraction] = defaultdict(Fraction)
    undecided = [0]
    for length in range(depth + 1):
        still_undecided = []
        for value in undecided:
            stream = GivenBits(value, length)
            try:
                outcome = sample(stream)
            except ExhaustedError:
                still_undecided.append(value)
                continue
            assert stream.left == 0
            masses[outcome] += Fraction(1, 1 << length)
        undecided = [value << 1 | bit for value in still_undecided for bit in (0, 1)]
    return masses, Fraction(len(undecided), 2 << depth)


def law(scale: int, x: int, exp_series: ExpSeries) -> tuple[Fraction, Fraction]:
    """Fractions below and above P(x), from the Taylor witness."""
    q_low, q_high = exp_series(Fraction(-1, scale))
    decay_low, decay_high = exp_series(Fraction(-abs(x), scale))
    return (1 - q_high) / (1 + q_high) * decay_low, (1 - q_low) / (1 + q_low) * decay_high


@pytest.mark.parametrize("bound", range(1, 10))
def test_uniform_values_have_equal_probabilities_exactly(bound: int) -> None:
    """No value below the bound is favoured by so much as one string of bits, and no other value appears."""
    masses, undecided = exact_masses(lambda stream: uniform_below(bound, stream), 12)
    assert set(masses) == set(range(bound))
    assert set(masses.values()) == {(1 - undecided) / bound}


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (0, 5), (5, 5), (3, 7), (4, 12)]
)
def test_a_bernoulli_has_exactly_its_probability(numerator: int, denominator: int) -> None:
    """True and false are in the ratio asked for, as fractions."""
    masses, undecided = exact_masses(lambda stream: bernoulli(numerator, denominator, stream), 12)
    assert masses[True] == (1 - undecided) * Fraction(numerator, denominator)
    assert masses[False] == (1 - undecided) * (1 - Fraction(numerator, denominator))


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (1, 2), (1, 3), (2, 3)])
def test_an_exponential_bernoulli_brackets_its_probability_bit_by_bit(
    exp_series: ExpSeries, numerator: int, denominator: int
) -> None:
    """e**-x lies between the counted probability of true and that of not false."""
    masses, undecided = exact_masses(lambda stream: bernoulli_exp(numerator, denominator, stream), DEPTH)
    low, high = exp_series(Fraction(-numerator, denominator))
    assert undecided < MAX_UNDECIDED_BERNOULLI_EXP
    assert masses[True] <= high
    assert low <= masses[True] + undecided


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (0, 30)])
def test_an_exponential_bernoulli_of_zero_is_always_true(numerator: int, denominator: int) -> None:
    """e**-0 = 1: nothing but true is ever counted."""
    masses, _ = exact_masses(lambda stream: bernoulli_exp(numerator, denominator, stream), DEPTH)
    assert set(masses) == {True}


@pytest.mark.parametrize(("scale", "max_undecided"), MAX_UNDECIDED_DRAW.items())
def test_a_draw_brackets_the_exact_law_bit_by_bit(exp_series: ExpSeries, scale: int, max_undecided: Fraction) -> None:
    """For every value: counted probability <= exact law <= counted plus undecided, and nothing is lost."""
    masses, undecided = exact_masses(lambda stream: draw(scale, stream), DRAW_DEPTH)
    assert undecided < max_undecided
    assert sum(masses.values()) + undecided == 1
    farthest = max(map(abs, masses))
    for x in range(-farthest - 1, farthest + 2):
        low, high = law(scale, x, exp_series)
        assert masses.get(x, 0) <= high
        assert low <= masses.get(x, 0) + undecided


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_a_draw_is_symmetric_exactly(scale: int) -> None:
    """A value and its negative are reached by the same number of strings of bits of every length."""
    masses, _ = exact_masses(lambda stream: draw(scale, stream), DEPTH)
    assert all(masses[x] == masses[-x] for x in list(masses))


class UndecidedError(Exception):
    """The run needs a choice that its script does not hold yet: these are the possible ones."""

    def __init__(self, choices: dict[int, Fraction]) -> None:
        super().__init__()
        self.choices = choices


class RestartError(Exception):
    """The draw starts again, in the state it began in."""


class ScriptedChoices:
    """Stands in for a stream: each proven function asks it for a result, with the probability of each result."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = iter(script)

    def choose(self, choices: dict[int, Fraction]) -> int:
        """The next result in the script, or `UndecidedError`."""
        for chosen in self._script:
            return chosen
        raise UndecidedError({result: chance for result, chance in choices.items() if chance})

    def bits(self, n: int) -> int:
        """All strings of n bits are equally likely."""
        return self.choose(dict.fromkeys(range(1 << n), Fraction(1, 1 << n)))


RESTARTED = "restarted"


def layered_masses(sample: Callable[[ScriptedChoices], int]) -> tuple[dict[int | str, Fraction], Fraction]:
    """A lower bound for the probability of each outcome over all choices of the layer below, and what is left over.

    Branches are weighed in whole parts of `WHOLE`, rounded down: what rounding and cutting lose is left over.
    """
    parts: dict[int | str, int] = defaultdict(int)
    branches: list[tuple[tuple[int, ...], int]] = [((), WHOLE)]
    while branches:
        script, mass = branches.pop()
        try:
            parts[sample(ScriptedChoices(script))] += mass
        except RestartError:
            parts[RESTARTED] += mass
        except UndecidedError as undecided:
            shares = ((r, mass * chance.numerator // chance.denominator) for r, chance in undecided.choices.items())
            branches += [((*script, result), share) for result, share in shares if share > NEGLIGIBLE]
    return {outcome: Fraction(part, WHOLE) for outcome, part in parts.items()}, 1 - Fraction(sum(parts.values()), WHOLE)


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (7, 8), (29, 30), (999, 1000)]
)
def test_an_exponential_bernoulli_is_exact_given_exact_bernoullis(
    exp_series: ExpSeries, monkeypatch: pytest.MonkeyPatch, numerator: int, denominator: int
) -> None:
    """Over all results of the bernoullis below it, true has probability e**-x to twenty digits."""

    def bernoulli_choice(a: int, d: int, choices: ScriptedChoices) -> bool:
        return bool(choices.choose({True: Fraction(a, d), False: 1 - Fraction(a, d)}))

    monkeypatch.setattr(discrete_laplace, "bernoulli", bernoulli_choice)
    masses, left_out = layered_masses(lambda choices: bernoulli_exp(numerator, denominator, choices))
    low, high = exp_series(Fraction(-numerator, denominator))
    assert left_out < LAYER_ACCURACY
    assert masses[True] <= high
    assert low <= masses[True] + left_out


@pytest.mark.parametrize("scale", [1, 2, 3, 30])
def test_a_draw_is_exact_given_exact_layers_below(
    exp_series: ExpSeries, monkeypatch: pytest.MonkeyPatch, scale: int
) -> None:
    """Over all results of the layers below, each value has its exact probability to twenty digits.

    A restart returns to the first state, so a value's probability is its share among the runs that do not restart.
    """

    def first_uniform(bound: int, choices: ScriptedChoices) -> int:
        if choices in begun:
            raise RestartError
        begun.append(choices)
        return choices.choose(dict.fromkeys(range(bound), Fraction(1, bound)))

    def exponential_choice(a: int, d: int, choices: ScriptedChoices) -> bool:
        chance = Fraction(int(exp_series(Fraction(-a, d))[0] * WHOLE), WHOLE)
        return bool(choices.choose({True: chance, False: 1 - chance}))

    def one_draw(choices: ScriptedChoices) -> int:
        begun.clear()
        return draw(scale, choices)

    begun: list[ScriptedChoices] = []
    monkeypatch.setattr(discrete_laplace, "uniform_below", first_uniform)
    monkeypatch.setattr(discrete_laplace, "bernoulli_exp", exponential_choice)
    masses, left_out = layered_masses(one_draw)
    finished = 1 - masses.pop(RESTARTED)
    assert left_out < LAYER_ACCURACY
    assert len(masses) > 40 * scale
    for x, mass in masses.items():
        low, high = law(scale, int(x), exp_series)
        assert low - LAYER_ACCURACY <= mass / finished <= high + LAYER_ACCURACY


def test_a_zero_with_a_negative_sign_is_drawn_again() -> None:
    """Accepting zero under both signs would double its probability; after the second zero the draw starts afresh."""
    # At scale 1 a quotient bit of 1 ends the magnitude at 0, bits 0 and 10 count it up once; then comes the sign.
    plus_zero, minus_zero, minus_one = "1" + "0", "1" + "1", "010" + "1" + "1"
    assert draw(1, bits_of(plus_zero)) == 0
    assert draw(1, bits_of(minus_zero + plus_zero)) == 0
    assert draw(1, bits_of(minus_zero + minus_one)) == -1


def bits_of(text: str) -> GivenBits:
    """A stream of exactly the given bits."""
    return GivenBits(int(text, 2), len(text))


def test_a_failing_stream_yields_no_noise() -> None:
    """When the bits run out the error passes through: no default, no truncated value."""
    with pytest.raises(ExhaustedError):
        draw(30, GivenBits(0, 3))


@pytest.mark.parametrize("scale", [0, -30])
def test_a_scale_below_one_draws_nothing(scale: int) -> None:
    """Noise of scale 0 would be no noise at all."""
    with pytest.raises(ValueError, match="at least 1"):
        draw(scale, NoiseStream(bytes(32)))


def reference_draws(seed: bytes, scale: int) -> Iterator[int]:
    """The documented method over the standard library's SHAKE256, one bit at a time: shares no code with ours."""
    digest = hashlib.shake_256(seed).digest(1 << 14)
    source = (byte >> shift & 1 for byte in digest for shift in range(7, -1, -1))

    def below(bound: int) -> int:
        while True:
            value = 0
            for _ in range(len(f"{bound - 1:b}") if bound > 1 else 0):
                value = 2 * value + next(source)
            if value < bound:
                return value

    def survives(numerator: int, denominator: int) -> bool:
        failed_at = next(k for k in count(1) if not below(denominator * k) < numerator)
        return bool(failed_at & 1)

    while True:
        u = below(scale)
        if survives(u, scale):
            size = u + scale * next(v for v in count() if not survives(1, 1))
            sign = next(source)
            if size or not sign:
                yield (1 - 2 * sign) * size


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"])
def test_recorded_seeds_give_the_recorded_draws(vector: dict[str, object]) -> None:
    """An auditor redraws the same noise from the same seed in every release, and so does a second implementation."""
    seed, scale, draws = bytes.fromhex(str(vector["seed"])), int(str(vector["scale"])), vector["draws"]
    assert isinstance(draws, list)
    stream, reference = NoiseStream(seed), reference_draws(seed, scale)
    assert [draw(scale, stream) for _ in draws] == draws
    assert [next(reference) for _ in draws] == draws


@given(seed=st.binary(min_size=32, max_size=32), scale=st.integers(1, 10**30))
def test_the_reading_order_of_bits_is_the_documented_one(seed: bytes, scale: int) -> None:
    """For any seed and scale, huge ones included, the draw is that of the method in the docstring."""
    stream, reference = NoiseStream(seed), reference_draws(seed, scale)
    assert [draw(scale, stream) for _ in range(3)] == [next(reference) for _ in range(3)]


@given(scale=st.integers(1, 10**30), multiple=st.fractions(min_value=-60, max_value=60))
def test_tabulated_probabilities_are_those_of_the_law(exp_series: ExpSeries, scale: int, multiple: Fraction) -> None:
    """Each probability agrees with the Taylor witness within the promised error, on both sides."""
    x = int(scale * multiple)
    low, high = law(scale, x, exp_series)
    tabulated = Fraction(probability(scale, x))
    assert low * (1 - PROBABILITY_ERROR) <= tabulated <= high * (1 + PROBABILITY_ERROR)
    assert probability(scale, x) == probability(scale, -x)


@pytest.mark.parametrize("scale", [0, 10**30 + 1])
def test_no_probability_is_tabulated_beyond_its_accuracy(scale: int) -> None:
    """A scale whose digits would be lost is refused."""
    with pytest.raises(ValueError, match="a scale is at least 1"):
        probability(scale, 0)


@given(scale=st.integers(1, 1000), count_in=st.integers(0, 500), observed=st.integers(-500, 1000))
def test_one_record_changes_no_probability_by_more_than_the_price(
    exp_series: ExpSeries, scale: int, count_in: int, observed: int
) -> None:
    """The claim itself: for counts that differ by 1, every answer's probabilities differ by at most e**(1/scale)."""
    if_in = Fraction(probability(scale, observed - count_in - 1))
    if_out = Fraction(probability(scale, observed - count_in))
    limit = exp_series(Fraction(1, scale))[1] * (1 + 3 * PROBABILITY_ERROR)
    assert if_in <= limit * if_out
    assert if_out <= limit * if_in
