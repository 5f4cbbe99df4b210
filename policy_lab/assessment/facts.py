"""The facts about one deployment: the policy in force, and what the census agency's log shows to anyone.

Nothing is read that depends on who was in a sample: what an assessment says of answers follows from the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from broker_common.parties.registration import own_card
from broker_common.privacy.policy import Policy, parse_policy
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, parse_entry
from broker_common.tlog.note import ED25519, NoteVerifier, claimed_by, key_hash, parse_note, vkeys
from broker_common.tlog.parties import log_of, peer_name
from broker_common.values import base64_text
from census_node.assembly import CensusHome
from census_node.operator.policy_commands import policy_in_force
from deploy.local import Plan

# As `tripartite init` has them where nobody says otherwise.
_POPULATION = 100_000


@dataclass(frozen=True, slots=True)
class Party:
    """A party whose card stands in the log."""

    role: str
    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the log had come: a signature, and the public key that it is checked with."""

    origin: str
    size: int
    root: str
    signature: str
    key: str


@dataclass(frozen=True, slots=True)
class Log:
    """Facts of a census home's log."""

    release: str
    answers: int
    is_shut_down: bool
    policy_hash: str
    policy_key: str
    # The highest limit of all policies ever in force: questions asked under it count by it.
    highest_belief: str
    parties: tuple[Party, ...]
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Facts:
    """The policy that is assessed, and the log of its census home, if there is one."""

    policy: Policy
    # When the assessment is made.
    made_ms: int
    log: Log | None = None
    # Why the policy was chosen, in the agency's own words, paragraph by paragraph.
    reasons: tuple[str, ...] = ()


def usual_policy() -> Policy:
    """The policy that `tripartite init` sets."""
    return Plan(_POPULATION, seed=1, accounting="per_person", max_belief="0.8").policy()


def read_home(home: Path) -> tuple[Policy, Log]:
    """The policy in force, and what the log says at one instant."""
    opened = CensusHome(home)
    with opened.journal() as journal, journal.reading() as state:
        policy = policy_in_force(state)
        highest = max((each.max_belief for each in _adopted(journal)), key=Fraction)
        return policy, _log(state, highest, journal.checkpoint(state.size), journal.now())


def _adopted(journal: Journal[CensusState]) -> Iterator[Policy]:
    """Every policy that was ever in force."""
    rows = journal.db.execute("select entry from entries where instr(entry, cast('adopted' as blob))")
    for (data,) in rows:
        event = parse_entry(bytes(data)).event
        if isinstance(event, Adopted):
            yield parse_policy(event.document.encode())


def _log(state: CensusState, highest: str, note: str, now_ms: int) -> Log:
    own = own_card(state.parties)
    # A policy in force was adopted, by whose key the log says.
    assert state.adopted is not None  # noqa: S101 - see above
    return Log(
        release=state.release,
        answers=state.answers,
        is_shut_down=state.shut_down,
        policy_hash=state.policy_hash,
        policy_key=state.adopted.key_id,
        highest_belief=highest,
        parties=tuple(
            Party(card.card.role, peer_name(card.card.identity), card.fingerprint)
            for card in (own, *(peer.card for peer in state.parties.everybody()))
        ),
        checkpoint=_checkpoint(log_of(own, now_ms), note),
    )


def _checkpoint(log: NoteVerifier, note: str) -> Checkpoint:
    """The first signature, with its key: while a key is being replaced there are two, and either is enough."""
    found = log.verify_checkpoint(note)
    _, signatures = parse_note(note)
    key, signature = claimed_by(log.name, ED25519, log.keys, signatures)[0]
    signed = key_hash(log.name, ED25519, key) + signature
    return Checkpoint(
        found.origin, found.size, base64_text(found.root), base64_text(signed), vkeys(log.name, ED25519, (key,))
    )
