"""A disk that is really full, under each node in turn, in the middle of a stream of questions.

The node stops serving and says why, gives no answer without a charge, keeps its state, and when there is space again
everything that was paid for goes out. The disk is a small file system in memory, mounted in a namespace of its own:
as root plainly, otherwise in a user namespace; where neither is possible the test cannot be made.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fakes.deployment import make
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).with_name("full_disk.py")
WATCHED = Path(__file__).with_name("full_disk_watched.py")
NAMESPACES = [("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The words that give a command the right to mount."""
    folder = tmp_path_factory.mktemp("mounted")
    why = []
    for words in NAMESPACES:
        try:
            tried = subprocess.run(
                [*words, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            pytest.skip("no small disk can be made: the program 'unshare' (util-linux) is missing")
        if tried.returncode == 0:
            return words
        why.append(f"'{' '.join(words)}' says: {tried.stderr.strip()}")
    pytest.skip(f"no small disk can be made: mounting needs root or user namespaces. {'; '.join(why)}")


# The space left on the disk decides where it ends: in a separate file, or at one commit or another.
SPARES = {"census": (0, 40_000), "health": (0, 60_000), "researcher": (0, 60_000)}


def test_full_disk_stops_the_node_and_loses_nothing(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    """STORE_FAILED or STATE_UNKNOWN with what to do; after a restart with space everything pending goes out."""
    words: list[str | Path] = []
    for role, spares in SPARES.items():
        deployment = make(tmp_path / role, "--max-belief", "0.999999999999", population=200)
        words += [role, deployment.directory, ",".join(map(str, spares))]
    run_script(namespace, SCRIPT, *words)


def test_a_full_disk_shows_on_page_metric_and_log(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    """While the node runs and has nothing to write but its figures, the operator on call is told; and that it is over."""
    run_script(namespace, WATCHED, *(make(tmp_path / role, population=10).directory for role in ("census", "health")))


def run_script(namespace: tuple[str, ...], script: Path, *words: str | Path) -> None:
    """Run a script of ours where it may mount; it fails where a promise is broken."""
    ended = subprocess.run(
        [*namespace, sys.executable, script, *words],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
