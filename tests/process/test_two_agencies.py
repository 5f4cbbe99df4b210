"""docs/two-agencies.md, executed as it stands: each party in a folder of its own, with its own keys and real processes.

The differences from two machines are listed here and nowhere else: the two names of hosts stand for ports of this machine, a
fingerprint that is told by telephone is taken from what its owner's command has printed, what travels is copied, the program is
installed already, and its processes are forked from one that has imported it (`fakes.nursery`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.deployment import Node, run
from fakes.nursery import PROGRAM

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "two-agencies.md"
PARTIES = {
    "The auditor": "auditor",
    "The census agency": "census",
    "The health agency": "health",
    "The researcher": "researcher",
}
HOSTS = ("health-node.example:7002", "census-node.example:7003")
FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Step:
    """One numbered step: whose it is, and its command lines."""

    number: int
    party: str
    lines: list[str]


def steps(page: str) -> list[Step]:
    """Every step of the page, in the order of their numbers."""
    found = []
    for section in re.split(r"(?m)^## ", page)[1:]:
        title = section.partition("\n")[0]
        for number, body in re.findall(r"(?ms)^### Step (\d+): .*?\n(.*?)(?=^### |\Z)", section):
            code = "".join(re.findall(r"(?ms)^```bash\n(.*?)^```", body))
            found.append(Step(int(number), PARTIES[title], code.replace("\\\n", " ").splitlines()))
    return sorted(found, key=lambda step: step.number)


@dataclass(frozen=True, slots=True)
class Hand:
    """One thing that travels."""

    what: str
    arrives_as: str
    sender: str
    receivers: list[str]


def hands(page: str) -> list[Hand]:
    """The rows of the table of what travels."""
    section = page.partition("## What travels")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `([^`]+)`(?: as `([^`]+)`)? \| ([a-z]+) \| ([a-z, ]+) \|", section)
    return [Hand(what, name or what, sender, to.split(", ")) for what, name, sender, to in rows]


@dataclass
class Afternoon:
    """The folders of all parties, what was said by telephone, and the nodes that run."""

    directory: Path
    addresses: dict[str, str]
    nodes: ExitStack
    hands: list[Hand]
    told: dict[str, str] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)

    def folder(self, party: str) -> Path:
        """A party's machine."""
        return self.directory / party

    def take(self, step: Step) -> None:
        """Do a step, after what was handed over before it has arrived."""
        for line in filter(None, step.lines):
            self.deliver()
            words = shlex.split(self._spoken(line), comments=True)
            assert words[0] in {"tripartite", "cp", "rm"}, line
            if words[2:3] == ["serve"]:
                self._serve(step.party, words)
            else:
                self._run(step, words)

    def deliver(self) -> None:
        """Bring everything that is new to whom it is for."""
        for hand in self.hands:
            source = self.folder(hand.sender) / hand.what
            for receiver in hand.receivers:
                target = self.folder(receiver) / hand.arrives_as
                if not source.exists() or (receiver, hand.what) in self._brought:
                    continue
                if source.is_dir():
                    shutil.copytree(source, target)
                else:
                    shutil.copy(source, target)
                self._brought.add((receiver, hand.what))

    def __post_init__(self) -> None:
        self._brought: set[tuple[str, str]] = set()

    def _spoken(self, line: str) -> str:
        for host, address in self.addresses.items():
            line = line.replace(host, address)
        return re.sub(r"FINGERPRINT-OF-([a-z]+)", lambda name: self.told[name[1]], line)

    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}

    def _run(self, step: Step, words: list[str]) -> None:
        if words[0] != "tripartite":
            subprocess.run(words, cwd=self.folder(step.party), stdin=subprocess.DEVNULL, check=True)
            return
        done = run(*words[1:], cwd=self.folder(step.party), env=self._environment())
        assert done.code == 0, f"step {step.number}: {shlex.join(words)}\n{done.stdout}{done.stderr}"
        self.said.setdefault(step.party, []).append(done.stdout)
        if words[1:3] == ["keys", "card"]:
            (fingerprint,) = FINGERPRINT.findall(done.stdout)
            self.told[Path(words[-1]).stem] = fingerprint

    def _serve(self, party: str, words: list[str]) -> None:
        node = Node(self.folder(party), [PROGRAM, *words[1:]], ready_lines=1, is_forked=True, cwd=self.folder(party))
        self.nodes.callback(node.end)
        node.wait_ready()


def free_ports(count: int) -> list[int]:
    """Held together while they are picked, so that they differ."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]


@pytest.fixture
def afternoon(tmp_path: Path) -> Iterator[Afternoon]:
    """Four machines on which the product was unpacked, and nothing else."""
    for party in PARTIES.values():
        (tmp_path / party).mkdir()
        (tmp_path / party / "deploy").symlink_to(ROOT / "deploy")
    addresses = {host: f"127.0.0.1:{port}" for host, port in zip(HOSTS, free_ports(len(HOSTS)), strict=True)}
    with ExitStack() as nodes:
        yield Afternoon(tmp_path, addresses, nodes, hands(PAGE.read_text(encoding="utf-8")))


def test_two_agencies_that_have_never_met_answer_a_question(afternoon: Afternoon) -> None:
    """From nothing to a first answer that an auditor verifies, by the page alone; no key is where it may not be."""
    for step in steps(PAGE.read_text(encoding="utf-8")):
        afternoon.take(step)
    asked = "".join(afternoon.said["researcher"])
    assert re.search(r"(?m)^Noisy count -?\d+: mother_tongue", asked), asked
    verdict = afternoon.said["auditor"][-1]
    assert verdict.startswith("Everything that was handed in holds."), verdict
    assert "1 charged, 1 released, 1 shown by researchers" in verdict
    verify_keys(afternoon)


def verify_keys(afternoon: Afternoon) -> None:
    """Private keys are where they were made; the linkage key is at both agencies, and the copy that travelled is gone."""
    holders: dict[bytes, set[str]] = {}
    for path in afternoon.directory.rglob("*.key"):
        party, within = path.relative_to(afternoon.directory).parts[:2]
        if within not in {"trial", "deploy"}:
            holders.setdefault(path.read_bytes(), set()).add(party)
    shared = [parties for parties in holders.values() if len(parties) > 1]
    assert shared == [{"census", "health"}]
    assert not (afternoon.folder("health") / "linkage.key").exists()
    secret = {hand.what for hand in afternoon.hands if hand.what.endswith(".key")}
    assert secret == {"census/keys/linkage.key"}


# --- the page itself ---------------------------------------------------------------------------------------------------


def test_the_page_is_whole() -> None:
    """Every step is found by this test, numbered without a gap, in the section of a party; nothing travels that nobody sends."""
    page = PAGE.read_text(encoding="utf-8")
    found = steps(page)
    assert [step.number for step in found] == list(range(1, len(found) + 1))
    assert {step.party for step in found} == set(PARTIES.values())
    assert page.count("```bash") == page.count("```bash\ntripartite")
    table = page.partition("## What travels")[2].partition("\n## ")[0]
    assert len(hands(page)) == table.count("\n| `")


def test_what_the_page_says_of_installing_is_a_target() -> None:
    """The one thing that the test above does not do."""
    install = PAGE.read_text(encoding="utf-8").partition("## Install")[2].partition("## ")[0]
    assert "\nmake setup\n" in install
    assert re.search(r"(?m)^setup:", (ROOT / "Makefile").read_text(encoding="utf-8"))
