"""Traces of running: files in the deployment alone, no secret in any of them that is not meant to hold one."""

from __future__ import annotations

import re
import stat
from functools import partial
from pathlib import Path

import pytest
from fakes.deployment import FRENCH, Deployment, make, run
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

PRIVATE_KEY = b"mlkem768-x25519-private"
ALLOWED_NEW = {
    *("census/monitor.prom", "health/monitor.prom"),
    "census/journal.db",
    "census/keys.lock",
    "census/journal.db-shm",
    "census/journal.db-wal",
    "census/serve.lock",
    # Noise secrets of the one start, and what it has shown.
    "census/slots/0000000000000000.slots",
    "witness/checkpoint",
    "health/journal.db",
    "health/keys.lock",
    "health/journal.db-shm",
    "health/journal.db-wal",
    "health/serve.lock",
    "researcher/answers.db",
    "researcher/keys.lock",
    "researcher/trust/.lock",
    "researcher/answers.db-shm",
    "researcher/answers.db-wal",
    "researcher/serve.lock",
    # Published data of the nodes, and the report of the last load.
    *("researcher/dictionaries/health.json", "researcher/dictionaries/census.json"),
    *("health/load-figures.json", "health/load-rejected.csv", "health/load-report.json"),
}


def files(directory: Path) -> dict[str, int]:
    """Every file below a folder, with its mode."""
    return {
        str(path.relative_to(directory)): stat.S_IMODE(path.stat().st_mode)
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment, Path, str, dict[str, int]]:
    """A session from `init` to the end of `up`, in an environment of its own; nodes' stderr, and files before the session."""
    place = tmp_path_factory.mktemp("footprint")
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    unused = {name: str(elsewhere) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    deployment = make(place / "deployment", population=200)
    before = files(deployment.directory)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in unused.items():
            patch.setenv(name, value)
        patch.chdir(elsewhere)
        with deployment.up() as up:
            # Imports see this environment, too.
            home, patience = deployment.home("researcher"), str(PATIENCE_SECONDS)
            ask = partial(run, "researcher", "ask", "--json", "--home", home, "--wait", patience, is_forked=False)
            assert ask("--where", "age >= 65", "--count", FRENCH).code == 0
            # Refusals are where a careless log would quote what was asked.
            assert (
                ask("--where", "age >= 66 and procedure = 'angioplasty'", "--count", "all", "--project", "none").code
                == 3
            )
            assert (
                run(
                    "health", "load", "--home", deployment.home("health"), "--json", cwd=elsewhere, is_forked=False
                ).code
                == 0
            )
            assert ask("--where", "age >= 67", "--count", FRENCH).code == 0
            stderr = up.stderr
    return deployment, elsewhere, stderr, before


def test_nothing_is_written_outside_the_deployment(used: tuple[Deployment, Path, str, dict[str, int]]) -> None:
    """Home, temporary folder and working directory stay empty; the deployment gains stores, locks, noise secrets and what proves them."""
    deployment, elsewhere, _, before = used
    assert list(elsewhere.iterdir()) == []
    new = files(deployment.directory).keys() - before.keys()
    stores = {name for name in new if name.startswith("health/people/")}
    # One for every answer, sealed to the oversight key.
    openings = {name for name in new if name.startswith("census/openings/") and name.endswith(".opening")}
    assert len(openings) == len(deployment.tickets("census", "charged"))
    # The one in force, and one that is staged or about to be erased, each with its key.
    rosters = {name for name in new if name.startswith("census/rosters/")}
    assert len(rosters) <= 4
    # Those that answers were given under.
    policies = {name for name in new if name.startswith("researcher/policies/") and name.endswith(".json")}
    assert len(policies) == 1
    assert new - stores - openings - rosters - policies <= ALLOWED_NEW
    assert len(stores) == 1, "the second load replaced the first"


def test_what_holds_records_or_answers_is_for_its_owner_alone(
    used: tuple[Deployment, Path, str, dict[str, int]],
) -> None:
    """Keys, journals, answers and sources have mode 0600; whatever else there is lies in a folder that only its owner enters."""
    deployment, *_ = used
    modes = files(deployment.directory)
    private = {
        name: mode
        for name, mode in modes.items()
        if name.endswith((".key", ".db", ".slots", ".roster", ".rosterkey", "people.csv"))
    }
    assert len(private) >= 18
    assert set(private.values()) == {0o600}
    for role in ("researcher", "health", "census"):
        assert stat.S_IMODE(deployment.home(role).stat().st_mode) == 0o700


def test_no_secret_no_card_and_no_criterion_is_in_what_the_nodes_say(
    used: tuple[Deployment, Path, str, dict[str, int]],
) -> None:
    """Standard error names events and codes: no key, no health card, no criteria, no question, no count."""
    deployment, _, stderr, _ = used
    assert "UNKNOWN_PROJECT" in stderr, "the refusal was logged"
    secrets = [path.read_text(encoding="utf-8").split() for path in deployment.directory.rglob("*.key")]
    words = {word for words in secrets for word in words if len(word) > 20}
    assert len(words) > 10
    assert not [word for word in words if word in stderr]
    assert not [person["health_card"] for person in deployment.people() if person["health_card"] in stderr]
    for asked in ("age", "angioplasty", "mother_tongue", "French"):
        assert not re.search(rf"\b{asked}\b", stderr)


def test_no_card_is_kept_by_a_store_or_a_journal(used: tuple[Deployment, Path, str, dict[str, int]]) -> None:
    """Cards stand in the sources that were loaded, and nowhere else in the deployment."""
    deployment, *_ = used
    cards = [person["health_card"].encode() for person in deployment.people()]
    for path in deployment.directory.rglob("*"):
        if path.is_file() and path.name != "people.csv":
            content = path.read_bytes()
            assert not any(card in content for card in cards), path


def test_the_researcher_keeps_no_key_of_an_answer_that_was_read(
    used: tuple[Deployment, Path, str, dict[str, int]],
) -> None:
    """The key that opened an answer is overwritten on the disk: what was recorded on the wire stays closed."""
    deployment, *_ = used
    stored = b"".join(path.read_bytes() for path in deployment.home("researcher").glob("answers.db*"))
    rows = deployment.json("researcher", "answers")["answers"]
    assert [row["state"] for row in rows] == ["answered", "refused", "answered"]
    assert stored.count(PRIVATE_KEY) <= 1, "only the refused question still has one"
