"""`doctor`: every mistake that an operator can make is found, said with what to do, and never mended by itself."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import ROLES, Deployment, make, run_here

from broker_common.storage import clock

pytestmark = pytest.mark.process

_DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment whose nodes do not run."""
    return make(tmp_path_factory.mktemp("sound") / "deployment", "--release-tick-ms", "250", population=50)


@pytest.fixture
def deployment(sound: Deployment, tmp_path: Path) -> Deployment:
    """The same, for one test to spoil."""
    shutil.copytree(sound.directory, tmp_path / "deployment", symlinks=True)
    return Deployment(tmp_path / "deployment")


def doctor(deployment: Deployment, role: str) -> dict[str, Any]:
    """Output of `doctor`; the exit code has to follow from it."""
    outcome = run_here("doctor", "--home", deployment.home(role), "--json")
    result = outcome.json
    assert outcome.code == (3 if result["problems"] else 0)
    found = [each["level"] for each in result["findings"]]
    assert (result["problems"], result["warnings"]) == (found.count("problem"), found.count("warning"))
    assert all(bool(each["remedy"]) == (each["level"] != "ok") for each in result["findings"])
    return result


def findings(deployment: Deployment, role: str, check: str) -> list[tuple[str, str]]:
    """Level and text of what is said of one thing."""
    return [(each["level"], each["text"]) for each in doctor(deployment, role)["findings"] if each["check"] == check]


@pytest.mark.parametrize("role", [*ROLES, "auditor"])
def test_a_sound_home_has_no_problem(sound: Deployment, role: str) -> None:
    """Warnings are what a deployment in one folder cannot have right: its disk, its witness store, its peers that are down."""
    result = doctor(sound, role)
    assert result["problems"] == 0
    assert {each["check"] for each in result["findings"] if each["level"] == "warning"} <= {
        *("disk", "peers", "policy", "witness"),
    }


def test_nothing_is_changed(deployment: Deployment) -> None:
    """Not a byte of what the homes hold, with the nodes down."""

    def held() -> dict[Path, tuple[bytes, int]]:
        return {
            path: (path.read_bytes(), path.stat().st_mode)
            for path in deployment.directory.rglob("*")
            if path.is_file() and path.suffix not in {".db-shm", ".db-wal", ".lock"}
        }

    for role in ROLES:
        doctor(deployment, role)
    before = held()
    for role in ROLES:
        doctor(deployment, role)
    assert held() == before


def test_running_nodes_answer_and_are_heard_of(deployment: Deployment) -> None:
    """The health node reaches the census node, the researcher both, and the census node has heard of the health node."""
    with deployment.node("census"), deployment.node("health"):
        for role, answering in (("health", 1), ("researcher", 2)):
            told = findings(deployment, role, "peers")
            assert sum("answers at" in text for level, text in told if level == "ok") == answering
        deployment.wait_until_still()
        assert any("has last cosigned" in text for _, text in findings(deployment, "census", "peers"))
        assert findings(deployment, "health", "policy")[0][0] == "ok"
        assert findings(deployment, "health", "process") == [("ok", "A node serves this home.")]
        clock_told = findings(deployment, "census", "clock")
        assert [level for level, _ in clock_told] == ["ok"]
        assert "health-agency" in clock_told[0][1]


def test_a_setting_that_is_not_known_is_named(deployment: Deployment) -> None:
    """A misspelt one would otherwise be silently ignored."""
    config = deployment.home("health") / "config.toml"
    config.write_text(config.read_text().replace("places =", "place ="))
    ((level, text),) = findings(deployment, "health", "config")
    assert level == "problem"
    assert "place" in text


def edit(deployment: Deployment, role: str, old: str, new: str) -> None:
    """Change a line of a configuration."""
    config = deployment.home(role) / "config.toml"
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))


def open_key(deployment: Deployment) -> None:
    """Others may read it."""
    (deployment.home("census") / "keys" / "answer.key").chmod(0o644)


def lose_key(deployment: Deployment) -> None:
    """A file that was not restored."""
    (deployment.home("census") / "keys" / "answer.key").unlink()


def lose_linkage(deployment: Deployment) -> None:
    """The same for the linkage keys."""
    (deployment.home("health") / "keys" / "linkage.key").unlink()


def other_linkage(deployment: Deployment) -> None:
    """That of another deployment."""
    key = deployment.home("health") / "keys" / "linkage.key"
    key.unlink()
    made = make(deployment.directory.parent / "other", population=10)
    shutil.copy(made.home("health") / "keys" / "linkage.key", key)


def lose_witness(deployment: Deployment) -> None:
    """A disk that is not mounted."""
    (deployment.directory / "witness").rmdir()


def no_witness(deployment: Deployment) -> None:
    """None is configured."""
    edit(deployment, "census", 'witness_store = "../witness"', "")


