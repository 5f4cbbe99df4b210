"""Events of small, valid logs, made without a node; tests break them in one place at a time."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, TypeVar

from fakes.cards import IDENTITY, Party, lasting_certificate
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness

from broker_common.crypto.cards import TLS
from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Column, ColumnType, Dictionary
from broker_common.query.dictionary_document import adoption_of, dictionary_document
from broker_common.query.refusal import Refusal
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import (
    Adopted,
    Announced,
    Charged,
    DictionaryAdopted,
    Event,
    Forwarded,
    Loaded,
    Opened,
    Refused,
    Registered,
    Released,
    Relinked,
    Reopened,
    Revoked,
    Rostered,
    Shutdown,
    Slots,
    Submitted,
)
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.parties import peer_name
from broker_common.tlog.replay import FORMAT_VERSION, LogState

StateT = TypeVar("StateT", bound=LogState)
ORIGIN = "census.test/log"
# Dictionary of the data of these logs.
DICTIONARY = Dictionary((Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),))
HEALTH_ORIGIN = "health.test/log"
POLICY_KEY = SigningKey(Purpose.POLICY, bytes(range(32)))
LOG_KEY = SigningKey(Purpose.LOG, bytes(range(1, 33)))
OPERATOR_KEY = SigningKey(Purpose.OPERATOR, bytes(range(2, 34)))
SIGNER = NoteSigner(ORIGIN, (LOG_KEY,))


def party(identity: Identity, seed: str, origin: str = "", **given: SigningKey) -> Party:
    """A party that is the same in every process: what it signs may be kept as files."""
    certificate = lasting_certificate(identity, SeededRandomness(f"{seed} tls"))
    return Party(identity, origin, given={TLS: certificate, **given}, randomness=SeededRandomness(seed))


CENSUS = party(
    Identity("census-ca", "census", "node"),
    "census",
    ORIGIN,
    policy=POLICY_KEY,
    operator=OPERATOR_KEY,
    log=LOG_KEY,
)
HEALTH = party(Identity("health-on", "health", "node"), "health", HEALTH_ORIGIN)
ALICE = party(Identity("university", "researcher", "alice"), "alice")
# A second health agency, which nobody but a census agency may ever have heard of.
NEIGHBOUR = party(Identity("health-x", "health", "node"), "neighbour", "neighbour.test/log")
# The health agency's log signer.
HEALTH_SIGNER = NoteSigner(HEALTH_ORIGIN, (HEALTH.signing(Purpose.LOG),))
# The health agency's cosigner of the census log.
WITNESS = Cosigner(HEALTH_ORIGIN, HEALTH.signing(Purpose.WITNESS))


def policy(**changes: Any) -> Policy:
    """A policy like the shipped one, at the paper's cap unless told otherwise."""
    fields: dict[str, Any] = {
        "accounting": "strict",
        "max_belief": "0.8",
        "scales": (1, 2, 30),
        "forward_delay_ms": 0,
        "release_tick_ms": 0,
        "quote_lifetime_ms": 60_000,
        "open_quotes": 4,
        "answer_retention_ms": 86_400_000,
    }
    return Policy(**fields | changes)


def census_state() -> CensusState:
    """A census log that nothing stands in, under the keys of this module."""
    return CensusState(root(CENSUS))


def hash_of(number: int) -> str:
    """A hash that stands for the number."""
    return f"{number:064x}"


def chain_of(number: int) -> str:
    """The name of a linkage chain that stands for the number."""
    return f"{number:016x}"


def opened(role: str = "census", **changes: Any) -> Opened:
    """The opening of a log."""
    origin = HEALTH_ORIGIN if role == "health" else ORIGIN
    fields: dict[str, Any] = {"origin": origin, "role": role, "format": FORMAT_VERSION}
    return Opened(**fields | changes)


def root(party: Party) -> VerifyKey:
    """The identity key that a party's first card is signed with."""
    key = party.card.listed(IDENTITY)[0][1]
    assert isinstance(key, VerifyKey)
    return key


def announced(party: Party = CENSUS) -> Announced:
    """The party's present card, in its own log."""
    return Announced(card=party.card.signed)


