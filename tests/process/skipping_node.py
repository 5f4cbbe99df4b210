"""A census node that spares one person's budget at every charge: `skipping_node.py census serve --home ...`.

The first of each sample who fits is counted and not charged. Its rows, its digests and its log agree about it with each other;
everything else is the product as it is.
"""

from __future__ import annotations

import sys

from broker_common.cli import main
from census_node.ledgers import Decision, Ledgers, Room
from census_node.linked import Linked
from census_node.submitted_ledger import Standing

_honest = Ledgers.decide


def _skipping(self: Ledgers, sample: Linked, room: Room, standing: Standing | None = None) -> Decision:
    decided = _honest(self, sample, room, standing)
    fits = decided.fits.copy()
    fits[fits.argmax()] = False
    return Decision(fits, decided.active)


if __name__ == "__main__":
    Ledgers.decide = _skipping  # type: ignore[method-assign]
    main(sys.argv[1:])
