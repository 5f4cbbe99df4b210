"""Registration: whom an agency knows is an entry of its log, and a node that is running obeys it at its next look."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.cards import IDENTITY, Party
from fakes.clock import FakeClock
from fakes.forged import forge, subject_of
from fakes.logs import ALICE, CENSUS, HEALTH, ORIGIN, root

from broker_common.crypto.cards import MAX_CARD_BYTES, TLS, SignedCard, VerifiedCard
from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.query.ticket import Researcher
from broker_common.storage.journal import Journal
from broker_common.storage.registration import (
    CardExchange,
    Identifier,
    KnownPeers,
    LogName,
    announce,
    own_card,
    read_card,
    register,
    registered,
    renew,
    revoke,
)
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Announced, Event, Registered, Revoked, parse_entry
from broker_common.tlog.membership import Registration
from broker_common.tlog.note import NoteSigner

NOW_MS = FakeClock()()
LATER_MS = NOW_MS + 1000
DAY_MS = 86_400_000
BOB = Party(Identity("university", "researcher", "bob"))
OTHER_CENSUS = Party(Identity("census-us", "census", "node"), "census-us.test/log")


@contextlib.contextmanager
def opened(path: Path, clock: FakeClock, *, create: bool = False) -> Iterator[Journal[CensusState]]:
    """A census journal, as one of several processes has it open."""
    journal = (Journal.create if create else Journal)(
        path,
        fresh_state=lambda: CensusState(root(CENSUS)),
        signer=lambda _: NoteSigner(ORIGIN, (CENSUS.signing(Purpose.LOG),)),
        clock=clock,
        tables=lambda _: None,
    )
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture
def clock() -> FakeClock:
    """Everybody's, standing still."""
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path, clock: FakeClock) -> Iterator[Journal[CensusState]]:
    """The census agency's journal, which knows the health agency and Alice."""
    with opened(path, clock, create=True) as made:
        announce(made, CENSUS.card.signed)
        register(made, HEALTH.card)
        register(made, ALICE.card, projects=["study"], inbox="127.0.0.1:1")
        yield made


@pytest.fixture
def alice() -> Party:
    """Alice with all her keys, to be changed at will; her first card is `ALICE`'s."""
    return ALICE.copy()


def events(journal: Journal[CensusState]) -> list[Event]:
    """What the log holds."""
    rows = journal.db.query("select entry from entries order by sequence")
    return [parse_entry(bytes(row["entry"])).event for row in rows]


def code_of(action: Callable[[], object]) -> str:
    """The code with which something is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        action()
    return caught.value.code


def exchanged(journal: Journal[CensusState], caller: Identity, signed: SignedCard) -> SignedCard:
    """What a peer hears who sends this card, and has sent none before."""
    return CardExchange(journal, journal.now)(caller, signed)


@contextlib.contextmanager
def unchanged(journal: Journal[CensusState]) -> Iterator[None]:
    """What happens inside leaves nothing in the log."""
    before = events(journal)
    yield
    assert events(journal) == before


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "0", "alice-2", "a" * 63])
def test_names_that_certificates_can_carry_pass(name: str) -> None:
    """The grammar is that of the URI in a certificate."""
    assert msgspec.convert(name, Identifier) == name


@pytest.mark.parametrize("name", ["", "-a", "Alice", "a_b", "a b", "a" * 64, "a\n", "\u00e9", "a/b"])
def test_other_names_are_refused(name: str) -> None:
    """No name can smuggle a part of a URI, or be one that no certificate says."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, Identifier)


@pytest.mark.parametrize(
    ("name", "fits"),
    [("x.test/log", True), ("", False), ("a b", False), ("a+b", False), ("a\n", False), ("x" * 201, False)],
)
def test_log_names_are_those_that_notes_can_carry(name: str, fits: bool) -> None:
    """No white space and no plus, which the note format forbids."""
    try:
        converted = msgspec.convert(name, LogName)
    except msgspec.ValidationError:
        converted = None
    assert (converted == name) == fits


# --- cards in files --------------------------------------------------------------------------------------------------


