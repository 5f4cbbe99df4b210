"""Facts that every agency's log shows: its certificates, and how far witnesses have cosigned it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker_common.crypto.cards import TLS
from broker_common.crypto.certificates import PeerCertificate
from broker_common.errors import InvalidRequestError
from broker_common.language import Language, phrase
from broker_common.monitoring import Figures
from broker_common.storage.follower import Head
from broker_common.tlog.history import Happening, Use
from broker_common.tlog.parties import Registration, peer_name, witness_of
from broker_common.tlog.replay import LogState

# From here on a certificate's end is said: 60 days.
WARN_CERTIFICATE_MS = 60 * 86_400_000
# Entries that have waited for a cosignature for so long: two rounds of witnessing take less.
_STALE_WITNESS_MS = 30_000
MOST_AHEAD_MS = 60_000
_LEAST_FREE = 0.05
# The health node calls every 10 seconds at least, also when there is nothing to cosign.
_SILENT_PEER_SECONDS = 30.0
# Between the clocks of the two agencies; a network takes less.
_MOST_APART_MS = 60_000
# For so long it is said that a key has changed.
_NEW_KEY_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should see to; depends on nobody's records."""

    # In English, as it stands in the catalogue.
    text: str
    # False: the node can be asked all the same.
    stops: bool = True


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The newest checkpoint of this log that a known witness has cosigned."""

    size: int
    time_ms: int
    witness: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """A TLS certificate of this node or of a peer, and when it ends."""

    role: str
    name: str
    is_own: bool
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPicture:
    """Common part of the pictures of every agency's log."""

    origin: str
    release: str
    load: str
    log_size: int
    log_ms: int
    # As far as the other agency has to have cosigned the log, and when the newest entry of that was written.
    due_size: int
    due_ms: int
    checkpoint: str
    witnessed: Witnessed | None
    happenings: tuple[Happening, ...]
    use: Mapping[tuple[str, str], Use]
    certificates: tuple[Certificate, ...]


def witnessed_by(state: LogState, head: Head, witnesses: Mapping[str, Registration]) -> Witnessed | None:
    """How far the log was cosigned by one of these agencies."""
    found = None
    for log, witness, size, note in head.cosigned:
        agency = next((peer for peer in witnesses.values() if peer.card.card.origin == witness), None)
        if log != state.origin or agency is None or (found is not None and found.size >= size):
            continue
        try:
            cosigned = witness_of(agency.card, state.time_ms).verify(note)
        except InvalidRequestError:
            # The key that made it has ended since: it no longer counts.
            continue
        found = Witnessed(size, 1000 * cosigned.time_s, peer_name(agency.card.card.identity))
    return found


def certificates_of(state: LogState) -> tuple[Certificate, ...]:
    """The node's certificate and its peers', the one that ends first first."""
    own = state.parties.own
    cards = [] if own is None else [(own, True)]
    cards += [(peer.card, False) for peer in state.parties.everybody()]
    # The newest: an older one is used until it begins, and only honoured after that.
    found = [
        Certificate(card.card.role, peer_name(card.card.identity), is_own, newest.expiry_ms)
        for card, is_own in cards
        if isinstance(newest := card.listed(TLS)[-1][1], PeerCertificate)
    ]
    return tuple(sorted(found, key=lambda each: (each.end_ms, each.role, each.name)))


def certificate_rows(t: Language, certificates: Sequence[Certificate], now_ms: int) -> list[tuple[str, str, str]]:
    """Party, end, and how long that is."""
    rows = []
    for each in sorted(certificates, key=lambda each: each.end_ms):
        party = t("this node") if each.is_own else f"{each.name} ({t(each.role)})"
        left = t("ended") if each.end_ms <= now_ms else t.span(each.end_ms - now_ms)
        rows.append((party, t.instant(each.end_ms), left))
    return rows


def witnessed_note(t: Language, witnessed: Witnessed | None, now_ms: int) -> str:
    """The witness, and how long ago it cosigned."""
    if witnessed is None:
        return t("nobody has cosigned it yet")
    return t("by {witness}, {age} ago", witness=witnessed.witness, age=t.span(now_ms - witnessed.time_ms))


def time_problems(
    *,
    log_ms: int,
    due_size: int,
    due_ms: int,
    witnessed: Witnessed | None,
    certificates: Sequence[Certificate],
    now_ms: int,
) -> list[Problem]:
    """Problems of time: late, ahead, or about to end. `due`: as far as the other agency has to have cosigned the log."""
    found = []
    if (0 if witnessed is None else witnessed.size) < due_size and now_ms - due_ms > _STALE_WITNESS_MS:
        found.append(Problem(phrase("The other agency has not cosigned the newest entries for half a minute.")))
    if log_ms > now_ms + MOST_AHEAD_MS:
        found.append(
            Problem(
                phrase("The log's newest entry is ahead of this machine's clock: one of the clocks was wrong."),
                stops=False,
            )
        )
    elif witnessed is not None and is_apart(witnessed, due_size=due_size, due_ms=due_ms, now_ms=now_ms):
        found.append(
            Problem(
                phrase(
                    "The clocks of the two agencies are more than a minute apart: compare this machine's with others."
                ),
                stops=False,
            )
        )
    own = [each.end_ms for each in certificates if each.is_own]
    if own and min(own) <= now_ms:
        found.append(Problem(phrase("This node's certificate has ended: nobody can connect.")))
    elif own and min(own) - now_ms < WARN_CERTIFICATE_MS:
        found.append(
            Problem(
                phrase("This node's certificate ends within 60 days: renew it with 'tripartite keys rotate tls'."),
                stops=False,
            )
        )
    return found


def is_apart(witnessed: Witnessed, *, due_size: int, due_ms: int, now_ms: int) -> bool:
    """Whether the other agency has cosigned in our future, or an entry before it was written."""
    is_early = witnessed.size >= due_size and witnessed.time_ms < due_ms - _MOST_APART_MS
    return is_early or witnessed.time_ms > now_ms + _MOST_APART_MS


def process_problems(node: Figures, *, is_running: bool, now_ms: int) -> list[Problem]:
    """Problems of the node's process, as seen from outside."""
    if not is_running:
        return [Problem(phrase("The node's process is not running."))]
    if node.is_stale(now_ms):
        return [Problem(phrase("The node's process runs, but has said nothing of itself for ten seconds."))]
    if now_ms / 1000 - node.total("tripartite_peer_last_contact_timestamp_seconds") > _SILENT_PEER_SECONDS:
        return [Problem(phrase("The other agency's node was not heard of for half a minute."))]
    return []


def disk_problems(free_share: float, *, is_load_refused: bool) -> list[Problem]:
    """Problems of the home's disk."""
    found = []
    if free_share < _LEAST_FREE:
        found.append(
            Problem(phrase("The disk of the home is nearly full: a node that cannot write stops."), stops=False)
        )
    if is_load_refused:
        found.append(Problem(phrase("The last load was refused; the one before is in force."), stops=False))
    return found


def key_problems(happenings: Sequence[Happening], now_ms: int) -> list[Problem]:
    """Keys that have changed just now: somebody should make sure that it was meant."""
    if now_ms - keys_changed_ms(happenings) >= _NEW_KEY_MS:
        return []
    return [
        Problem(
            phrase(
                "Keys of this node or of a peer have changed within a quarter of an hour: see whose, under Activity."
            ),
            stops=False,
        )
    ]


def keys_changed_ms(happenings: Sequence[Happening]) -> int:
    """When a key of the node or of a peer changed last; 0: never."""
    return max((each.time_ms for each in happenings if each.kind in {"key", "replaced"}), default=0)
