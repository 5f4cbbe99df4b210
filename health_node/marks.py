"""From criteria to a sample as bits: marks of everybody by whole-column passes, drawn at a fraction, packed in roster order.

No minimum and no maximum by true size: refusing a small sample would tell a researcher its size exactly. Every place is
looked at and drawn, so that the work follows from the criteria's text and the number of people, never from who matches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from broker_common.crypto.sampling import SamplingKey
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.stages import stage
from health_node.cohort import Marks
from health_node.people_store import PEOPLE_IN_BLOCK, PeopleStore

__all__ = ["mark_sample"]


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
