"""Clocks that disagree make no age negative."""

from __future__ import annotations

import pytest

from broker_common.dashboard.log_picture import Witnessed, witnessed_note
from broker_common.language import language

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


@pytest.mark.parametrize("code", ["en", "fr"])
@pytest.mark.parametrize("ahead_ms", [0, 1, MINUTE_MS, 366 * 24 * 60 * MINUTE_MS])
def test_no_age_is_negative(code: str, ahead_ms: int) -> None:
    """A witness whose clock is ahead of ours has cosigned just now; that clocks differ is said in another place."""
    t = language(code)
    text = witnessed_note(t, Witnessed(3, NOW_MS + ahead_ms, "health"), NOW_MS)
    assert t("{n} seconds", n=t.number(0)) in text
    assert not t.span(-ahead_ms).startswith("-")
