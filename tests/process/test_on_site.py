"""An audit on site of real nodes: what they keep of persons holds, and a node that spares one person is found there alone."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, make, run_here, wait_until

from broker_common.privacy.accounting import price
from broker_common.privacy.belief import belief_of_units
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

SKIPPING_NODE = Path(__file__).with_name("skipping_node.py")
WHERE = ("age >= 65", "age >= 40")
ON_SITE_KEYS = ["charges_checked", "charges_erased", "people_charged", "worst_charged", "worst_belief"]
AUDIT_FAILED = 1


def export_all(deployment: Deployment, handed_in: Path) -> None:
    """Exports of every party, the census agency last."""
    for role in ("researcher", "health", "census"):
        words = ("--home", deployment.home(role), "--to", handed_in / role)
        assert run_here("audit", "export", *words, "--json").code == 0


def replay(deployment: Deployment, handed_in: Path, *words: str | Path) -> Outcome:
    """`audit replay`."""
    return run_here("audit", "replay", handed_in, "--home", deployment.home("auditor"), "--json", *words)


def ask_all(deployment: Deployment, answers: int) -> None:
    """Both questions, until everybody's log says that they are answered."""
    for asked in deployment.ask_all([(where, FRENCH) for where in WHERE]):
        assert isinstance(asked, AskedQuestion)
    wait_until(lambda: len(deployment.tickets("census", "released")) == answers, "released")
    wait_until(lambda: sum(deployment.tickets("health", "settled").values()) == answers, "settled")


@dataclass(frozen=True, slots=True)
class Visits:
    """An auditor's findings offline and on site, while honest nodes served and after a dishonest one had."""

    honest: dict[str, Any]
    honest_offline: dict[str, Any]
    dishonest: Outcome
    dishonest_offline: dict[str, Any]
    charges: list[int]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Visits:
    """Two charges by an honest node, two by one that skips somebody."""
    folder = tmp_path_factory.mktemp("on_site")
    deployment, handed_in = make(folder / "deployment", "--accounting", "per_person", population=200), folder / "in"
    census = deployment.home("census")
    on_site = ("--on-site", census, "--openings", census / "openings")
    with deployment.node("census"), deployment.node("health"):
        ask_all(deployment, 2)
        export_all(deployment, handed_in)
        honest = replay(deployment, handed_in, *on_site).result
        honest_offline = replay(deployment, handed_in).result
    launcher = (sys.executable, SKIPPING_NODE)
    with deployment.node("census", launcher=launcher), deployment.node("health"):
        ask_all(deployment, 4)
    export_all(deployment, handed_in)
    return Visits(
        honest,
        honest_offline,
        replay(deployment, handed_in, *on_site),
        replay(deployment, handed_in).result,
        [entry for entry, event in enumerate(deployment.events("census")) if event["type"] == "charged"],
    )


def test_honest_nodes_hold_while_they_serve(visits: Visits) -> None:
    """Every charge decided again and every opened count counted again; the belief is the one that was proved."""
    report = visits.honest
    assert (report["verified"], list(report["on_site"])) == (True, ON_SITE_KEYS)
    assert (report["on_site"]["charges_checked"], report["on_site"]["charges_erased"]) == (2, 0)
    # Everybody of 65 or more is 40 or more.
    assert report["on_site"]["worst_charged"] == 2 * price(30)
    assert report["worst_belief"] == report["on_site"]["worst_belief"] == float(belief_of_units(2 * price(30)))
    assert not any("count" in text and "opening" in text for text in report["not_checked"])
    assert not any("looked at on site" in text for text in report["not_checked"])


def test_offline_says_what_it_did_not_look_at(visits: Visits) -> None:
    """The same keys but one, and the sentence."""
    assert list(visits.honest_offline) == [key for key in visits.honest if key != "on_site"]
    assert any("looked at on site" in text for text in visits.honest_offline["not_checked"])


def test_a_node_that_spares_one_person_is_found_on_site_alone(visits: Visits) -> None:
    """Offline everything holds; on site each charge is named, without a name."""
    assert visits.dishonest_offline["verified"] is True
    assert visits.dishonest.code == AUDIT_FAILED
    problems = visits.dishonest.json["problems"]
    assert [(each["code"], each["log"], each["entry"]) for each in problems] == [
        ("CHARGE_SKIPPED", "census", entry) for entry in visits.charges[2:]
    ]
    assert not any(re.search("[0-9]", each["text"]) for each in problems)
    assert visits.dishonest.json["on_site"]["charges_checked"] == 4
