"""A census agency that would like to know the noise of an answer before it decides whether to take the question.

Its knowledge of a cohort that it has seen before no longer helps it, and its refusals are in the health log.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

import pytest
from fakes.history import MemoryPart, auditor
from fakes.patience import until
from fakes.world import CENSUS, HEALTH, OTHER, OTHER_HEALTH, OWNER, RESEARCHER, Order, World
from protocol.dishonest import ForeseeingCensus
from protocol.pair import STAGES, Pair
from protocol.witnessed import WitnessedPair
from tripartite.v1 import answer_pb2, census_service_pb2

from broker_common.audit.audit import replay_parts
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.documents import ReceiptFile
from broker_common.audit.export.reading import FolderPart
from broker_common.audit.export.writing import ExportFolder, export_log
from broker_common.audit.home import AuditorHome
from broker_common.audit.report.verdict import report_json, report_text
from broker_common.crypto.sealing import UnsealingKey
from broker_common.storage.dictionary.adopted import Dictionaries
from census_node.release.oversight import Oversight
from researcher_node.answers.store import Answers

DAY_MS = 86_400_000
# How often the census node throws a question away until it takes one.
REFUSALS = 8


@pytest.fixture
def oversight(world: World) -> UnsealingKey:
    """An oversight body's key; the world's census node seals openings to it."""
    key = UnsealingKey.generate(os.urandom)
    world.oversight = Oversight(world.census_folder / "openings", key.sealing_key, DAY_MS)
    world.open_census().recover()
    return key


async def ask(pair: Pair, answers: Answers, order: Order) -> list[str] | str:
    """A researcher's steps with a ticket, until the answer is in the store; the stages, or the code of the error."""
    query, outcome = pair.world.remember(answers, order), await pair.submit(order)
    if outcome == STAGES:
        await pair.settle()
        answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=pair.world.sealed(order)))
    elif isinstance(outcome, str):
        answers.refuse(query, outcome)
    return outcome


def audited(pair: Pair, answers: Answers, key: UnsealingKey) -> tuple[dict[str, object], str]:
    """Object and page of an audit of everything, with openings."""
    world = pair.world
    home = auditor(
        world.directory / "auditor", tuple(world.parties[each] for each in (CENSUS, HEALTH, OTHER_HEALTH, OWNER, OTHER))
    )
    (home / "config.toml").write_text(f'role = "auditor"\nhealth = "{HEALTH.organisation}"\n')
    handed_in = {role: world.directory / "handed in" / role for role in ("health", "census")}
    export_log(
        pair.node.journal,
        Dictionaries(world.health_folder),
        ExportFolder(handed_in["health"]),
        lambda _done, _total: None,
    )
    export_log(
        world.census.journal,
        Dictionaries(world.census_folder),
        ExportFolder(handed_in["census"]),
        lambda _done, _total: None,
    )
    kept = [
        ReceiptFile.of(one.query, one.state, one.signed_quote, one.signed_ticket, one.signed_receipt)
        for one in answers.receipts()
    ]
    audit = replay_parts(
        {role: FolderPart(path) for role, path in handed_in.items()}
        | {"researcher": MemoryPart({one.name: one.to_bytes() for one in kept})},
        AuditorHome(home),
        lambda _: lambda _done, _total: None,
        OpenedOnSite(FolderPart(world.census_folder / "openings"), key),
    )
    return report_json(audit), report_text(audit)


