"""`health relink` and `census relink`: two agencies change the key that links them, nodes up, killed wherever it hurts."""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, make, persons, run, run_here, run_words, wait_until

from broker_common.agency.linkage import NextKey
from broker_common.crypto.linkage import LinkageChain
from broker_common.errors import BrokerError
from health_node.assembly import HealthHome

pytestmark = pytest.mark.process

CRASHING_COMMAND = Path(__file__).with_name("crashing_node.py")
MAX_BELIEF = "0." + "9" * 26
POPULATION = 400
# Farther out than noise at scale 1 goes but once in some 10**17 draws.
FAR = 40
FRUITLESS_SECONDS = 1.0
OTHER = {"health": "census", "census": "health"}
FOLDER = {"health": "people", "census": "registries"}
SUFFIX = {"health": ".people", "census": ".npz"}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Serving, with the budget for many precise answers."""
    deployment = make(
        tmp_path_factory.mktemp("linkage") / "deployment", "--max-belief", MAX_BELIEF, population=POPULATION
    )
    with deployment.node("census"), deployment.node("health"):
        yield deployment


def key_file(deployment: Deployment, role: str) -> Path:
    """An agency's linkage keys."""
    return deployment.home(role) / "keys" / "linkage.key"


def relink(deployment: Deployment, role: str, *words: str | Path) -> Outcome:
    """Change the key at one agency."""
    return run_here(role, "relink", "--home", deployment.home(role), "--json", *words)


def take(deployment: Deployment, role: str) -> dict[str, Any]:
    """One agency takes the key of the other, brought on a stick."""
    stick = deployment.directory / "stick"
    shutil.copyfile(key_file(deployment, OTHER[role]), stick)
    return relink(deployment, role, "--key-file", stick).result


def loads(deployment: Deployment) -> list[dict[str, Any]]:
    """Stores in the health node's log. Rosters are logged beside them, whenever they are sent."""
    return [event for event in deployment.events("health") if event["type"] in {"loaded", "relinked"}]


def chain(deployment: Deployment, role: str) -> str:
    """The chain in force, as the log has it."""
    chains = [event["linkage"] for event in deployment.events(role) if event["type"] in {"loaded", "relinked"}]
    return str(chains[-1])


def verify_count(deployment: Deployment, question: str = "all") -> None:
    """The answer is that of plain Python on the sources, up to noise: a wrong chain links nobody."""
    linked = deployment.people()
    true = persons(person for person in linked if question == "all" or person["mother_tongue"] == "French")
    assert len(linked) > 3 * FAR
    (answer,) = deployment.ask_all([("age >= 0", question)], scale=1)
    assert abs(getattr(answer, "noisy_count", -1000) - true) <= FAR, answer


def verify_not_answered(deployment: Deployment) -> None:
    """A question now waits for its roster, or is refused where the roster in force is of another chain; nothing is charged."""
    before = deployment.charged_status()
    (ended,) = deployment.ask_all([("age >= 0", "all")], scale=1, wait_seconds=FRUITLESS_SECONDS)
    assert isinstance(ended, BrokerError)
    assert ended.code in {"ANSWER_PENDING", "PEER_UNAVAILABLE", "ROSTER_NOT_IN_FORCE"}
    assert deployment.charged_status() == before


def finding_of_roster(deployment: Deployment) -> dict[str, str]:
    """`doctor`'s finding about the roster at the health agency."""
    report = run_here("doctor", "--home", deployment.home("health"), "--json").json
    (found,) = (each for each in report["findings"] if each["check"] == "roster")
    return dict(found)


def verify_operator_is_told(deployment: Deployment) -> None:
    """That the census node refuses the roster, why, and what to compare: by `status` and by `doctor`."""
    wait_until(
        lambda: deployment.json("health", "status")["roster"]["refused"] == "LINKAGE_MISMATCH", "the roster's refusal"
    )
    shown = run_here("health", "status", "--home", deployment.home("health")).stdout
    for word in ("LINKAGE_MISMATCH", "id_form", "When the two chains differ"):
        assert word in shown
    found = finding_of_roster(deployment)
    assert found["level"] == "problem"
    assert "LINKAGE_MISMATCH" in found["text"]
    assert "When the two chains differ" in found["remedy"]


