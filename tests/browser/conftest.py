"""A real browser before real dashboards of a real deployment."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from browser.chromium import ARGUMENTS, CHROMIUM
from fakes.dashboards import Dashboard, dashboard
from fakes.deployment import FRENCH, Deployment, make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here is one of a browser, and says plainly that it is left out where there is none."""
    for item in items:
        if "browser" in Path(item.path).parts:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no browser here: 'make test-browser' installs one"))


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three nodes that have answered three questions."""
    made = make(tmp_path_factory.mktemp("browser") / "deployment", accounting="per_person")
    with made.nodes():
        # Started by commands: the browser's library runs the event loop of this process.
        with ThreadPoolExecutor(3) as askers:
            outcomes = list(askers.map(lambda age: made.ask(f"age >= {age}", FRENCH), range(3)))
        assert [outcome.code for outcome in outcomes] == [0] * 3
        yield made


@pytest.fixture(scope="session")
def census(deployment: Deployment) -> Iterator[Dashboard]:
    """The census agency's dashboard."""
    with dashboard(deployment.home("census"), "census") as shown:
        yield shown


@pytest.fixture(scope="session")
def health(deployment: Deployment) -> Iterator[Dashboard]:
    """The health agency's dashboard."""
    with dashboard(deployment.home("health"), "health") as shown:
        yield shown


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """One browser for all tests."""
    # Imported here: where it is not installed, the tests are left out, and say so.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()