async def test_foreseeing_the_noise_of_a_cohort_that_was_seen_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught by the salt of the set commitment: whatever was seen of the cohort, no seed follows before it is handed over."""
    pair, attacker = Pair(world), ForeseeingCensus(world, monkeypatch)
    pair.link.scripts[:] = [attacker.foreseeing(pair.watched)]
    for asked in range(5):
        assert await pair.submit(world.order()) == STAGES
        assert len(attacker.drawn) == asked + 1
        assert attacker.drawn[-1] not in attacker.foreseen
    # One cohort, and of each question another commitment.
    assert len(attacker.cohorts) == 1
    assert len({charge.submitted for charge in world.charges()}) == 5


async def test_refusing_samples_until_the_noise_is_liked(
    world: World, monkeypatch: pytest.MonkeyPatch, oversight: UnsealingKey
) -> None:
    """Caught by the audit: the answer is as the rules make it, and every refusal stands beside its researcher and code."""
    pair, attacker, answers = (
        WitnessedPair(world, witness_wait_ms=50),
        ForeseeingCensus(world, monkeypatch),
        world.open_answers(),
    )
    async with pair.witnessing():
        await until(pair.is_cosigned)
        assert await ask(pair, answers, world.order()) == STAGES
        pair.link.scripts[:] = [attacker.foreseeing(pair.watched, refusals=REFUSALS)]
        for _ in range(REFUSALS):
            assert await ask(pair, answers, world.order()) == "SLOT_UNUSABLE"
        assert await ask(pair, answers, world.order()) == STAGES
        assert len(attacker.refused) == REFUSALS
        await pair.rounds(2)
    report, text = audited(pair, answers, oversight)
    assert (report["verified"], report["noise_proved"], report["answers"]) == (True, 2, 2)
    assert report["uncharged_samples"] == REFUSALS
    # Whom the slots were quoted to stands in no log.
    assert report["refusals"] == [
        {"researcher": RESEARCHER, "code": "SLOT_UNUSABLE", "count": REFUSALS, "follows": 0, "without_reason": 0}
    ]
    assert f"why {REFUSALS} samples were refused with SLOT_UNUSABLE" in text
    assert report["unanswered"] == []
    assert f"{REFUSALS} handed over and never charged" in text
    assert f"{REFUSALS} of {RESEARCHER} refused with SLOT_UNUSABLE" in text


@pytest.mark.parametrize(
    "code",
    [
        "POLICY_MISMATCH",
        "RELEASE_MISMATCH",
        "SCALE_REFUSED",
        "SERVICE_SHUT_DOWN",
        "TICKET_EXPIRED",
        "UNKNOWN_PROJECT",
        "UNKNOWN_RESEARCHER",
    ],
)
async def test_refusing_for_a_reason_that_the_log_contradicts(
    world: World, monkeypatch: pytest.MonkeyPatch, oversight: UnsealingKey, code: str
) -> None:
    """Caught by the audit: the census agency has signed a reason that never was one."""
    pair, attacker, answers = (
        WitnessedPair(world, witness_wait_ms=50),
        ForeseeingCensus(world, monkeypatch),
        world.open_answers(),
    )
    async with pair.witnessing():
        await until(pair.is_cosigned)
        pair.link.scripts[:] = [attacker.foreseeing(pair.watched, refusals=1, code=code)]
        assert await ask(pair, answers, world.order()) == code
        assert await ask(pair, answers, world.order()) == STAGES
        await pair.rounds(2)
    report, text = audited(pair, answers, oversight)
    assert [problem["code"] for problem in report["problems"]] == ["REFUSED_WITHOUT_REASON"]  # type: ignore[attr-defined]
    assert report["refusals"] == [
        {"researcher": RESEARCHER, "code": code, "count": 1, "follows": 0, "without_reason": 1}
    ]
    assert f"1 of {RESEARCHER} refused with {code}: 0 for a reason in the census log, 1 without one" in text


async def taking_all(
    requests: AsyncIterator[census_service_pb2.CountRequest],
) -> AsyncIterator[census_service_pb2.CountResponse]:
    """Takes the whole sample and hangs up."""
    async for _ in requests:
        pass
    return
    yield census_service_pb2.CountResponse()


async def taking_the_head(
    requests: AsyncIterator[census_service_pb2.CountRequest],
) -> AsyncIterator[census_service_pb2.CountResponse]:
    """Reads the head and hangs up."""
    await anext(requests)
    return
    yield census_service_pb2.CountResponse()


@pytest.mark.parametrize("script", [taking_all, taking_the_head])
async def test_hearing_a_sample_and_saying_nothing(
    world: World,
    oversight: UnsealingKey,
    script: Callable[[AsyncIterator[census_service_pb2.CountRequest]], AsyncIterator[census_service_pb2.CountResponse]],
) -> None:
    """Caught by the audit, whether the census node took everything or the head alone: by researcher, without a code."""
    pair, answers = WitnessedPair(world, forward_deadline_ms=0, witness_wait_ms=50), world.open_answers()
    async with pair.witnessing():
        await until(pair.is_cosigned)
        pair.link.scripts[:] = [script]
        assert await pair.submit(world.order()) == "PEER_UNAVAILABLE"
        await pair.rounds(2)
    report, text = audited(pair, answers, oversight)
    assert (report["verified"], report["uncharged_samples"], report["refusals"]) == (True, 1, [])
    assert report["unanswered"] == [{"researcher": RESEARCHER, "count": 1}]
    assert f"1 of {RESEARCHER} without a word" in text
