"""docs/household.md: its commands run as they stand there, and its figures are those of the product."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from fakes.deployment import Deployment, run

from broker_common.privacy.accounting import cap_units, param_of, parse_max_belief, price

pytestmark = pytest.mark.process

DOCUMENT = (Path(__file__).parents[2] / "docs" / "household.md").read_text("utf-8")
CAP = cap_units(param_of(parse_max_belief("0.8")))


def test_what_a_household_pays_is_what_the_document_says() -> None:
    """Answers at scale 30 until the cap, by how many of a household are asked about; and from when on it is never counted."""
    answers = [CAP // (members * price(30)) for members in (1, 2, 4, 6)]
    said = re.search(
        r"counted in (\d+) answers, two members of a household in\s(\d+), four in (\d+), six in (\d+);", DOCUMENT
    )
    assert said is not None
    assert list(map(int, said.groups())) == answers
    assert 41 * price(30) <= CAP < 42 * price(30)
    assert "a household of 42 or more is never counted" in DOCUMENT


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order; what runs until it is stopped runs beside those after it."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```\n(tripartite .*?)```", DOCUMENT, re.DOTALL)
    before, _, after = block.partition("tripartite up by-address\n")
    assert after
    printed = [ran(line) for line in before.splitlines()]
    assert "by address; everybody who lives where somebody matches is counted" in " ".join(printed[3].split())
    assert "a budget for each household" in ran("tripartite census policy --home by-household/census")
    with Deployment(tmp_path / "by-address").nodes():
        for line in after.splitlines():
            shown = " ".join(ran(line).split())
            assert "people linked by address, all of them where somebody matches" in shown


def ran(line: str) -> str:
    """Output of a command of the document."""
    done = run(*shlex.split(line)[1:], env={"LANG": "en"})
    assert done.code == 0, done.stderr
    return done.stdout
