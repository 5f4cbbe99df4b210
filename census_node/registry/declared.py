"""What the census operator declares of the registry's size, and what follows: the loads that fit, and the tick."""

from __future__ import annotations

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.privacy.delays import declared_for, too_short, usual_tick_ms
from broker_common.privacy.policy import Policy
from census_node import texts

__all__ = ["delay_warnings", "verify_declared", "verify_delays"]


def verify_declared(people: int, declared: int) -> None:
    """Return only if a registry of so many people is within what is declared.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    if people > declared:
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=f"it has {people} people with a card, and {declared} are declared",
            remedy=f"Set people to {declared_for(people)} or more in config.toml, then load it again.",
        )


def verify_delays(policy: Policy, declared: int) -> None:
    """Return only if the policy's tick covers so many people.

    Raises:
        InvalidRequestError: LOAD_REFUSED.
    """
    found = delay_warnings(policy, declared)
    if found:
        option = f"--release-tick-ms {usual_tick_ms(declared, policy.subject)}"
        raise InvalidRequestError(
            "LOAD_REFUSED",
            problem=found[0],
            remedy=f"Adopt a policy with 'tripartite census policy propose {option}', then load it again.",
        )


def delay_warnings(policy: Policy, declared: int) -> tuple[str, ...]:
    """Which times of the policy do not cover the declared people, a sentence each.

    The forward delay is the health node's, which knows its places.
    """
    return tuple(
        phrase(texts.WARN_DELAY, name=name, value=getattr(policy, name), declared=declared, least=least_ms)
        for name, least_ms in too_short(policy, people=declared).items()
    )
