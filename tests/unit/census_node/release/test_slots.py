"""Noise slots: each reserved once, for one researcher, until it expires; nobody can lock anybody out."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

import pytest
from fakes.logs import hash_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from census_node.release.slots import BATCH, OfferedSlot, Slot, SlotBatch, SlotBook

LIMIT = 3
LIFETIME = 100
NOTE = "a cosigned note"


def batch(first: int = 0, count: int = BATCH, index: int = 7) -> SlotBatch:
    """The commitments of one entry, each standing for its slot."""
    commitments = tuple(bytes.fromhex(hash_of(number)) for number in range(first, first + count))
    return SlotBatch(first, commitments, index, f"entry {index}".encode())


def book(count: int = BATCH) -> SlotBook:
    """A book with one batch."""
    made = SlotBook()
    made.add(batch(count=count))
    return made


def always(_index: int) -> str:
    """Everything is cosigned."""
    return NOTE


def offer(
    slots: SlotBook, researcher: str = "alice", *, now_ms: int = 0, limit: int = LIMIT, in_hand: Collection[str] = ()
) -> OfferedSlot | None:
    """Reserve for the usual lifetime, while these tickets are in hand."""
    return slots.reserve(
        researcher,
        now_ms=now_ms,
        expires_ms=now_ms + LIFETIME,
        limit=limit,
        in_hand=lambda: in_hand,
        covering=always,
    )


def reserve(
    slots: SlotBook, researcher: str = "alice", *, now_ms: int = 0, limit: int = LIMIT, in_hand: Collection[str] = ()
) -> Slot:
    """A slot that is there to be reserved."""
    offered = offer(slots, researcher, now_ms=now_ms, limit=limit, in_hand=in_hand)
    assert offered is not None
    return offered.slot


def test_slots_are_handed_out_in_order_and_to_one_at_a_time() -> None:
    """Two open quotes never share a place in the noise sequence; one batch follows on the other."""
    slots = book(count=2)
    assert [reserve(slots).number, reserve(slots, "bob").number] == [0, 1]
    assert offer(slots) is None
    slots.add(batch(2, count=1, index=9))
    slots.add(batch(3, count=2, index=11))
    assert [reserve(slots, limit=9).number for _ in range(3)] == [2, 3, 4]
    assert offer(slots) is None


def test_a_slot_is_offered_with_the_entry_that_commits_to_it() -> None:
    """Number, commitment and checkpoint, byte for byte: later readers of the ticket can verify the same."""
    slots = SlotBook()
    first, second = batch(count=1), batch(1, count=2, index=12)
    slots.add(first)
    slots.add(second)
    offered = [offer(slots) for _ in range(3)]
    assert offered == [
        OfferedSlot(Slot(0, bytes.fromhex(hash_of(0)), NOTE), first),
        OfferedSlot(Slot(1, bytes.fromhex(hash_of(1)), NOTE), second),
        OfferedSlot(Slot(2, bytes.fromhex(hash_of(2)), NOTE), second),
    ]


def test_what_nobody_has_cosigned_is_not_offered() -> None:
    """A slot whose commitment only we have seen could still be committed to otherwise; it costs nobody anything to wait."""
    slots = book(count=1)
    slots.add(batch(1, index=20))
    asked: list[int] = []
    cosigned_to = 5

    def covering(index: int) -> str | None:
        asked.append(index)
        return f"note of {cosigned_to}" if index < cosigned_to else None

    def tried() -> OfferedSlot | None:
        return slots.reserve("alice", now_ms=0, expires_ms=LIFETIME, limit=2, in_hand=frozenset, covering=covering)

    assert tried() is None
    cosigned_to = 8
    held = tried()
    assert held is not None
    assert (held.slot.number, held.slot.checkpoint) == (0, "note of 8")
    # The next slot is of a batch that is not covered yet; waiting for it does not cost the quote that is open.
    assert tried() is None
    assert slots.is_held(held.slot, "alice", 0)
    cosigned_to = 21
    later = tried()
    assert later is not None
    assert (later.slot.number, later.slot.checkpoint) == (1, "note of 21")
    assert asked == [7, 7, 20, 20]


def test_a_slot_is_held_by_its_researcher_until_it_expires() -> None:
    """Neither before nor after, nor by anybody else."""
    slots = book()
    slot = reserve(slots, now_ms=50)
    assert slots.is_held(slot, "alice", 50)
    assert slots.is_held(slot, "alice", 50 + LIFETIME - 1)
    assert not slots.is_held(slot, "alice", 50 + LIFETIME)
    assert not slots.is_held(slot, "bob", 50)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 1},
        {"number": 0},
        {"number": 10**6},
        {"commitment": bytes(32)},
        {"commitment": b""},
        {"checkpoint": "another note"},
        {"checkpoint": NOTE + "\n"},
        {"checkpoint": ""},
    ],
)
def test_a_ticket_names_a_slot_exactly_as_it_was_quoted(change: dict[str, int | bytes | str]) -> None:
    """Number, commitment and checkpoint, byte for byte: later readers of the ticket can verify the same."""
    slots = book()
    other, slot = reserve(slots, "bob"), reserve(slots)
    assert (other.number, slot.number) == (0, 1)
    named = replace(slot, **change)  # type: ignore[arg-type]  # of the field's own type
    assert slots.is_held(named, "alice", 0) == (named == slot)
    assert slots.claim(named, "alice", "ticket", 0) == (named == slot)
    assert slots.is_held(slot, "alice", 0)


def test_beyond_the_limit_the_oldest_of_the_same_researcher_gives_way() -> None:
    """Abandoned quotes lock nobody out, never cost anybody else a slot, and are quoted again."""
    slots = book()
    bobs = reserve(slots, "bob")
    numbers = [reserve(slots).number for _ in range(2 * LIMIT + 1)]
    # Those of the first quotes, in turn; the slots of a batch last for any number of quotes.
    assert numbers == [1, 2, 3, 1, 2, 3, 1]
    assert slots.is_held(bobs, "bob", 0)


def test_a_slot_that_a_ticket_has_claimed_gives_way_to_no_quote() -> None:
    """A researcher who goes on asking for quotes does not take a slot from a question in progress."""
    slots = book()
    claimed = reserve(slots)
    assert slots.claim(claimed, "alice", "ticket", 0)
    assert [reserve(slots).number for _ in range(LIMIT + 1)] == [1, 2, 3, 1]
    assert slots.claim(claimed, "alice", "ticket", 1)


def test_claimed_slots_of_tickets_that_are_not_in_hand_are_bounded_too() -> None:
    """A sender of header after header and never a sample does not make the census node commit to slots without end."""
    slots = book()
    for number in range(LIMIT + 1):
        assert slots.claim(reserve(slots, in_hand={"0"}), "alice", str(number), 0)
    assert sorted(slots._held) == [0, 1, 2, 3]
    # The first is in hand; of the others as many stay as there may be quotes.
    assert slots.claim(reserve(slots, in_hand={"0"}), "alice", "more", 0)
    assert reserve(slots, in_hand={"0"}).number == 1
    assert sorted(slots._held) == [0, 1, 2, 3, 4]


def test_a_lowered_limit_holds_at_once() -> None:
    """A new policy with fewer open quotes lets all surplus ones go."""
    slots = book()
    for _ in range(LIMIT):
        reserve(slots)
    assert reserve(slots, limit=1).number == 0
    assert list(slots._held) == [0]


def test_a_spent_slot_is_held_no_more() -> None:
    """The log says what became of it; spending again, or a slot unknown here, is no error."""
    slots = book()
    slot = reserve(slots)
    slots.spend(slot.number)
    slots.spend(slot.number)
    slots.spend(99)
    assert not slots.is_held(slot, "alice", 0)
    assert reserve(slots).number == slot.number + 1


def test_a_spent_slot_is_never_quoted_again() -> None:
    """Not even if it had been let go: the log would refuse the ticket."""
    slots = book()
    slots.spend(reserve(slots).number)
    expired = reserve(slots)
    assert reserve(slots, "bob", now_ms=LIFETIME).number == expired.number == 1
    reserve(slots, "bob", now_ms=2 * LIFETIME)
    slots.spend(2)
    assert [reserve(slots, now_ms=2 * LIFETIME).number for _ in range(3)] == [3, 4, 5]


def test_expired_slots_do_not_count_and_are_quoted_again() -> None:
    """They are quoted to the next asker; the researcher who let them expire holds them no more."""
    slots = book()
    old = [reserve(slots) for _ in range(LIMIT)]
    fresh = [reserve(slots, "bob", now_ms=LIFETIME) for _ in range(LIMIT)]
    assert fresh == old
    assert all(slots.is_held(slot, "bob", LIFETIME) for slot in fresh)
    assert not any(slots.is_held(slot, "alice", LIFETIME) for slot in old)
    assert len(slots._held) == LIMIT


def test_a_slot_that_is_quoted_again_serves_nobody_who_held_it_before() -> None:
    """Its ticket is refused, uncharged, and quotes again: one slot, one ticket."""
    slots = book()
    before = reserve(slots)
    assert slots.claim(before, "alice", "before", 0)
    after = reserve(slots, "bob", now_ms=LIFETIME)
    assert after == before
    assert not slots.claim(before, "alice", "before", LIFETIME)
    assert slots.claim(after, "bob", "after", LIFETIME)


def test_a_slot_serves_the_first_ticket_that_names_it() -> None:
    """Two tickets on one quote: the second is refused before anything is drawn, a retry of the first is not."""
    slots = book()
    slot = reserve(slots)
    assert slots.claim(slot, "alice", "first", 1)
    assert not slots.claim(slot, "alice", "second", 1)
    assert slots.claim(slot, "alice", "first", 2)
    assert not slots.claim(slot, "bob", "first", 2)
    assert not slots.claim(slot, "alice", "first", LIFETIME)
    slots.spend(slot.number)
    assert not slots.claim(slot, "alice", "first", 3)


def test_another_batch_is_due_before_the_last_slot_is_given_out() -> None:
    """While a quarter of a batch is left: committing takes a cosignature, and quotes should not come to wait for it."""
    slots = SlotBook()
    assert slots.is_low
    slots.add(batch())
    low = [slots.is_low]
    for _ in range(BATCH):
        reserve(slots, limit=BATCH)
        low.append(slots.is_low)
    assert low == [False] * (BATCH - BATCH // 4) + [True] * (BATCH // 4 + 1)
    slots.add(batch(BATCH))
    assert not slots.is_low


def test_the_lowest_slot_that_may_serve_somebody_is_the_lowest_that_is_free_or_held() -> None:
    """Slots below it are void for ever, so none that a researcher holds, or may be quoted, may be below."""
    slots = SlotBook()
    assert slots.lowest() == 0
    slots.add(batch(count=4))
    assert slots.lowest() == 0
    held = [reserve(slots, limit=9) for _ in range(2)]
    assert slots.lowest() == 0
    slots.spend(held[0].number)
    assert slots.lowest() == held[1].number == 1
    held += [reserve(slots, limit=9) for _ in range(2)]
    slots.spend(1)
    assert slots.lowest() == 2
    slots.spend(3)
    assert slots.lowest() == 2
    slots.spend(2)
    # None is left, and the next one will be the one after the last.
    assert slots.lowest() == 4


def test_a_ticket_in_hand_keeps_its_slot() -> None:
    """Its quote may end while its sample is on the way; when nobody has it in hand any more, its slot is free."""
    slots = book()
    claimed, quoted = reserve(slots), reserve(slots)
    assert slots.claim(claimed, "alice", "ticket", 0)
    assert reserve(slots, "bob", now_ms=LIFETIME, in_hand={"ticket"}) == quoted
    assert slots.lowest() == claimed.number == 0
    assert reserve(slots, "bob", now_ms=LIFETIME) == claimed


def test_a_start_forgets_every_slot() -> None:
    """Whatever was free or held is void; slots that are committed to afterwards are given out."""
    slots = book()
    held = reserve(slots)
    slots.start_over()
    assert not slots.is_held(held, "alice", 0)
    assert offer(slots) is None
    slots.add(batch(BATCH))
    assert reserve(slots).number == slots.lowest() == BATCH


def test_threads_never_share_a_slot() -> None:
    """Many quotes at once get distinct slots."""
    slots = book(count=800)
    taken: list[int] = []

    def many() -> None:
        taken.extend(reserve(slots, limit=1000).number for _ in range(200))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(800))


class Book(RuleBasedStateMachine):
    """Random batches, quotes, tickets, charges and time against a slow list of reservations."""

    def __init__(self) -> None:
        super().__init__()
        self.book = SlotBook()
        self.now_ms = 0
        # Slot, researcher, when it expires, and its ticket; the oldest first.
        self.given: list[tuple[Slot, str, int, str]] = []
        self.spent: set[int] = set()
        self.in_hand: set[str] = set()
        self.committed = 0

    @property
    def free(self) -> list[int]:
        """Every slot that is committed to, not charged and not held."""
        held = {each[0].number for each in self.given}
        return [number for number in range(self.committed) if number not in self.spent | held]

    @rule(count=st.integers(1, 9))
    def commit(self, count: int) -> None:
        self.book.add(batch(self.committed, count, index=self.committed))
        self.committed += count

    @rule(researcher=st.sampled_from("ab"), limit=st.integers(1, 4), life=st.integers(1, 90), cosigned=st.booleans())
    def quote(self, researcher: str, limit: int, life: int, cosigned: bool) -> None:
        offered = self.book.reserve(
            researcher,
            now_ms=self.now_ms,
            expires_ms=self.now_ms + life,
            limit=limit,
            in_hand=lambda: self.in_hand,
            covering=always if cosigned else lambda _: None,
        )
        self.given = [held for held in self.given if held[2] > self.now_ms or held[3] in self.in_hand]
        if not cosigned or not self.free:
            assert offered is None
            return
        assert offered is not None
        quotes = [held for held in self.given if held[1] == researcher and not held[3]]
        claimed = [held for held in self.given if held[1] == researcher and held[3] and held[3] not in self.in_hand]
        for surplus in [*quotes[: max(0, len(quotes) + 1 - limit)], *claimed[: max(0, len(claimed) - limit)]]:
            self.given.remove(surplus)
        assert offered.slot == Slot(self.free[0], bytes.fromhex(hash_of(self.free[0])), NOTE)
        self.given.append((offered.slot, researcher, self.now_ms + life, ""))

    @rule(number=st.integers(0, 20), researcher=st.sampled_from("ab"), ticket=st.sampled_from("tuvw"))
    def claim(self, number: int, researcher: str, ticket: str) -> None:
        slot = Slot(number, bytes.fromhex(hash_of(number)), NOTE)
        good = [
            held
            for held in self.given
            if held[:2] == (slot, researcher) and held[2] > self.now_ms and held[3] in {"", ticket}
        ]
        assert self.book.claim(slot, researcher, ticket, self.now_ms) == bool(good)
        for held in good:
            self.given[self.given.index(held)] = (*held[:3], ticket)

    @rule(number=st.integers(0, 20))
    def charge(self, number: int) -> None:
        if number < self.committed:
            self.book.spend(number)
            self.spent.add(number)
            self.given = [held for held in self.given if held[0].number != number]

    @rule(passed=st.integers(0, 60))
    def wait(self, passed: int) -> None:
        self.now_ms += passed

    @rule(in_hand=st.sets(st.sampled_from("tuvw")))
    def take_in_hand(self, in_hand: set[str]) -> None:
        self.in_hand = in_hand

    @invariant()
    def every_slot_is_free_held_or_charged(self) -> None:
        """So that none is open for ever, and what is void serves nobody."""
        held = [each[0].number for each in self.given]
        assert sorted(self.book._held) == sorted(held)
        assert sorted(number for number, _ in self.book._free) == self.free
        assert self.book.lowest() == min([*self.free, *held], default=self.committed)

    @invariant()
    def held_by_whom_it_should_be(self) -> None:
        """For every slot ever committed to and both researchers."""
        slots = [Slot(number, bytes.fromhex(hash_of(number)), NOTE) for number in range(self.committed + 1)]
        for researcher in "ab":
            held = {slot for slot in slots if self.book.is_held(slot, researcher, self.now_ms)}
            assert held == {each[0] for each in self.given if each[1] == researcher and each[2] > self.now_ms}


TestBook = Book.TestCase
TestBook.settings = settings(max_examples=40, stateful_step_count=25)
