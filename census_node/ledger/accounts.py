"""The ledger in memory: what each subject was charged, and the digest of the history behind it.

A subject is whom a budget is for: a person of the census, or a household, as the policy says. Each person of a sample who
fits is active, is counted and is charged once, however many of their cards are in it; with a budget for each household its
people who are in the sample fit together, or none of them does. People without a census record are charged nothing: no answer
depends on them. Who does not fit is dropped. SECURITY: silently. Nobody outside the census agency sees a difference.

Layout: a charge of 4 bytes for each number that was ever given, by number. The digest names the whole history, all of it salted;
it stands in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from broker_common.errors import InternalError
from broker_common.privacy.policy import Subject
from census_node.ledger.passes import Charges, Homes, HouseholdCharges, Numbers, Passes, PersonCharges
from census_node.ledger.steps import EMPTY_DIGEST
from census_node.ledger.subjects import Carry

_MOST = 2**32 - 1


@dataclass(slots=True, eq=False)
class Ledger:
    """Charges by number. Nothing lowers one."""

    # How many numbers persons and households have on the load in force.
    persons: int = 0
    households: int = 0
    # One entry for each subject; none before the first charge, which fixes who is a subject.
    charged: Numbers = field(default_factory=lambda: np.zeros(0, np.uint32))
    digest: bytes = EMPTY_DIGEST
    # How they are charged, and on which load.
    _charges: tuple[Subject, str, Charges] | None = field(default=None, repr=False)

    def charges(self, subject: Subject, passes: Passes, load: str, homes: Callable[[], Homes]) -> Charges:
        """The arrays that decide and charge on a load; only households need `homes`."""
        if self._charges is None or self._charges[:2] != (subject, load):
            self.charged = self._charged(subject)
            made: Charges
            if subject == "person":
                made = PersonCharges(passes, self.charged)
            else:
                made = HouseholdCharges(passes, self.charged, homes())
            self._charges = subject, load, made
        return self._charges[2]

    def after_load(self, carry: Carry, subject: Subject | None) -> Ledger:
        """The ledger once a load is in force: each subject is charged what those whom it follows on were charged by then.

        `subject` is None where nobody was charged yet. ValueError: the load has fewer numbers.
        """
        after = Ledger(carry.person_count, carry.household_count, digest=self.digest)
        if after.persons < self.persons or after.households < self.households:
            raise ValueError("a load has fewer subjects than the one before")
        if subject is None:
            return after
        before, after.charged = self._charged(subject), after._charged(subject)
        after.charged[: len(before)] = before
        heirs, followed = carry.pairs(subject)
        grown, of_pair = np.unique(heirs, return_inverse=True)
        # A number that is new on this load was charged nothing.
        reached = after.charged[grown].astype(np.int64)
        np.add.at(reached, of_pair, after.charged[followed].astype(np.int64))
        after.charged[grown] = np.minimum(reached, _MOST)
        return after

    def frozen(self) -> Ledger:
        """This ledger as it is now, whatever is charged meanwhile."""
        return Ledger(self.persons, self.households, self.charged.copy(), self.digest)

    def _charged(self, subject: Subject) -> Numbers:
        count = self.persons if subject == "person" else self.households
        if len(self.charged) == count:
            return self.charged
        if self.charged.any():
            raise InternalError("INTEGRITY", problem="the ledger has charged others than its policy says")
        # Before the first charge another policy may have made somebody else a subject.
        return np.zeros(count, np.uint32)