def verify_ledger(deployment: Deployment) -> None:
    """Once what waited for its roster is at its end, too."""
    deployment.wait_until_closed()
    deployment.verify_ledger()


@pytest.mark.parametrize("first", ["health", "census"])
def test_two_agencies_change_the_key_while_their_nodes_serve(deployment: Deployment, first: str) -> None:
    """One makes the key, the other takes it; in between nothing is answered or charged, afterwards counts are the same."""
    second, before = OTHER[first], chain(deployment, first)
    report = relink(deployment, first, "--new-key")
    made = report.result
    assert list(made) == ["linkage", "previous", "load", "people"]
    assert made["previous"] == before != made["linkage"]
    assert "Changing the linkage key: 100 %" in report.stderr
    assert key_file(deployment, first).stat().st_mode & 0o777 == 0o600
    verify_not_answered(deployment)
    taken = take(deployment, second)
    assert (taken["linkage"], taken["previous"]) == (made["linkage"], before)
    assert key_file(deployment, first).read_bytes() == key_file(deployment, second).read_bytes()
    verify_count(deployment)
    verify_count(deployment, FRENCH)
    # A later load from the source comes under the whole chain. No question stands for an older load any more.
    deployment.wait_until_closed()
    for role in OTHER:
        deployment.json(role, "load")
        assert chain(deployment, role) == made["linkage"]
    verify_count(deployment)
    for role, folder in FOLDER.items():
        assert len(list((deployment.home(role) / folder).iterdir())) == 1
    verify_ledger(deployment)


@pytest.mark.parametrize("role", ["health", "census"])
def test_key_in_force_is_not_taken_again(deployment: Deployment, role: str) -> None:
    """Exit 3, typed, and nothing is changed; without a key to take there is nothing to do either."""
    deployment.wait_until_still()
    held, log = key_file(deployment, role).read_bytes(), deployment.events(role)
    for words in (("--key-file", key_file(deployment, OTHER[role])), ("--key-file", deployment.directory / "none"), ()):
        outcome = relink(deployment, role, *words)
        assert (outcome.code, outcome.error["code"]) == (3, "RELINK_REFUSED")
        assert "still in force" in outcome.error["hint"]
    assert relink(deployment, role, "--new-key", "--key-file", "x").code == 2
    assert key_file(deployment, role).read_bytes() == held
    assert deployment.events(role) == log


def foreign_files(deployment: Deployment, role: str) -> dict[str, str]:
    """Key files that are not the other agency's way on from here, by what is wrong with them."""
    stranger = f"secret linkage {base64.b64encode(bytes(32)).decode()}\n"
    own = key_file(deployment, role).read_text()
    begun_elsewhere = "".join([stranger, *own.splitlines(keepends=True)[1:], stranger.replace("AAAA", "BAAA", 1)])
    return {"one line of another chain": stranger, "another first key": begun_elsewhere}


@pytest.mark.parametrize("role", ["health", "census"])
def test_a_foreign_key_file_does_not_part_the_two_chains_for_ever(deployment: Deployment, role: str) -> None:
    """Refused with the names of both chains and the way out; keys and log are as they were, and questions are answered."""
    deployment.wait_until_still()
    held, log, name = key_file(deployment, role).read_bytes(), deployment.events(role), chain(deployment, role)
    for what, content in foreign_files(deployment, role).items():
        stick = deployment.directory / "stick"
        stick.write_text(content)
        outcome = relink(deployment, role, "--key-file", stick)
        assert (outcome.code, outcome.error["code"]) == (3, "RELINK_REFUSED"), what
        assert name in outcome.error["text"]
        assert LinkageChain.parse_text(content).chain_id in outcome.error["text"]
        assert "When the two chains differ" in outcome.error["hint"]
    assert key_file(deployment, role).read_bytes() == held
    assert deployment.events(role) == log
    verify_count(deployment)


