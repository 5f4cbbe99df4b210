"""Reservations: a ticket holds its price once, from its admission to the end of its last attempt."""

from __future__ import annotations

import inspect

from census_node.query.reservations import Reservations


def others(reservations: Reservations, *, but: str = "", charged: tuple[str, ...] = ()) -> int:
    """Reservations of all tickets but one."""
    return reservations.reserved("alice", charged=charged, but=but).units


def test_a_price_is_held_against_others_and_not_against_its_own_ticket() -> None:
    """A retry is not refused for what its own first attempt holds."""
    reservations = Reservations()
    reservations.hold("a", "alice", 5)
    reservations.hold("b", "bob", 7)
    assert others(reservations) == 12
    assert others(reservations, but="a") == 7


def test_two_attempts_of_one_ticket_hold_its_price_once_and_until_both_are_over() -> None:
    """One ticket, one charge, however many attempts are under way."""
    reservations = Reservations()
    reservations.hold("a", "alice", 5)
    reservations.hold("a", "alice", 5)
    assert others(reservations) == 5
    reservations.let_go("a")
    assert others(reservations) == 5
    reservations.let_go("a")
    assert others(reservations) == 0
    reservations.let_go("a")
    assert others(reservations) == 0


def test_a_charged_ticket_holds_nothing_beside_its_charge() -> None:
    """At the charge the price moves from one sum to the other, so that their total tells nobody when that was."""
    reservations = Reservations()
    reservations.hold("a", "alice", 5)
    assert others(reservations, charged=("a",)) == 0


def test_what_is_held_is_told_apart_by_researcher() -> None:
    """A quota is about a researcher's own questions, in hand or charged; what others hold is none of them."""
    reservations = Reservations()
    for ticket, researcher in (("a", "alice"), ("b", "bob"), ("c", "alice")):
        reservations.hold(ticket, researcher, 5)
    assert reservations.reserved("alice", charged=()).own == 2
    assert reservations.reserved("alice", charged=(), but="a").own == 1
    assert reservations.reserved("alice", charged=("c",), but="a").own == 0
    assert reservations.reserved("bob", charged=()).own == 1
    assert reservations.reserved("carol", charged=()).own == 0


def test_no_clock_ends_a_hold() -> None:
    """Neither a ticket's end, which its researcher names, nor a clock that jumps lets a second sample race the first."""
    for method in (Reservations.hold, Reservations.reserved):
        assert not [name for name in inspect.signature(method).parameters if name.endswith("_ms")]
