"""The ledgers of persons in memory: who of a sample still fits, what that changes, and the digest of all of it.

    decide -> a decision, which changes nothing    ...durable, with the log entry...    apply -> the charge stands

A submitted pseudonym that does not fit in the first ledger, or whose census unit does not fit in the second, is dropped
from the count. SECURITY: silently. Nobody outside the census agency sees a difference, and the first ledger never hears of
the second: whoever chose the samples can compute its drops, and nothing else.

The digest names the whole history: charge after charge, with who was in each sample, who was charged and who was counted,
all of it salted. It stands in the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from broker_common.crypto.linkage import LinkageKey
from broker_common.privacy.policy import Unit
from broker_common.storage.relinking import rekey
from census_node.linked import NOBODY, Linked
from census_node.submitted_ledger import Column, Standing, SubmittedLedger
from census_node.unit_ledger import Numbers, UnitLedger, Wanted, within
from census_node.units import Carry

__all__ = ["EMPTY_DIGEST", "Decision", "Ledgers", "Room", "digest_after"]

Pseudonyms = npt.NDArray[np.uint8]
Chosen = npt.NDArray[np.bool_]
# Of ledgers that nothing has happened to.
EMPTY_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class Room:
    """What one answer costs, what anybody may be charged in all, and whose budget decides."""

    price: int
    # The cap, less what everybody's charges come to.
    most: int
    unit: Unit


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What deciding has found, of use to whoever applies the decision while the ledgers are as they were."""

    state: object
    standing: Standing
    # What the persons of the sample were charged, where that was asked for.
    persons: Numbers | None


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Who of a sample is charged in the first ledger, and who of them is counted, in the order of the sample."""

    fits: Chosen
    active: Chosen
    seen: _Seen | None = field(default=None, repr=False)

    @property
    def bits(self) -> tuple[bytes, bytes]:
        """Both as they are kept: one bit each."""
        return np.packbits(self.fits).tobytes(), np.packbits(self.active).tobytes()

    @classmethod
    def of_bits(cls, fits: bytes, active: bytes, size: int) -> Decision:
        """What `bits` was made of, for a sample of `size`; ValueError for bits of another one."""
        chosen = [np.unpackbits(np.frombuffer(bits, np.uint8), count=size).astype(np.bool_) for bits in (fits, active)]
        if any(
            len(each) != size or len(bits) != -(-size // 8) for each, bits in zip(chosen, (fits, active), strict=True)
        ):
            raise ValueError("there are bits for another sample")
        fits_then, active_then = chosen
        return cls(fits_then, active_then)


def digest_after(before: bytes, kind: str, *parts: bytes) -> bytes:
    """The digest after one step of the ledgers' history."""
    digest = hashlib.sha256(b"tripartite/ledgers/v1\0" + before + kind.encode("ascii") + b"\0")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


@dataclass(slots=True)
class Ledgers:
    """Both ledgers. Whoever applies holds a lock; whoever decides meanwhile decides on some of it (`LedgerBook.version`)."""

    submitted: SubmittedLedger = field(default_factory=SubmittedLedger)
    units: UnitLedger = field(default_factory=UnitLedger)
    # By health agency: how many pseudonyms it was the first to submit.
    introduced: dict[str, int] = field(default_factory=dict)
    digest: bytes = EMPTY_DIGEST

    # Another one after every change; none while one is under way, when somebody may be deciding on half of it.
    _state: object | None = field(default_factory=object, init=False, repr=False, compare=False)

    def decide(self, sample: Linked, room: Room, standing: Standing | None = None) -> Decision:
        """Who fits; one path for everybody, linked or not.

        `standing` is where they stand in the first ledger, if that was looked up before.
        """
        state, persons = self._state, None
        if standing is None or not self.submitted.is_current(standing):
            standing = self.submitted.locate(sample.pseudonyms)
        fits = within(self.submitted.units_at(standing), room.price, room.most)
        linked = fits & (sample.persons != NOBODY)
        if room.unit == "person":
            persons = self.units.of_persons(sample.persons)
            fitting = within(persons, room.price, room.most)
        else:
            wanted = Wanted(sample.persons, sample.households, linked)
            fitting = self.units.fitting_households(wanted, price=room.price, room=room.most)
        seen = None if state is None else _Seen(state, standing, persons)
        return Decision(fits, fits & (fitting | ~linked), seen)

    def apply(self, sample: Linked, decision: Decision, *, price: int, organisation: str, digest: bytes) -> None:
        """Charge what was decided. `digest` names the history that ends with it."""
        seen = decision.seen
        if seen is None or seen.state is not self._state:
            # Charges have changed since: what was found then is not to be put back.
            seen = None
        standing, persons = (None, None) if seen is None else (seen.standing, seen.persons)
        self._state = None
        new = self.submitted.charge(sample.pseudonyms, price, decision.fits, standing)
        self.introduced[organisation] = self.introduced.get(organisation, 0) + new
        counted = decision.active & (sample.persons != NOBODY)
        self.units.charge(Wanted(sample.persons, sample.households, counted), price, persons)
        self.digest = digest
        self._state = object()

    def take_over(self, carry: Carry) -> None:
        """A load was put in force: whose units' charges come along with the cards."""
        self._state = None
        self.units.grow(carry.person_count, carry.household_count)
        self.units.take_over("person", carry.person_to, carry.person_from)
        self.units.take_over("household", carry.household_to, carry.household_from)
        self._state = object()

    def relinked(self, keys: Sequence[LinkageKey]) -> Ledgers:
        """The same charges under the pseudonyms of the next linkage keys; census units know no pseudonym."""
        column = self.submitted.merged()
        rekeyed = rekey(column.high, column.low, keys)
        submitted = SubmittedLedger(Column(rekeyed.high, rekeyed.low, column.units[rekeyed.rows]))
        return Ledgers(submitted, self.units, dict(self.introduced), self.digest)

    def frozen(self) -> Ledgers:
        """These ledgers as they are now, whatever is charged meanwhile."""
        units = UnitLedger(self.units.persons, self.units.households)
        return Ledgers(self.submitted.frozen(), units, dict(self.introduced), self.digest)
