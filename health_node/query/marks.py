"""From criteria to a sample as bits, drawn at a fraction and packed in roster order; and what that costs, known before.

No minimum and no maximum by true size: refusing a small sample would tell a researcher its size exactly. Every place is
looked at and drawn, so that the work follows from the criteria's text and the number of people and rows, never from who matches.

The price is in passes over one person or row (`cohort`), from the criteria's text, the dictionary and what was declared; it holds what compiling costs, and nothing is compiled that alone costs too much. Criteria beyond the
forward delay are refused on submission: tuned criteria would otherwise leave at a later tick, and delay everybody behind them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.policy import Policy
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.query.dictionary import Dictionary
from broker_common.query.normal_form import count_terms
from broker_common.tracing import span
from health_node.people.cohort import Marks, compile_condition, compiling_work, counted_together
from health_node.people.store import PEOPLE_IN_BLOCK, PeopleStore
from health_node.people.tables import Declared


def mark_sample(
    people: PeopleStore,
    condition: Condition,
    fraction_millionths: int,
    key: SamplingKey,
    *,
    block: int = PEOPLE_IN_BLOCK,
) -> npt.NDArray[np.uint8]:
    """The sample, one bit for each declared place. A function of its arguments and the load, nothing else."""
    tag = canonical_bytes(condition)

    def draw(pseudonyms: npt.NDArray[np.uint8], marks: Marks) -> None:
        key.keep_drawn(pseudonyms, tag, fraction_millionths, marks)

    with span("cohort"):
        return people.mark(condition, draw, block=block)


# Measured with two threads on two idle cores, for 1 and for 15 million people, in ns a person: a pass 0.02 to 0.05; the rest,
# which is done for everybody, as below. Each is written as passes of 0.05 ns, rounded up; the reserve is in `work_per_second`.
_ALWAYS_PASSES = 6  # 0.2 to 0.25: a bit of each packed, hashed and sealed
_DRAWING_PASSES = 60  # 2.6 to 2.9: 16 bytes of each encrypted and compared, where a fraction is drawn
_SUMMING_PASSES = 2  # a bit of each row packed, and how many there are before each word
_COUNTING_PASSES = 40  # for each owner of rows: how many of these are meant
_SPREADING_PASSES = 30  # for each person at a place: what was found of the place
# The price of compiling, which happens at submission and at drawing: 25 ns each time. The fixed calls of a comparison,
# 20 us for each of a hundred at most, are in the reserve.
_NUMBER_PASSES = 1_000


def price(condition: Condition, fraction_millionths: int, declared: Declared, dictionary: Dictionary) -> int:
    """Passes over people and rows for one question, and what takes as long."""
    compiling = _compiling_price(condition, dictionary)
    return _base_price(fraction_millionths, declared) + compiling + _marking_price(condition, declared, dictionary)


def verify_affordable(
    condition: Condition,
    fraction_millionths: int,
    dictionary: Dictionary,
    *,
    declared: Declared,
    policy: Policy,
    work_per_second: int,
) -> None:
    """Return only if the forward delay pays for the question. Without ticks delays promise nothing, and everything passes.

    Raises:
        InvalidRequestError: CRITERIA_TOO_DEAR.
    """
    if not policy.release_tick_ms:
        return
    budget = policy.forward_delay_ms * work_per_second // 1000
    left = max(0, budget - _base_price(fraction_millionths, declared))
    dear = _compiling_price(condition, dictionary)
    if dear <= left:
        # SECURITY: not before it is paid for, or criteria that are refused would delay everybody's samples.
        dear += _marking_price(condition, declared, dictionary)
    if dear > left:
        raise InvalidRequestError("CRITERIA_TOO_DEAR", terms=count_terms(condition) * left // dear)


def _base_price(fraction_millionths: int, declared: Declared) -> int:
    """Base price of every question, whatever its criteria."""
    drawing = 0 if fraction_millionths == WHOLE_MILLIONTHS else _DRAWING_PASSES
    members = declared.people * _SUMMING_PASSES + declared.places * _COUNTING_PASSES if declared.by_household else 0
    return declared.places * (_ALWAYS_PASSES + drawing) + members


def _compiling_price(condition: Condition, dictionary: Dictionary) -> int:
    return compiling_work(condition, dictionary) * _NUMBER_PASSES


def _marking_price(condition: Condition, declared: Declared, dictionary: Dictionary) -> int:
    predicate = compile_condition(condition, dictionary)
    price = declared.people * predicate.passes
    for countings in counted_together(predicate):
        where = countings[0].where
        if where is not None:
            price += declared.tables[countings[0].table] * (where.passes + _SUMMING_PASSES)
        price += declared.people * _COUNTING_PASSES
        if declared.by_household:
            price += declared.people * _SPREADING_PASSES * len(countings)
    return price
