"""`dear`: do criteria that take long to select tell how many people match?

Adversary R-only. Submitted are the dearest criteria that the health node admits: as many comparisons as a condition may have, or
as many as its refusal says would do. They match nobody or nearly everybody by the toss of a coin, and the attack compares how
many ticks later than the policy says the charge was told: if there were more work than the forward delay covers, large samples
would be late and empty ones would not. It also compares refusals and everything else that is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker_common.errors import BrokerError, InternalError
from broker_common.privacy.policy import Policy
from broker_common.query.normal_form import MAX_TERMS
from broker_common.storage.clock import system_clock
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.findings import Curve, Finding, Late, Report
from deploy.attacks.spending import units_of
from deploy.attacks.worlds import told_apart

# Nobody has been admitted so often.
_HOSPITAL, _EMERGENCY = "501,503,505", "501,503"
_NOBODY, _EVERYBODY = "age > 130", "age >= 0"
_TOLD = "STAGE_CHARGED"


@dataclass(frozen=True, slots=True)
class Told:
    """Observations of one question."""

    everybody: bool
    # The number of ticks by which its charge was late; None where there are no ticks.
    late: int | None
    lines: tuple[str, ...]


async def attack_dear(arena: Arena, rounds: int) -> Report:
    """Ask so often about nobody, and as often about everybody."""
    scale = arena.policy.scales[-1]
    rounds = arena.rounds_within(units_of((scale,) * 4), rounds)
    terms, refusals = await _dearest(arena, scale)
    order = arena.people.dice.permutation([False] * rounds + [True] * rounds)
    told = [
        await _ask(arena, Ask(_where(terms, everybody=bool(everybody)), scale), bool(everybody)) for everybody in order
    ]
    return Report(
        "dear",
        dear_findings(refusals, told),
        len(arena.asked),
        curves=_curves(told),
        axes=("questions, from the earliest", "ticks later than the policy says"),
    )


def _where(terms: int, *, everybody: bool) -> str:
    """Criteria of so many comparisons, or one less; none is merged with another, or settles what another would."""
    pairs = [
        f"(hospital_visits in ({_HOSPITAL},{511 + 2 * at}) and emergency_visits in ({_EMERGENCY}))"
        for at in range((terms - 1) // 2)
    ]
    return " or ".join([*pairs, _EVERYBODY if everybody else _NOBODY])


async def _dearest(arena: Arena, scale: int) -> tuple[int, list[tuple[str, str]]]:
    """The most comparisons that are admitted; and on the way there, what is said to nobody's criteria and to everybody's."""
    terms, refusals = MAX_TERMS, []
    while True:
        outcomes = [await arena.ask(Ask(_where(terms, everybody=which), scale)) for which in (False, True)]
        refusals.append((_said(outcomes[0]), _said(outcomes[1])))
        would_do = [
            int(outcome.details["terms"])
            for outcome in outcomes
            if isinstance(outcome, BrokerError) and outcome.code == "CRITERIA_TOO_DEAR"
        ]
        if not would_do:
            return terms, refusals
        if min(would_do) >= terms:
            # Told a number that does not do either: there is nothing to measure.
            raise InternalError("INTERNAL")
        terms = min(would_do)


def _said(outcome: object) -> str:
    return f"{outcome.code} {outcome.text} {outcome.hint}" if isinstance(outcome, BrokerError) else "answered"


async def _ask(arena: Arena, ask: Ask, everybody: bool) -> Told:
    ticket = await arena.prepare(ask)
    submitted_ms = system_clock()
    seen = await arena.spy.submit(ticket)
    if seen.answered is not None:
        arena.asked.append((ask, seen.answered))
    told_ms = submitted_ms + int(1000 * seen.stage_seconds.get(_TOLD, 0.0))
    return Told(everybody, lateness(arena.policy, submitted_ms, told_ms), tuple(seen.events))


def lateness(policy: Policy, submitted_ms: int, told_ms: int) -> int | None:
    """How many ticks later than the policy says a question's charge was told."""
    tick_ms = policy.release_tick_ms
    if not tick_ms:
        return None
    leaves = -(-(submitted_ms + policy.forward_delay_ms) // tick_ms)
    # Taken at the tick after the one at which its sample left, told at the next.
    return told_ms // tick_ms - (leaves + 2)


def dear_findings(refusals: Sequence[tuple[str, str]], told: Sequence[Told]) -> tuple[Finding, ...]:
    """The verdicts on what was said and when; without release ticks, which are for tests, time promises nothing."""
    one, other = ([each for each in told if each.everybody == which] for which in (False, True))
    findings: tuple[Finding, ...] = (
        told_apart("dear_refusals", [[nobody] for nobody, _ in refusals], [[everybody] for _, everybody in refusals]),
        told_apart("dear_seen", [each.lines for each in one], [each.lines for each in other]),
    )
    late = [tuple(each.late for each in of if each.late is not None) for of in (one, other)]
    return (*findings, Late("dear_late", late[0], late[1])) if late[0] else findings


def _curves(told: Sequence[Told]) -> tuple[Curve, ...]:
    curves = []
    for name, everybody in (("late_nobody", False), ("late_everybody", True)):
        late = sorted(each.late for each in told if each.everybody == everybody and each.late is not None)
        curves.append(Curve(name, [(place + 1) / len(late) for place in range(len(late))], late))
    return tuple(curves)