@pytest.mark.parametrize("parted", ["began with different keys", "both made a key"])
def test_chains_that_have_come_apart_are_mended_at_the_health_agency(tmp_path: Path, parted: str) -> None:
    """Homes of two `init`s, or two new keys: the health agency takes the census agency's file, loads again, and people link."""
    deployment = make(tmp_path / "deployment", "--max-belief", MAX_BELIEF, population=POPULATION)
    people = deployment.home("health") / "people.csv"
    if parted == "both made a key":
        with deployment.node("census"), deployment.node("health"):
            verify_count(deployment, FRENCH)
        for role in OTHER:
            assert relink(deployment, role, "--new-key").code == 0
    else:
        other = make(tmp_path / "other", population=POPULATION)
        key_file(deployment, "health").write_bytes(key_file(other, "health").read_bytes())
        stranger = LinkageChain.parse_text(key_file(other, "health").read_text())
        HealthHome(deployment.home("health")).reload(people, NextKey())
        assert chain(deployment, "health") == stranger.chain_id
        # Its own first chain, which this home has had by the way it was made, does not come back.
        back = relink(deployment, "health", "--key-file", key_file(deployment, "census"), "--reload", people)
        assert back.error["code"] == "RELINK_REFUSED"
        assert "census relink --new-key" in back.error["hint"]
        assert relink(deployment, "census", "--new-key").code == 0
    with deployment.node("census"), deployment.node("health"):
        verify_not_answered(deployment)
        verify_operator_is_told(deployment)
        for role, giver in OTHER.items():
            refused = relink(deployment, role, "--key-file", key_file(deployment, giver))
            assert refused.error["code"] == "RELINK_REFUSED"
        census = key_file(deployment, "census")
        # A source that cannot be loaded leaves everything as it was.
        before = key_file(deployment, "health").read_bytes(), loads(deployment)
        wrong = relink(deployment, "health", "--key-file", census, "--reload", deployment.home("census") / "people.csv")
        assert wrong.error["code"] == "LOAD_REFUSED"
        assert (key_file(deployment, "health").read_bytes(), loads(deployment)) == before
        mended = relink(deployment, "health", "--key-file", census, "--reload", people).result
        assert mended["linkage"] == chain(deployment, "census") == chain(deployment, "health")
        assert key_file(deployment, "health").read_bytes() == census.read_bytes()
        verify_count(deployment, FRENCH)
        again = relink(deployment, "health", "--key-file", census, "--reload", people)
        assert again.error["code"] == "RELINK_REFUSED"
        assert relink(deployment, "health", "--new-key", "--reload", people).code == 2
        assert deployment.json("health", "status")["roster"]["refused"] == ""
        assert finding_of_roster(deployment)["level"] == "ok"
        verify_ledger(deployment)


def test_before_anything_is_charged_the_census_agency_begins_again_with_the_others_chain(tmp_path: Path) -> None:
    """Two homes that began with different keys: either side may give way, until the first charge; an audit on site holds."""
    deployment = make(
        tmp_path / "deployment", "--max-belief", MAX_BELIEF, population=POPULATION, accounting="per_person"
    )
    census, health = key_file(deployment, "census"), key_file(deployment, "health")
    health_people = deployment.home("health") / "people.csv"
    other = make(tmp_path / "other", population=10)
    relink(deployment, "health", "--key-file", key_file(other, "health"), "--reload", health_people).result  # noqa: B018
    refused = relink(deployment, "census", "--key-file", health)
    assert refused.error["code"] == "RELINK_REFUSED"
    assert "When the two chains differ" in refused.error["hint"]
    # A source with people who have no number yet changes nothing.
    source = deployment.home("census") / "people.csv"
    more = tmp_path / "more.csv"
    rows = source.read_text().splitlines()
    at = rows[0].split(",").index("person_id")
    new = next(row for row in rows[1:] if row.split(",")[rows[0].split(",").index("health_card")]).split(",")
    new[at] = "somebody-new"
    more.write_text("\n".join([rows[0], ",".join(new), *rows[1:]]) + "\n")
    before = census.read_bytes(), deployment.events("census")
    assert relink(deployment, "census", "--key-file", health, "--reload", more).error["code"] == "LOAD_REFUSED"
    assert (census.read_bytes(), deployment.events("census")) == before
    # The source in the home has everybody.
    begun = relink(deployment, "census", "--key-file", health, "--reload").result
    assert begun["linkage"] == chain(deployment, "health") == chain(deployment, "census")
    assert census.read_bytes() == health.read_bytes()
    assert relink(deployment, "census", "--new-key", "--reload").code == 2
    with deployment.node("census"), deployment.node("health"):
        verify_count(deployment, FRENCH)
        verify_ledger(deployment)
    # From here on charges stand under this chain.
    before = census.read_bytes(), deployment.events("census")
    late = relink(deployment, "census", "--key-file", key_file(other, "census"), "--reload")
    assert late.error["code"] == "RELINK_REFUSED"
    assert "something was charged" in late.error["text"]
    assert "tripartite health relink --key-file FILE --reload" in late.error["hint"]
    assert (census.read_bytes(), deployment.events("census")) == before
    for role in ("researcher", "health", "census"):
        words = ("--home", deployment.home(role), "--to", tmp_path / "exports" / role)
        assert run_here("audit", "export", *words).code == 0
    on_site = ("--on-site", deployment.home("census"), "--json")
    home = ("--home", deployment.home("auditor"))
    verdict = run_here("audit", "replay", tmp_path / "exports", *home, *on_site).result
    assert (verdict["verified"], verdict["problems"]) == (True, [])
    assert not any("linkage keys" in text for text in verdict["not_checked"])


