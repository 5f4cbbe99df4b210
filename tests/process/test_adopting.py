"""`dictionary adopt`: an agency's next dictionary, with its code lists, put into its home and signed; what it may not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import run_here

from health_node.assembly import HealthHome

pytestmark = pytest.mark.process

FIRST = """\
version = 1
id_form = "text"
linkage = "complementary"

[columns.diagnosis]
type = "code"
multi_valued = true
description = "Diagnoses."
codes = "icd10.csv"
"""
CODES = "value,label\nI21,Infarction\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A health agency without a dictionary."""
    monkeypatch.chdir(tmp_path)
    created = run_here(
        *("health", "create", "--home", "health", "--organisation", "ministry", "--origin", "health.example/log"),
        *("--address", "127.0.0.1:7002", "--places", "1000", "--census", "127.0.0.1:7003"),
        *("--census-organisation", "statistics"),
    )
    assert created.code == 0, created.stderr


def written(text: str = FIRST, codes: str = CODES) -> Path:
    """A dictionary file of the agency's, somewhere else than in its home."""
    folder = Path("drafts")
    folder.mkdir(exist_ok=True)
    (folder / "icd10.csv").write_text(codes)
    (folder / "ours.toml").write_text(text)
    return folder / "ours.toml"


def adopt(*words: str | Path) -> dict[str, Any]:
    """Output of the command, which succeeds."""
    return run_here("dictionary", "adopt", "--home", "health", *words, "--json").result


def refused(*words: str | Path, home: str = "health") -> str:
    """The code of its error."""
    return run_here("dictionary", "adopt", "--home", home, *words, "--json").error["code"]


def test_a_file_is_put_into_the_home_and_signed() -> None:
    """With its code list, and as the one that the next load reads by."""
    first = adopt(written())
    assert (first["version"], first["first"], first["changes"]) == (1, True, [])
    home = HealthHome(Path("health"))
    assert home.newest_dictionary().hash.hex() == first["hash"]
    assert Path("health/dictionary.toml").read_text() == FIRST
    assert Path("health/icd10.csv").read_text() == CODES
    # The home's own file is adopted without a name, and the same again changes nothing.
    assert adopt()["hash"] == first["hash"]


def test_what_is_otherwise_is_said_and_whether_to_load() -> None:
    """New codes need a load, new labels none."""
    adopt(written())
    more = adopt(written(FIRST.replace("version = 1", "version = 2"), CODES + "I50,Failure\n"))
    assert more["needs_load"]
    assert [change["kind"] for change in more["changes"]] == ["version_changed", "codes_added"]
    assert not more["first"]
    relabelled = adopt(written(FIRST.replace("version = 1", "version = 2"), CODES + "I50,Heart failure\n"))
    assert (relabelled["needs_load"], relabelled["hash"]) == (False, more["hash"])
    assert HealthHome(Path("health")).newest_dictionary().column("diagnosis").codes[1].label == "Heart failure"


def test_a_dictionary_that_may_not_be_adopted_leaves_the_home_as_it_is() -> None:
    """Another meaning under a version that is taken, and a file that is wrong: the home keeps its own."""
    adopt(written())
    assert refused(written(codes=CODES + "I50,Failure\n")) == "DICTIONARY_OLD"
    assert refused(written(FIRST.replace('"code"', '"codes"'))) == "DICTIONARY_INVALID"
    assert refused(Path("nothing.toml")) == "DICTIONARY_INVALID"
    assert Path("health/dictionary.toml").read_text() == FIRST
    assert Path("health/icd10.csv").read_text() == CODES


NUMBERS = '[columns.visits]\ntype = "integer"\ndescription = "Visits."\nminimum = 0\nmaximum = 9\n'


def test_a_home_that_cannot_be_written_is_said_and_adopting_again_mends_it() -> None:
    """The dictionary is in the log by then; the files follow when there is room for them."""
    Path("health/icd10.csv").mkdir()
    assert refused(written()) == "STORE_FAILED"
    assert not Path("health/dictionary.toml").exists()
    Path("health/icd10.csv").rmdir()
    again = adopt(written())
    assert (again["first"], again["changes"]) == (False, [])
    assert Path("health/dictionary.toml").read_text() == FIRST


# Dictionaries that no census can load, and the error.
NO_CENSUS = {
    "numbers": (FIRST[FIRST.index("[columns") :], NUMBERS, "'visits' is no language variable"),
    "several": ("multi_valued = true\n", "multi_valued = true\n", "'diagnosis' is no language variable"),
    "events": ("multi_valued = true\n", "", "'stay' is an event table"),
}
STAYS = '[events.stay]\ndescription = "Stays."\n[events.stay.columns.day]\ntype = "date"\ndescription = "Day."\n'


@pytest.mark.parametrize("name", NO_CENSUS)
def test_what_an_agency_could_never_load_is_found_before_it_is_adopted(name: str) -> None:
    """`check` with the agency's home finds it, and so does `adopt`; a health agency may have all of it."""
    old, new, problem = NO_CENSUS[name]
    file = written(FIRST.replace(old, new) + STAYS * (name == "events"))
    created = run_here(
        *("census", "create", "--home", "census", "--organisation", "statistics", "--origin", "census.example/log"),
        *("--address", "127.0.0.1:7003", "--people", "1000"),
    )
    assert created.code == 0, created.stderr
    for command in ("check", "adopt"):
        error = run_here("dictionary", command, file, "--home", "census", "--json").error
        assert error["code"] == "DICTIONARY_UNUSABLE"
        assert problem in error["text"]
        assert run_here("dictionary", command, file, "--home", "health", "--json").code == 0
    assert not Path("census/dictionary.toml").exists()


def test_check_reads_the_file_of_a_home() -> None:
    """The same as if the file were named."""
    adopt(written())
    of_home = run_here("dictionary", "check", "--home", "health", "--json").result
    assert of_home == run_here("dictionary", "check", "health/dictionary.toml", "--json").result


def test_only_an_agency_adopts() -> None:
    """A home without a dictionary file of its own says so; one of another role is refused."""
    assert refused() == "DICTIONARY_INVALID"
    made = run_here("auditor", "create", "--home", "auditor", "--oversight-to", "oversight.pub")
    assert made.code == 0
    assert refused(home="auditor") == "HOME_INVALID"
