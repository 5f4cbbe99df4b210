"""tests/slow.txt, which keeps slow tests out of `make test-fast`."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_slow_test_is_there() -> None:
    """A test that was renamed would be run by `make test-fast` again, and its line mean nothing."""
    named = (TESTS / "slow.txt").read_text(encoding="utf-8").split()
    there = {
        f"{path.name}::{name}"
        for folder in ("architecture", "unit")
        for path in (TESTS / folder).rglob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert sorted(set(named) - there) == []
    assert named == sorted(set(named))
