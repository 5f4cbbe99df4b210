"""Certificates of running nodes: each node's own log warns of their end, and one command renews them while questions are answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, run_here, wait_until

from broker_common.parties import keyring
from deploy.local import Plan, lay_out

pytestmark = pytest.mark.process
PLAN = Plan(population=1000, seed=1, accounting="strict", max_belief="0.75", release_tick_ms=0)


def test_nodes_log_certificates_that_end_soon_until_they_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own and those of the peers they know, once at a start; no dashboard runs. A renewed one is not named any more."""
    with monkeypatch.context() as patched:
        patched.setattr(keyring, "CERTIFICATE_DAYS", 30)
        lay_out(tmp_path / "deployment", PLAN, lambda _: lambda _done, _total: None)
    deployment = Deployment(tmp_path / "deployment")
    census, health = (deployment.home(role) for role in ("census", "health"))

    def warned() -> list[str]:
        text = (tmp_path / "deployment.stderr").read_text("utf-8")
        lines = [line for line in text.splitlines() if 'event="a certificate ends soon"' in line]
        assert all("days=29" in line for line in lines)
        return sorted(line.partition('party="')[2].partition('"')[0] for line in lines)

    researchers = [
        f"researcher {run_here('keys', 'list', '--home', deployment.home('researcher'), '--json').result['name']}"
    ]
    first = ["census census-agency", "health health-agency", *researchers * 2, "this node", "this node"]
    with deployment.nodes():
        wait_until(lambda: len(warned()) >= len(first), "both nodes have warned")
        assert warned() == first
        assert run_here("keys", "rotate", "tls", "--home", census, "--json").code == 0
        assert deployment.ask("age >= 0", FRENCH).code == 0
    # Or the health node may start before it can be told.
    assert run_here("keys", "card", "--home", census, "--to", tmp_path / "card").code == 0
    assert run_here("health", "register", "--home", health, tmp_path / "card").code == 0
    second = ["health health-agency", *researchers * 2, "this node"]
    with deployment.nodes():
        wait_until(lambda: len(warned()) >= len(first + second), "both nodes have warned again")
        assert deployment.ask("age >= 1", FRENCH).code == 0
        assert warned() == sorted(first + second)