def test_a_card_is_read_from_the_file_that_its_owner_handed_over(tmp_path: Path) -> None:
    """With or without a newline at the end, which editors and mail add."""
    for end in (b"", b"\n"):
        (tmp_path / "alice.card").write_bytes(ALICE.card.signed.to_bytes() + end)
        assert read_card(tmp_path / "alice.card").signed == ALICE.card.signed


def test_a_card_that_two_people_compared_has_its_fingerprint(tmp_path: Path) -> None:
    """As it was read out, in capitals or with spaces around; any other is refused, and the one found is told."""
    file, fingerprint = tmp_path / "alice.card", ALICE.card.fingerprint
    file.write_bytes(ALICE.card.signed.to_bytes())
    for said in (fingerprint, fingerprint.upper(), f" {fingerprint}\n"):
        assert read_card(file, fingerprint=said).signed == ALICE.card.signed
    for said in ("", fingerprint[:-1], fingerprint[:16], BOB.card.fingerprint):
        with pytest.raises(InvalidRequestError) as caught:
            read_card(file, fingerprint=said)
        assert (caught.value.code, caught.value.details) == ("FINGERPRINT_MISMATCH", {"found": fingerprint})


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "MALFORMED_MESSAGE"),
        (b"rubbish", "MALFORMED_MESSAGE"),
        (ALICE.card.signed.to_bytes() + b"\n\n", "MALFORMED_MESSAGE"),
        (ALICE.card.signed.to_bytes()[:-1], "MALFORMED_MESSAGE"),
        (ALICE.card.signed.to_bytes() + b" " * 3 * MAX_CARD_BYTES, "MALFORMED_MESSAGE"),
        (ALICE.card.signed.document.encode(), "MALFORMED_MESSAGE"),
        (ALICE.sign(ALICE.card.card, [BOB.signing(Purpose.IDENTITY)]).to_bytes(), "BAD_SIGNATURE"),
    ],
    ids=["nothing", "rubbish", "two newlines", "cut", "endless", "unsigned", "signed by somebody else"],
)
def test_a_file_that_holds_no_card_is_refused(tmp_path: Path, content: bytes, code: str) -> None:
    """Whatever was handed over instead."""
    (tmp_path / "alice.card").write_bytes(content)
    assert code_of(lambda: read_card(tmp_path / "alice.card")) == code


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A mistyped path, or a folder."""
    for file in (tmp_path / "missing.card", tmp_path):
        with pytest.raises(InvalidRequestError) as caught:
            read_card(file)
        assert (caught.value.code, caught.value.details["file"]) == ("CARD_UNREADABLE", str(file))
        assert caught.value.details["problem"]


# --- one's own card --------------------------------------------------------------------------------------------------


def test_a_log_without_a_card_knows_nobody_and_is_nobody(path: Path, clock: FakeClock) -> None:
    """There is nothing to fall back to."""
    with opened(path, clock, create=True) as empty:
        known = KnownPeers(empty, clock)
        assert code_of(known.own) == "CARD_MISSING"
        assert known.certificates() == []
        assert (known.researchers(), known.inboxes(), known.agencies("health")) == ({}, {}, {})
        with empty.reading() as state:
            assert code_of(lambda: own_card(state.membership)) == "CARD_MISSING"


def test_a_newer_card_of_our_own_takes_the_place_of_the_one_before(journal: Journal[CensusState]) -> None:
    """From its entry on its keys are the ones that are used."""
    census = CENSUS.copy()
    newer = census.renew("policy")
    announce(journal, newer.signed)
    assert KnownPeers(journal, FakeClock()).own().signed == newer.signed
    assert events(journal)[-1] == Announced(card=newer.signed)


def test_a_card_that_is_not_our_next_one_is_not_announced(journal: Journal[CensusState]) -> None:
    """The same one again, an older one, another party's, one that somebody else signed: the log stays as it is."""
    census = CENSUS.copy()
    first, second = CENSUS.card.signed, census.renew("policy").signed
    stranger = Party(CENSUS.identity, ORIGIN)
    with unchanged(journal):
        assert code_of(lambda: announce(journal, first)) == "CARD_OUTDATED"
        assert code_of(lambda: announce(journal, HEALTH.card.signed)) == "WRONG_ORGANISATION"
        assert code_of(lambda: announce(journal, stranger.renew(TLS).signed)) == "BAD_SIGNATURE"
    announce(journal, second)
    with unchanged(journal):
        assert code_of(lambda: announce(journal, first)) == "CARD_OUTDATED"


