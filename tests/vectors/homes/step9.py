"""Made step9.tar.gz: a small deployment of log format 7, as commit 0755c14b makes and uses one.

Run with that commit first on PYTHONPATH (a git worktree of it, and its `protos`):

    PYTHONPATH=STEP9:STEP9/protos python tests/vectors/homes/step9.py FOLDER tests/vectors/homes/step9.tar.gz

People, keys and records are made up: the keys in the archive protect nothing. The clock is set to the first day of 2025 and
certificates last for 20 years, so that no test of it ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

_BEGIN_S = 1_735_689_600
_DAYS = 7_300
_ASKED = (
    ("age >= 40", "mother_tongue = 'French'"),
    ("sex = 'female'", "mother_tongue in ('English', 'Other')"),
    ("diagnosis = 'asthma' or age < 30", "all"),
)


def _at_the_time() -> None:
    """This process lives on the first day of 2025."""
    # The same in every process that this one starts.
    shift = float(os.environ.setdefault("STEP9_SHIFT", str(_BEGIN_S - time.time_ns() / 1e9)))
    real_ns = time.time_ns
    # Time of the product's clock; gRPC counts its deadlines by another one.
    time.time_ns = lambda: real_ns() + int(shift * 1e9)
    # It was there at that commit.
    from broker_common.storage import keyring  # type: ignore[attr-defined]  # noqa: PLC0415 - after the clock

    keyring.CERTIFICATE_DAYS = _DAYS


def _command(*words: str) -> list[str]:
    return [sys.executable, __file__, "--command", *words]


def main() -> None:
    """Make, ask and pack."""
    folder, archive = Path(sys.argv[1]), Path(sys.argv[2])
    subprocess.run(
        _command("init", str(folder), "--population", "60", "--seed", "9", "--release-tick-ms", "0"), check=True
    )
    census = ("--home", str(folder / "census"), "--json")
    # Who was in a sample is erased once it is answered: a sample would be most of the archive.
    proposed = subprocess.run(
        _command("census", "policy", "propose", *census, "--sample-retention-ms", "0"), check=True, capture_output=True
    )
    policy = json.loads(proposed.stdout)["policy_hash"]
    subprocess.run(
        _command("census", "policy", "adopt", policy, *census, "--confirm", "--reason", "a small archive"), check=True
    )
    nodes = []
    try:
        for role in ("census", "health", "researcher"):
            words = _command(role, "serve", "--home", str(folder / role))
            node = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            nodes.append(node)
            assert node.stdout is not None
            assert "ready" in node.stdout.readline()
        for where, count in _ASKED:
            words = ["--home", str(folder / "researcher"), "--where", where, "--count", count, "--scale", "30", "--yes"]
            subprocess.run(_command("researcher", "ask", *words, "--json"), check=True)
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait()
    with tarfile.open(archive, "w:gz") as packed:
        for home in ("researcher", "health", "census", "auditor", "witness"):
            packed.add(folder / home, home, filter=_without_rosters)


def _without_rosters(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Rosters have 8 MB each, and are random; a health node sends its roster again to a census node that has lost it."""
    return None if member.name.endswith((".roster", ".csv")) else member


if __name__ == "__main__":
    _at_the_time()
    if sys.argv[1] == "--command":
        from broker_common.cli import main as tripartite

        tripartite(sys.argv[2:])
    else:
        main()
