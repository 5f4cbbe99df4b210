"""From criteria to a sample as bits, drawn at a fraction and packed in roster order; and what that costs, known before.

No minimum and no maximum by true size: refusing a small sample would tell a researcher its size exactly. Every place is
looked at and drawn, so that the work follows from the criteria's text and the number of people, never from who matches.

The price is in passes over one person (`cohort`), from the criteria's text and the declared places. What the forward delay does
not pay for is refused when it is submitted: tuned criteria would otherwise leave at a later tick, and everybody behind them.
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
from broker_common.stages import stage
from health_node.cohort import Marks, compile_condition
from health_node.people_store import PEOPLE_IN_BLOCK, PeopleStore


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

    with stage("cohort"):
        return people.mark(condition, draw, block=block)


# Measured with two threads on two idle cores, for 1 and for 15 million people, in ns a person: a pass 0.02 to 0.05; the rest,
# which is done for everybody, as below. Each is written as passes of 0.05 ns, rounded up; the reserve is in `work_per_second`.
_ALWAYS_PASSES = 6  # 0.2 to 0.25: a bit of each packed, hashed and sealed
_DRAWING_PASSES = 60  # 2.6 to 2.9: 16 bytes of each encrypted and compared, where a fraction is drawn


def price(
    condition: Condition,
    fraction_millionths: int,
    places: int,
    dictionary: Dictionary,
) -> int:
    """Passes over people for one question."""
    return places * (_base_passes(fraction_millionths) + compile_condition(condition, dictionary).passes)


def verify_affordable(
    condition: Condition,
    fraction_millionths: int,
    dictionary: Dictionary,
    *,
    places: int,
    policy: Policy,
    work_per_second: int,
) -> None:
    """Return only if the forward delay pays for the question. Without ticks delays promise nothing, and everything passes.

    Raises:
        InvalidRequestError: CRITERIA_TOO_DEAR.
    """
    budget = policy.forward_delay_ms * work_per_second // 1000
    if not policy.release_tick_ms or price(condition, fraction_millionths, places, dictionary) <= budget:
        return
    left = max(0, budget // places - _base_passes(fraction_millionths))
    passes = compile_condition(condition, dictionary).passes
    raise InvalidRequestError("CRITERIA_TOO_DEAR", terms=count_terms(condition) * left // passes)


def _base_passes(fraction_millionths: int) -> int:
    """Passes that every question costs, whatever its criteria."""
    return _ALWAYS_PASSES + (0 if fraction_millionths == WHOLE_MILLIONTHS else _DRAWING_PASSES)
