"""One running deployment for the tests of a module that need no other; budget enough for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes.deployment import Deployment, make


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three nodes, 2,000 people, answers at once, 41 of them at scale 30."""
    deployment = make(tmp_path_factory.mktemp("served") / "deployment")
    with deployment.nodes():
        yield deployment
