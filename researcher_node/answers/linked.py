"""Who is linked, as it stands beside everything that is counted: nobody else is, and no node knows how many that are.

The share is what the census agency declares in its policy. Who is missed is not missed by chance alone, so that shares of the linked
people are not those of everybody; no margin and no interval has that in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_common.language import Language, language_of_environment
from broker_common.privacy.policy import Policy
from researcher_node import texts


def linked_json(policy: Policy | None) -> dict[str, Any] | None:
    """How records are linked, and the declared share of the census, null where none is declared; null without a policy."""
    if policy is None:
        return None
    return {"linkage": policy.linkage, "declared_percent": policy.declared_linked_percent or None}


def linked_text(policy: Policy | None, language: Language | None = None) -> str:
    """The same for people."""
    return _linked(policy, language or language_of_environment())


def linked_sentences(policies: Iterable[Policy | None], language: Language | None = None) -> str:
    """The same of several answers, which may have been given under different policies."""
    t = language or language_of_environment()
    return " ".join(dict.fromkeys(t(texts.COUNTED_ARE, linked=_linked(policy, t)) for policy in policies))


def _linked(policy: Policy | None, t: Language) -> str:
    if policy is None:
        return t(texts.LINKED_UNKNOWN)
    whom = t(texts.LINKED[policy.linkage])
    if not policy.declared_linked_percent:
        return t(texts.LINKED_UNDECLARED, whom=whom)
    return t(texts.LINKED_DECLARED, whom=whom, percent=policy.declared_linked_percent)
