"""Waiting for news: what happens between look and wait is heard, and nobody wakes for somebody else's."""

from __future__ import annotations

import asyncio
import gc

from fakes.patience import PATIENCE_SECONDS

from broker_common.rpc.news import NewsOf


async def test_news_wake_those_who_wait_for_their_name_and_nobody_else() -> None:
    """Two who wait for one name hear of it, a third who waits for another one does not."""
    news = NewsOf()
    mine, also_mine, others = news.next("a"), news.next("a"), news.next("b")
    await asyncio.to_thread(news.tell, "a")
    await asyncio.wait([mine, also_mine])
    assert not others.done()
    # The next news is another one.
    assert not news.next("a").done()


async def test_everybody_is_told_at_a_stop() -> None:
    """Whatever they wait for."""
    news = NewsOf()
    waiting = [news.next(name) for name in ("a", "b")]
    await asyncio.to_thread(news.tell_all)
    await asyncio.wait(waiting, timeout=PATIENCE_SECONDS)
    assert all(each.done() for each in waiting)


async def test_names_of_which_nothing_is_heard_leave_nothing_behind() -> None:
    """Anybody may wait for any query id: when they are gone, so is what they waited for."""
    news = NewsOf()
    for number in range(1000):
        news.next(str(number))
    gc.collect()
    assert not news._next
    news.tell("0")
    await asyncio.sleep(0)
