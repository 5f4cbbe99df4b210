"""An agency's home on a disk that becomes full, and its dashboard: `full_disk_watched.py DIRECTORY...`, for each agency of one.

Runs in a mount namespace of its own, where it may mount; `test_full_disk.py` starts it. A broken promise is an AssertionError.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# As pytest sees them: what tests share is imported as `fakes.NAME`.
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.deployment import Deployment, Node, wait_until
from process.small_disk import SmallDisk
from process.watching import Watch, watching

PROBLEM = "The disk of the home is nearly full"


def said(node: Node) -> list[str]:
    """The events of a node's log."""
    return [json.loads(line)["event"] for line in node.stderr.splitlines()]


def full_disk_shows(watch: Watch, node: Node, disk: SmallDisk) -> None:
    """Page, metric and log say it within the block, and that it is over after it."""
    assert PROBLEM not in watch.page()
    with disk.full(0):
        wait_until(lambda: PROBLEM in watch.page(), "on the page")
        assert any(PROBLEM in each for each in watch.ready()[1])
        assert watch.metric("home_free_share") < 0.05
        wait_until(lambda: watch.has_logged(PROBLEM), "in the dashboard's log")
        wait_until(lambda: "the node's figures cannot be written" in said(node), "in the node's log")
        wait_until(lambda: "has said nothing of itself" in watch.page(), "and that the node is silent")
    wait_until(lambda: PROBLEM not in watch.page(), "over")
    wait_until(lambda: any(line["event"] == "problem over" for line in watch.logged), "over in the log as well")


def watched(role: str, deployment: Deployment) -> None:
    """One agency alone, so that nobody gives it anything to write."""
    disk = SmallDisk(deployment.home(role))
    with watching(deployment.home(role), role) as watch, deployment.node(role) as node:
        full_disk_shows(watch, node, disk)


if __name__ == "__main__":
    deployments = [Deployment(Path(word)) for word in sys.argv[1:]]
    # At once: most of it is waiting.
    with ThreadPoolExecutor() as threads:
        list(threads.map(watched, ("census", "health"), deployments))
