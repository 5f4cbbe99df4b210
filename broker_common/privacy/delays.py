"""How long what a node does for everybody may take: rules from declared figures, never from how many people are loaded.

An operator declares how many people and events a load may hold at most, in steps. Delays, ticks, limits and prices follow from that
figure, so that nobody sees by them how many people there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker_common.privacy.policy import Policy, Subject

DECLARED_STEP = 524_288
"""Declared figures are multiples of this."""

# A tenth more people than today, so that a load may grow without a new policy.
_HEADROOM_PERCENT = 10
# To draw a sample: criteria are priced so that a fifth of this does on two idle cores.
_FORWARD_MS_PER_MILLION = 35
# And for rows of events and lists: 32 passes over all of them, which is two conditions on a code and a day.
_FORWARD_MS_PER_MILLION_EVENTS = 8
_FORWARD_LEAST_MS = 20
# The default adds this much, for a machine that does something else. With the usual tick, an answer about 15 million people
# then takes at most two seconds: this delay, and five ticks.
_FORWARD_MORE_MS = 75
_USUAL_FORWARD_LEAST_MS = 100
# The desk's fixed time for one sample and one release: the disk, the noise and the seal.
_SAMPLE_MS = 20
# And its passes over everybody: several times what they take on two idle cores.
_PASSES_MS_PER_MILLION: Mapping[Subject, int] = {"person": 10, "household": 30}
_USUAL_TICK_MS = 250
_TICK_STEP_MS = 50
_MOST_SAMPLES = 64
# To receive a roster: 16 bytes a place, 40 MB a second.
_ROSTER_MS_PER_MILLION = 400
_ROSTER_LEAST_MS = 400


def declared_for(people: int) -> int:
    """The figure to declare where there are so many people now: a tenth more, rounded up to a step."""
    room = people + -(-people * _HEADROOM_PERCENT // 100)
    return declared_at_least(room)


def declared_at_least(people: int) -> int:
    """The figure to declare for at most so many people: rounded up to a step."""
    return max(1, -(-people // DECLARED_STEP)) * DECLARED_STEP


def least_forward_delay_ms(places: int, events: int = 0) -> int:
    """The shortest forward delay for so much that is declared: 35 ms for each million places, and 20 ms at least.

    For each million events, of all tables together, it is 8 ms longer.
    """
    of_places = max(_FORWARD_LEAST_MS, _for_millions(places, _FORWARD_MS_PER_MILLION))
    return of_places + _for_millions(events, _FORWARD_MS_PER_MILLION_EVENTS)


def usual_forward_delay_ms(places: int, events: int = 0) -> int:
    """The forward delay to choose where nobody says otherwise: 75 ms more than the shortest, and 100 ms at least."""
    return max(_USUAL_FORWARD_LEAST_MS, least_forward_delay_ms(places, events) + _FORWARD_MORE_MS)


def least_tick_ms(people: int, subject: Subject) -> int:
    """The shortest tick in which the desk does one sample among so many declared people.

    20 ms, and for each million 10 ms, or 30 ms where households are charged.
    """
    return _SAMPLE_MS + _for_millions(people, _PASSES_MS_PER_MILLION[subject])


def usual_tick_ms(people: int, subject: Subject) -> int:
    """The tick to choose where nobody says otherwise: 250 ms, or the shortest, rounded up to 50 ms, if that is longer."""
    return max(_USUAL_TICK_MS, -(-least_tick_ms(people, subject) // _TICK_STEP_MS) * _TICK_STEP_MS)


def desk_batch(tick_ms: int, people: int, subject: Subject) -> int:
    """How many samples the desk takes in one round: as many as fit in a tick, from 1 to 64."""
    return min(_MOST_SAMPLES, max(1, tick_ms // least_tick_ms(people, subject)))


def roster_delay_ms(places: int) -> int:
    """How long after its header a roster is acknowledged: 400 ms for each million declared places, and 400 ms at least."""
    return max(_ROSTER_LEAST_MS, _for_millions(places, _ROSTER_MS_PER_MILLION))


def too_short(
    policy: Policy, places: int | None = None, *, people: int | None = None, events: int = 0
) -> dict[str, int]:
    """Which times of `policy` do not cover the declared places or people that are given, each with the shortest that would.

    Without ticks times promise nothing: none is too short.
    """
    if not policy.release_tick_ms:
        return {}
    found = {}
    if places is not None and policy.forward_delay_ms < (least_ms := least_forward_delay_ms(places, events)):
        found["forward_delay_ms"] = least_ms
    if people is not None and policy.release_tick_ms < (least_ms := least_tick_ms(people, policy.subject)):
        found["release_tick_ms"] = least_ms
    return found


def _for_millions(declared: int, ms_per_million: int) -> int:
    return -(-declared * ms_per_million // 1_000_000)