def other_census(deployment: Deployment) -> None:
    """A name that was mistyped, or changed."""
    edit(deployment, "health", 'organisation = "census-agency"', 'organisation = "another"')


def lose_oversight(deployment: Deployment) -> None:
    """The file that config.toml names."""
    (deployment.home("census") / "keys" / "oversight.pub").unlink()


def declare_more(deployment: Deployment) -> None:
    """Without a load after it."""
    edit(deployment, "health", "places = 524288", "places = 1048576")


def declare_more_people(deployment: Deployment) -> None:
    """Without a policy after it."""
    edit(deployment, "census", "people = 524288", "people = 104857600")


def revoke_researcher(deployment: Deployment) -> None:
    """The only one."""
    words = ("census", "revoke", "--home", deployment.home("census"), "researcher", "researcher-1", "--reason", "gone")
    assert run_here(*words).code == 0


def lose_load(deployment: Deployment) -> None:
    """A store that was cleaned away."""
    (load,) = (deployment.home("census") / "registries").iterdir()
    load.unlink()


def other_dictionary(deployment: Deployment) -> None:
    """Edited, and not adopted."""
    file = deployment.home("health") / "dictionary.toml"
    file.write_text(file.read_text().replace('label = "', 'label = "New ', 1))


def broken_dictionary(deployment: Deployment) -> None:
    """Edited in haste."""
    file = deployment.home("census") / "dictionary.toml"
    file.write_text(file.read_text() + "[columns.]\n")


def lose_source(deployment: Deployment) -> None:
    """Moved elsewhere."""
    (deployment.home("census") / "people.csv").unlink()


def other_source(deployment: Deployment) -> None:
    """Another extract than the dictionary speaks of."""
    (deployment.home("health") / "people.csv").write_text("card,age\n1,2\n")


