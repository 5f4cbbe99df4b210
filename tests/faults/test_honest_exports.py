"""Nodes that keep their rules are never accused: of withholding a note, of a wrong quote, or of a refusal without a reason.

This holds whenever, and in whatever order, their parts are exported.

Sequences of `faults.sequences` are run with an export of each agency after every commit of its journal: kills, cut links,
wrong clocks and new keys included. An auditor is then shown pairs of them that were made at different times.
"""

from __future__ import annotations

import random  # noqa: TID251 - which pairs are looked at
from pathlib import Path
from typing import Any

import pytest
from fakes.history import replayed
from faults.sequences import run_sequence
from faults.simulation import AGENCIES, PARTIES, Simulation, make_template

from broker_common.audit.export.documents import ReceiptFile
from broker_common.audit.export.writing import ExportFolder, export_log
from broker_common.audit.home import AuditorHome
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from researcher_node.assembly import ResearcherHome

# Pairs that are looked at of each sequence.
PAIRS = 20
# Codes of which no honest party is accused.
ACCUSED = {
    "NOTE_WITHHELD",
    "QUOTE_BUDGET",
    "QUOTE_DIFFERS",
    "QUOTE_UNSIGNED",
    "QUOTE_WRONG",
    "REFUSAL_DIFFERS",
    "REFUSAL_FORGED",
    "REFUSAL_UNSIGNED",
    "REFUSED_WITHOUT_REASON",
}
NOTES = ("cosigned", "witnessed")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Template with a copy of which a sequence begins."""
    return make_template(tmp_path_factory.mktemp("sequences") / "template")


class Exporting:
    """Exports of each agency after each commit, and of researchers at the end."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        # In the order in which they were made: whose, and the files.
        self.made: list[tuple[str, dict[str, bytes]]] = []
        self.receipts: dict[str, bytes] = {}
        self.home: AuditorHome | None = None
        remember, end = Simulation.remember, Simulation.end

        def committed(simulation: Simulation, party: Any, journal: Journal[Any]) -> None:
            remember(simulation, party, journal)
            if self.home is None:
                self.home = self._auditor(simulation)
            if party.name in AGENCIES:
                dictionaries = simulation.home(party.name).dictionaries
                self.made.append((party.name, self._export(journal, dictionaries)))

        async def ended(simulation: Simulation) -> None:
            await end(simulation)
            self.receipts = self._receipts(simulation)

        monkeypatch.setattr(Simulation, "remember", committed)
        monkeypatch.setattr(Simulation, "end", ended)

    def _auditor(self, simulation: Simulation) -> AuditorHome:
        home = self._folder / "auditor"
        (home / "trust").mkdir(parents=True)
        (home / "config.toml").write_text('role = "auditor"\n')
        for party in PARTIES:
            card = simulation.home(party).own_card().signed.to_bytes()
            (home / "trust" / f"{party}.card").write_bytes(card + b"\n")
        return AuditorHome(home)

    def _export(self, journal: Journal[Any], dictionaries: Dictionaries) -> dict[str, bytes]:
        to = self._folder / str(len(self.made))
        export_log(journal, dictionaries, ExportFolder(to), lambda _done, _total: None)
        return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}

    @staticmethod
    def _receipts(simulation: Simulation) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for party in PARTIES:
            if party not in AGENCIES:
                answers = ResearcherHome(simulation.parties[party].folder).open_answers()
                kept = answers.receipts()
                answers.close()
                shown = [
                    ReceiptFile.of(one.query, one.state, one.signed_quote, one.signed_ticket, one.signed_receipt)
                    for one in kept
                ]
                files |= {one.name: one.to_bytes() for one in shown}
        return files

    def codes(self, census: dict[str, bytes], health: dict[str, bytes]) -> list[str]:
        """Findings of an auditor who is shown these."""
        assert self.home is not None
        exports = {"census": census, "health": health, "researcher": self.receipts}
        # Nobody has looked before.
        (self.home.path / "seen" / "census").unlink(missing_ok=True)
        (self.home.path / "seen" / "health").unlink(missing_ok=True)
        found = replayed(exports, self.home).findings.problems
        return [problem.code for problem in found if problem.code != "TOO_MANY_PROBLEMS"]


@pytest.mark.parametrize("seed", range(6))
def test_exports_of_different_times_are_not_said_to_withhold_notes(
    template: Path, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In either order, far apart or one commit apart; and what is deleted from the last of them is missed."""
    exporting = Exporting(tmp_path, monkeypatch)
    run_sequence(template, seed)
    chance = random.Random(seed)
    places = {role: [at for at, (whose, _) in enumerate(exporting.made) if whose == role] for role in AGENCIES}
    orders = set()
    for number in range(PAIRS):
        census = chance.choice(places["census"])
        # Every other one the nearest, before or after.
        near = sorted(places["health"], key=lambda at, to=census: abs(at - to))[:4]  # type: ignore[misc]
        health = chance.choice(near if number % 2 else places["health"])
        orders.add(census < health)
        codes = exporting.codes(exporting.made[census][1], exporting.made[health][1])
        assert ACCUSED.isdisjoint(codes), (census, health, codes)
    assert orders == {True, False}
    last = {role: exporting.made[at[-1]][1] for role, at in places.items()}
    for role in AGENCIES:
        for name in NOTES:
            without = last | {role: {path: content for path, content in last[role].items() if path != name}}
            found = "NOTE_WITHHELD" in exporting.codes(without["census"], without["health"])
            # Where a card was changed, nobody asks the health agency for what it had heard.
            assert found or (role, name) == ("health", "cosigned"), (role, name)
    assert ACCUSED.isdisjoint(exporting.codes(last["census"], last["health"]))
    assert exporting.receipts, "no quote was looked at"