# --- registering -----------------------------------------------------------------------------------------------------


def test_registering_is_an_entry_of_the_log(journal: Journal[CensusState]) -> None:
    """With everything that the node has to know of the peer."""
    said = register(journal, BOB.card, projects=["one", "two"], inbox="127.0.0.1:2")
    assert events(journal)[-1] == Registered(
        card=BOB.card.signed, note="", projects=("one", "two"), inbox="127.0.0.1:2"
    )
    assert (said.card.signed, said.projects, said.inbox) == (BOB.card.signed, ("one", "two"), "127.0.0.1:2")
    with journal.reading() as state:
        assert registered(state.membership, "researcher", "bob").card.signed == BOB.card.signed


def test_what_is_not_said_of_a_known_peer_stays_as_it_was(journal: Journal[CensusState], alice: Party) -> None:
    """A newer card takes no study away, and an empty list or inbox does."""
    kept = register(journal, alice.renew("ticket"))
    assert (kept.projects, kept.inbox) == (("study",), "127.0.0.1:1")
    moved = register(journal, alice.card, inbox="127.0.0.1:3")
    assert (moved.card.signed, moved.projects, moved.inbox) == (alice.card.signed, ("study",), "127.0.0.1:3")
    bare = register(journal, alice.card, projects=[], inbox="")
    assert (bare.projects, bare.inbox) == ((), "")


def test_a_known_peers_card_must_follow_the_one_that_is_known(journal: Journal[CensusState], alice: Party) -> None:
    """Whoever hands in a card for a known name is who was known, or the operator says that it is replaced."""
    older, newer, stranger = alice.card, alice.renew("ticket"), Party(ALICE.identity)
    register(journal, newer)
    moved = Party(Identity("institute", "researcher", "alice"))
    with unchanged(journal):
        assert code_of(lambda: register(journal, older)) == "CARD_OUTDATED"
        assert code_of(lambda: register(journal, stranger.card)) == "BAD_SIGNATURE"
        assert code_of(lambda: register(journal, stranger.renew("ticket"))) == "BAD_SIGNATURE"
        assert code_of(lambda: register(journal, moved.card)) == "WRONG_ORGANISATION"
    replaced = register(journal, stranger.card, replace_because="a lost key")
    assert (replaced.card.signed, replaced.projects) == (stranger.card.signed, ("study",))
    assert events(journal)[-1] == Registered(
        card=stranger.card.signed, note="a lost key", projects=("study",), inbox="127.0.0.1:1"
    )
    # Whoever was known before is nobody now.
    assert code_of(lambda: register(journal, alice.renew("ticket"))) == "BAD_SIGNATURE"


def test_a_card_that_the_log_would_refuse_is_the_callers_mistake(journal: Journal[CensusState]) -> None:
    """Not a damaged log: the node goes on, and the operator reads what is wrong."""
    twin = Party(BOB.identity, given={TLS: forge(BOB.identity, key_of=ALICE.tls)})
    with unchanged(journal):
        assert code_of(lambda: register(journal, OTHER_CENSUS.card)) == "WRONG_ORGANISATION"
        assert code_of(lambda: register(journal, CENSUS.card)) == "WRONG_ORGANISATION"
        assert code_of(lambda: register(journal, twin.card)) == "MALFORMED_MESSAGE"
    assert register(journal, BOB.card).card.signed == BOB.card.signed


def test_revoking_is_an_entry_of_the_log(journal: Journal[CensusState]) -> None:
    """From there on the peer is not known; nobody is revoked twice, or without having been known."""
    revoke(journal, "researcher", "alice", "the study is over")
    assert events(journal)[-1] == Revoked(role="researcher", name="alice", note="the study is over")
    with journal.reading() as state:
        assert code_of(lambda: registered(state.membership, "researcher", "alice")) == "NOT_REGISTERED"
    with unchanged(journal):
        for role, name in (("researcher", "alice"), ("health", "alice"), ("census", "census-ca"), ("health", "x")):
            assert code_of(lambda: revoke(journal, role, name, "again")) == "NOT_REGISTERED"  # type: ignore[arg-type]  # noqa: B023 - a role, called here