def registered(party: Party, **changes: Any) -> Registered:
    """A peer's present card, in the log of a node that knows it."""
    fields: dict[str, Any] = {"card": party.card.signed, "note": "", "projects": (), "inbox": ""}
    return Registered(**fields | changes)


def revoked(party: Party, **changes: Any) -> Revoked:
    """The end of a registration."""
    name = peer_name(party.identity)
    return Revoked(**{"role": party.identity.role, "name": name, "note": "it left"} | changes)


def beginning(role: str = "census") -> tuple[Event, ...]:
    """How a node's log begins: whose it is, whom the node knows (Alice, and the other agency), and what its data is loaded under."""
    own, other = (HEALTH, CENSUS) if role == "health" else (CENSUS, HEALTH)
    known = announced(own), registered(other), registered(ALICE, projects=("study",))
    return opened(role), *known, dictionary_adopted(own=own)


def census_journal(directory: Path) -> Journal[CensusState]:
    """A census journal in which nothing was asked yet, beside its dictionary."""
    journal = Journal.create(
        directory / "journal.db",
        fresh_state=census_state,
        signer=lambda _: SIGNER,
        clock=FakeClock(),
        tables=lambda _: None,
    )
    with journal.transaction() as transaction:
        for event in (*beginning()[1:], adopted(), loaded()):
            transaction.append(event)
    Dictionaries(directory).keep(dictionary_document(DICTIONARY))
    return journal


def grow(journal: Journal[CensusState], entries: int) -> None:
    """Commitments to one noise slot each."""
    with journal.transaction() as transaction:
        for _ in range(entries):
            transaction.append(slots(transaction.state.next_slot, count=1))


def begin(journal: Journal[StateT], role: str) -> None:
    """A new journal says whose it is, whom its node knows, and what it loads its data under."""
    with journal.transaction() as transaction:
        for event in beginning(role)[1:]:
            transaction.append(event)


def adopted(rules: Policy | None = None, key: SigningKey = POLICY_KEY, **changes: Any) -> Adopted:
    """The adoption of `rules`, signed by `key`."""
    document = (policy() if rules is None else rules).document
    fields = {
        "document": document.decode(),
        "signature": key.sign_text(document),
        "key_id": key.key_id,
    }
    return Adopted(**fields | changes)


def signed_refusal(forwarded: Forwarded, code: str, *, key: SigningKey | None = None, **changes: Any) -> Refused:
    """The census agency refuses Alice's sample that was handed over so, as of a log of five entries."""
    fields: dict[str, Any] = {
        "code": code,
        "commitment": hash_of(40),
        "expires_ms": 0,
        "health": "health-on",
        "log": ORIGIN,
        "manifest": forwarded.manifest,
        "policy": hash_of(41),
        "project": "study",
        "release": hash_of(42),
        "researcher": "alice",
        "roster": forwarded.roster,
        "scale": 30,
        "size": 5,
        "slot": 0,
        "ticket": forwarded.ticket,
        "time_ms": 0,
    }
    document = Refusal(**fields | changes).document
    key = CENSUS.signing(Purpose.REFUSAL) if key is None else key
    return Refused(
        ticket=forwarded.ticket,
        code=code,
        refusal=document.decode(),
        signature=key.sign_text(document),
        key_id=key.key_id,
    )


def confirmed(state: CensusState, rules: Policy, note: str = "a drill", key: SigningKey = OPERATOR_KEY) -> Adopted:
    """The adoption of `rules` as the next entry, with the operator's confirmation."""
    order = state.order("adopt", note, adopting=rules)
    return adopted(rules, note=note, confirmation=key.sign_text(order.document), confirmation_key_id=key.key_id)


def shut_down(state: CensusState, note: str = "a drill", key: SigningKey = OPERATOR_KEY) -> Shutdown:
    """The operator's shutdown as the next entry."""
    order = state.order("shutdown", note)
    return Shutdown(reason="operator", note=note, signature=key.sign_text(order.document), key_id=key.key_id)


def reopened(state: CensusState, note: str = "the drill is over", key: SigningKey = OPERATOR_KEY) -> Reopened:
    """The operator's reopening as the next entry."""
    order = state.order("reopen", note)
    return Reopened(note=note, signature=key.sign_text(order.document), key_id=key.key_id)