MISTAKES: dict[str, tuple[Callable[[Deployment], None], str, str, str, str]] = {
    "a key that others read": (open_key, "census", "permissions", "problem", "answer.key"),
    "a key that is lost": (lose_key, "census", "keys", "problem", "answer"),
    "the linkage key is lost": (lose_linkage, "health", "linkage", "problem", "linkage.key"),
    "another linkage key": (other_linkage, "health", "linkage", "problem", "chain"),
    "the witness store is not mounted": (lose_witness, "census", "witness", "problem", "does not start"),
    "no witness store": (no_witness, "census", "witness", "warning", "restored backup"),
    "another census agency than registered": (other_census, "health", "peers", "problem", "another"),
    "the oversight key is lost": (lose_oversight, "census", "oversight", "problem", "oversight.pub"),
    "more places than the load was made for": (declare_more, "health", "declared", "warning", "1048576"),
    "more people than the policy's times allow for": (
        declare_more_people,
        "census",
        "policy",
        "problem",
        "release_tick_ms",
    ),
    "nobody may ask": (revoke_researcher, "census", "peers", "warning", "nobody can ask"),
    "a dictionary that was edited": (
        other_dictionary,
        "health",
        "dictionary",
        "warning",
        "not the one that was adopted",
    ),
    "a dictionary that cannot be read": (broken_dictionary, "census", "dictionary", "problem", "dictionary.toml"),
    "no source": (lose_source, "census", "source", "warning", "people.csv"),
    "a source without the columns": (other_source, "health", "source", "problem", "health_card"),
    "the load in force is gone": (lose_load, "census", "declared", "problem", "damaged or missing"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(deployment: Deployment, name: str) -> None:
    """With its level, and the thing that is wrong in the sentence."""
    spoil, role, check, level, part = MISTAKES[name]
    spoil(deployment)
    told = findings(deployment, role, check)
    assert any(found == level and part in text for found, text in told), told


@pytest.mark.parametrize(
    ("days", "check", "level", "part"),
    [
        (-2, "clock", "problem", "last entry is from"),
        (320, "certificates", "warning", "ends on"),
        (400, "certificates", "problem", "has ended"),
    ],
)
@pytest.mark.parametrize("role", ["health", "census"])
def test_a_wrong_clock_or_an_old_certificate_is_found(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, role: str, days: int, check: str, level: str, part: str
) -> None:
    """As this machine's clock shows it."""
    shifted = clock.system_clock() + days * _DAY_MS
    for module in ("health_node.doctor", "census_node.doctor"):
        monkeypatch.setattr(f"{module}.system_clock", lambda: shifted)
    told = findings(deployment, role, check)
    assert any(found == level and part in text for found, text in told), told


def test_a_damaged_log_is_said_and_ends_no_other_look(deployment: Deployment) -> None:
    """The files are looked at all the same."""
    journal = deployment.home("census") / "journal.db"
    with sqlite3.connect(journal) as db:
        db.execute("update entries set entry = substr(entry, 1, length(entry) - 2) || 'xx'")
    db.close()
    result = doctor(deployment, "census")
    levels = {each["check"]: each["level"] for each in result["findings"]}
    assert levels["log"] == "problem"
    assert (levels["permissions"], levels["oversight"]) == ("ok", "ok")


def test_a_folder_that_is_no_home_is_an_error(tmp_path: Path) -> None:
    """There is nothing to look at."""
    outcome = run_here("doctor", "--home", tmp_path, "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "HOME_INVALID")


def test_people_read_it_in_their_language(sound: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON stays English."""
    english = run_here("doctor", "--home", sound.home("census"))
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    french = run_here("doctor", "--home", sound.home("census"))
    assert english.code == french.code == 0
    assert "keys card" not in english.stderr
    assert "config.toml is valid" in english.stdout
    assert "config.toml est valide" in french.stdout
    assert "config.toml is valid" in str(doctor(sound, "census"))
    assert os.linesep.join(french.stdout.splitlines()[-1:]).startswith("Problèmes")


# --- an agency's own source ------------------------------------------------------------------------------------------

DICTIONARY = """\
version = 1
id_form = "digits"
linkage = "complementary"

[columns.sex]
type = "code"
description = "Sex."
codes = [{ value = "female", label = "Female" }, { value = "male", label = "Male" }]

[columns.diagnosis]
type = "code"
multi_valued = true
description = "Diagnoses on record."
codes = [{ value = "I20", label = "Angina" }, { value = "I21", label = "Infarction" }]
"""
OWN_SOURCE = """\
[people]
files = ["insured.csv"]
id = "NO"
id_form = "digits"

[people.columns]
sex = "SEX"
diagnosis = DIAGNOSIS

[people.codes.sex]
F = "female"
M = "male"
"""
IN_A_LIST, IN_A_TABLE = '"DX"', '{ files = ["dx.csv"], id = "NO", name = "DX" }'


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    """A health home with a source of its own."""
    (tmp_path / "ours.toml").write_text(DICTIONARY)
    words = ("health", "create", "--home", tmp_path / "H", "--organisation", "ministry", "--origin", "h/log")
    places = ("--address", "127.0.0.1:7002", "--places", "10", "--census", "127.0.0.1:7003")
    others = ("--census-organisation", "statistics", "--dictionary", tmp_path / "ours.toml", "--json")
    assert run_here(*words, *places, *others).code == 0
    home = tmp_path / "H"
    (home / "insured.csv").write_text("NO,SEX,DX\n12,F,I20\n")
    (home / "dx.csv").write_text("NO,DX\n12,I20\n")
    (home / "source.toml").touch(mode=0o600)
    (home / "source.toml").write_text(OWN_SOURCE.replace("DIAGNOSIS", IN_A_LIST))
    return home


def told_of_source(home: Path) -> list[tuple[str, str]]:
    """The finding about it."""
    found = run_here("doctor", "--home", home, "--json").json["findings"]
    return [(each["level"], each["text"]) for each in found if each["check"] == "source"]


def test_an_own_source_is_opened(claims: Path) -> None:
    """Its first rows are read; a column that is not there is named."""
    ((level, text),) = told_of_source(claims)
    assert level == "ok", text
    assert "can be opened" in text
    (claims / "insured.csv").write_text("NO,SEXE,DX\n12,F,I20\n")
    ((level, text),) = told_of_source(claims)
    assert level == "problem"
    assert "SEX" in text


def test_what_would_take_as_long_as_a_load_is_left_to_it(claims: Path) -> None:
    """A table beside the people is read whole before their first row: which command says more is said."""
    (claims / "source.toml").write_text(OWN_SOURCE.replace("DIAGNOSIS", IN_A_TABLE))
    ((level, text),) = told_of_source(claims)
    assert level == "ok"
    assert f"tripartite health load --check --home {claims}" in text


@pytest.mark.parametrize(
    ("old", "new"), [('files = ["insured.csv"]', 'files = ["none-*.csv"]'), ("[people]", "[peopl]")]
)
def test_an_own_source_that_cannot_be_used_is_a_problem(claims: Path, old: str, new: str) -> None:
    """No file of that name; a table that nobody knows."""
    (claims / "source.toml").write_text(OWN_SOURCE.replace("DIAGNOSIS", IN_A_LIST).replace(old, new))
    ((level, _),) = told_of_source(claims)
    assert level == "problem"


def test_an_own_source_that_others_may_read_is_a_problem(claims: Path) -> None:
    """It tells what an agency keeps, and may name where."""
    (claims / "source.toml").chmod(0o644)
    found = run_here("doctor", "--home", claims, "--json").json["findings"]
    assert ("permissions", "problem") in {(each["check"], each["level"]) for each in found}
