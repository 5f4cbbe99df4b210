"""A census node that spares one person's budget at every charge: `skipping_node.py census serve --home ...`.

One person of each sample who fits is neither charged nor, as far as its rows, digests and log say, counted. They agree
about it with each other; everything else is the product as it is.
"""

from __future__ import annotations

import sys

from broker_common.cli import main
from census_node.ledger.book import Decided, LedgerBook, Room
from census_node.ledger.passes import Bits, CardPlaces, People

_honest = LedgerBook.decide


def _skipping(self: LedgerBook, bits: Bits, cards: CardPlaces, people: People, room: Room | None) -> Decided:
    decided = _honest(self, bits, cards, people, room)
    first = decided.active.nonzero()[0][:1]
    # Without its lowest bit.
    decided.active[first] &= decided.active[first] - 1
    return decided


if __name__ == "__main__":
    LedgerBook.decide = _skipping  # type: ignore[method-assign]
    main(sys.argv[1:])
