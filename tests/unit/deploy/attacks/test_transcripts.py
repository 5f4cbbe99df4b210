"""An attacker's record of a question: all that does not differ by design, and nothing that does."""

from __future__ import annotations

import pytest
from tripartite.v1 import ticket_pb2

from broker_common.tlog.entries import Charged, Delivered, Entry, Event, Released
from deploy.attacks.transcripts import differences, logged
from researcher_node.answers.store import AskedQuestion

QUERY, TICKET = "ab" * 16, "cd" * 32


def asked(query: str = QUERY) -> AskedQuestion:
    """A question of which only the query id matters here."""
    ticket = ticket_pb2.SignedTicket().SerializeToString()
    return AskedQuestion(query, 0, "", "", 1, 1_000_000, "", b"", ticket, b"", b"")


def entries(ledger: str = "ef" * 32, slot: int = 5) -> list[Entry]:
    """A charge, a release, somebody else's delivery and one's own."""
    charged = Charged(
        query=QUERY,
        ticket=TICKET,
        slot=slot,
        scale=3,
        units=7,
        question="all",
        researcher="r",
        project="p",
        health="h",
        load="l",
        roster=1,
        manifest="00" * 32,
        submitted="11" * 32,
        active="22" * 32,
        ledger=ledger,
        total=99,
    )
    events: list[Event] = [
        charged,
        Released(ticket=TICKET, answer="33" * 32, checkpoint="note"),
        Delivered(ticket="44" * 32, by="collect"),
        Delivered(ticket=TICKET, by="inbox"),
    ]
    return [Entry(sequence=number, time_ms=number, policy="", event=event) for number, event in enumerate(events)]


def test_the_log_is_told_by_kinds_and_lengths() -> None:
    """Not by slots, hashes or places; a delivery counts no matter who made it, and others' entries do not."""
    lines = logged(entries(), asked())
    assert [line.split()[1] for line in lines] == ["charged", "released", "delivered"]
    assert lines == logged(entries(ledger="77" * 32, slot=6), asked())
    assert differences(lines, logged(entries(ledger=""), asked()))
    assert logged(entries(), asked("99" * 16)) == []


@pytest.mark.parametrize(("other", "found"), [(["a", "b"], 0), (["a", "c"], 1), (["a"], 1), (["c", "b", "d"], 2)])
def test_differences_are_lines_and_lengths(other: list[str], found: int) -> None:
    """Line by line, and how many there are."""
    assert len(differences(["a", "b"], other)) == found
