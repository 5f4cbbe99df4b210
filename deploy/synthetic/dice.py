"""Random numbers that can be looked up: the uniform number of (seed, stream, index), whatever was asked before.

The health file lists people in another order than the census file, so a person is made twice, from the index alone, and
must come out the same. A sequential generator cannot do that without keeping everybody in memory; a mixing function
(the finaliser of splitmix64) can. Invariants: uniforms are multiples of 2^-32 in [0, 1); streams of one seed are unrelated.

This is for inventing people. It is neither noise nor cryptography; nothing secret may depend on it.
"""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np

from deploy.synthetic.arrays import Floats, Integers, Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@unique
class Stream(IntEnum):
    """One stream per decision. The numbers are part of what a seed means: never reuse or renumber one."""

    HOUSEHOLD_TYPE = 1
    HOUSEHOLD_AGE = 2
    HOUSEHOLD_HEAD_SEX = 3
    HOUSEHOLD_DIVISION = 4
    PERSON_AGE = 5
    PERSON_SEX = 6
    LANGUAGE_OWN = 7
    FIRST_OFFICIAL_LANGUAGE = 8
    MOTHER_TONGUE = 9
    HOME_AND_KNOWLEDGE = 10
    LINKAGE = 11
    HEALTH_ORDER = 12
    CARD_NUMBER = 13
    HEALTH_RECORDS = 14
    LONG_FORM = 15
    OTHER_HOME = 16
    NON_OFFICIAL = 17
    WORKS = 18
    WORK = 19
    OTHER_WORK = 20


def stream_key(seed: int, stream: Stream) -> np.uint64:
    """The key of one stream; ValueError for a negative seed."""
    return np.uint64(np.random.SeedSequence(entropy=seed, spawn_key=(stream,)).generate_state(1, np.uint64)[0])


def mix(words: Words) -> Words:
    """Splitmix64's finaliser, a bijection of 64-bit words that spreads every input bit; works in place, returns it."""
    words ^= words >> np.uint64(30)
    words *= _FIRST
    words ^= words >> np.uint64(27)
    words *= _SECOND
    words ^= words >> np.uint64(31)
    return words


class Dice:
    """All the streams of one seed."""

    def __init__(self, seed: int) -> None:
        self._keys = {stream: stream_key(seed, stream) for stream in Stream}

    def roll(self, stream: Stream, index: Integers) -> Floats:
        """One uniform number per index; equal indices give equal numbers."""
        words = index.astype(np.uint64)
        words *= _GOLDEN
        words += self._keys[stream]
        return (mix(words) >> np.uint64(32)).astype(np.float64) * 2.0**-32
