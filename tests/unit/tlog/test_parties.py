"""Who a log belongs to and whom its node knows: each rule broken alone, in both logs, refused without a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from fakes.cards import IDENTITY, Party
from fakes.forged import STRANGE, twin
from fakes.logs import (
    ALICE,
    CENSUS,
    HEALTH,
    ORIGIN,
    adopted,
    announced,
    beginning,
    contents,
    loaded,
    opened,
    registered,
    revoked,
    root,
)

from broker_common.crypto.cards import TLS, SignedCard
from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Announced, Entry, Event, Registered, Revoked, encode_entry, parse_entry
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.parties import Parties, peer_name
from broker_common.tlog.replay import LogState, ReplayError, replay

BOB = Party(Identity("university", "researcher", "bob"))
OTHER_HEALTH = Party(Identity("health-qc", "health", "node"), "health-qc.test/log")
OTHER_CENSUS = Party(Identity("census-us", "census", "node"), "census-us.test/log")
OWN = {"census": CENSUS, "health": HEALTH}
ROLES = ("census", "health")
LATER = 5000


def fresh(role: str) -> LogState:
    """A log that nothing stands in."""
    return CensusState(root(CENSUS)) if role == "census" else HealthState(root(HEALTH))


def entry_after(state: LogState, event: Event, **changes: Any) -> Entry:
    """The next entry of a log in this state."""
    fields: dict[str, Any] = {"sequence": state.size, "time_ms": state.time_ms, "policy": state.policy_hash}
    return Entry(**fields | changes, event=event)


def state_after(role: str, *events: Event) -> LogState:
    """The state of this node's log that the events lead to."""
    state = fresh(role)
    for event in events:
        state.apply(entry_after(state, event))
    return state


def refusal(state: LogState, event: Event, **changes: Any) -> str:
    """The code of the rule that the event breaks; the state must be as before."""
    before = contents(state)
    with pytest.raises(ReplayError) as caught:
        state.apply(entry_after(state, event, **changes))
    assert contents(state) == before
    return caught.value.code


def stranger(party: Party) -> Party:
    """Somebody else in the party's name."""
    return Party(party.identity, party.card.card.origin)


def spoiled(party: Party) -> SignedCard:
    """The party's card with a signature that does not hold."""
    return party.sign(party.card.card, [OTHER_CENSUS.signing(Purpose.IDENTITY)])


# --- one's own card --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_the_first_card_is_signed_by_the_root(role: str) -> None:
    """Which the node's configuration names: nobody else begins its log."""
    own = OWN[role]
    state = state_after(role, opened(role), announced(own))
    assert state.parties.own is not None
    assert state.parties.own.signed == own.card.signed
    begun = state_after(role, opened(role))
    assert refusal(begun, announced(stranger(own))) == "CARD_INVALID"
    assert begun.parties.own is None


@pytest.mark.parametrize("role", ROLES)
def test_a_first_card_of_another_party_is_refused(role: str) -> None:
    """The other agency's, a researcher's, one for another log, one that nobody signed."""
    own, other = OWN[role], OWN["health" if role == "census" else "census"]
    state = state_after(role, opened(role))
    moved = own.changed(origin="elsewhere.test/log")
    for signed in (other.card.signed, ALICE.card.signed, moved, spoiled(own)):
        assert refusal(state, Announced(card=signed)) == "CARD_INVALID"


def test_a_first_card_of_another_role_by_the_same_root_is_refused() -> None:
    """One identity key cannot make a census log the log of a health agency, nor the other way round."""
    key = CENSUS.signing(Purpose.IDENTITY)
    health = Party(Identity("census-ca", "health", "node"), ORIGIN, given={IDENTITY: key})
    assert refusal(state_after("census", opened()), announced(health)) == "CARD_INVALID"


@pytest.mark.parametrize("role", ROLES)
def test_later_cards_follow_the_one_before(role: str) -> None:
    """Each by the identity key of the one before it; also when that is replaced."""
    own = OWN[role].copy()
    state = state_after(role, opened(role), announced(own))
    for purpose in ("log", TLS, IDENTITY, "log"):
        own.renew(purpose)
        state.apply(entry_after(state, announced(own)))
        assert state.parties.own is not None
        assert state.parties.own.signed == own.card.signed


