"""From cohort to sample: everyone who matches, or a keyed random part of them, the same for the same criteria.

No minimum and no maximum by true size: refusing a small sample would tell a researcher its size exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from broker_common.crypto.sampling import SamplingKey
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from health_node.people_store import PeopleStore

__all__ = ["draw_sample"]


def draw_sample(
    people: PeopleStore, condition: Condition, fraction_millionths: int, key: SamplingKey
) -> npt.NDArray[np.uint8]:
    """The sample's pseudonyms as an ascending (n, 16) array. A function of its arguments and the load, nothing else."""
    return key.take(people.select(condition), canonical_bytes(condition), fraction_millionths)
