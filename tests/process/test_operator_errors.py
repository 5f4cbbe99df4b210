"""Faults when an operator runs a command: each has its own code, and a hint that names the next step.

The homes are copies of one deployment, each with one thing wrong. A refused command logs nothing.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.deployment import Deployment, Outcome, make, run_here
from fakes.homes import address_of, move
from fakes.patience import PATIENCE_SECONDS

from broker_common.crypto.linkage import LinkageChain, LinkageKey

pytestmark = pytest.mark.process

Spoil = Callable[[Deployment], object]
AGENCIES = ("census", "health")
STORES = {"census": "registries", "health": "people"}
ANOTHER_LINKAGE_KEY = LinkageChain([LinkageKey(bytes(32))]).to_text()
REFUSES_TO_START = "'When a node refuses to start' in docs/recover.md"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Nothing is wrong with it, and nobody uses it."""
    return make(tmp_path_factory.mktemp("sound") / "deployment", population=100)


@pytest.fixture
def copy(sound: Deployment, tmp_path: Path) -> Deployment:
    """A deployment to spoil."""
    made = Deployment(Path(shutil.copytree(sound.directory, tmp_path / "deployment")))
    # It has its own ports, so that nothing else is in the way.
    move(made.directory)
    return made


def nothing(_: Deployment) -> None:
    """Everything is as it should be."""


def without(role: str, name: str) -> Spoil:
    """A file that is not there."""
    return lambda deployment: (deployment.home(role) / name).unlink()


def holding(role: str, name: str, content: bytes) -> Spoil:
    """A file that holds something else."""
    return lambda deployment: (deployment.home(role) / name).write_bytes(content)


def key_of(role: str, name: str, other: str) -> Spoil:
    """A sound key of another purpose or party in a key's place."""

    def spoil(deployment: Deployment) -> None:
        keys = deployment.home(role) / "keys"
        shutil.copy(keys.parent.parent / other, keys / name)

    return spoil


def damaged(role: str) -> Spoil:
    """Some pages of the journal are noise."""

    def spoil(deployment: Deployment) -> None:
        path = deployment.home(role) / "journal.db"
        content = bytearray(path.read_bytes())
        content[4096 : 4096 * 3] = bytes(range(256)) * 32
        path.write_bytes(content)

    return spoil


def shortened(role: str) -> Spoil:
    """The store of the load in force has lost its end."""

    def spoil(deployment: Deployment) -> None:
        for path in (deployment.home(role) / STORES[role]).iterdir():
            path.write_bytes(path.read_bytes()[:-500])

    return spoil


def setting(role: str, old: str, new: str) -> Spoil:
    """Another line in config.toml."""

    def spoil(deployment: Deployment) -> None:
        path = deployment.home(role) / "config.toml"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return spoil


def address(role: str, new: str) -> Spoil:
    """The node is to listen somewhere else."""
    return lambda deployment: setting(role, f'address = "{address_of(deployment.home(role))}"', f'address = "{new}"')(
        deployment
    )


@dataclass(frozen=True)
class Case:
    """The fault, the command, and what it says. HOME and DIR in the command stand for the role's home and all homes."""

    spoil: Spoil
    command: str
    exit_code: int
    code: str
    named: tuple[str, ...] = field(default=())


