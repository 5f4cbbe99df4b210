"""Common checks of both agencies' homes: keys, cards, the log and its clock, certificates, the linkage keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker_common.agency.home import AgencyHome
from broker_common.cli import instant
from broker_common.crypto.cards import PURPOSES, TLS, VerifiedCard
from broker_common.crypto.certificates import PeerCertificate
from broker_common.dashboard.log_picture import MOST_AHEAD_MS, WARN_CERTIFICATE_MS, Witnessed, is_apart
from broker_common.doctor import texts
from broker_common.doctor.findings import Finding, ok, problem, tried, warning
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.parties.keyring import Keyring
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.parties import peer_name, witness_of
from broker_common.tlog.replay import StoreState

# Keys that serving does not need: they belong off the machine.
_NOT_TO_SERVE = frozenset({"identity", "policy", "operator"})


def agency_findings(agency: AgencyHome[Any], journal: Journal[Any], now_ms: int) -> Iterator[Finding]:
    """Findings about an agency's home that need no peer."""
    yield _process(agency)
    own = agency.own_card()
    yield from tried("keys", lambda: key_findings(agency.keyring, own, now_ms))
    yield from tried("certificates", lambda: certificate_findings([own, *_peers(journal)], now_ms, own=own))
    yield from _peers_known(journal)
    yield from tried("clock", lambda: [_clock(journal, now_ms)])
    yield from tried("linkage", lambda: [_linkage(agency, journal)])


def _process(agency: AgencyHome[Any]) -> Finding:
    if agency.home.is_load_refused:
        return warning("load", texts.LOAD_REFUSED, texts.LOAD_REFUSED_REMEDY)
    return ok("process", texts.SERVED if agency.home.is_served else texts.NOT_SERVED)


def _peers(journal: Journal[Any]) -> list[VerifiedCard]:
    with journal.reading() as state:
        return [peer.card for peer in state.parties.everybody()]


def key_findings(keyring: Keyring, own: VerifiedCard, now_ms: int) -> Iterator[Finding]:
    """Whether the private half of every key that the home's card puts to use is here, or may be elsewhere."""
    role = own.card.role
    missing = [purpose for purpose in PURPOSES[role] if not keyring.has(own, purpose, now_ms)]
    needed = [purpose for purpose in missing if purpose not in _NOT_TO_SERVE]
    if needed:
        yield problem("keys", phrase(texts.KEYS_MISSING, purposes=", ".join(needed)), texts.KEYS_MISSING_REMEDY)
        return
    spare = ", ".join(missing or [purpose for purpose in PURPOSES[role] if purpose in _NOT_TO_SERVE])
    yield ok("keys", phrase(texts.KEYS_AWAY if missing else texts.KEYS_HERE, purposes=spare))


def certificate_findings(cards: Sequence[VerifiedCard], now_ms: int, *, own: VerifiedCard | None) -> Iterator[Finding]:
    """Certificates that have ended or will within 60 days."""
    ends = {card: newest.expiry_ms for card in cards if isinstance(newest := card.listed(TLS)[-1][1], PeerCertificate)}
    soon = {card: end_ms for card, end_ms in ends.items() if end_ms - now_ms < WARN_CERTIFICATE_MS}
    for card, end_ms in soon.items():
        party = texts.THIS_HOME if card is own else party_of(card)
        remedy = texts.OWN_CERTIFICATE_REMEDY if card is own else texts.PEER_CERTIFICATE_REMEDY
        if end_ms <= now_ms:
            yield problem("certificates", phrase(texts.CERTIFICATE_ENDED, party=party, time=instant(end_ms)), remedy)
        else:
            yield warning("certificates", phrase(texts.CERTIFICATE_ENDS, party=party, time=instant(end_ms)), remedy)
    if ends and not soon:
        first = min(ends.values())
        yield ok("certificates", phrase(texts.CERTIFICATES_GOOD, time=instant(first)))


def party_of(card: VerifiedCard) -> str:
    """A peer as its operator is told of it."""
    return phrase(texts.PARTY, role=card.card.role, name=peer_name(card.card.identity))


def _peers_known(journal: Journal[Any]) -> Iterator[Finding]:
    with journal.reading() as state:
        researchers = state.parties.peers("researcher")
        other = "health" if state.role == "census" else "census"
        agencies = state.parties.peers(other)
    if not agencies:
        yield warning("peers", phrase(texts.NO_AGENCY, role=other), texts.NOBODY_REMEDY)
    if not researchers:
        yield warning("peers", texts.NO_RESEARCHER, texts.NOBODY_REMEDY)
    if agencies and researchers:
        shown = phrase(texts.KNOWN, agencies=len(agencies), researchers=len(researchers))
        yield ok("peers", shown)


def _clock(journal: Journal[Any], now_ms: int) -> Finding:
    with journal.reading() as state:
        log_ms = state.time_ms
        witnessed = _newest_witnessed(journal, state)
        size = state.size
    if log_ms > now_ms + MOST_AHEAD_MS:
        return problem("clock", phrase(texts.LOG_AHEAD, log=instant(log_ms), now=instant(now_ms)), texts.CLOCK_REMEDY)
    if witnessed is None:
        return ok("clock", phrase(texts.CLOCK_ALONE, now=instant(now_ms)))
    if is_apart(witnessed, due_size=size, due_ms=log_ms, now_ms=now_ms):
        shown = phrase(texts.CLOCKS_APART, witness=witnessed.witness, theirs=instant(witnessed.time_ms))
        return problem("clock", shown, texts.CLOCK_REMEDY)
    return ok("clock", phrase(texts.CLOCK_GOOD, witness=witnessed.witness, theirs=instant(witnessed.time_ms)))


def _newest_witnessed(journal: Journal[Any], state: StoreState) -> Witnessed | None:
    """The checkpoint of our log that the other agency has cosigned last."""
    witnesses = {
        peer.card.card.origin: peer.card for peer in state.parties.everybody() if peer.card.card.role != "researcher"
    }
    for cosigned in CosignedNotes(journal.db).of(state.origin):
        card = witnesses.get(cosigned.witness)
        if card is None:
            continue
        try:
            time_s = witness_of(card, state.time_ms).verify(cosigned.note).time_s
        except InvalidRequestError:
            # Its key has ended since: it tells nothing any more.
            continue
        return Witnessed(cosigned.size, 1000 * time_s, card.card.organisation)
    return None


def _linkage(agency: AgencyHome[Any], journal: Journal[Any]) -> Finding:
    with journal.reading() as state:
        in_force = state.linkage
    keys = agency.linkage_keys
    if not in_force and not keys.is_there:
        return warning(
            "linkage",
            texts.NO_LINKAGE_KEY,
            phrase(texts.NO_LINKAGE_KEY_REMEDY, command=f"tripartite {agency.home.role} relink"),
        )
    chain = keys.chain(in_force)
    return ok("linkage", phrase(texts.LINKAGE, count=len(chain.keys)))
