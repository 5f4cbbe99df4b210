"""Noise slots: each reserved once, for one researcher, until it expires; nobody can lock anybody out."""

from __future__ import annotations

import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from census_node.slots import SlotBook

LIMIT = 3
LIFETIME = 100


def reserve(
    book: SlotBook, researcher: str = "alice", *, now_ms: int = 0, not_below: int = 0, limit: int = LIMIT
) -> int:
    """Reserve for the usual lifetime."""
    return book.reserve(researcher, not_below=not_below, now_ms=now_ms, expires_ms=now_ms + LIFETIME, limit=limit)


def test_slots_are_handed_out_in_order_and_never_twice() -> None:
    """Two quotes never share a place in the noise sequence."""
    book = SlotBook()
    assert [reserve(book), reserve(book, "bob"), reserve(book)] == [0, 1, 2]


def test_slots_that_the_log_has_used_are_skipped() -> None:
    """After a restart the book is empty, but the log remembers."""
    book = SlotBook()
    assert reserve(book, not_below=7) == 7
    assert reserve(book, not_below=3) == 8
    assert reserve(book, not_below=9) == 9


def test_a_slot_is_held_by_its_researcher_until_it_expires() -> None:
    """Neither before nor after, nor by anybody else."""
    book = SlotBook()
    slot = reserve(book, now_ms=50)
    assert book.is_held(slot, "alice", 50)
    assert book.is_held(slot, "alice", 50 + LIFETIME - 1)
    assert not book.is_held(slot, "alice", 50 + LIFETIME)
    assert not book.is_held(slot, "bob", 50)
    assert not book.is_held(slot + 1, "alice", 50)


def test_beyond_the_limit_the_oldest_of_the_same_researcher_gives_way() -> None:
    """Abandoned quotes lock nobody out, and never cost anybody else a slot."""
    book = SlotBook()
    bobs = reserve(book, "bob")
    slots = [reserve(book) for _ in range(LIMIT + 2)]
    assert [book.is_held(slot, "alice", 0) for slot in slots] == [False, False, True, True, True]
    assert book.is_held(bobs, "bob", 0)


def test_a_lowered_limit_holds_at_once() -> None:
    """A new policy with fewer open quotes lets all surplus ones go."""
    book = SlotBook()
    slots = [reserve(book) for _ in range(LIMIT)]
    slots.append(reserve(book, limit=1))
    assert [book.is_held(slot, "alice", 0) for slot in slots] == [False, False, False, True]


def test_a_spent_slot_is_held_no_more() -> None:
    """The log says what became of it; spending again, or a slot unknown here, is no error."""
    book = SlotBook()
    slot = reserve(book)
    book.spend(slot)
    book.spend(slot)
    book.spend(99)
    assert not book.is_held(slot, "alice", 0)
    assert reserve(book) == slot + 1


def test_expired_slots_are_forgotten_and_do_not_count() -> None:
    """They are not handed out again either."""
    book = SlotBook()
    old = [reserve(book) for _ in range(LIMIT)]
    fresh = [reserve(book, now_ms=LIFETIME) for _ in range(LIMIT)]
    assert not set(old) & set(fresh)
    assert all(book.is_held(slot, "alice", LIFETIME) for slot in fresh)
    assert len(book._held) == LIMIT


def test_threads_never_share_a_slot() -> None:
    """Many quotes at once get distinct slots."""
    book = SlotBook()
    taken: list[int] = []

    def many() -> None:
        taken.extend(reserve(book, limit=1000) for _ in range(200))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(800))


class Book(RuleBasedStateMachine):
    """Random quotes, charges and time against a slow list of reservations."""

    def __init__(self) -> None:
        super().__init__()
        self.book = SlotBook()
        self.now_ms = 0
        self.given: list[tuple[int, str, int]] = []
        self.highest = -1

    def open_of(self, researcher: str) -> list[tuple[int, str, int]]:
        """What the researcher should hold, oldest first."""
        return [held for held in self.given if held[1] == researcher and held[2] > self.now_ms]

    @rule(
        researcher=st.sampled_from("ab"), limit=st.integers(1, 4), not_below=st.integers(0, 40), life=st.integers(1, 90)
    )
    def quote(self, researcher: str, limit: int, not_below: int, life: int) -> None:
        slot = self.book.reserve(
            researcher, not_below=not_below, now_ms=self.now_ms, expires_ms=self.now_ms + life, limit=limit
        )
        assert slot == max(self.highest + 1, not_below)
        self.highest = slot
        own = self.open_of(researcher)
        for surplus in own[: max(0, len(own) + 1 - limit)]:
            self.given.remove(surplus)
        self.given.append((slot, researcher, self.now_ms + life))

    @rule(number=st.integers(0, 40))
    def charge(self, number: int) -> None:
        self.book.spend(number)
        self.given = [held for held in self.given if held[0] != number]

    @rule(passed=st.integers(0, 60))
    def wait(self, passed: int) -> None:
        self.now_ms += passed

    @invariant()
    def held_by_whom_it_should_be(self) -> None:
        """For every slot ever handed out and both researchers."""
        for researcher in "ab":
            held = {slot for slot in range(self.highest + 2) if self.book.is_held(slot, researcher, self.now_ms)}
            assert held == {slot for slot, _, _ in self.open_of(researcher)}


TestBook = Book.TestCase
TestBook.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_a_slot_serves_the_first_ticket_that_names_it() -> None:
    """Two tickets on one quote: the second is refused before anything is drawn, a retry of the first is not."""
    book = SlotBook()
    slot = book.reserve("alice", not_below=0, now_ms=0, expires_ms=100, limit=4)
    assert book.claim(slot, "alice", "first", 1)
    assert not book.claim(slot, "alice", "second", 1)
    assert book.claim(slot, "alice", "first", 2)
    assert not book.claim(slot, "bob", "first", 2)
    assert not book.claim(slot, "alice", "first", 100)
    book.spend(slot)
    assert not book.claim(slot, "alice", "first", 3)