def each(role: str) -> dict[str, Case]:
    """Cases of either agency."""
    other = "health" if role == "census" else "census"
    return {
        f"{role}: no home": Case(
            nothing, f"{role} serve --home DIR/nobody", 3, "HOME_INVALID", ("tripartite init DIR",)
        ),
        f"{role}: the folder of all homes": Case(
            nothing, f"{role} status --home DIR", 3, "HOME_INVALID", ("Give one of the homes in it", f"/{role}")
        ),
        f"{role}: the other agency's home": Case(
            nothing,
            f"{role} serve --home DIR/{other}",
            3,
            "HOME_INVALID",
            (f'says role = "{other}"', f"tripartite {other}"),
        ),
        f"{role}: an unknown setting": Case(
            setting(role, "role =", "colour = 3\nrole ="),
            f"{role} status --home HOME",
            3,
            "CONFIG_INVALID",
            ("`colour`", "'Settings' in docs/settings.md", "deploy/samples"),
        ),
        f"{role}: journal missing": Case(
            without(role, "journal.db"),
            f"{role} serve --home HOME",
            3,
            "HOME_INVALID",
            ("journal.db is missing", "Never go on with a new one", REFUSES_TO_START),
        ),
        f"{role}: journal emptied": Case(
            holding(role, "journal.db", b""), f"{role} serve --home HOME", 7, "INTEGRITY", (REFUSES_TO_START,)
        ),
        f"{role}: journal no database": Case(
            holding(role, "journal.db", b"rubbish" * 1000),
            f"{role} status --home HOME",
            7,
            "INTEGRITY",
            ("the database file is damaged", REFUSES_TO_START),
        ),
        f"{role}: journal damaged": Case(
            damaged(role), f"{role} serve --home HOME", 7, "INTEGRITY", ("damaged", REFUSES_TO_START)
        ),
        f"{role}: log key missing": Case(
            without(role, "keys/log.key"),
            f"{role} serve --home HOME",
            3,
            "SECRET_MISSING",
            ("file:keys/log.key", "Put the key back", "[keys] in config.toml", "tripartite keys list"),
        ),
        f"{role}: TLS key missing": Case(
            without(role, "keys/tls.key"), f"{role} serve --home HOME", 3, "SECRET_MISSING", ("file:keys/tls.key",)
        ),
        f"{role}: another's TLS key": Case(
            key_of(role, "tls.key", f"{other}/keys/tls.key"),
            f"{role} serve --home HOME",
            3,
            "SECRET_MISSING",
            ("none of the keys there is the one that is needed", "another key cannot replace it"),
        ),
        f"{role}: linkage key missing": Case(
            without(role, "keys/linkage.key"), f"{role} load --home HOME", 3, "SECRET_MISSING", ("linkage.key",)
        ),
        f"{role}: another linkage key": Case(
            holding(role, "keys/linkage.key", ANOTHER_LINKAGE_KEY.encode()),
            f"{role} load --home HOME",
            3,
            "LINKAGE_KEY_MISSING",
            ("one per line, oldest first",),
        ),
        f"{role}: no such port": Case(
            address(role, "nowhere.invalid:1"),
            f"{role} serve --home HOME",
            4,
            "PORT_TAKEN",
            ("change address in config",),
        ),
        f"{role}: a file that is not there": Case(
            nothing, f"{role} load --home HOME DIR/none.csv", 3, "LOAD_REFUSED", ("Check the path", "still in force")
        ),
        f"{role}: the other agency's file": Case(
            nothing,
            f"{role} load --home HOME DIR/{other}/people.csv",
            3,
            "LOAD_REFUSED",
            ("It must have: health_card",),
        ),
        f"{role}: a file cut short": Case(
            lambda deployment: cut(deployment.home(role) / "people.csv"),
            f"{role} load --home HOME",
            3,
            "LOAD_REFUSED",
            ("ends in the middle of a row", "Write it again"),
        ),
        f"{role}: a release without a name": Case(
            nothing,
            f"{role} load --home HOME --release \n",
            2,
            "USAGE",
            ("--release", f"tripartite {role} load --help"),
        ),
        f"{role}: relink without a key": Case(
            nothing, f"{role} relink --home HOME", 3, "RELINK_REFUSED", ("--new-key", "--key-file")
        ),
        f"{role}: relink with the key there is": Case(
            nothing,
            f"{role} relink --home HOME --key-file DIR/{other}/keys/linkage.key",
            3,
            "RELINK_REFUSED",
            ("the other agency's newest key", "still in force"),
        ),
        f"{role}: revoke a stranger": Case(
            nothing,
            f"{role} revoke --home HOME researcher nobody --reason gone",
            3,
            "NOT_REGISTERED",
            ("researcher nobody", "tripartite keys list"),
        ),
        f"{role}: revoke without a reason": Case(
            nothing, f"{role} revoke --home HOME researcher researcher-1 --reason \n", 3, "INVALID_VALUE", ("--reason",)
        ),
        f"{role}: register what is no card": Case(
            nothing,
            f"{role} register --home HOME DIR/{role}/config.toml --project p",
            3,
            "CARD_UNREADABLE",
            ("tripartite keys card --to FILE",),
        ),
        f"{role}: register one's own agency": Case(
            nothing,
            f"{role} register --home HOME DIR/auditor/trust/{role}-{role}-agency.card",
            3,
            "INVALID_VALUE",
            (f"that of the {role} agency", "Give the card of a researcher"),
        ),
        f"{role}: another fingerprint": Case(
            nothing,
            f"{role} register --home HOME DIR/auditor/trust/researcher-researcher-1.card --project p --fingerprint {'0' * 64}",
            3,
            "FINGERPRINT_MISMATCH",
            ("Nothing was registered",),
        ),
        f"{role}: a project that is no name": Case(
            nothing,
            f"{role} register --home HOME --researcher researcher-1 --project P_P",
            3,
            "INVALID_VALUE",
            ("small letters, digits and hyphens",),
        ),
        f"{role}: rotate what is no key": Case(
            nothing,
            "keys rotate --home HOME linkage",
            3,
            "INVALID_VALUE",
            (f"'{role} relink'", "It is one of: identity"),
        ),
        f"{role}: rotate without the identity key": Case(
            without(role, "keys/identity.key"), "keys rotate --home HOME tls", 3, "SECRET_MISSING", ("identity.key",)
        ),
        f"{role}: a card to nowhere": Case(
            nothing, "keys card --home HOME --to DIR/none/x.card", 3, "FILE_UNUSABLE", ("Check the path",)
        ),
    }