@pytest.mark.parametrize("role", ROLES)
def test_what_does_not_follow_ones_own_card_is_refused(role: str) -> None:
    """An older card, the same one, another one of its serial, one by other keys, one for another log."""
    own = OWN[role].copy()
    first = own.card
    second, sibling = own.renew("log"), OWN[role].successor(TLS)
    state = state_after(role, opened(role), announced(OWN[role]), announced(own))
    forger = stranger(own)
    forger.renew("log")
    forger.renew("log")
    moved = own.changed(serial=9, origin="elsewhere.test/log")
    for signed in (first.signed, second.signed, sibling.signed, forger.card.signed, moved, spoiled(own)):
        assert refusal(state, Announced(card=signed)) == "CARD_INVALID"


@pytest.mark.parametrize("role", ROLES)
def test_an_identity_key_that_was_replaced_announces_nothing(role: str) -> None:
    """Whether it is still honoured or not: the thief of an old key cannot take over what replaced it."""
    own, thief = OWN[role].copy(), OWN[role].copy()
    own.renew(IDENTITY, until_ms=LATER)
    thief.renew("log")
    thief.renew("log")
    state = state_after(role, opened(role), announced(OWN[role]), announced(own))
    for time_ms in (0, LATER - 1, LATER):
        assert refusal(state, announced(thief), time_ms=time_ms) == "CARD_INVALID"
    own.renew("log")
    state.apply(entry_after(state, announced(own), time_ms=LATER))


@pytest.mark.parametrize("role", ROLES)
def test_whether_a_card_follows_does_not_depend_on_the_time(role: str) -> None:
    """A log that holds holds on every day: neither a first card nor a later one is taken or refused by the clock."""
    own = OWN[role].copy()
    identity = msgspec.structs.replace(own.card.card.keys[0], until_ms=LATER)
    ending = own.changed(keys=(identity, *own.card.card.keys[1:]))
    for time_ms in (0, LATER - 1, LATER):
        state = state_after(role, opened(role))
        state.apply(entry_after(state, Announced(card=ending), time_ms=time_ms))
        next_card = own.changed(serial=2, keys=(identity, *own.card.card.keys[1:]))
        state.apply(entry_after(state, Announced(card=next_card), time_ms=10 * LATER))


def test_policies_are_signed_by_the_keys_of_the_card_in_force() -> None:
    """Under no card by none; under each card by the keys that it honours at that time, and by no other ones."""
    assert refusal(state_after("census", opened()), adopted()) == "POLICY_INVALID"
    census = CENSUS.copy()
    old = census.signing(Purpose.POLICY)
    census.renew("policy", until_ms=LATER)
    new = census.signing(Purpose.POLICY)
    state = state_after("census", *beginning())
    assert refusal(state, adopted(key=new)) == "POLICY_INVALID"
    state.apply(entry_after(state, announced(census)))
    for key in (new, old):
        state.apply(entry_after(state, adopted(key=key)))
    assert refusal(state, adopted(key=old), time_ms=LATER) == "POLICY_INVALID"
    state.apply(entry_after(state, adopted(key=new), time_ms=LATER))
    # A health agency's or researcher's key of the same bytes is for another purpose.
    same_bytes = SigningKey(Purpose.TICKET, new.expose())
    assert refusal(state, adopted(key=same_bytes)) == "POLICY_INVALID"


# --- peers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Breach:
    """After these events, this one breaks the rule of this code in the log of this role."""

    role: str
    code: str
    after: Sequence[Event]
    event: Event


def twin_of(party: Party, as_whom: Identity) -> Party:
    """Another party of the same role with the same key, and so with the subject of the other one's certificate."""
    return Party(as_whom, "twin.test/log" if party.card.card.origin else "", given={TLS: twin(party.tls, as_whom)})


def twice(party: Party) -> SignedCard:
    """The party's next card with two certificates of one subject."""
    return party.showing(party.tls, twin(party.tls, party.identity))


def card_of(signed: SignedCard) -> Registered:
    """The registration of any card."""
    return Registered(card=signed, note="", projects=(), inbox="")