def test_both_agencies_say_which_chain_is_in_force(deployment: Deployment) -> None:
    """So that two operators can compare over the telephone, before and after a change."""
    assert deployment.json("health", "status")["linkage"] == chain(deployment, "health")
    for role in OTHER:
        assert chain(deployment, role) in deployment.run(role, "status").stdout


@pytest.mark.parametrize("role", ["health", "census"])
def test_lost_key_is_asked_for_by_the_name_of_its_chain(deployment: Deployment, role: str) -> None:
    """A file that does not hold what the log names loads nobody and changes nothing."""
    file = key_file(deployment, role)
    held = file.read_text()
    file.write_text("secret linkage " + "A" * 43 + "=\n")
    for words in (("relink", "--new-key"), ("load",)):
        outcome = run_here(role, words[0], "--home", deployment.home(role), "--json", *words[1:])
        assert (outcome.code, outcome.error["code"]) == (3, "LINKAGE_KEY_MISSING")
        assert chain(deployment, role) in outcome.error["text"]
    file.write_text(held)


def test_the_operator_is_told_which_file_to_bring(deployment: Deployment) -> None:
    """People who do not read JSON are told where the key is and what the other agency types."""
    said = run("health", "relink", "--home", deployment.home("health"), "--new-key")
    assert said.code == 0
    assert str(key_file(deployment, "health")) in said.stdout
    assert "tripartite census relink --home HOME --key-file FILE" in said.stdout
    assert chain(deployment, "health") in said.stdout
    said = run("census", "relink", "--home", deployment.home("census"), "--key-file", key_file(deployment, "health"))
    assert said.code == 0
    verify_count(deployment)


@pytest.mark.parametrize(
    ("step", "when"),
    [
        (".key", "before"),
        (".key", "after"),
        ("store", "before"),
        ("store", "after"),
        ("relinked", "before"),
        ("relinked", "after"),
    ],
)
@pytest.mark.parametrize("role", ["health", "census"])
def test_killed_change_leaves_one_store_whole_and_is_gone_on_with(
    deployment: Deployment, role: str, step: str, when: str
) -> None:
    """Before its last step the old store stands and serves; after it the new one does; no key is made twice."""
    deployment.wait_until_closed()
    before, keys = chain(deployment, role), len(key_file(deployment, role).read_text().splitlines())
    words = (role, "relink", "--home", deployment.home(role), "--new-key")
    durable = SUFFIX[role] if step == "store" else step
    assert run_words(sys.executable, CRASHING_COMMAND, durable, when, *words).code == -9
    done = (step, when) == ("relinked", "after")
    if done:
        verify_not_answered(deployment)
    else:
        assert chain(deployment, role) == before
        verify_count(deployment)
        deployment.wait_until_closed()
        # A load in between goes by the log, whatever the key file holds already.
        deployment.json(role, "load")
        assert relink(deployment, role, "--new-key").result["previous"] == before
    assert len(key_file(deployment, role).read_text().splitlines()) == keys + 1
    assert chain(deployment, role) != before
    assert take(deployment, OTHER[role])["linkage"] == chain(deployment, role)
    verify_count(deployment)
    verify_ledger(deployment)
    # Nothing of the attempt is left but what the next change sweeps away.
    assert not list((deployment.home(role) / "keys").glob(".*"))
    assert len(list((deployment.home(role) / FOLDER[role]).iterdir())) == (2 if done else 1)
