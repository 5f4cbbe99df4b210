"""An attacker who knows all but one person's language never believes more than the report says that anybody can.

The attacker computes the posterior as attackers do, from the answers; the report knows only what was charged.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
from fakes.logs import policy
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.privacy.accounting import fits, price
from broker_common.privacy.belief import belief_from_log_odds, log_likelihood_ratio
from broker_common.privacy.report import Charges, make_report

RULES = policy(accounting="per_person", scales=tuple(range(1, 51)))
# Slack of the attacker's own floats.
ACCURACY = 1e-12


@settings(max_examples=80)
@given(
    answers=st.lists(st.tuples(st.integers(1, 50), st.integers(-300, 300), st.booleans()), max_size=60),
    floor=st.sampled_from([0, 1, price(30)]),
    always_worst=st.sampled_from([None, -400, 400]),
)
def test_no_attacker_passes_the_ceiling_of_the_report(
    answers: list[tuple[int, int, bool]], floor: int, always_worst: int | None
) -> None:
    """Whatever scales, whatever answers, from every prior, up and down: belief stays between the two ceilings."""
    charged, evidence, asked = 0, Fraction(0), Counter(scale for scale, _, _ in answers)
    for scale, observed, inside in answers:
        if not inside or not fits(RULES.cap, floor + charged, scale):
            continue
        charged += price(scale)
        # The person counts for one; everybody else's part is known and subtracted.
        evidence += log_likelihood_ratio(scale, observed if always_worst is None else always_worst, 1, 0)
    ledger = np.array([0, charged], np.uint32)
    report = make_report(RULES, common={}, sampled=asked, units=charged, charges=Charges(ledger, floor))
    for row in report.ceilings:
        believed = belief_from_log_odds(evidence, row.prior)
        assert float(row.now_down) - ACCURACY <= believed <= float(row.now_up) + ACCURACY
        assert row.limit_down <= row.now_down
        assert row.now_up <= row.limit_up
    (even,) = (row for row in report.ceilings if row.prior == Fraction(1, 2))
    place = 0 if floor + charged == 0 else 1 + sum(even.now_up > band.high for band in report.bands)
    # Bands go by the exact ceiling, of which the table shows one that is rounded up.
    assert report.worst_place in {place, place - 1}
    assert report.worst_place <= len(report.bands)