BREACHES = [
    # A second census agency could read criteria.
    *(Breach("census", "CARD_INVALID", beginning(), registered(party)) for party in (CENSUS, OTHER_CENSUS)),
    *(Breach("health", "CARD_INVALID", beginning("health"), registered(party)) for party in (HEALTH, OTHER_HEALTH)),
    *(
        Breach(role, "CARD_INVALID", beginning(role), card_of(signed))
        for role in ROLES
        for signed in (
            spoiled(BOB),
            msgspec.structs.replace(BOB.card.signed, document="{}"),
            BOB.changed(name="carol"),
            twice(BOB),
            *(BOB.showing(make(BOB.identity)) for make in STRANGE.values()),
            *(BOB.showing(BOB.tls, make(BOB.identity)) for make in STRANGE.values()),
        )
    ),
    *(
        Breach(role, "CARD_INVALID", beginning(role), registered(twin_of(other, identity)))
        for role, other, identity in (
            ("census", HEALTH, OTHER_HEALTH.identity),
            ("health", CENSUS, OTHER_CENSUS.identity),
            ("census", ALICE, BOB.identity),
            ("health", ALICE, BOB.identity),
        )
    ),
    # Who replaces a card says why, and nobody else says anything.
    *(
        Breach(role, "CARD_INVALID", beginning(role), event)
        for role in ROLES
        for event in (
            registered(stranger(ALICE)),
            card_of(stranger(ALICE).changed(serial=7)),
            card_of(ALICE.changed(keys=ALICE.successor("ticket").card.keys)),
            registered(Party(Identity("institute", "researcher", "alice"))),
            registered(ALICE, note="the same one"),
            msgspec.structs.replace(card_of(ALICE.changed(serial=2)), note="it follows"),
            registered(BOB, note="nobody was known"),
        )
    ),
    *(
        Breach(role, "CARD_INVALID", (*beginning(role), card_of(ALICE.changed(serial=2))), registered(ALICE))
        for role in ROLES
    ),
    *(
        Breach(role, "CARD_INVALID", (*beginning(role), revoked(ALICE)), registered(ALICE, note="once known"))
        for role in ROLES
    ),
    *(
        Breach(role, "NOT_REGISTERED", beginning(role), revoked(party))
        for role in ROLES
        for party in (BOB, OTHER_HEALTH, OTHER_CENSUS, OWN[role])
    ),
    *(Breach(role, "NOT_REGISTERED", beginning(role), revoked(ALICE, role="health")) for role in ROLES),
    *(Breach(role, "NOT_REGISTERED", beginning(role), revoked(ALICE, name="Alice")) for role in ROLES),
    # A researcher is known by the id and not by the organisation, an agency the other way round.
    *(Breach(role, "NOT_REGISTERED", beginning(role), revoked(ALICE, name="university")) for role in ROLES),
    Breach("census", "NOT_REGISTERED", beginning(), revoked(HEALTH, name="node")),
    *(Breach(role, "NOT_REGISTERED", (*beginning(role), revoked(ALICE)), revoked(ALICE)) for role in ROLES),
]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.role}-{breach.code}")
def test_an_entry_that_breaks_a_rule_is_refused_and_changes_nothing(breach: Breach) -> None:
    """Each rule on peers, broken alone."""
    assert refusal(state_after(breach.role, *breach.after), breach.event) == breach.code


PUPPET = Identity("health-x", "health", "node")
# Cases by the role whose log it is: a peer of it, and the organisation that wants to have that one's log.
RIVALS = {"census": (HEALTH, PUPPET), "health": (CENSUS, Identity("census-x", "census", "node"))}


def test_two_agencies_never_share_the_name_of_a_log() -> None:
    """A puppet that cosigns under another agency's name could let that one's answers out, or keep its own from coming."""
    for role, (peer, rival) in RIVALS.items():
        state = state_after(role, *beginning(role))
        assert refusal(state, registered(Party(rival, peer.card.card.origin))) == "CARD_INVALID"
        own = Party(rival, state.origin)
        assert refusal(state, registered(own)) == "CARD_INVALID"
        state.apply(entry_after(state, registered(Party(rival, "free.test/log"))))


