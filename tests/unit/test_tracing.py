"""Spans of a query: added up over threads, and not measured at all unless somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker_common.tracing import recording, span


def test_spans_of_a_query_are_added_up_over_threads() -> None:
    """One report per query, with every span that was entered, and the total; two queries at once do not mix."""

    async def query(name: str, rounds: int) -> Mapping[str, float]:
        reports: list[Mapping[str, float]] = []
        with recording(reports.append):
            for _ in range(rounds):
                await asyncio.to_thread(work, name)
        (report,) = reports
        return report

    def work(name: str) -> None:
        with span(name):
            pass

    async def both() -> list[Mapping[str, float]]:
        return list(await asyncio.gather(query("lookup", 3), query("noise", 2)))

    first, second = asyncio.run(both())
    assert first.keys() == {"lookup", "total"}
    assert second.keys() == {"noise", "total"}
    assert 0 < first["lookup"] <= first["total"]


def test_nothing_is_measured_that_nobody_asked_for() -> None:
    """Without a report a span is the block and nothing else, also inside somebody else's recording that has ended."""
    reports: list[Mapping[str, float]] = []
    with recording(reports.append):
        pass
    with recording(None), span("lookup"):
        pass
    with span("lookup"):
        pass
    assert [report.keys() for report in reports] == [{"total"}]
