"""From cohort to sample: everyone who matches, or a keyed random part of them, the same for the same criteria.

No minimum and no maximum by true size: refusing a small sample would tell a researcher its size exactly.
"""

from __future__ import annotations

from broker_common.crypto.pseudonyms import Pseudonyms
from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.stages import stage
from health_node.people_store import PeopleStore

__all__ = ["draw_sample"]


def draw_sample(people: PeopleStore, condition: Condition, fraction_millionths: int, key: SamplingKey) -> Pseudonyms:
    """The sample's people, ascending. A function of its arguments and the load, nothing else."""
    with stage("cohort"):
        cohort = people.select(condition)
    with stage("sampling"):
        if fraction_millionths == WHOLE_MILLIONTHS:
            return cohort
        tag = canonical_bytes(condition)
        return people.narrow(cohort, lambda part: key.take(part, tag, fraction_millionths))
