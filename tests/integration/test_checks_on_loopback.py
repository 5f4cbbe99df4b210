"""'researcher answers --check': what receipts promise against the log that a census node shows, honest and lying."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Outcome, run_here
from fakes.world import PROJECT, RESEARCHER
from integration.loopback import serving
from unit.researcher_node.shown_log import TIME_S, Asked, ShownLog, ShownLogService, raising

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.storage.clock import system_clock
from broker_common.storage.durable import replace_file
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.note import NoteSigner
from researcher_node.assembly import ResearcherHome
from researcher_node.config import AgencyPeer, ResearcherConfig

LOG_HELD = (
    "The census log has {size} entries, cosigned by the health agency, and goes on from all that was seen of it here."
)


class Scene:
    """A researcher home, and the census node that it asks."""

    def __init__(self, home: Path, log: ShownLog, service: ShownLogService) -> None:
        self.home = home
        self.log = log
        self.service = service

    @property
    def seen(self) -> Path:
        return self.home / "census.checkpoint"

    def ask(self) -> Asked:
        """A question that nobody answers."""
        with closing(self.log.open_answers(self.home / "answers.db")) as answers:
            return self.log.ask(answers)

    def answered(self, noisy_count: int = 17) -> Asked:
        """A question that was asked and answered; the log has grown by a few entries since."""
        with closing(self.log.open_answers(self.home / "answers.db")) as answers:
            asked = self.log.ask(answers)
            answers.receive(self.log.answer(asked, noisy_count))
        self.log.grow(3)
        return asked

    async def check(self, *words: str) -> Outcome:
        """The command, beside the census node that runs here."""
        return await asyncio.to_thread(run_here, "researcher", "answers", "--check", "--home", self.home, *words)

    async def found(self, *words: str) -> dict[str, Any]:
        """Output of --json."""
        outcome = await self.check("--json", *words)
        # The last line: the node of this process writes its own log to the same place.
        result: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
        assert (outcome.code in {3, 4, 5}) == ("error" in result)
        return result


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A census node that shows its log, and a researcher who knows both agencies; no health node answers."""
    log = ShownLog()
    service = ShownLogService(log)
    home = tmp_path / "researcher"
    config = ResearcherConfig(
        role="researcher",
        researcher_id=RESEARCHER,
        organisation="university",
        project=PROJECT,
        health=AgencyPeer(address="127.0.0.1:1"),
        census=AgencyPeer(address="127.0.0.1:1"),
    )
    made = ResearcherHome.create(home, config)
    made.trust.put(log.census.card)
    made.trust.put(log.health.card)
    peers = made.own_card().certificates(system_clock())
    async with serving("census", log.census.tls, peers, service.add_to) as peer:
        text = (home / "config.toml").read_text()
        before, _, after = text.partition("[census]")
        replace_file(home / "config.toml", f"{before}[census]{after.replace('127.0.0.1:1', peer.address, 1)}".encode())
        yield Scene(home, log, service)


