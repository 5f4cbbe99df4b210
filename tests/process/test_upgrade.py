"""A deployment that step 9 made is carried over: every charge counts on, questions are asked again, and both audits hold."""

from __future__ import annotations

import socket
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, run, run_here
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.privacy.accounting import price
from census_node.assembly import CensusHome
from deploy.synthetic.dictionaries import CENSUS_FILE, HEALTH_FILE

pytestmark = pytest.mark.process

ARCHIVE = Path(__file__).parents[1] / "vectors" / "homes" / "step9.tar.gz"
FILES = {"health": HEALTH_FILE, "census": CENSUS_FILE}
ANSWERS = 3


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """As step 9 left it, at addresses that are free here."""
    directory = tmp_path / "deployment"
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(directory, filter="data")
    texts = {path: path.read_text() for path in directory.glob("*/config.toml")}
    taken = {line.split('"')[1] for text in texts.values() for line in text.splitlines() if line.startswith("address")}
    for address in taken:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            there = f"127.0.0.1:{free.getsockname()[1]}"
        texts = {path: text.replace(address, there) for path, text in texts.items()}
    for path, text in texts.items():
        path.write_text(text)
    return Deployment(directory)


def upgraded(deployment: Deployment) -> None:
    """Both agencies give the command."""
    for role, file in FILES.items():
        words = ("upgrade", "--home", deployment.home(role), "--dictionary", file, "--json")
        assert run_here(*words).result["upgraded"]


@contextmanager
def serving(deployment: Deployment) -> Iterator[None]:
    """Both agencies' nodes."""
    with ExitStack() as stack:
        for role in ("census", "health"):
            stack.enter_context(deployment.node(role))
        yield


def charged(deployment: Deployment) -> list[int]:
    """The ledger's charge of each person."""
    charges = CensusHome(deployment.home("census")).charges()
    assert charges is not None
    return [int(units) for units in charges.subjects.tolist()]


def test_an_old_home_says_which_command_to_give_and_stays_as_it_is(deployment: Deployment) -> None:
    """Whatever else is asked of it."""
    for role in FILES:
        home = deployment.home(role)
        before = (home / "journal.db").read_bytes()
        for words in ((role, "status"), (role, "serve"), ("audit", "export", "--to", home.parent / "export")):
            outcome = run(*words[:2], "--home", home, *words[2:])
            assert outcome.code == 7
            assert f"tripartite upgrade --home {home}" in outcome.stdout + outcome.stderr
        without = run_here("upgrade", "--home", home, "--json")
        assert without.error["code"] == "DICTIONARY_MISSING"
        assert (home / "journal.db").read_bytes() == before


def test_every_charge_comes_along_and_the_audits_hold(deployment: Deployment, tmp_path: Path) -> None:
    """Asked before and after: one log, one ledger, one budget."""
    upgraded(deployment)
    before = charged(deployment)
    assert max(before) >= price(30)
    assert len(deployment.tickets("census", "charged")) == ANSWERS
    assert run_here("upgrade", "--home", deployment.home("census"), "--json").result["upgraded"] is False
    with serving(deployment):
        answer = deployment.ask("age >= 0", FRENCH, "--scale", "30").result
        assert answer["charged"] == price(30)
        deployment.wait_until_closed()
    after = charged(deployment)
    assert sum(after) > sum(before)
    assert all(units >= earlier for units, earlier in zip(after, before, strict=True))
    assert len(deployment.json("researcher", "answers")["answers"]) == ANSWERS + 1
    for role in ("researcher", "health", "census"):
        words = ("--home", deployment.home(role), "--to", tmp_path / "exports" / role)
        assert run_here("audit", "export", *words, "--json").code == 0
    census = deployment.home("census")
    replay = ("audit", "replay", tmp_path / "exports", "--home", deployment.home("auditor"), "--json")
    for on_site in ((), ("--openings", census / "openings", "--on-site", census)):
        report = run_here(*replay, *on_site).result
        assert (report["verified"], report["problems"]) == (True, [])
        assert report["answers"] == ANSWERS + 1


def test_a_dictionary_that_is_not_the_datas_is_not_adopted(deployment: Deployment) -> None:
    """Or stored numbers would stand for other codes."""
    home = deployment.home("census")
    outcome = run_here("upgrade", "--home", home, "--dictionary", HEALTH_FILE, "--json")
    assert outcome.error["code"] == "DICTIONARY_MISSING"
    assert CENSUS_DICTIONARY.hash.hex() not in outcome.stdout
    with CensusHome(home).journal(may_be_old=True) as journal:
        assert journal.state.format == 7


@pytest.mark.parametrize("role", FILES)
def test_a_home_whose_data_are_not_those_of_its_log_is_not_carried_over(deployment: Deployment, role: str) -> None:
    """It can be read all the same: only the commitment tells."""
    home = deployment.home(role)
    with closing(sqlite3.connect(home / "journal.db")) as journal, journal:
        journal.execute("update loads set salt = ?", [bytes(32)])
    before = (home / "journal.db").read_bytes()
    outcome = run_here("upgrade", "--home", home, "--dictionary", FILES[role], "--json")
    assert outcome.error["code"] == "INTEGRITY"
    assert "not the one that was loaded" in outcome.error["text"]
    assert (home / "journal.db").read_bytes() == before
