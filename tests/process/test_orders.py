"""The operator's commands beside running nodes: what they change is what the next question meets, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, Outcome, make, run, run_here, run_words, wait_until
from fakes.patience import PATIENCE_SECONDS

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, InvalidRequestError
from researcher_node.answers.store import AskedQuestion
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

pytestmark = pytest.mark.process

CRASHING_NODE = Path(__file__).with_name("crashing_node.py")
EVERYBODY = Wanted("age >= 0", FRENCH, Precision(30), 1_000_000, "official-languages")
PRICE_30 = 559_241


@pytest.fixture
def stopped(tmp_path: Path) -> Deployment:
    """A deployment whose nodes do not run, under a limit of 0.7."""
    return make(tmp_path / "deployment", "--max-belief", "0.7", population=10)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """All nodes; every test of it leaves the service open."""
    deployment = make(tmp_path_factory.mktemp("orders") / "deployment", population=200)
    with deployment.nodes():
        yield deployment


def census(deployment: Deployment, *words: str | Path) -> Outcome:
    """A command of the census operator, with --json."""
    return run_here("census", *words, "--home", deployment.home("census"), "--json")


def propose(deployment: Deployment, *words: str) -> str:
    """The hash of a new proposal."""
    policy_hash = census(deployment, "policy", "propose", *words).result["policy_hash"]
    assert isinstance(policy_hash, str)
    return policy_hash


def adopt(deployment: Deployment, *words: str) -> str:
    """Propose and adopt, confirmed where that is needed; gives the hash."""
    proposal = census(deployment, "policy", "propose", *words).result
    confirm = ("--confirm", "--reason", "a drill") if proposal["weaker"] else ()
    adopted = census(deployment, "policy", "adopt", proposal["policy_hash"], *confirm).result
    assert adopted["policy_hash"] == proposal["policy_hash"] == deployment.json("census", "status")["policy_hash"]
    return str(proposal["policy_hash"])


def log_of(deployment: Deployment) -> list[dict[str, Any]]:
    """The census log."""
    return deployment.events("census")


# --- proposals and adoption --------------------------------------------------------------------------------------------


PROPOSED = [
    *("policy_hash", "key_id", "file", "changes", "max_belief", "param", "cap", "scale", "quota_bytes", "answers_left"),
    *("shuts_down", "weaker", "warnings"),
]


def test_a_proposal_says_what_it_means_and_changes_nothing(stopped: Deployment) -> None:
    """Hash, changes and consequences; the log, the policy in force and the budget are as before."""
    before = (log_of(stopped), stopped.json("census", "policy"))
    result = census(stopped, "policy", "propose", "--max-belief", "0.8", "--scales", "10-12,30").result
    assert list(result) == PROPOSED
    assert result["changes"] == [
        {"setting": "max_belief", "old": "0.7", "new": "0.8"},
        {"setting": "scales", "old": list(range(2, 51)), "new": [10, 11, 12, 30]},
    ]
    assert (result["cap"], result["param"], result["scale"], result["answers_left"]) == (23_258_159, 4, 30, 41)
    assert (len(result["weaker"]), result["shuts_down"]) == (1, False)
    assert "release tick 0" in result["warnings"][0]
    proposal = json.loads(Path(result["file"]).read_bytes())
    assert sorted(proposal) == ["document", "key_id", "signature"]
    assert Path(result["file"]).name == f"{result['policy_hash']}.json"
    assert (log_of(stopped), stopped.json("census", "policy")) == before
    assert census(stopped, "policy", "propose", "--max-belief", "0.7").error["code"] == "POLICY_IN_FORCE"


def test_a_stricter_policy_is_adopted_and_a_weaker_one_takes_the_operator(stopped: Deployment) -> None:
    """Exit 4 with the sentence of what is weaker; confirmed, the log holds reason and signature."""
    stricter, weaker = propose(stopped, "--max-belief", "0.6"), propose(stopped, "--max-belief", "0.75")
    assert census(stopped, "policy", "adopt", stricter[:8]).result == {
        "policy_hash": stricter,
        "state": "serving",
        "log_size": 8,
    }
    assert log_of(stopped)[-1] | {"document": "", "signature": "", "key_id": ""} == {
        "type": "adopted",
        "document": "",
        "signature": "",
        "key_id": "",
        "note": "",
        "confirmation": "",
        "confirmation_key_id": "",
    }
    before = log_of(stopped)
    refused = census(stopped, "policy", "adopt", weaker)
    assert (refused.code, refused.error["code"]) == (4, "POLICY_WEAKER")
    assert "max_belief from 0.6 to 0.75" in refused.error["text"]
    assert "--confirm --reason" in refused.error["hint"]
    needless = census(
        stopped, "policy", "adopt", propose(stopped, "--max-belief", "0.55"), "--confirm", "--reason", "x"
    )
    assert (needless.code, needless.error["code"]) == (3, "INVALID_VALUE")
    assert log_of(stopped) == before
    assert census(stopped, "policy", "adopt", weaker, "--confirm", "--reason", "a new study").result["log_size"] == 9
    adopted = log_of(stopped)[-1]
    assert (adopted["note"], bool(adopted["confirmation"])) == ("a new study", True)
    again = census(stopped, "policy", "adopt", weaker)
    assert (again.code, again.error["code"]) == (4, "POLICY_IN_FORCE")
    assert stopped.json("census", "policy")["max_belief"] == "0.75"


def test_a_policy_from_a_file_is_taken_in_any_spelling(stopped: Deployment, tmp_path: Path) -> None:
    """Written by hand, with the options on top of it; what is proposed is canonical."""
    file = tmp_path / "mine.json"
    (document,) = (json.loads(event["document"]) for event in log_of(stopped) if event["type"] == "adopted")
    file.write_text(json.dumps(document | {"open_quotes": 3}, indent=2))
    result = census(stopped, "policy", "propose", "--from", str(file), "--scales", "30").result
    assert [change["setting"] for change in result["changes"]] == ["scales", "open_quotes"]
    file.write_text(json.dumps(document | {"opne_quotes": 3}))
    refused = census(stopped, "policy", "propose", "--from", str(file))
    assert (refused.code, refused.error["code"]) == (3, "INVALID_VALUE")
    assert "opne_quotes" in refused.error["text"]


def test_a_proposal_that_was_tampered_with_is_never_adopted(stopped: Deployment, tmp_path: Path) -> None:
    """Altered, signed by another key, or not canonical: a typed error each, and nothing is logged."""
    proposal = Path(census(stopped, "policy", "propose", "--max-belief", "0.6").result["file"])
    good, before = proposal.read_bytes(), log_of(stopped)
    tree = json.loads(good)
    stranger = SigningKey(Purpose.POLICY, bytes(32))
    forged = {"signature": stranger.sign_text(tree["document"].encode()), "key_id": stranger.key_id}
    for data, code in (
        (good.replace(b"0.6", b"0.9"), "BAD_SIGNATURE"),
        (json.dumps(tree | forged, sort_keys=True, separators=(",", ":")).encode(), "INVALID_VALUE"),
        (json.dumps(tree).encode(), "INVALID_VALUE"),
        (b"", "INVALID_VALUE"),
    ):
        proposal.write_bytes(data)
        (tmp_path / "elsewhere.json").write_bytes(data)
        for named in (proposal.stem, str(tmp_path / "elsewhere.json")):
            outcome = census(stopped, "policy", "adopt", named)
            assert (outcome.code, outcome.error["code"]) == (3, code)
    assert log_of(stopped) == before


def test_keys_that_are_kept_elsewhere_are_asked_for(stopped: Deployment) -> None:
    """Without its private keys the home still serves, shows and adopts; what takes one names it and its setting."""
    keys = stopped.home("census") / "keys"
    strict, weak = propose(stopped, "--max-belief", "0.65"), propose(stopped, "--max-belief", "0.8")
    for name in ("policy.key", "operator.key"):
        (keys / name).rename(keys.parent / name)
    for words, setting in (
        (("policy", "propose", "--max-belief", "0.6"), "policy under [keys]"),
        (("policy", "adopt", weak, "--confirm", "--reason", "x"), "operator under [keys]"),
        (("shutdown", "--reason", "x"), "operator under [keys]"),
        (("reopen", "--reason", "x"), "operator under [keys]"),
    ):
        outcome = census(stopped, *words)
        assert (outcome.code, outcome.error["code"]) == (3, "KEY_MISSING")
        assert setting in outcome.error["hint"]
    assert census(stopped, "policy", "adopt", strict).code == 0
    with stopped.node("census"):
        pass


def test_a_reason_is_required_and_says_something(stopped: Deployment) -> None:
    """An auditor reads it: blank or endless is refused, before the log is opened."""
    before = log_of(stopped)
    weak = propose(stopped, "--max-belief", "0.8")
    for reason in ("", "  ", "x" * 4097):
        for words in (("shutdown",), ("reopen",), ("policy", "adopt", weak, "--confirm")):
            outcome = census(stopped, *words, "--reason", reason)
            assert (outcome.code, outcome.error["code"]) == (3, "INVALID_VALUE"), words
            assert "--reason" in outcome.error["text"]
    assert log_of(stopped) == before


# --- beside running nodes ----------------------------------------------------------------------------------------------


def test_a_running_service_is_shut_and_reopened_at_once(running: Deployment) -> None:
    """The next question is refused, quote and ticket alike, and the one after the reopening is answered."""
    before = running.json("census", "status")
    quoted = running.in_session(lambda session: session.prepare(EVERYBODY))
    assert census(running, "shutdown", "--reason", "an inspection").result["state"] == "shutdown"
    assert running.run("researcher", "quote", "--json").error["code"] == "SERVICE_SHUT_DOWN"
    # A ticket that was quoted before.
    refused = run_here("researcher", "ask", "--home", running.home("researcher"), "--again", quoted.query, "--json")
    assert (refused.code, refused.error["code"]) == (4, "SERVICE_SHUT_DOWN")
    assert running.json("census", "status")["worst_charged"] == before["worst_charged"]
    assert census(running, "reopen", "--reason", "nothing was found").result["state"] == "serving"
    again = census(running, "reopen", "--reason", "nothing was found")
    assert (again.code, again.error["code"]) == (4, "NOT_SHUT_DOWN")
    answer = running.ask("age >= 0", FRENCH)
    assert answer.result["charged"] == PRICE_30
    assert running.json("census", "status")["worst_charged"] == before["worst_charged"] + PRICE_30
    running.verify_ledger()


def test_a_ticket_quoted_under_the_policy_before_is_refused_with_a_hint(running: Deployment) -> None:
    """Between quote and submission: POLICY_MISMATCH, nothing charged; asked anew it is answered under the new policy."""

    async def work(session: Session) -> InvalidRequestError:
        # The health node knows the policy before.
        await session.ask(await session.prepare(EVERYBODY), wait_seconds=PATIENCE_SECONDS, on_stage=lambda _: None)
        asked = await session.prepare(EVERYBODY)
        charged = running.json("census", "status")["worst_charged"]
        await asyncio.to_thread(adopt, running, "--open-quotes", "63")
        with pytest.raises(InvalidRequestError) as caught:
            await session.ask(asked, wait_seconds=PATIENCE_SECONDS, on_stage=lambda _: None)
        assert running.json("census", "status")["worst_charged"] == charged
        return caught.value

    error = running.in_session(work)
    assert error.code == "POLICY_MISMATCH"
    assert "Quote again" in error.hint
    answer = running.ask("age >= 0", FRENCH).result
    assert answer["policy_hash"] == running.json("census", "status")["policy_hash"]
    running.verify_ledger()


def test_the_command_shows_the_mismatch_and_its_hint(running: Deployment) -> None:
    """`ask` ends with exit 3, the code and what to do; the question stays listed as refused."""
    quoted = running.in_session(lambda session: session.prepare(EVERYBODY))
    adopt(running, "--open-quotes", "62")
    outcome = running.run("researcher", "ask", "--again", quoted.query, "--json")
    assert (outcome.code, outcome.error["code"]) == (3, "POLICY_MISMATCH")
    assert outcome.error["hint"].startswith("Quote again")
    (row,) = running.json("researcher", "answers", quoted.query)["answers"]
    assert (row["state"], row["refused"], row["charged"]) == ("refused", "POLICY_MISMATCH", None)


def test_what_was_charged_before_an_adoption_or_a_shutdown_is_answered(tmp_path: Path) -> None:
    """A query that waits for its release gets its answer, under the policy that it was charged under."""
    deployment = make(tmp_path / "deployment", population=200)
    before = deployment.json("census", "status")["policy_hash"]
    asked: list[AskedQuestion | BrokerError] = []

    def ask() -> None:
        asked.extend(deployment.ask_all([(EVERYBODY.where, FRENCH)]))

    def count(kind: str) -> int:
        return sum(event["type"] == kind for event in log_of(deployment))

    with deployment.node("census"):
        for orders in (
            [("policy", "adopt", propose(deployment, "--max-belief", "0.75"))],
            [("shutdown", "--reason", "an inspection"), ("reopen", "--reason", "it is over")],
        ):
            charged, asking = count("charged"), Thread(target=ask)
            # It dies when it is to cosign the charge: nothing is released until there is a health node again.
            with deployment.node("health", launcher=(sys.executable, CRASHING_NODE, "cosigned", "before")) as dying:
                asking.start()
                wait_until(lambda: dying.process.poll() is not None, "killed")
            for words in orders:
                assert census(deployment, *words).code == 0
            # The order stands in the log between the charge and its release.
            assert (count("charged"), count("released")) == (charged + 1, charged)
            with deployment.node("health"):
                asking.join()
    after = deployment.json("census", "status")["policy_hash"]
    first, second = asked
    assert isinstance(first, AskedQuestion)
    assert isinstance(second, AskedQuestion)
    assert (first.policy_hash, second.policy_hash) == (before, after)
    assert before != after
    assert (first.charged, second.charged) == (PRICE_30, PRICE_30)
    deployment.verify_ledger()


def test_a_spent_service_is_reopened_only_when_something_fits_again(tmp_path: Path) -> None:
    """0.51 pays for one answer at scale 30; what is left pays at scale 200 for one more, and no key changes that."""
    deployment = make(tmp_path / "deployment", "--max-belief", "0.51", population=50)
    with deployment.nodes():
        assert deployment.ask("age >= 0", FRENCH, "--scale", "30").code == 0
        assert deployment.json("census", "status")["state"] == "shutdown"
        refused = census(deployment, "reopen", "--reason", "more studies")
        assert (refused.code, refused.error["code"]) == (4, "NOTHING_FITS")
        adopt(deployment, "--scales", "30,200")
        assert deployment.run("researcher", "quote", "--json").error["code"] == "SERVICE_SHUT_DOWN"
        assert census(deployment, "reopen", "--reason", "more studies").code == 0
        assert deployment.ask("age >= 0", FRENCH, "--scale", "30").error["code"] == "BUDGET_EXHAUSTED"
        assert deployment.json("researcher", "quote", "--scale", "200")["remaining"] == 1
        assert deployment.ask("age >= 0", FRENCH, "--scale", "200").code == 0
        assert deployment.json("census", "status")["state"] == "shutdown"
        # A limit that is lowered afterwards does not make what was charged look smaller.
        worst = deployment.json("census", "status")["worst_belief"]
        adopt(deployment, "--max-belief", "0.505", "--scales", "200")
        status = deployment.json("census", "status")
        assert status["worst_belief"] == worst > float(status["max_belief"])
        assert "passes this cap already" in deployment.run("census", "status").stdout
        adopt(deployment, "--max-belief", "0.8", "--scales", "30")
        assert census(deployment, "reopen", "--reason", "more studies").code == 0
        assert deployment.ask("age >= 0", FRENCH, "--scale", "30").code == 0
    deployment.verify_ledger()


# --- killed in between -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["adopted", "shutdown", "reopened"])
def test_an_order_that_is_killed_was_given_or_was_not(stopped: Deployment, step: str, when: str) -> None:
    """Before its commit nothing has happened and it can be given again; after it, it stands, once."""
    weak = propose(stopped, "--max-belief", "0.8")
    if step == "reopened":
        census(stopped, "shutdown", "--reason", "a drill")
    commands: dict[str, tuple[str, ...]] = {
        "adopted": ("policy", "adopt", weak, "--confirm"),
        "shutdown": ("shutdown",),
        "reopened": ("reopen",),
    }
    command: list[str | Path] = ["census", *commands[step], "--home", stopped.home("census")]
    command += ["--reason", "a drill", "--json"]
    with stopped.node("census"):
        before = (log_of(stopped), stopped.json("census", "status"))
        assert run_words(sys.executable, CRASHING_NODE, step, when, *command).code == -9
        if when == "before":
            assert (log_of(stopped), stopped.json("census", "status")) == before
            assert run(*command).code == 0
        else:
            assert run(*command).code == {"adopted": 4, "shutdown": 0, "reopened": 4}[step]
        assert [event["type"] for event in log_of(stopped)][len(before[0]) :] == [step]
        status = stopped.json("census", "status")
    assert status["state"] == ("shutdown" if step == "shutdown" else "serving")
    assert (status["policy_hash"] == weak) == (step == "adopted")
    stopped.verify_ledger()
