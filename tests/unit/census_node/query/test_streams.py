"""Samples on their way in: a sender of other parts, too many streams or nothing at all harms itself alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest
from fakes.virtual_time import in_virtual_time
from hypothesis import given
from hypothesis import strategies as st

from broker_common.errors import InvalidRequestError, PeerUnavailableError, RefusedError
from census_node.query.streams import Incoming, Streams

PART = 7
sizes = st.integers(1, 50)


def cut(content: bytes) -> list[bytes]:
    """A sample's parts."""
    return [content[start : start + PART] for start in range(0, len(content), PART)]


async def stream(parts: list[bytes], *, then_silent: bool = False) -> AsyncIterator[bytes]:
    """Parts as they come."""
    for part in parts:
        yield part
    if then_silent:
        await asyncio.Event().wait()


async def received(parts: list[bytes], size: int, *, then_silent: bool = False) -> bytes:
    """The received sample."""
    streams = Streams(most=1, deadline_ms=1000)
    return bytes(await streams.received(stream(parts, then_silent=then_silent), size=size, part_size=PART))


@given(content=st.binary(min_size=1, max_size=50))
async def test_parts_of_the_right_lengths_make_the_sample(content: bytes) -> None:
    """It is whole with its last part; nobody waits for the stream's end."""
    assert await received(cut(content), len(content), then_silent=True) == content


@given(size=sizes, data=st.data())
async def test_parts_of_other_lengths_are_refused(size: int, data: st.DataObject) -> None:
    """Longer, shorter or empty, at any place: as soon as it comes, and without memory for what is too much."""
    parts = cut(bytes(size))
    place = data.draw(st.integers(0, len(parts) - 1))
    length = data.draw(st.integers(0, 2 * PART).filter(lambda length: length != len(parts[place])))
    parts[place] = bytes(length)
    with pytest.raises(InvalidRequestError, match="MALFORMED_MESSAGE"):
        await received(parts[: place + 1], size, then_silent=True)


@given(size=sizes, data=st.data())
async def test_sample_that_ends_early_is_refused(size: int, data: st.DataObject) -> None:
    """The number of parts follows from the declared places."""
    parts = cut(bytes(size))
    with pytest.raises(InvalidRequestError, match="before its last part"):
        await received(parts[: data.draw(st.integers(0, len(parts) - 1))], size)


@given(size=sizes, more=st.binary(max_size=2 * PART))
def test_no_part_comes_after_the_last(size: int, more: bytes) -> None:
    """A caller that feeds one all the same is refused."""
    incoming = Incoming(size, PART)
    for part in cut(bytes(size)):
        assert not incoming.is_whole
        incoming.add(part)
    assert incoming.is_whole
    with pytest.raises(InvalidRequestError, match="MALFORMED_MESSAGE"):
        incoming.add(more)


@in_virtual_time
async def test_silent_sender_is_given_up_at_the_deadline_of_the_sample() -> None:
    """However often it says a little: the deadline is for the whole sample, and no verdict on it."""
    loop = asyncio.get_running_loop()

    async def dawdling() -> AsyncIterator[bytes]:
        for part in cut(bytes(100 * PART)):
            yield part
            silence = loop.create_future()
            loop.call_later(0.3, silence.set_result, None)
            await silence

    streams = Streams(most=1, deadline_ms=1000)
    with pytest.raises(PeerUnavailableError, match="PEER_UNAVAILABLE"):
        await streams.received(dawdling(), size=100 * PART, part_size=PART)
    assert loop.time() == pytest.approx(1)


def test_agency_has_so_many_streams_and_no_agency_has_anothers() -> None:
    """One more is told to come back; one that ends, however it ends, makes room."""
    streams = Streams(most=2, deadline_ms=1000)

    def verify_room(agency: str, *, is_left: bool) -> None:
        with nullcontext() if is_left else pytest.raises(RefusedError, match="BUSY"), streams.held(agency):
            pass

    def break_off() -> None:
        with streams.held("a"):
            verify_room("a", is_left=False)
            verify_room("b", is_left=True)
            raise LookupError

    with streams.held("a"), streams.held("b"):
        with pytest.raises(LookupError):
            break_off()
        verify_room("a", is_left=True)
    assert not streams._held
