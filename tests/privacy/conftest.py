"""One recorded life of a deployment for every test that looks for something in it."""

from __future__ import annotations

import pytest
from privacy.made_once import made_once
from privacy.recorded import Recorded, record


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """See `privacy.recorded`; nothing of it runs any more."""
    return made_once(tmp_path_factory, "recorded", lambda folder: record(folder / "deployment"))