def cut(path: Path) -> None:
    """As a copy that was interrupted leaves a file."""
    path.write_bytes(path.read_bytes()[:-15])


CASES: dict[str, Case] = {
    **each("census"),
    **each("health"),
    "census: answer key missing": Case(
        without("census", "keys/answer.key"), "census serve --home HOME", 3, "SECRET_MISSING", ("answer.key",)
    ),
    "census: sample key missing": Case(
        without("census", "keys/sample.key"), "census serve --home HOME", 3, "SECRET_MISSING", ("sample.key",)
    ),
    "health: manifest key missing": Case(
        without("health", "keys/manifest.key"), "health serve --home HOME", 3, "SECRET_MISSING", ("manifest.key",)
    ),
    "health: sampling key missing": Case(
        without("health", "keys/sampling.key"), "health serve --home HOME", 3, "SECRET_MISSING", ("sampling.key",)
    ),
    "census: store damaged": Case(shortened("census"), "census serve --home HOME", 7, "INTEGRITY", ("store of load",)),
    "health: store damaged, to serve": Case(
        shortened("health"), "health serve --home HOME", 7, "INTEGRITY", ("store of load",)
    ),
    "health: store damaged": Case(
        shortened("health"), "health status --home HOME", 7, "INTEGRITY", (REFUSES_TO_START,)
    ),
    "census: propose without the policy key": Case(
        without("census", "keys/policy.key"),
        "census policy propose --home HOME --max-belief 0.7",
        3,
        "KEY_MISSING",
        ("private policy key", "for this one command", "policy under [keys]"),
    ),
    "census: shut down without the operator key": Case(
        without("census", "keys/operator.key"),
        "census shutdown --home HOME --reason drill",
        3,
        "KEY_MISSING",
        ("private operator key", "operator under [keys]"),
    ),
    "census: shut down with the policy key": Case(
        key_of("census", "operator.key", "census/keys/policy.key"),
        "census shutdown --home HOME --reason drill",
        3,
        "KEY_MISSING",
        ("not a key of the kind expected",),
    ),
    "census: reopen what is open": Case(
        nothing, "census reopen --home HOME --reason drill", 4, "NOT_SHUT_DOWN", ("tripartite census status",)
    ),
    "census: propose nothing": Case(
        nothing, "census policy propose --home HOME", 4, "POLICY_IN_FORCE", ("tripartite census policy propose --help",)
    ),
    "census: propose no limit": Case(
        nothing, "census policy propose --home HOME --max-belief 80%", 3, "INVALID_VALUE", ('plain digits like "0.8"',)
    ),
    "census: adopt nobody's proposal": Case(
        nothing, f"census policy adopt --home HOME {'0' * 64}", 3, "INVALID_VALUE", ("'census policy propose' said",)
    ),
    "researcher: an agency's home": Case(
        nothing, "researcher quote --home DIR/census", 3, "HOME_INVALID", ('says role = "census"',)
    ),
    "researcher: create over a home": Case(
        nothing,
        "researcher create --home DIR/census --id a --organisation o --project p --health h:1 --census c:1",
        3,
        "HOME_INVALID",
        ("not empty", "new or empty"),
    ),
    "researcher: create without a port": Case(
        nothing,
        "researcher create --home DIR/new --id a --organisation o --project p --health h --census c:1",
        2,
        "USAGE",
        ("HOST:PORT",),
    ),
    "researcher: an agency that is not registered": Case(
        without("researcher", "trust/census.card"),
        "researcher quote --home DIR/researcher",
        3,
        "NOT_REGISTERED",
        ("the census agency", "tripartite researcher register"),
    ),
    "researcher: register a researcher": Case(
        nothing,
        "researcher register --home DIR/researcher DIR/auditor/trust/researcher-researcher-1.card",
        3,
        "INVALID_VALUE",
        ("that of a researcher", "Give the card of the health agency or the census agency"),
    ),
    "auditor: keys of a home without any": Case(
        nothing, "keys list --home DIR/auditor", 3, "HOME_INVALID", ("an auditor has no keys",)
    ),
    "init over something": Case(nothing, "init DIR", 3, "HOME_INVALID", ("not empty", "new or empty")),
}