def test_who_was_revoked_may_be_registered_anew(journal: Journal[CensusState], alice: Party) -> None:
    """By an operator, like the first time: nothing of what was known before is left, neither card nor studies."""
    register(journal, alice.renew("ticket"))
    revoke(journal, "researcher", "alice", "a lost laptop")
    stranger = Party(ALICE.identity)
    again = register(journal, stranger.card)
    assert (again.card.signed, again.projects, again.inbox) == (stranger.card.signed, (), "")


def test_a_reason_is_logged_for_what_needed_one(journal: Journal[CensusState], alice: Party) -> None:
    """A card that follows is taken as it is, whatever reason comes with it; an older one goes back for a reason only."""
    older, newer = alice.card, alice.renew("ticket")
    register(journal, newer, replace_because="to be sure")
    register(journal, BOB.card, replace_because="to be sure")
    register(journal, older, replace_because="a restored machine")
    notes = [event.note for event in events(journal)[-3:] if isinstance(event, Registered)]
    assert notes == ["", "", "a restored machine"]


# --- exchange --------------------------------------------------------------------------------------------------------


def test_a_peer_that_shows_what_is_known_learns_our_card(journal: Journal[CensusState]) -> None:
    """And the log stays as it is, however often it asks."""
    with unchanged(journal):
        for _ in range(3):
            assert exchanged(journal, ALICE.identity, ALICE.card.signed) == CENSUS.card.signed


def test_a_newer_card_is_taken_from_whoever_it_belongs_to(journal: Journal[CensusState], alice: Party) -> None:
    """Its entry keeps studies and inbox, which are the operator's to give."""
    newer = alice.renew("ticket")
    assert exchanged(journal, ALICE.identity, newer.signed) == CENSUS.card.signed
    assert events(journal)[-1] == Registered(card=newer.signed, note="", projects=("study",), inbox="127.0.0.1:1")
    health = HEALTH.copy()
    exchanged(journal, HEALTH.identity, health.renew("manifest").signed)
    with journal.reading() as state:
        assert registered(state.membership, "health", "health-on").card.signed == health.card.signed


def test_an_older_card_changes_nothing_and_is_answered(journal: Journal[CensusState], alice: Party) -> None:
    """A peer may come from a backup, or from a machine that has not heard of its own newest card."""
    older = alice.card.signed
    exchanged(journal, ALICE.identity, alice.renew("ticket").signed)
    with unchanged(journal):
        assert exchanged(journal, ALICE.identity, older) == CENSUS.card.signed


def test_another_card_of_the_same_serial_changes_nothing(journal: Journal[CensusState], alice: Party) -> None:
    """Two machines of one owner each made a next card: the one that came first stands."""
    one, other = alice.successor("ticket"), alice.successor("ticket")
    assert one.card.serial == other.card.serial
    exchanged(journal, ALICE.identity, one.signed)
    with unchanged(journal):
        assert exchanged(journal, ALICE.identity, other.signed) == CENSUS.card.signed


def forged_cards() -> dict[str, tuple[SignedCard, str]]:
    """What a caller who is Alice on the wire may try, and how it is refused."""
    bob, stranger, alice = BOB.copy(), Party(ALICE.identity), ALICE.copy()
    next_card = alice.successor("ticket")
    subject = subject_of(HEALTH.tls)
    return {
        "another researcher's card": (bob.renew("ticket").signed, "WRONG_ORGANISATION"),
        "an agency's card": (HEALTH.copy().renew("manifest").signed, "WRONG_ORGANISATION"),
        "our own card": (CENSUS.card.signed, "WRONG_ORGANISATION"),
        "a card of one's name by other keys": (stranger.renew("ticket").signed, "BAD_SIGNATURE"),
        "one's next card signed by somebody": (
            alice.sign(next_card.card, [bob.signing(Purpose.IDENTITY)]),
            "BAD_SIGNATURE",
        ),
        "one's next card with the old signature": (
            msgspec.structs.replace(next_card.signed, signatures=ALICE.card.signed.signatures),
            "BAD_SIGNATURE",
        ),
        "rubbish": (msgspec.structs.replace(next_card.signed, document="{}"), "MALFORMED_MESSAGE"),
        "another peer's subject": (
            alice.showing(forge(ALICE.identity, subject=subject).certificate),
            "MALFORMED_MESSAGE",
        ),
        "another researcher's key": (
            alice.successor(TLS, key=forge(ALICE.identity, key_of=BOB.tls)).signed,
            "MALFORMED_MESSAGE",
        ),
        "one subject twice": (
            alice.successor(TLS, key=forge(ALICE.identity, key_of=alice.tls)).signed,
            "MALFORMED_MESSAGE",
        ),
    }


