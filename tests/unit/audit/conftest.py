"""Who looks at exports here."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.history import auditor

from broker_common.audit.home import AuditorHome


@pytest.fixture
def home(tmp_path: Path) -> AuditorHome:
    """An auditor who trusts everybody's card."""
    return AuditorHome(auditor(tmp_path / "auditor"))
