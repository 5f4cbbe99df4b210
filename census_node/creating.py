"""Making a census home: keys of its own, a first card, a first policy in force, and a linkage chain to be handed over."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from broker_common.agency.home import new_agency
from broker_common.agency.linkage import chain_handed_over, new_chain
from broker_common.crypto.sealing import SealingKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import cap_units, default_scales, param_of, parse_max_belief
from broker_common.privacy.delays import usual_forward_delay_ms, usual_tick_ms
from broker_common.privacy.policy import Accounting, Policy, Subject
from broker_common.storage.durable import replace_file
from broker_common.storage.home import KEYS
from broker_common.values import Linkage
from census_node import texts
from census_node.assembly import CensusHome
from census_node.config import CensusConfig
from census_node.operator.proposals import make_proposal

_OVERSIGHT = "oversight.pub"
OVERSIGHT_REFERENCE = f"file:{KEYS}/{_OVERSIGHT}"
# Retentions are chosen in days.
_DAY_MS = 86_400_000
# One key as text, and room.
_MAX_KEY_BYTES = 8192
# About eleven questions a day for each researcher, while samples are kept for 90 days.
USUAL_RESEARCHER_ANSWERS = 1000


@dataclass(frozen=True, slots=True)
class FirstPolicy:
    """The choices of the first policy; everything else has the usual value for so many declared people and places."""

    accounting: Accounting
    max_belief: str
    people: int
    # The health agency's places: the time that it gets to draw a sample follows from them.
    places: int
    # The rows of all tables of the health agency.
    events: int = 0
    subject: Subject = "person"
    # The same as in the census agency's dictionary.
    linkage: Linkage = "complementary"
    # None, here and below: what is usual for so many people.
    release_tick_ms: int | None = None
    forward_delay_ms: int | None = None
    researcher_answers: int = USUAL_RESEARCHER_ANSWERS

    def policy(self) -> Policy:
        """The policy that is to be adopted.

        Raises:
            InvalidRequestError: INVALID_VALUE, the limit admits no scale.
        """
        cap = cap_units(param_of(parse_max_belief(self.max_belief)))
        scales = default_scales(cap)
        if not scales:
            raise InvalidRequestError(
                "INVALID_VALUE",
                name="max_belief",
                problem="is so close to 0.5 that not even one answer at scale 50 fits",
                remedy="Use at least 0.505.",
            )
        forward_ms, tick_ms = self.forward_delay_ms, self.release_tick_ms
        return Policy(
            accounting=self.accounting,
            subject=self.subject,
            linkage=self.linkage,
            max_belief=self.max_belief,
            max_answers=0,
            scales=scales,
            forward_delay_ms=usual_forward_delay_ms(self.places, self.events) if forward_ms is None else forward_ms,
            release_tick_ms=usual_tick_ms(self.people, self.subject) if tick_ms is None else tick_ms,
            quote_lifetime_ms=10 * 60_000,
            open_quotes=64,
            answer_retention_ms=90 * _DAY_MS,
            sample_retention_ms=90 * _DAY_MS,
            researcher_answers=self.researcher_answers,
        )


def create_home(
    path: Path,
    config: CensusConfig,
    policy: Policy,
    *,
    oversight: SealingKey | None,
    linkage_file: Path | None,
    dictionary: Path | None,
) -> CensusHome:
    """A new home with `policy` in force; without `linkage_file` it makes the linkage key that the other agency is to have.

    Raises:
        InvalidRequestError: HOME_INVALID, the folder holds something; INVALID_VALUE, CONFIG_INVALID, DICTIONARY_INVALID.
    """
    linkage = new_chain(os.urandom) if linkage_file is None else chain_handed_over(linkage_file)
    with new_agency(CensusHome, path, config, linkage, dictionary) as made:
        if config.witness_store:
            (path / config.witness_store).mkdir(parents=True, exist_ok=True, mode=0o700)
        if oversight is not None:
            replace_file(path / KEYS / _OVERSIGHT, f"{oversight.to_text()}\n".encode("ascii"))
        made.adopt(make_proposal(policy, made.private_policy_key()))
        return made


def oversight_key_in(file: Path) -> SealingKey:
    """The public oversight key that an auditor has handed over.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    try:
        with file.open("rb") as opened:
            return SealingKey.parse_text(opened.read(_MAX_KEY_BYTES).decode("ascii").strip())
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InvalidRequestError(
            "INVALID_VALUE", name=str(file), problem=problem, remedy=texts.OVERSIGHT_REMEDY
        ) from error
    except ValueError:
        # SECURITY: what it holds may be a private key, and is not quoted.
        raise InvalidRequestError(
            "INVALID_VALUE", name=str(file), problem=texts.NO_OVERSIGHT_KEY, remedy=texts.OVERSIGHT_REMEDY
        ) from None
