"""Shared by the tests of the policy lab."""

from __future__ import annotations

import pytest

from policy_lab.document import plots

_NOTHING = {
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>',
    "png": b"\x89PNG\r\n\x1a\n",
}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plot is drawn, which is most of the work of a report: for tests that look at what stands beside them."""

    def draw(*_: object, form: str, **__: object) -> bytes:
        return _NOTHING[form]

    monkeypatch.setattr(plots, "draw", draw)
