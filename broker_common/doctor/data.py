"""What was loaded, against what is declared, what the policy allows for, and what the next load would read."""

from __future__ import annotations

from collections.abc import Iterator

from broker_common.doctor import texts
from broker_common.doctor.findings import Finding, ok, problem, warning
from broker_common.language import phrase
from broker_common.privacy.delays import too_short
from broker_common.privacy.policy import Policy

# Of what is declared: beyond it the next load may not fit.
_LITTLE_ROOM = 0.95


def declared_findings(role: str, people: int | None, declared: int) -> Iterator[Finding]:
    """Whether the load in force leaves room below what is declared; None: nothing is loaded."""
    if people is None:
        yield warning(
            "declared", texts.NOTHING_LOADED, phrase(texts.NOTHING_LOADED_REMEDY, command=f"tripartite {role} load")
        )
    elif people > _LITTLE_ROOM * declared:
        yield warning("declared", phrase(texts.FULL, people=people, declared=declared), texts.FULL_REMEDY)
    else:
        yield ok("declared", phrase(texts.FITS, people=people, declared=declared))


def policy_finding(policy: Policy, *, places: int | None, people: int | None = None) -> Finding:
    """Whether the policy's times allow for what is declared."""
    if not policy.release_tick_ms:
        return warning("policy", texts.NO_TICK, texts.POLICY_REMEDY)
    short = too_short(policy, places, people=people)
    if not short:
        return ok("policy", texts.POLICY_FITS)
    times = ", ".join(f"{name} >= {least_ms}" for name, least_ms in short.items())
    return problem("policy", phrase(texts.POLICY_TOO_SHORT, times=times), texts.POLICY_REMEDY)
