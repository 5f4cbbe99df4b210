"""A census log that is as long as wanted: `python -m benchmarks.long_log HOME ENTRIES`.

The entries are those of answered questions (slots, charges, releases, deliveries), appended by the product's own journal,
which holds every one of them against the rules of the log. Only what a question leaves outside the log is not there: nobody
was counted. Needs strict accounting, whose charges say everything in the log, and a scale that a million answers fit at.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fakes.logs import hash_of

from broker_common.crypto.commitments import hash_bytes
from broker_common.privacy.accounting import price
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Charged, Delivered, Released, Rostered, Slots
from census_node.assembly import CensusHome
from census_node.release.slots import BATCH

LONG_LOG_SCALE: Final = 1_000_000
# Questions whose entries become durable together.
_AT_ONCE: Final = 64 * BATCH


def lengthen(home: Path, entries: int) -> int:
    """Append until the log has at least so many entries; gives how many it has."""
    with CensusHome(home).journal() as journal:
        numbers = itertools.count(journal.state.size)
        while journal.state.size < entries:
            _append(journal, min(_AT_ONCE, (entries - journal.state.size) // 3 + 1), numbers)
        return journal.state.size


def _append(journal: Journal[CensusState], questions: int, numbers: Iterator[int]) -> None:
    units, tickets = price(LONG_LOG_SCALE), []
    with journal.transaction() as transaction:
        state = transaction.state
        (researcher,), (health,) = state.parties.peers("researcher"), state.parties.peers("health")
        if health not in state.rosters:
            rostered = Rostered(
                health=health, number=1, linkage=state.linkage, commitment=hash_of(0), manifest=hash_of(1)
            )
            transaction.append(rostered)
        for place in range(questions):
            if place % BATCH == 0:
                first = state.next_slot
                commitments = tuple(hash_of(first + slot) for slot in range(BATCH))
                transaction.append(Slots(first=first, void_below=first, commitments=commitments))
            ticket = hash_bytes(b"ticket %d" % next(numbers)).hex()
            tickets.append(ticket)
            transaction.append(
                Charged(
                    query=ticket[:32],
                    ticket=ticket,
                    slot=first + place % BATCH,
                    scale=LONG_LOG_SCALE,
                    units=units,
                    question="all",
                    researcher=researcher,
                    project=next(iter(state.parties.peers("researcher")[researcher].projects)),
                    health=health,
                    load=state.load,
                    roster=state.rosters[health].number,
                    manifest=ticket,
                    submitted=ticket,
                    active=ticket,
                    ledger="",
                    total=state.charged_units + units,
                )
            )
        note = journal.checkpoint()
        for ticket in tickets:
            transaction.append(Released(ticket=ticket, answer=ticket, checkpoint=note))
            transaction.append(Delivered(ticket=ticket, by="collect"))


if __name__ == "__main__":
    lengthen(Path(sys.argv[1]), int(sys.argv[2]))
