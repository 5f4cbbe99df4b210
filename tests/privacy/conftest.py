"""One recorded life of a deployment for every test that looks for something in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from privacy.recorded import Recorded, record


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """See `privacy.recorded`; nothing of it runs any more."""
    with record(tmp_path_factory.mktemp("recorded") / "deployment") as recording:
        yield recording