FORGED = forged_cards()


@pytest.mark.parametrize("what", FORGED)
def test_a_card_that_does_not_follow_changes_nothing(
    journal: Journal[CensusState], clock: FakeClock, what: str
) -> None:
    """A caller's own connection gives no power over anybody's card, its own included."""
    signed, code = FORGED[what]
    register(journal, BOB.card)
    with unchanged(journal):
        assert code_of(lambda: exchanged(journal, ALICE.identity, signed)) == code
    assert KnownPeers(journal, clock).card("researcher", "alice").signed == ALICE.card.signed


def test_a_peer_that_was_revoked_exchanges_nothing(journal: Journal[CensusState], alice: Party) -> None:
    """Not even with a newer card: who may come back is for an operator to say."""
    revoke(journal, "researcher", "alice", "a lost laptop")
    with unchanged(journal):
        for signed in (ALICE.card.signed, alice.renew("ticket").signed):
            assert code_of(lambda: exchanged(journal, ALICE.identity, signed)) == "NOT_REGISTERED"  # noqa: B023 - called here


def test_a_card_whose_owner_is_revoked_meanwhile_is_not_taken(
    journal: Journal[CensusState], path: Path, clock: FakeClock, alice: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange under way does not undo what the operator's command says while it is judged."""
    newer = alice.renew("ticket").signed

    def meanwhile(journal: Journal[CensusState], card: VerifiedCard) -> Registration:
        with opened(path, clock) as operator:
            revoke(operator, "researcher", "alice", "a lost laptop")
        return renew(journal, card)

    monkeypatch.setattr("broker_common.storage.registration.renew", meanwhile)
    assert code_of(lambda: exchanged(journal, ALICE.identity, newer)) == "NOT_REGISTERED"
    assert "alice" not in KnownPeers(journal, clock).researchers()
    assert isinstance(events(journal)[-1], Revoked)


def test_a_card_that_is_replaced_meanwhile_is_not_followed(
    journal: Journal[CensusState], path: Path, clock: FakeClock, alice: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it follows is decided under the lock, by what is known then."""
    newer, stranger = alice.renew("ticket").signed, Party(ALICE.identity)

    def meanwhile(journal: Journal[CensusState], card: VerifiedCard) -> Registration:
        with opened(path, clock) as operator:
            register(operator, stranger.card, replace_because="a lost key")
        return renew(journal, card)

    monkeypatch.setattr("broker_common.storage.registration.renew", meanwhile)
    assert code_of(lambda: exchanged(journal, ALICE.identity, newer)) == "BAD_SIGNATURE"
    assert KnownPeers(journal, clock).card("researcher", "alice").signed == stranger.card.signed


def test_a_card_on_its_own_makes_nobody_known(journal: Journal[CensusState], alice: Party) -> None:
    """What a peer sends is taken for known ones only: being known is an operator's act."""
    with unchanged(journal):
        assert code_of(lambda: renew(journal, BOB.card)) == "NOT_REGISTERED"
        assert code_of(lambda: renew(journal, alice.card)) == "CARD_OUTDATED"
    assert renew(journal, alice.renew("ticket")).projects == ("study",)


def test_a_peer_makes_the_log_grow_by_twenty_cards_a_day(
    journal: Journal[CensusState], clock: FakeClock, alice: Party
) -> None:
    """Any more are answered and not taken; others are not hindered, and a day after the first there is room for one."""
    exchange, health = CardExchange(journal, clock), HEALTH.copy()

    def send() -> bool:
        clock.now_ms += 1
        newer = alice.renew("ticket", now_ms=clock(), from_ms=clock(), until_ms=clock())
        before = len(events(journal))
        assert exchange(ALICE.identity, newer.signed) == CENSUS.card.signed
        return len(events(journal)) == before + 1

    assert [send() for _ in range(22)] == [True] * 20 + [False] * 2
    taken = KnownPeers(journal, clock).card("researcher", "alice").card.serial
    assert taken == 21
    before = len(events(journal))
    exchange(HEALTH.identity, health.renew("manifest").signed)
    assert len(events(journal)) == before + 1
    clock.now_ms = NOW_MS + DAY_MS - 1
    assert not send()
    assert [send(), send(), send()] == [True, True, True]
    # The card that is taken then is the newest: those between were never needed.
    assert KnownPeers(journal, clock).card("researcher", "alice").signed == alice.card.signed


# --- what a running node sees ----------------------------------------------------------------------------------------


def test_a_node_sees_at_once_what_another_process_registers_and_revokes(
    journal: Journal[CensusState], path: Path, clock: FakeClock
) -> None:
    """The commands are processes of their own; nobody restarts the node."""
    known = KnownPeers(journal, clock)
    bobs = BOB.card.certificates(NOW_MS)[0]
    assert bobs not in known.certificates()
    with opened(path, clock) as operator:
        register(operator, BOB.card, projects=["study"], inbox="127.0.0.1:2")
        assert bobs in known.certificates()
        assert set(known.researchers()) == {"alice", "bob"}
        assert set(known.inboxes()) == {"alice", "bob"}
        revoke(operator, "researcher", "bob", "over")
        assert bobs not in known.certificates()
        assert set(known.researchers()) == set(known.inboxes()) == {"alice"}
        assert set(known.agencies("health")) == {"health-on"}
        revoke(operator, "health", "health-on", "over")
        assert known.agencies("health") == {}
        assert code_of(lambda: known.card("health", "health-on")) == "NOT_REGISTERED"


def test_keys_are_honoured_until_their_time_is_over(
    journal: Journal[CensusState], clock: FakeClock, alice: Party
) -> None:
    """Both the old and the new one until then; the old one never again after that."""
    known, old, first = KnownPeers(journal, clock), ALICE.signing(Purpose.TICKET).verify_key, ALICE.card
    register(journal, alice.renew("ticket", now_ms=NOW_MS, from_ms=NOW_MS, until_ms=LATER_MS))
    register(journal, alice.renew(TLS, now_ms=NOW_MS, from_ms=NOW_MS, until_ms=LATER_MS))
    new = alice.signing(Purpose.TICKET).verify_key
    studies = frozenset({"study"})
    assert known.researchers()["alice"] == Researcher("alice", (old, new), studies)
    clock.now_ms = LATER_MS - 1
    assert known.researchers()["alice"].keys == (old, new)
    assert first.certificates(0)[0] in known.certificates()
    clock.now_ms = LATER_MS
    assert known.researchers()["alice"] == Researcher("alice", (new,), studies)
    assert first.certificates(0)[0] not in known.certificates()
    assert alice.card.certificates(LATER_MS)[0] in known.certificates()


def test_a_replaced_identity_key_makes_no_card(journal: Journal[CensusState], clock: FakeClock, alice: Party) -> None:
    """Whoever stole it can replace nothing any more, from the first card of its successor on."""
    thief = ALICE.copy()
    register(journal, alice.renew(IDENTITY, now_ms=NOW_MS, from_ms=NOW_MS, until_ms=LATER_MS))
    thief.renew("ticket")
    stolen = thief.renew("ticket")
    assert stolen.card.serial > alice.card.card.serial
    for now_ms in (NOW_MS, LATER_MS):
        clock.now_ms = now_ms
        with unchanged(journal):
            assert code_of(lambda: exchanged(journal, ALICE.identity, stolen.signed)) == "BAD_SIGNATURE"
    assert exchanged(journal, ALICE.identity, alice.renew("ticket", now_ms=LATER_MS).signed) == CENSUS.card.signed


def test_a_log_that_registers_what_it_may_not_is_damaged(journal: Journal[CensusState]) -> None:
    """Whoever goes past the commands: the log refuses, and the journal says that it does not hold."""
    before = events(journal)
    with pytest.raises(InternalError, match="CARD_INVALID"), journal.transaction() as transaction:
        transaction.append(Registered(card=OTHER_CENSUS.card.signed, note="", projects=(), inbox=""))
    assert events(journal) == before