def test_nobody_takes_the_logs_own_name() -> None:
    """Not under the name of a known peer either, whatever reason is given: its cosignatures would be taken for our own."""
    for role, (peer, _) in RIVALS.items():
        state = state_after(role, *beginning(role))
        replaced = Party(peer.identity, state.origin)
        assert refusal(state, registered(replaced, note="a new machine")) == "CARD_INVALID"
        begun = state_after(role, opened(role))
        assert refusal(begun, registered(replaced)) == "CARD_INVALID"


def test_the_name_of_a_log_is_its_first_owners_for_ever() -> None:
    """After a revocation, and after a replacement by a card with another log: what was cosigned under it stays in the log."""
    rival, free = Party(PUPPET, HEALTH.card.card.origin), Party(PUPPET, "free.test/log")
    moved = Party(HEALTH.identity, "moved.test/log")
    for change in (revoked(HEALTH), registered(moved, note="a new home")):
        state = state_after("census", *beginning(), change)
        assert refusal(state, registered(rival)) == "CARD_INVALID"
        state.apply(entry_after(state, registered(free)))
        # It may not come to it by a replacement either.
        assert refusal(state, registered(rival, note="a new home")) == "CARD_INVALID"
        # Its former owner may have it again.
        note = "" if isinstance(change, Revoked) else "the old home again"
        state.apply(entry_after(state, registered(HEALTH, note=note)))


def test_researchers_have_no_log_and_share_nothing() -> None:
    """Any number of them: an empty name belongs to nobody."""
    state = state_after("census", *beginning(), registered(BOB))
    assert list(state.parties.peers("researcher")) == ["alice", "bob"]
    named = BOB.changed(origin="bob.test/log")
    assert refusal(state_after("census", *beginning()), card_of(named)) == "CARD_INVALID"


@pytest.mark.parametrize("role", ROLES)
def test_a_peer_is_known_from_its_entry_until_it_is_revoked(role: str) -> None:
    """It is known by its name, with studies and inbox, and its certificate is recognised for as long."""
    state = state_after(role, *beginning(role))
    (certificate,) = BOB.card.certificates(0)
    assert state.parties.peer("researcher", "bob") is None
    state.apply(entry_after(state, registered(BOB, projects=("one", "two"), inbox="127.0.0.1:1")))
    peer = state.parties.peer("researcher", "bob")
    assert peer is not None
    assert (peer.card.signed, peer.projects, peer.inbox) == (BOB.card.signed, ("one", "two"), "127.0.0.1:1")
    assert certificate in state.parties.certificates(0)
    assert list(state.parties.peers("researcher")) == ["alice", "bob"]
    state.apply(entry_after(state, revoked(BOB)))
    assert state.parties.peer("researcher", "bob") is None
    assert certificate not in state.parties.certificates(0)
    assert list(state.parties.peers("researcher")) == ["alice"]
    # Everybody else is as before, and who was revoked may come back.
    assert len(state.parties.everybody()) == 2
    state.apply(entry_after(state, registered(BOB)))
    assert list(state.parties.peers("researcher")) == ["alice", "bob"]


@pytest.mark.parametrize("role", ROLES)
def test_a_peer_has_one_card_at_a_time(role: str) -> None:
    """The one of its last entry, with what stood there; certificates of the one before are nobody's."""
    alice = ALICE.copy()
    old = ALICE.card.certificates(0)
    state = state_after(role, *beginning(role))
    assert set(old) <= set(state.parties.certificates(0))
    newer = stranger(ALICE)
    state.apply(entry_after(state, registered(newer, projects=("other",), note="a lost laptop")))
    peer = state.parties.peer("researcher", "alice")
    assert peer is not None
    assert (peer.card.signed, peer.projects) == (newer.card.signed, ("other",))
    assert not set(old) & set(state.parties.certificates(0))
    # Which card an operator puts into the place of another is for the operator to say: the log tells it, and why.
    alice.renew("ticket")
    assert refusal(state, registered(alice)) == "CARD_INVALID"
    state.apply(entry_after(state, registered(alice, note="it was found")))
    assert set(old) <= set(state.parties.certificates(0))


