"""Reservations: a ticket holds its price once, from its header to the end of its last attempt."""

from __future__ import annotations

from census_node.reservations import Reservations

NOW_MS, LATER_MS = 1_000, 2_000


def others(reservations: Reservations, *, but: str = "", charged: tuple[str, ...] = (), now_ms: int = NOW_MS) -> int:
    """What everybody but one ticket holds."""
    return reservations.units(charged=charged, but=but, now_ms=now_ms)


def test_a_price_is_held_against_others_and_not_against_its_own_ticket() -> None:
    """A retry is not refused for what its own first attempt holds."""
    reservations = Reservations()
    reservations.hold("a", 5, LATER_MS)
    reservations.hold("b", 7, LATER_MS)
    assert others(reservations) == 12
    assert others(reservations, but="a") == 7


def test_two_attempts_of_one_ticket_hold_its_price_once_and_until_both_are_over() -> None:
    """One ticket, one charge, however many attempts are under way."""
    reservations = Reservations()
    reservations.hold("a", 5, LATER_MS)
    reservations.hold("a", 5, LATER_MS)
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
    reservations.hold("a", 5, LATER_MS)
    assert others(reservations, charged=("a",)) == 0


def test_a_price_is_not_held_longer_than_its_ticket_lives() -> None:
    """Whatever becomes of an attempt, the budget is not held for ever."""
    reservations = Reservations()
    reservations.hold("a", 5, LATER_MS)
    assert others(reservations, now_ms=LATER_MS - 1) == 5
    assert others(reservations, now_ms=LATER_MS) == 0
    reservations.let_go("a")