def checks(result: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Findings of each query."""
    return {each["query_id"]: (each["check"], each["problem"]) for each in result["answers"]}


# --- an honest log ---------------------------------------------------------------------------------------------------


async def test_promises_that_are_kept_are_held(scene: Scene) -> None:
    """Every receipt's checkpoint is proved to be part of the log, however much it has grown; programs are told which log."""
    queries = [scene.answered().query for _ in range(5)]
    result = await scene.found()
    assert checks(result) == dict.fromkeys(queries, ("held", None))
    assert result["log"] == {
        "check": "held",
        "problem": None,
        "size": scene.log.tree.size,
        "checkpoint": scene.log.cosigned(),
    }
    assert all(size == scene.log.tree.size for _, size in scene.service.proofs_asked)
    assert len(scene.service.proofs_asked) == len(queries)


async def test_people_are_told_a_line_a_query_and_a_summary(scene: Scene) -> None:
    """An unanswered question has no receipt: it is listed, and no failure."""
    first, second, third = scene.answered().query, scene.ask().query, scene.answered().query
    outcome = await scene.check()
    assert (outcome.code, outcome.stdout.splitlines()) == (
        0,
        [
            f"held       {first}",
            f"unchecked  {second}  there is no receipt yet",
            f"held       {third}",
            "2 held, 0 broken, 1 not checked.",
            LOG_HELD.format(size=scene.log.tree.size),
        ],
    )
    # The health node, whose newest card would be asked for, is away.
    assert "The health node does not answer. Cosignatures are checked with the card that is known." in outcome.stderr


async def test_queries_can_be_named(scene: Scene) -> None:
    """One or several, in their order; nothing is asked of the others."""
    queries = [scene.answered().query for _ in range(3)]
    found = await scene.found(queries[2], queries[0], queries[2])
    assert [each["query_id"] for each in found["answers"]] == [queries[2], queries[0]]
    assert len(scene.service.proofs_asked) == 2
    assert (await scene.check("00" * 16)).code == 3
    assert (await scene.check(queries[0], "--last", "1")).code == 2
    assert list(checks(await scene.found("--last", "1"))) == [queries[2]]


async def test_receipt_of_the_newest_checkpoint_needs_no_proof(scene: Scene) -> None:
    """The same size and the same root are the same log."""
    with closing(scene.log.open_answers(scene.home / "answers.db")) as answers:
        asked = scene.log.ask(answers)
        answers.receive(scene.log.answer(asked))
    assert checks(await scene.found()) == {asked.query: ("held", None)}
    assert scene.service.proofs_asked == []


async def test_nothing_asked_and_nothing_cosigned_is_nothing_broken(scene: Scene) -> None:
    """A researcher who comes first finds an empty log."""
    scene.service.checkpoint = str
    result = await scene.found()
    assert (result["answers"], result["log"]["check"], result["log"]["checkpoint"]) == ([], "held", None)
    assert "No checkpoint of the census log has been cosigned yet." in (await scene.check()).stdout
    assert not scene.seen.exists()


# --- broken promises -------------------------------------------------------------------------------------------------


async def broken(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The one problem that is found of all receipts, and everything that is said."""
    result = await scene.found()
    assert result["error"]["code"] == "PROMISE_BROKEN"
    assert {check for check, _ in checks(result).values()} == {"broken"}
    (problem,) = {problem for _, problem in checks(result).values()}
    assert problem
    return problem, result


async def test_log_that_got_shorter_breaks_its_promises(scene: Scene) -> None:
    """A census node that came back from an old backup, with cosignatures of that time, is found out."""
    scene.answered()
    size = scene.log.tree.size - 5
    scene.service.checkpoint = lambda: scene.log.cosigned(size)
    problem, _ = await broken(scene)
    assert problem == f"its checkpoint has {size + 2} entries, the newest cosigned one {size}"


async def test_log_that_nobody_cosigned_any_more_breaks_its_promises(scene: Scene) -> None:
    """An answer left under a cosigned checkpoint: there cannot be none."""
    asked = scene.answered()
    scene.service.checkpoint = str
    problem, result = await broken(scene)
    assert problem.endswith("the newest cosigned one 0")
    assert "1 of 1 receipts" in result["error"]["text"]
    assert checks(result)[asked.query][0] == "broken"


async def test_log_with_another_past_breaks_its_promises(scene: Scene) -> None:
    """Both signatures do not help a history that is not the receipt's: no proof leads from one to the other."""
    scene.answered()
    scene.log.rewrite()
    problem, _ = await broken(scene)
    assert "does not go on from that of" in problem


async def test_another_root_of_the_same_size_breaks_its_promises(scene: Scene) -> None:
    """Two logs of one size under one name are two logs; no proof is asked for."""
    with closing(scene.log.open_answers(scene.home / "answers.db")) as answers:
        answers.receive(scene.log.answer(scene.log.ask(answers)))
    scene.log.rewrite()
    problem, _ = await broken(scene)
    assert problem == f"the cosigned checkpoint of the same {scene.log.tree.size} entries has another root"
    assert scene.service.proofs_asked == []


FALSE_PROOFS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "none": lambda _: [],
    "too short": lambda proof: proof[:-1],
    "too long": lambda proof: [*proof, bytes(32)],
    "reversed": lambda proof: proof[::-1],
    "one hash wrong": lambda proof: [bytes(32), *proof[1:]],
    "short hashes": lambda proof: [each[:-1] for each in proof],
}


@pytest.mark.parametrize("what", FALSE_PROOFS)
async def test_proof_that_proves_nothing_breaks_the_promise(scene: Scene, what: str) -> None:
    """A census node that cannot show the way from the receipt to its log has another log."""
    scene.answered()
    honest = scene.service.prove
    scene.service.prove = lambda old, size: FALSE_PROOFS[what](honest(old, size))
    problem, _ = await broken(scene)
    assert "does not go on from that of" in problem


async def test_broken_promises_are_told_beside_those_that_are_held(scene: Scene) -> None:
    """Everything is listed, with the receipts kept; the command ends with exit code 5 and says what to do."""
    first = scene.answered()
    size = scene.log.tree.size
    second = scene.answered()
    scene.service.checkpoint = lambda: scene.log.cosigned(size)
    outcome = await scene.check()
    assert outcome.code == 5
    assert [line.split()[:2] for line in outcome.stdout.splitlines()[:2]] == [
        ["held", first.query],
        ["broken", second.query],
    ]
    assert "1 held, 1 broken, 0 not checked." in outcome.stdout
    assert "1 of 2 receipts" in outcome.stderr
    assert "Keep the receipt" in outcome.stderr
    with closing(scene.log.open_answers(scene.home / "answers.db")) as answers:
        assert all(receipt.signed_receipt for receipt in answers.receipts())


# --- what cannot be checked is no broken promise, and not held either -------------------------------------------------


async def unchecked(scene: Scene) -> dict[str, Any]:
    """Everything that is said when nothing could be found out."""
    result = await scene.found()
    assert {check for check, _ in checks(result).values()} == {"unchecked"}
    return result


def by_stranger(log: ShownLog) -> str:
    """Cosigned in the witness's name by somebody else."""
    return Cosigner(log.witness.name, SigningKey(Purpose.WITNESS, bytes(32))).cosign(log.note(), TIME_S)


def of_other_log(log: ShownLog) -> str:
    """Cosigned by the witness, and signed in the log's name by somebody else."""
    forger = NoteSigner(log.signer.name, (SigningKey(Purpose.LOG, bytes(32)),))
    return log.witness.cosign(forger.sign_checkpoint(log.tree.size, log.tree.root()), TIME_S)


UNSIGNED: dict[str, tuple[Callable[[ShownLog], str], str]] = {
    "no cosignature": (lambda log: log.note(), "not cosigned"),
    "cosigned by another key": (by_stranger, "not cosigned"),
    "signed by another key": (of_other_log, "not signed"),
    "no note": (lambda _: "checkpoint", "that is none"),
}


@pytest.mark.parametrize("what", UNSIGNED)
async def test_checkpoint_without_both_signatures_proves_nothing(scene: Scene, what: str) -> None:
    """Neither that a promise is kept nor that it is broken: the node misbehaves, and nothing of it is remembered."""
    scene.answered()
    show, problem = UNSIGNED[what]
    scene.service.checkpoint = lambda: show(scene.log)
    result = await unchecked(scene)
    assert result["error"]["code"] == "PEER_MISBEHAVED"
    assert problem in result["error"]["text"]
    assert result["log"] == {"check": "unchecked", "problem": result["error"]["text"], "size": 0, "checkpoint": None}
    assert scene.service.proofs_asked == []
    assert not scene.seen.exists()


async def test_node_that_is_away_leaves_promises_unchecked(scene: Scene) -> None:
    """Not the census agency's promise is broken by a line that is down."""
    scene.answered()
    scene.service.checkpoint = raising(RefusedError("BUSY", retry_seconds=1))
    result = await unchecked(scene)
    assert result["error"]["code"] == "BUSY"


async def test_node_that_refuses_proofs_is_asked_once_and_never_believed(scene: Scene) -> None:
    """A node that does not prove is not held to have proved, and not said to have lied: both would be wrong."""
    for _ in range(3):
        scene.answered()
    scene.service.prove = raising(InvalidRequestError("MALFORMED_MESSAGE", problem="no"))
    result = await unchecked(scene)
    assert result["error"]["code"] == "MALFORMED_MESSAGE"
    assert len(scene.service.proofs_asked) == 1


# --- what was seen ---------------------------------------------------------------------------------------------------


async def test_newest_checkpoint_is_remembered_as_it_came(scene: Scene) -> None:
    """A signed note with both signatures, which other tools read; each check remembers the newest."""
    await scene.found()
    assert scene.seen.read_text() == scene.log.cosigned()
    scene.log.grow(7)
    scene.answered()
    await scene.found()
    assert scene.seen.read_text() == scene.log.cosigned()


async def test_split_view_over_time_is_found_out_without_any_receipt(scene: Scene) -> None:
    """A log that shows one past today and another one next month contradicts what was seen, which is kept."""
    await scene.found()
    seen = scene.seen.read_text()
    scene.log.rewrite()
    scene.log.grow(4)
    for _ in range(2):
        result = await scene.found()
        assert (result["error"]["code"], result["log"]["check"]) == ("PROMISE_BROKEN", "broken")
        assert "does not go on from that of" in result["log"]["problem"]
        assert result["log"]["checkpoint"] == scene.log.cosigned()
        assert scene.seen.read_text() == seen
    assert f"contradicts what was seen of it before ({scene.seen})" in (await scene.check()).stdout


async def test_log_that_is_shorter_than_what_was_seen_is_found_out(scene: Scene) -> None:
    """A tail is not dropped unseen, even when no receipt of ours is in it."""
    asked = scene.answered()
    size = scene.log.tree.size
    scene.log.grow(2)
    await scene.found()
    scene.service.checkpoint = lambda: scene.log.cosigned(size)
    result = await scene.found()
    assert checks(result) == {asked.query: ("held", None)}
    assert (result["error"]["code"], result["log"]["check"]) == ("PROMISE_BROKEN", "broken")
    assert result["log"]["problem"] == f"its checkpoint has {size + 2} entries, the newest cosigned one {size}"


async def test_same_checkpoint_with_a_newer_cosignature_is_no_change(scene: Scene) -> None:
    """A witness may cosign again what it has cosigned."""
    await scene.found()
    scene.service.checkpoint = lambda: scene.log.witness.cosign(scene.log.note(), TIME_S + 60)
    assert (await scene.found())["log"]["check"] == "held"


async def test_seen_checkpoint_that_cannot_be_read_is_said(scene: Scene) -> None:
    """Damage is named by its file, and nothing takes its place."""
    for damage in (b"", b"\xff", b"x" * 100_000, scene.log.cosigned().encode()[:-1]):
        scene.seen.write_bytes(damage)
        result = await scene.found()
        assert result["error"]["code"] == "FILE_UNUSABLE"
        assert str(scene.seen) in result["error"]["text"]
        assert scene.seen.read_bytes() == damage


async def test_two_checks_at_once_do_not_overwrite_what_they_have_not_compared(scene: Scene) -> None:
    """A process that finds a checkpoint remembered by another meanwhile leaves it."""
    await scene.found()
    before = scene.seen.read_text()
    scene.log.grow(3)
    ours = scene.log.cosigned()
    scene.log.grow(3)
    theirs = scene.log.cosigned()
    seen = ResearcherHome(scene.home).seen
    compared = seen.read()
    seen.replace(compared, theirs)
    seen.replace(compared, ours)
    assert before != scene.seen.read_text() == theirs