@pytest.mark.parametrize("role", ROLES)
def test_a_peer_is_entered_again_as_often_as_its_operator_says(role: str) -> None:
    """The same card with other studies or another inbox, and each card that follows, without a reason."""
    alice = ALICE.copy()
    state = state_after(role, *beginning(role), registered(ALICE, projects=("two",), inbox="127.0.0.1:2"))
    for purpose in ("ticket", TLS, IDENTITY, "ticket"):
        alice.renew(purpose)
        state.apply(entry_after(state, registered(alice)))
        peer = state.parties.peer("researcher", "alice")
        assert peer is not None
        assert (peer.card.signed, peer.projects, peer.inbox) == (alice.card.signed, (), "")


def test_a_card_may_take_the_place_of_its_own_subject() -> None:
    """A new card with the same certificate is no second party."""
    state = state_after("census", *beginning())
    state.apply(entry_after(state, registered(ALICE.copy())))
    renewed = ALICE.copy()
    renewed.renew(TLS)
    state.apply(entry_after(state, registered(renewed)))
    assert len(state.parties.certificates(0)) == 3


def test_a_subject_is_free_again_when_its_party_is_gone() -> None:
    """Nothing is kept of who was revoked."""
    twin = twin_of(ALICE, BOB.identity)
    state = state_after("census", *beginning(), revoked(ALICE), registered(twin))
    assert refusal(state, registered(ALICE)) == "CARD_INVALID"


def test_a_certificate_that_has_ended_still_keeps_its_subject() -> None:
    """Until it leaves the card: a rule that went by the clock would let the same log hold on one day and not on another."""
    alice = ALICE.copy()
    alice.renew(TLS, until_ms=1)
    twin = twin_of(ALICE, BOB.identity)
    state = state_after("census", opened(), announced(), registered(alice))
    assert refusal(state, registered(twin), time_ms=LATER) == "CARD_INVALID"


def test_agencies_are_known_by_organisation_and_researchers_by_id() -> None:
    """Two researchers of one university are two peers; two nodes of one agency are one."""
    assert [peer_name(party.identity) for party in (ALICE, BOB, HEALTH)] == ["alice", "bob", "health-on"]
    second = Party(Identity("health-on", "health", "other"), "other.test/log")
    moved = registered(second, note="another machine")
    state = state_after("census", *beginning(), moved, registered(OTHER_HEALTH), registered(BOB))
    assert list(state.parties.peers("health")) == ["health-on", "health-qc"]
    peer = state.parties.peer("health", "health-on")
    assert peer is not None
    assert peer.card.signed == second.card.signed
    assert list(state.parties.peers("researcher")) == ["alice", "bob"]


def test_certificates_are_recognised_until_their_time_is_over() -> None:
    """Asked for at an instant, not at the time of the log."""
    alice = ALICE.copy()
    (old,) = alice.card.certificates(0)
    alice.renew(TLS, until_ms=LATER)
    state = state_after("census", opened(), announced(), registered(alice))
    assert old in state.parties.certificates(LATER - 1)
    assert old not in state.parties.certificates(LATER)
    assert len(state.parties.certificates(LATER)) == 1


def test_a_copy_goes_its_own_way() -> None:
    """Changes on a copy do not affect the original."""
    state = state_after("census", *beginning())
    before = contents(state)
    copy = Parties.copy_of(state.parties)
    copy.register(registered(BOB), "census", ORIGIN)
    copy.register(registered(OTHER_HEALTH), "census", ORIGIN)
    copy.revoke(revoked(ALICE))
    copy.announce(Announced(card=CENSUS.successor("log").signed), "census", ORIGIN)
    assert contents(state) == before
    assert copy.peer("researcher", "bob") is not None


@pytest.mark.parametrize("role", ROLES)
def test_who_is_known_follows_from_the_bytes_of_the_log(role: str) -> None:
    """An auditor who replays it knows what the node knew, and when."""
    own, alice = OWN[role].copy(), ALICE.copy()
    own.renew("log")
    alice.renew("ticket")
    events = (*beginning(role), announced(own), loaded(), registered(BOB), registered(alice), revoked(BOB))
    state, log = fresh(role), []
    for event in events:
        log.append(entry_after(state, event))
        state.apply(log[-1])
    again = replay([parse_entry(encode_entry(entry)) for entry in log], fresh(role))
    assert contents(again) == contents(state)
    assert [peer.card.card.name for peer in again.parties.everybody()] == ["node", "alice"]