def dictionary_adopted(
    dictionary: Dictionary = DICTIONARY, *, own: Party = CENSUS, key: SigningKey | None = None, **changes: Any
) -> DictionaryAdopted:
    """The adoption of a dictionary, signed by the agency's identity key."""
    adoption = adoption_of(dictionary, dictionary_document(dictionary))
    key = own.signing(Purpose.IDENTITY) if key is None else key
    fields: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "version": adoption.version,
        "dictionary": adoption.dictionary,
        "document": adoption.document,
        "signature": key.sign_text(adoption.statement, purpose=Purpose.DICTIONARY),
        "key_id": key.key_id,
    }
    return DictionaryAdopted(**fields | changes)


def loaded(load: str = "load1", **changes: Any) -> Loaded:
    """A load that replaces the one before."""
    fields = {
        "load": load,
        "release": "2021",
        "linkage": chain_of(1),
        "dictionary": DICTIONARY.hash.hex(),
        "commitment": hash_of(1),
    }
    return Loaded(**fields | changes)


def relinked(load: str = "load2", **changes: Any) -> Relinked:
    """The change of the linkage key that follows on `loaded()`."""
    fields = {"load": load, "previous": chain_of(1), "linkage": chain_of(2), "commitment": hash_of(6)}
    return Relinked(**fields | changes)


def rostered(number: int = 1, **changes: Any) -> Rostered:
    """A roster of the registered health agency, of the chain that `loaded()` is of."""
    fields: dict[str, Any] = {
        "health": "health-on",
        "number": number,
        "linkage": chain_of(1),
        "commitment": hash_of(number),
        "manifest": hash_of(50 + number),
    }
    return Rostered(**fields | changes)


def charged(number: int, *, before: int = 0, scale: int = 30, **changes: Any) -> Charged:
    """The charge of ticket, query and slot `number`; `before` is what had been charged so far."""
    units = price(scale)
    fields: dict[str, Any] = {
        "query": f"{number:032x}",
        "ticket": hash_of(number),
        "slot": number,
        "scale": scale,
        "units": units,
        "question": "all",
        "researcher": "alice",
        "project": "study",
        "health": "health-on",
        "load": "load1",
        "roster": 1,
        "manifest": hash_of(2),
        "submitted": hash_of(3),
        "active": hash_of(4),
        "ledger": "",
        "total": before + units,
    }
    return Charged(**fields | changes)


def slots(first: int = 0, *, count: int = 64, **changes: Any) -> Slots:
    """Commitments to the secrets of so many noise slots, each standing for the number of its slot."""
    fields: dict[str, Any] = {
        "first": first,
        "void_below": 0,
        "commitments": tuple(hash_of(number) for number in range(first, first + count)),
    }
    return Slots(**fields | changes)


def cosigned_note(size: int, origin: str = ORIGIN) -> str:
    """A checkpoint of the census log with both signatures. Its root is nobody's: a state has no tree to compare it with."""
    note = NoteSigner(origin, (LOG_KEY,)).sign_checkpoint(size, bytes(32))
    return WITNESS.cosign(note, 0)


def released(state: CensusState, number: int = 1, **changes: Any) -> Released:
    """The release of the answer to ticket `number` as the next entry, under a checkpoint of all that is there."""
    fields: dict[str, Any] = {"ticket": hash_of(number), "answer": hash_of(77), "checkpoint": cosigned_note(state.size)}
    return Released(**fields | changes)


def submitted(number: int, **changes: Any) -> Submitted:
    """The acceptance of ticket and query `number` by a health node."""
    fields = {
        "query": f"{number:032x}",
        "ticket": hash_of(number),
        "criteria": hash_of(5),
        "researcher": "alice",
        "project": "study",
        "load": "load1",
    }
    return Submitted(**fields | changes)


def contents(state: LogState) -> dict[str, Any]:
    """Everything that a state holds, as values that can be compared."""
    parties = state.parties
    plain = copy.deepcopy({name: value for name, value in vars(state).items() if name != "parties"})
    return plain | {
        "root": parties._identity_key,
        "own": parties.own and parties.own.signed,
        "peers": {name: (peer.card.signed, peer.projects, peer.inbox) for name, peer in parties._peers.items()},
        "owners": dict(parties._owners),
    }
