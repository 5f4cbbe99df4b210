"""A program whose dictionary changed after the data was loaded: real nodes, real commands, no wrong count and no accusation."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, Node, Outcome, make, persons, run_here

from researcher_node.answers import AskedQuestion

pytestmark = pytest.mark.process

REDEFINED_NODE = Path(__file__).with_name("redefined_node.py")
POPULATION = 300
BUDGET = ("--max-belief", "0." + "9" * 26)
# Farther out than noise at scale 1 goes but once in some 10**17 draws.
FAR = 40
SERVING = {"census": "census", "health": "health"}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Loaded under the dictionaries of this program; answers at once, each person with a budget."""
    return make(tmp_path / "deployment", *BUDGET, population=POPULATION, accounting="per_person")


@contextlib.contextmanager
def serving(deployment: Deployment, **changes: str) -> Iterator[dict[str, Node]]:
    """Both agencies' nodes; the programs of those named have changed dictionaries."""
    with contextlib.ExitStack() as stack:
        nodes = {}
        for role in SERVING:
            launcher = {"launcher": (sys.executable, REDEFINED_NODE, changes[role])} if role in changes else {}
            nodes[role] = stack.enter_context(deployment.node(role, is_forked=role not in changes, **launcher))
        yield nodes


def redefined(change: str, *words: str | Path) -> Outcome:
    """A command of the program with changed dictionaries."""
    ended = subprocess.run(
        [sys.executable, REDEFINED_NODE, change, *words], capture_output=True, text=True, check=False
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def verify_french(deployment: Deployment) -> None:
    """French people are counted as French, up to noise, and by no more than that as anything else."""
    linked = deployment.people()
    true = persons(person for person in linked if person["mother_tongue"] == "French")
    english = persons(person for person in linked if person["mother_tongue"] == "English")
    assert abs(true - english) > 2 * FAR
    (answer,) = deployment.ask_all([("age >= 0", FRENCH)], scale=1)
    assert isinstance(answer, AskedQuestion)
    assert abs((answer.noisy_count or 0) - true) <= FAR


def charges(deployment: Deployment) -> int:
    """How often anything was charged."""
    return sum(deployment.tickets("census", "charged").values())


@pytest.mark.parametrize("role", ["census", "health"])
def test_node_with_a_reordered_dictionary_serves_and_answers_nothing_wrongly(deployment: Deployment, role: str) -> None:
    """It starts, says what to do, refuses questions uncharged and goes on; status says so; back at the old program all is well."""
    with serving(deployment):
        verify_french(deployment)
        deployment.wait_until_closed()
    before = charges(deployment)
    with serving(deployment, **{role: "reordered"}) as nodes:
        outcome = deployment.ask("age >= 0", FRENCH, "--scale", "1")
        assert (outcome.code, outcome.error["code"]) == (4, "DICTIONARY_CHANGED")
        assert f"The {role} agency's data" in outcome.error["text"]
        assert f"tripartite {role} load" in outcome.error["hint"]
        assert charges(deployment) == before
        assert all(node.process.poll() is None for node in nodes.values())
        assert "the load in force is not served" in nodes[role].stderr
        # With the node up, by the changed program and by the one that loaded it.
        words = (role, "status", "--home", deployment.home(role))
        status = redefined("reordered", *words)
        assert status.code == 0
        assert f"tripartite {role} load" in status.stdout
        assert "another dictionary" not in run_here(*words).stdout
    with serving(deployment):
        verify_french(deployment)


def test_node_with_mended_labels_serves_on(deployment: Deployment) -> None:
    """At both agencies, with the same people counted."""
    with serving(deployment, census="relabelled", health="relabelled"):
        verify_french(deployment)


def test_a_load_puts_it_right_and_an_audit_on_site_accuses_nobody(deployment: Deployment, tmp_path: Path) -> None:
    """Loaded again by the changed programs, people are counted rightly; a visit by either program finds no problem."""
    handed_in = tmp_path / "handed_in"
    for role in SERVING:
        loaded = redefined("reordered", role, "load", "--home", deployment.home(role), "--json")
        assert loaded.code == 0, loaded.stderr
    dictionaries = [event["dictionary"] for event in deployment.events("census") if event["type"] == "loaded"]
    assert len(set(dictionaries)) == len(dictionaries)
    with serving(deployment, census="reordered", health="reordered"):
        verify_french(deployment)
        deployment.wait_until_closed()
        for role in ("researcher", "health", "census"):
            words = ("--home", deployment.home(role), "--to", handed_in / role)
            assert run_here("audit", "export", *words, "--json").code == 0
    census = deployment.home("census")
    visit = ("--on-site", census, "--openings", census / "openings")
    replay = ("audit", "replay", handed_in, "--home", deployment.home("auditor"), "--json", *visit)
    for visited in (run_here(*replay), redefined("reordered", *replay)):
        assert (visited.result["verified"], visited.result["problems"]) == (True, [])
        assert not any("exact count" in sentence for sentence in visited.result["not_checked"])


def test_relink_of_a_load_of_another_dictionary_is_refused(deployment: Deployment) -> None:
    """Before a key is made: what is loaded is not copied under a dictionary that it was never read under."""
    for role in SERVING:
        file = deployment.home(role) / "keys" / "linkage.key"
        held, log = file.read_bytes(), deployment.events(role)
        audited = ("--audited",) if role == "census" else ()
        outcome = redefined(
            "put_in_front", role, "relink", "--home", deployment.home(role), "--new-key", "--json", *audited
        )
        assert (outcome.code, outcome.error["code"]) == (4, "DICTIONARY_CHANGED")
        assert (file.read_bytes(), deployment.events(role)) == (held, log)


def kept(deployment: Deployment) -> int:
    """Of how many charges the sample is kept, by plain SQL."""
    with contextlib.closing(sqlite3.connect(deployment.home("census") / "journal.db")) as db:
        (count,) = db.execute("select count(*) from ledger_steps where kind = 'charge' and file != ''").fetchone()
    return int(count)


def test_relink_with_samples_that_no_audit_has_seen_is_asked_again(deployment: Deployment) -> None:
    """The operator is told how many there are and to let the auditor come first; nothing is made before that is confirmed."""
    with serving(deployment):
        verify_french(deployment)
    home = deployment.home("census")
    file, log = home / "keys" / "linkage.key", deployment.events("census")
    held = file.read_bytes()
    assert kept(deployment) == 1
    outcome = run_here("census", "relink", "--home", home, "--new-key", "--json")
    assert (outcome.code, outcome.error["code"]) == (4, "AUDIT_FIRST")
    assert f"The samples of {kept(deployment)} charges are kept" in outcome.stderr
    assert "--on-site" in outcome.error["hint"]
    assert "--audited" in outcome.error["hint"]
    assert (file.read_bytes(), deployment.events("census")) == (held, log)
    assert run_here("census", "relink", "--home", home, "--new-key", "--audited", "--json").code == 0
    assert deployment.events("census")[-1]["type"] == "relinked"
