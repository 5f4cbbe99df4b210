"""`create`: each organisation makes its own home on its own machine, and two strangers come to know each other by cards."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Outcome, run_here

from broker_common.privacy.delays import too_short
from census_node.assembly import CensusHome
from health_node.assembly import HealthHome

pytestmark = pytest.mark.process

AUDITOR = ("auditor", "create", "--home", "A", "--oversight-to", "oversight.pub")
CENSUS = (
    *("census", "create", "--home", "C", "--organisation", "statistics", "--origin", "census.example/log"),
    *("--address", "127.0.0.1:7003", "--people", "600000"),
)
HEALTH = (
    *("health", "create", "--home", "H", "--organisation", "ministry", "--origin", "health.example/log"),
    *("--address", "127.0.0.1:7002", "--places", "300000"),
    *("--census", "127.0.0.1:7003", "--census-organisation", "statistics"),
)

RESEARCHER = (
    *("researcher", "create", "--home", "R", "--id", "smith", "--organisation", "college", "--project", "heart-study"),
    *("--health", "127.0.0.1:7002", "--census", "127.0.0.1:7003"),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(*words: str) -> dict[str, Any]:
    """Output of a command that succeeds."""
    return run_here(*words, "--json").result


def refused(*words: str) -> tuple[int, str, str]:
    """Exit code, error code, and what a person reads."""
    outcome = run_here(*words, "--json")
    return outcome.code, outcome.error["code"], f"{outcome.error['text']} {outcome.error['hint']}"


def test_each_party_makes_a_home_that_works() -> None:
    """The journals open, the policy is in force and fits what is declared, and the oversight key is the auditor's."""
    assert made(*AUDITOR)["oversight"] == "oversight.pub"
    census = made(*CENSUS, "--oversight", "oversight.pub", "--witness", "witness", "--max-belief", "0.75")
    health = made(*HEALTH, "--linkage-file", "C/keys/linkage.key")
    assert (census["role"], census["organisation"], census["people"]) == ("census", "statistics", 1_048_576)
    assert (health["role"], health["organisation"], health["places"]) == ("health", "ministry", 524_288)
    assert health["linkage"] == census["linkage"] != ""
    opened = CensusHome(Path("C"))
    policy = opened.read(lambda state: state.policy)
    assert policy is not None
    assert (policy.hash.hex(), policy.max_belief) == (census["policy_hash"], "0.75")
    assert too_short(policy, places=health["places"], people=census["people"]) == {}
    assert opened.own_card().fingerprint == census["fingerprint"]
    assert HealthHome(Path("H")).own_card().fingerprint == health["fingerprint"]
    assert opened.config.keys.oversight == "file:keys/oversight.pub"
    assert Path("C/keys/oversight.pub").read_text() == Path("oversight.pub").read_text()
    assert Path("witness").is_dir()


