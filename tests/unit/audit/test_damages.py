"""The corpus of damaged exports: an audit finds every problem, names its place, and finds nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.history import MemoryPart, auditor
from vectors.damages import DAMAGES, SEEN, Damage

from broker_common.audit.audit import replay_parts
from broker_common.audit.home import AuditorHome


def no_report(_: str) -> Callable[[int, int], None]:
    """Progress that nobody watches."""
    return lambda _done, _total: None


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(name: str, tmp_path: Path) -> None:
    """Every damaged export has exactly the problems that stand beside it."""
    damage: Damage = DAMAGES[name]
    exports = damage.make()
    home = AuditorHome(auditor(tmp_path / "auditor"))
    for name_of_log, note in exports.pop(SEEN, {}).items():
        home.remember("health" if name_of_log == "health" else "census", note.decode())
    audited = replay_parts({role: MemoryPart(files) for role, files in exports.items()}, home, no_report)
    found = [(problem.code, problem.log, problem.entry) for problem in audited.findings.problems]
    assert sorted(found, key=str) == sorted(damage.problems, key=str), [p.text for p in audited.findings.problems]