def run_case(deployment: Deployment, case: Case, role: str) -> Outcome:
    """The case's command, in this process."""
    words = [
        word.replace("DIR", str(deployment.directory)).replace("HOME", str(deployment.home(role)))
        for word in case.command.split(" ")
    ]
    return run_here(*words, "--json") if "serve" not in words else run_here(*words)


# A node that starts all the same would serve until somebody ends it.
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said_with_what_to_do_next(copy: Deployment, name: str) -> None:
    """The code tells it from everything else, text and hint name the thing and the next step, and nothing is logged."""
    case, role = CASES[name], name.partition(":")[0]
    before = {agency: copy.events(agency) for agency in AGENCIES}
    case.spoil(copy)
    outcome = run_case(copy, case, role)
    if "serve" in case.command.split():
        assert outcome.code == case.exit_code, outcome
        assert outcome.stderr.endswith(f"[{case.code}]\n"), outcome
        said = outcome.stderr
    else:
        assert (outcome.code, outcome.error["code"]) == (case.exit_code, case.code), outcome
        said = outcome.error["text"] + " " + outcome.error["hint"]
    for words in case.named:
        assert words in said, outcome
    assert "Traceback" not in outcome.stderr
    for agency in AGENCIES:
        if "journal" not in name or agency != role:
            assert copy.events(agency) == before[agency]


@pytest.fixture
def serving(copy: Deployment) -> Iterator[Deployment]:
    """The census node runs."""
    with copy.node("census"):
        yield copy


def test_a_home_is_served_once(serving: Deployment) -> None:
    """A second node for the same home ends at once and leaves the first one alone."""
    outcome = run_here("census", "serve", "--home", serving.home("census"))
    assert outcome.code == 4
    assert "[ALREADY_RUNNING]" in outcome.stderr
    assert "Stop it first" in outcome.stderr
    assert str(serving.home("census")) in outcome.stderr


def test_a_port_has_one_owner(copy: Deployment) -> None:
    """Somebody else listens where the node is to listen."""
    host, _, port = address_of(copy.home("health")).rpartition(":")
    with socket.create_server((host, int(port))):
        outcome = run_here("health", "serve", "--home", copy.home("health"))
    assert outcome.code == 4
    assert "[PORT_TAKEN]" in outcome.stderr
    assert f"{host}:{port}" in outcome.stderr
    assert "change address in config.toml" in outcome.stderr


def test_a_proposal_that_was_altered_is_not_adopted(copy: Deployment) -> None:
    """Under its own hash it is refused by its signature; a weaker one is refused with what it takes."""
    home = copy.home("census")
    made = run_here("census", "policy", "propose", "--home", home, "--max-belief", "0.9", "--json").result
    adopt = ("census", "policy", "adopt", "--home", home, made["policy_hash"], "--json")
    weaker = run_here(*adopt)
    assert (weaker.code, weaker.error["code"]) == (4, "POLICY_WEAKER")
    assert "--confirm --reason" in weaker.error["hint"]
    file = Path(made["file"])
    file.write_text(file.read_text().replace("0.9", "0.7"))
    altered = run_here(*adopt)
    assert (altered.code, altered.error["code"]) == (3, "BAD_SIGNATURE")
    assert "Ask its signer to send it again" in altered.error["hint"]
    assert copy.json("census", "status")["max_belief"] == "0.8"


@pytest.mark.parametrize(("role", "name"), [("census", "answer"), ("health", "manifest")])
def test_a_key_that_vanishes_under_a_serving_node_costs_nothing(copy: Deployment, role: str, name: str) -> None:
    """Nothing is charged for an answer that cannot be signed, peers are not told which file is missing, and nothing is lost."""
    with copy.node("census"), copy.node("health"):
        key = copy.home(role) / "keys" / f"{name}.key"
        content = key.read_bytes()
        key.unlink()
        outcome = copy.ask("age >= 65", "all", "--wait", "1")
        assert outcome.code == 5
        assert key.name not in outcome.stdout + outcome.stderr
        assert copy.json("census", "status")["answers"] == 0
        key.write_bytes(content)
        kept = copy.json("researcher", "answers")["answers"]
        # Without its answer key the census node signs no quote, and nothing was asked.
        assert len(kept) == (name != "answer")
        words = ["--again", kept[0]["query_id"]] if kept else ["--where", "age >= 65", "--count", "all"]
        assert copy.run("researcher", "ask", *words, "--json").result["charged"]
    copy.verify_ledger()