def test_private_keys_are_for_their_owner_alone_and_in_one_home_only() -> None:
    """Only the linkage key stands in two."""
    for words in (AUDITOR, CENSUS, (*HEALTH, "--linkage-file", "C/keys/linkage.key")):
        made(*words)
    keys = sorted(Path().rglob("*.key"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    holders: dict[bytes, list[str]] = {}
    for path in keys:
        holders.setdefault(path.read_bytes(), []).append(str(path))
    assert [paths for paths in holders.values() if len(paths) > 1] == [["C/keys/linkage.key", "H/keys/linkage.key"]]


@pytest.mark.parametrize(
    ("words", "change", "named"),
    [
        (CENSUS, ("--organisation", "Statistics Canada"), "--organisation"),
        (HEALTH, ("--census-organisation", "The Census"), "--census-organisation"),
        (HEALTH, ("--origin", "my log"), "--origin"),
        (CENSUS, ("--address", "127.0.0.1:0"), "--address"),
        (CENSUS, ("--max-belief", "1.2"), "belief"),
        (CENSUS, ("--max-belief", "0.500001"), "belief"),
        (CENSUS, ("--subject", "household", "--accounting", "strict"), "household"),
        (CENSUS, ("--oversight", "nothing.pub"), "nothing.pub"),
        (CENSUS, ("--oversight", "some.txt"), "some.txt"),
        (CENSUS, ("--linkage-file", "some.txt"), "--linkage-file"),
        (HEALTH, ("--linkage-file", "nothing.key"), "--linkage-file"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    words: tuple[str, ...], change: tuple[str, ...], named: str
) -> None:
    """The message names what is wrong, and there is no half of a home."""
    Path("some.txt").write_text("no key of any kind\n")
    code, error, text = refused(*words, *change)
    assert (code, error) == (3, "INVALID_VALUE")
    assert named in text
    assert not Path("C").exists()
    assert not Path("H").exists()


DICTIONARY = """\
agency = "Ministry"
version = 1
id_form = "digits_luhn"
linkage = "complementary"

[columns.diagnosis]
type = "code"
multi_valued = true
description = "Diagnoses on record."
codes = "icd.csv"
"""


def test_a_dictionary_comes_along_with_its_code_lists_and_is_adopted() -> None:
    """The home holds all that is published, and what is loaded next is loaded under it."""
    Path("ours").mkdir()
    Path("ours/claims.toml").write_text(DICTIONARY)
    Path("ours/icd.csv").write_text("value,label\nI20,Angina\nI21,Infarction\n")
    Path("ours/notes.txt").write_text("not a part of it")
    health = made(*HEALTH, "--dictionary", "ours/claims.toml")
    shutil.rmtree("ours")
    opened = HealthHome(Path("H"))
    assert opened.newest_dictionary().hash.hex() == health["dictionary"]
    assert [code.value for code in opened.newest_dictionary().columns[0].codes] == ["I20", "I21"]
    assert {"dictionary.toml", "icd.csv"} < {path.name for path in Path("H").iterdir()}
    assert not Path("H/notes.txt").exists()
    assert made("dictionary", "check", "--home", "H")["hash"] == health["dictionary"]


EVENTS = """
[events.stays]
description = "Stays in hospital."

[events.stays.columns.admitted]
type = "date"
description = "Day of admission."
"""


def test_tables_have_room_as_declared_and_the_first_policy_has_time_for_them() -> None:
    """The figures that the health agency is told to pass on are the options of the census agency's command."""
    Path("claims.toml").write_text(DICTIONARY + EVENTS)
    Path("icd.csv").write_text("value,label\nI20,Angina\nI21,Infarction\n")
    words = (*HEALTH, "--dictionary", "claims.toml")
    code, error, text = refused(*words, "--rows", "visits=1000")
    assert (code, error) == (3, "INVALID_VALUE")
    assert all(word in text for word in ("--rows", "visits", "stays"))
    assert not Path("H").exists()
    assert run_here(*words, "--rows", "stays", "--json").code == 2
    health = made(*words, "--rows", "stays=200000000")
    assert health["events"] == 200_278_016
    made(*CENSUS, "--places", str(health["places"]), "--events", str(health["events"]))
    policy = CensusHome(Path("C")).read(lambda state: state.policy)
    assert policy is not None
    assert too_short(policy, health["places"], events=health["events"]) == {}
    assert too_short(policy, health["places"], events=10 * health["events"]) != {}


@pytest.mark.parametrize("broken", ["nothing.toml", "unclosed.toml", "no-codes.toml"])
def test_a_dictionary_that_cannot_be_read_makes_no_home(broken: str) -> None:
    """The file that was given is named, and the line where one can be told."""
    Path("unclosed.toml").write_text(DICTIONARY + '"')
    Path("no-codes.toml").write_text(DICTIONARY)
    code, error, text = refused(*HEALTH, "--dictionary", broken)
    assert (code, error) == (3, "DICTIONARY_INVALID")
    assert ("icd.csv" if broken == "no-codes.toml" else broken) in text
    assert not Path("H").exists()


def test_a_private_key_given_for_the_public_one_is_refused_and_not_shown() -> None:
    """A mistake near the home: the file beside it is the one that opens everything."""
    made(*AUDITOR)
    code, error, text = refused(*CENSUS, "--oversight", "A/keys/oversight.key")
    assert (code, error) == (3, "INVALID_VALUE")
    assert Path("A/keys/oversight.key").read_text().split()[-1][:12] not in text


def test_a_home_is_not_made_over_another() -> None:
    """Nothing of the first changes."""
    made(*CENSUS)
    before = {path: path.read_bytes() for path in Path("C").rglob("*") if path.is_file()}
    assert refused(*CENSUS)[1] == "HOME_INVALID"
    assert {path: path.read_bytes() for path in Path("C").rglob("*") if path.is_file()} == before


def test_people_are_told_what_to_do_next_in_their_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commands, with this home in them, and the fingerprint to tell."""
    told = run_here(*CENSUS)
    assert told.code == 0
    fingerprint = CensusHome(Path("C")).own_card().fingerprint
    for text in (fingerprint, "tripartite keys card --home C --to statistics.card", "C/keys/linkage.key", "--witness"):
        assert text in told.stdout
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    assert "tripartite health relink --home H --key-file FICHIER" in run_here(*HEALTH).stdout


def test_the_linkage_key_may_be_handed_over_after_both_homes_were_made() -> None:
    """Either agency may have made it; a home of its own chain takes the other's as long as nothing is loaded."""
    for words in (CENSUS, HEALTH):
        made(*words)
    census, health = Path("C/keys/linkage.key"), Path("H/keys/linkage.key")
    assert not health.exists()
    assert made("health", "relink", "--home", "H", "--key-file", str(census))["load"] == ""
    assert health.read_text() == census.read_text()
    health.unlink()
    made("health", "relink", "--home", "H", "--new-key")
    assert refused("health", "relink", "--home", "H", "--new-key")[:2] == (3, "RELINK_REFUSED")
    assert health.read_text() != census.read_text()
    made("census", "relink", "--home", "C", "--key-file", str(health))
    assert health.read_text() == census.read_text()


# --- cards -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cards() -> dict[str, str]:
    """Two agencies and an auditor, and the fingerprints of the cards that lie ready: ministry.card, statistics.card."""
    made(*AUDITOR)
    made(*CENSUS)
    made(*HEALTH)
    return {
        name: made("keys", "card", "--home", home, "--to", f"{name}.card")["fingerprint"]
        for home, name in (("C", "statistics"), ("H", "ministry"))
    }


def test_strangers_know_each_other_once_fingerprints_are_compared(cards: dict[str, str]) -> None:
    """As a person types one: in groups, in capitals."""
    typed = " ".join(cards["ministry"][at : at + 4] for at in range(0, 64, 4)).upper()
    known = made("census", "register", "--home", "C", "ministry.card", "--fingerprint", typed)
    assert (known["role"], known["organisation"]) == ("health", "ministry")
    made("health", "register", "--home", "H", "statistics.card", "--fingerprint", cards["statistics"])
    for name in ("ministry", "statistics"):
        known = made("auditor", "register", "--home", "A", f"{name}.card", "--fingerprint", cards[name])
        assert known["fingerprint"] == cards[name]
    assert sorted(path.name for path in Path("A/trust").iterdir()) == ["census-statistics.card", "health-ministry.card"]
    made(*RESEARCHER)
    for home, card in (("C", "ministry"), ("H", "statistics"), ("A", "ministry"), ("R", "ministry")):
        assert "do it now" not in registering(home, card, "--fingerprint", cards[card])
        assert "do it now" in registering(home, card)


def registering(home: str, card: str, *words: str) -> str:
    """Text for a person who registers a card."""
    role = {"C": "census", "H": "health", "A": "auditor", "R": "researcher"}[home]
    return run_here(role, "register", "--home", home, f"{card}.card", *words).stdout


def register(home: str, card: str, fingerprint: str) -> Outcome:
    """Register a card at a home."""
    role = {"A": "auditor", "C": "census", "H": "health"}[home]
    return run_here(role, "register", "--home", home, card, "--fingerprint", fingerprint, "--json")


@pytest.mark.parametrize("home", ["A", "C"])
def test_a_wrong_fingerprint_registers_nobody(cards: dict[str, str], home: str) -> None:
    """One digit wrong is another card; too few digits are said to be too few."""
    right = cards["ministry"]
    wrong = ("1" if right[0] == "0" else "0") + right[1:]
    outcome = register(home, "ministry.card", wrong)
    assert (outcome.code, outcome.error["code"]) == (3, "FINGERPRINT_MISMATCH")
    assert right in outcome.error["text"]
    for short in (right[:40], right + "0", "twelve"):
        outcome = register(home, "ministry.card", short)
        assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE")
        assert "64" in f"{outcome.error['text']} {outcome.error['hint']}"
    assert not list(Path("A/trust").iterdir())
    assert made("keys", "list", "--home", "C")["peers"] == []


def test_a_card_of_the_wrong_role_is_refused(cards: dict[str, str]) -> None:
    """An agency's own card, or that of its like."""
    for home, name in (("H", "ministry"), ("C", "statistics")):
        outcome = register(home, f"{name}.card", cards[name])
        assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE")
        assert "is that of" in outcome.error["text"]


def test_a_card_of_another_census_agency_than_the_configured_one_is_refused(cards: dict[str, str]) -> None:
    """Samples do not go to an organisation with another name than the operator typed."""
    del cards
    shutil.rmtree("C")
    made(*CENSUS[:4], *("--organisation", "statistic", *CENSUS[6:]))
    other = made("keys", "card", "--home", "C", "--to", "other.card")
    outcome = register("H", "other.card", other["fingerprint"])
    assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE")
    assert "statistic" in outcome.error["text"]
    assert "config.toml" in outcome.error["hint"]
    assert made("keys", "list", "--home", "H")["peers"] == []


def test_an_auditor_keeps_the_oldest_card_that_others_follow(cards: dict[str, str]) -> None:
    """The log is judged from there; an unrelated card needs --replace."""
    assert register("A", "statistics.card", cards["statistics"]).code == 0
    made("keys", "rotate", "--home", "C", "answer")
    newer = made("keys", "card", "--home", "C", "--to", "newer.card")["fingerprint"]
    assert register("A", "newer.card", newer).code == 0
    trusted = Path("A/trust/census-statistics.card")
    assert trusted.read_bytes() == Path("statistics.card").read_bytes()
    shutil.rmtree("C")
    made(*CENSUS)
    fresh = made("keys", "card", "--home", "C", "--to", "fresh.card")["fingerprint"]
    assert register("A", "fresh.card", fresh).error["code"] == "CARD_UNRELATED"
    words = ("auditor", "register", "--home", "A", "fresh.card", "--fingerprint", fresh, "--replace")
    assert made(*words)["fingerprint"] == fresh
    assert trusted.read_bytes() == Path("fresh.card").read_bytes()
