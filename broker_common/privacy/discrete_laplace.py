"""Discrete Laplace: the noise of one cell. Integers with P(x) proportional to e**(-|x|/scale), drawn exactly.

Why our own: an answer's noise must be replayable from its seed, years later and by somebody else. The method is that
of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 and 2.

Invariants. Given uniform bits the law is exact: rational arithmetic only, no floats, no table, no cut-off, no clamping
(noise cut off anywhere would prove a world impossible). The bits are read in the order below and in no other: another
order changes every recorded answer, and the vectors in tests/vectors/discrete_laplace.json fail.

    uniform_below(n)       k = bit length of n-1; bits(k) until the value is below n
    bernoulli(a/d)         uniform_below(d) < a
    bernoulli_exp(a/d)     k = 1, 2, ...: bernoulli(a/(d*k)) until it fails; true if it failed at an odd k
    geometric(b)           u = uniform_below(b); unless bernoulli_exp(u/b), start again
                           v = how often bernoulli_exp(1/1) is true before it is false
                           result: u + b*v
    draw(b)                g = geometric(b); negative = bits(1); if negative and g = 0, start again
                           result: g, or -g if negative

Left to others: several cells, margins and answers (`table_laplace`); that the bits are uniform, unpredictable and used once, and that the charge is durable before a draw.
How long a draw takes depends on what it draws, so answers must leave at fixed times only.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from broker_common.privacy.enclosure import exp_between, to_decimal

PROBABILITY_DIGITS = 25
"""Correct digits of `probability`."""

_WORKING_DIGITS = 60
# The working digits hold for every scale up to here, which is far beyond any policy's.
_MAX_TABULATED_SCALE = 10**30


class UniformBits(Protocol):
    """`bits(n)` gives the next n independent, uniform bits as an integer in 0 .. 2**n - 1."""

    def bits(self, n: int, /) -> int: ...


def uniform_below(bound: int, stream: UniformBits) -> int:
    """Uniform in 0 .. bound-1. Requires bound >= 1. Reads no bits for a bound of 1, else fewer than 2k on average."""
    width = (bound - 1).bit_length()
    # Rejection, not a remainder: a remainder favours the small values.
    while (value := stream.bits(width)) >= bound:
        pass
    return value


def bernoulli(numerator: int, denominator: int, stream: UniformBits) -> bool:
    """True with probability numerator/denominator. Requires 0 <= numerator <= denominator, denominator >= 1."""
    return uniform_below(denominator, stream) < numerator


def bernoulli_exp(numerator: int, denominator: int, stream: UniformBits) -> bool:
    """True with probability e**(-numerator/denominator). Requires 0 <= numerator <= denominator, denominator >= 1.

    The loop passes k with probability x**k/k!, so that stopping at an odd k has probability 1 - x + x**2/2! - ...
    """
    k = 1
    while bernoulli(numerator, denominator * k, stream):
        k += 1
    return k % 2 == 1


def geometric(scale: int, stream: UniformBits) -> int:
    """K = 0, 1, 2, ... with probability (1-q) * q**k, q = e**(-1/scale). Requires scale >= 1."""
    while True:
        remainder = uniform_below(scale, stream)
        if not bernoulli_exp(remainder, scale, stream):
            continue
        quotient = 0
        while bernoulli_exp(1, 1, stream):
            quotient += 1
        return remainder + scale * quotient


def draw(scale: int, stream: UniformBits) -> int:
    """One discrete Laplace value: P(x) = (1-q)/(1+q) * q**|x| with q = e**(-1/scale), for every integer x.

    Requires uniform, independent bits. `ValueError` unless scale >= 1. Errors of the stream pass through, and then
    nothing was drawn.
    """
    if scale < 1:
        raise ValueError("a scale is at least 1")
    while True:
        magnitude = geometric(scale, stream)
        negative = stream.bits(1)
        # SECURITY: zero has one sign only; accepting both would double its probability and break the ratio.
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def probability(scale: int, x: int) -> Decimal:
    """P(noise = x), for tests, plots and auditors' tools, with a relative error below 10**-25.

    `ValueError` unless 1 <= scale <= 10**30 and |x| <= `MAX_EXPONENT` * scale.
    """
    if not 1 <= scale <= _MAX_TABULATED_SCALE:
        raise ValueError("a scale is at least 1, and at most 10**30 here")
    # At most 30 of the digits are lost in 1-q, which is about 1/scale.
    q = exp_between(Fraction(-1, scale), _WORKING_DIGITS).low
    decay = exp_between(Fraction(-abs(x), scale), _WORKING_DIGITS).low
    return to_decimal((1 - q) / (1 + q) * decay, PROBABILITY_DIGITS + 1)
