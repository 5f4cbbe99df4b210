"""A dictionary that changes between loads: real nodes, real commands, no wrong count and no accusation."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, make, persons, run, run_here
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES, HEALTH_DICTIONARY, relabelled

from broker_common.query.dictionary import Dictionary
from broker_common.storage.dictionary.file import dictionary_toml
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

POPULATION = 300
BUDGET = ("--max-belief", "0." + "9" * 26)
# Farther out than noise at scale 1 goes but once in some 10**17 draws.
FAR = 40
DICTIONARIES = {"census": CENSUS_DICTIONARY, "health": HEALTH_DICTIONARY}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Answers at once, each person with a budget."""
    return make(tmp_path / "deployment", *BUDGET, population=POPULATION, accounting="per_person")


@contextlib.contextmanager
def serving(deployment: Deployment) -> Iterator[None]:
    """Both agencies' nodes."""
    with contextlib.ExitStack() as stack:
        for role in DICTIONARIES:
            stack.enter_context(deployment.node(role))
        yield


def adopt(deployment: Deployment, role: str, change: Callable[[Dictionary], Dictionary], *, version: int = 2) -> None:
    """The operator writes another dictionary and adopts it."""
    changed = replace(change(DICTIONARIES[role]), version=version)
    file = deployment.home(role) / "next.toml"
    file.write_text(dictionary_toml(changed))
    assert run_here("dictionary", "adopt", "--home", deployment.home(role), file, "--json").result["version"] == version


def load(deployment: Deployment, role: str) -> None:
    """The operator loads the data again."""
    assert run_here(role, "load", "--home", deployment.home(role), "--json").code == 0


def verify_french(deployment: Deployment) -> None:
    """French people are counted as French, up to noise, and by no more than that as anything else."""
    linked = deployment.people()
    true = persons(person for person in linked if person["mother_tongue"] == "French")
    english = persons(person for person in linked if person["mother_tongue"] == "English")
    assert abs(true - english) > 2 * FAR
    (answer,) = deployment.ask_all([("age >= 0", FRENCH)], scale=1)
    assert isinstance(answer, AskedQuestion)
    assert abs((answer.noisy_count or 0) - true) <= FAR


def status(deployment: Deployment, role: str) -> tuple[str, str, bool]:
    """An operator's view of dictionaries."""
    told = run_here(role, "status", "--home", deployment.home(role), "--json").result
    return told["dictionary"], told["dictionary_adopted"], told["dictionary_changed"]


@pytest.mark.parametrize("role", ["census", "health"])
def test_a_changed_dictionary_comes_into_force_with_the_next_load(deployment: Deployment, role: str) -> None:
    """Before it nothing changes; after it researchers are told once, and are counted rightly under it."""
    before = DICTIONARIES[role].hash.hex()
    with serving(deployment):
        verify_french(deployment)
        adopt(deployment, role, CHANGES["reordered"])
        after = replace(CHANGES["reordered"](DICTIONARIES[role]), version=2).hash.hex()
        assert status(deployment, role) == (before, after, True)
        quiet = run("researcher", "quote", "--home", deployment.home("researcher"), "--count", FRENCH)
        assert (quiet.code, "another dictionary" in quiet.stderr) == (0, False)
        verify_french(deployment)
        load(deployment, role)
        assert status(deployment, role) == (after, after, False)
        told = [
            f"The {role} agency has another dictionary"
            in run("researcher", "dictionary", "--home", deployment.home("researcher")).stderr
            for _ in range(2)
        ]
        assert told == [True, False]
        verify_french(deployment)


def test_mended_labels_are_published_at_once(deployment: Deployment) -> None:
    """At both agencies, with the same people counted, and without a load."""
    with serving(deployment):
        for role in DICTIONARIES:
            adopt(deployment, role, relabelled, version=1)
        shown = run("researcher", "dictionary", "--home", deployment.home("researcher"), "sex")
        assert "Female!" in shown.stdout
        verify_french(deployment)


def test_a_code_that_is_gone_is_refused_at_the_load_by_line(deployment: Deployment) -> None:
    """The data stands under the old dictionary; nobody is loaded as somebody else."""

    def without_french(dictionary: Dictionary) -> Dictionary:
        first, *others = dictionary.columns
        left = tuple(code for code in first.codes if code.value != "French")
        return replace(dictionary, columns=(replace(first, codes=left), *others))

    adopt(deployment, "census", without_french)
    words = ("census", "load", "--home", deployment.home("census"), "--json")
    assert run_here(*words, "--max-rejected", "0").error["code"] == "LOAD_REFUSED"
    with serving(deployment):
        verify_french(deployment)
    rejections = run_here(*words).result["rejections"]
    assert {each["reason"] for each in rejections} == {"mother_tongue holds a code that is not published"}


def test_an_audit_on_site_accuses_nobody(deployment: Deployment, tmp_path: Path) -> None:
    """Asked under one dictionary and then under another, with the documents of both in the exports."""
    with serving(deployment):
        verify_french(deployment)
        for role in DICTIONARIES:
            adopt(deployment, role, CHANGES["put_in_front"])
            load(deployment, role)
        verify_french(deployment)
        deployment.wait_until_closed()
        for role in ("researcher", "health", "census"):
            words = ("--home", deployment.home(role), "--to", tmp_path / "handed_in" / role)
            assert run_here("audit", "export", *words, "--json").code == 0
    for role in DICTIONARIES:
        assert len(list((tmp_path / "handed_in" / role / "dictionaries").iterdir())) == 2
    census = deployment.home("census")
    visit = ("--on-site", census, "--openings", census / "openings")
    visited = run_here(
        "audit", "replay", tmp_path / "handed_in", "--home", deployment.home("auditor"), "--json", *visit
    )
    assert (visited.result["verified"], visited.result["problems"]) == (True, [])
    assert not any("exact count" in sentence for sentence in visited.result["not_checked"])


def kept(deployment: Deployment) -> int:
    """Number of charges whose sample is kept, by plain SQL."""
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
