"""Registration: whom an agency knows is an entry of its log, and a node that is running obeys it at its next look."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from fakes.cards import IDENTITY, Party
from fakes.clock import FakeClock
from fakes.connections import WatchedConnection, at, watch
from fakes.forged import STRANGE, forge, subject_of, twin
from fakes.logs import ALICE, CENSUS, HEALTH, ORIGIN, root
from fakes.patience import PATIENCE_SECONDS

from broker_common.crypto.cards import MAX_CARD_BYTES, TLS, Identifier, LogName, SignedCard, verify_card
from broker_common.crypto.certificates import Identity
from broker_common.crypto.signing import Purpose
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.parties.exchange import CardExchange
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import announce, own_card, read_card, register, registered, renew, revoke
from broker_common.query.ticket import Researcher
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Announced, Event, Registered, Revoked, parse_entry
from broker_common.tlog.note import NoteSigner

NOW_MS = FakeClock()()
LATER_MS = NOW_MS + 1000
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


def exchange(journal: Journal[CensusState], caller: Identity, signed: SignedCard) -> SignedCard:
    """Answer of a freshly started node to a card."""
    return CardExchange(journal, FakeClock())(caller, signed)


def events(journal: Journal[CensusState]) -> list[Event]:
    """Events of the log."""
    rows = journal.db.query("select entry from entries order by sequence")
    return [parse_entry(bytes(row["entry"])).event for row in rows]


def code_of(action: Callable[[], object]) -> str:
    """The code with which something is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        action()
    return caught.value.code


@contextlib.contextmanager
def unchanged(journal: Journal[CensusState]) -> Iterator[None]:
    """The block leaves nothing in the log."""
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
    """As it was read out, in capitals or in groups; any other is refused, and the one found is told."""
    file, fingerprint = tmp_path / "alice.card", ALICE.card.fingerprint
    file.write_bytes(ALICE.card.signed.to_bytes())
    for said in (fingerprint, fingerprint.upper(), f" {fingerprint}\n", f"{fingerprint[:32]} {fingerprint[32:]}"):
        assert read_card(file, fingerprint=said).signed == ALICE.card.signed
    with pytest.raises(InvalidRequestError) as caught:
        read_card(file, fingerprint=BOB.card.fingerprint)
    assert (caught.value.code, caught.value.details) == ("FINGERPRINT_MISMATCH", {"found": fingerprint})


@pytest.mark.parametrize("said", ["", "0" * 63, "0" * 65, "0123456789abcdef", "g" * 64, "\u0661" * 64])
def test_what_is_no_whole_fingerprint_is_refused_as_that(tmp_path: Path, said: str) -> None:
    """A part of one would be a lock with fewer pins."""
    (tmp_path / "alice.card").write_bytes(ALICE.card.signed.to_bytes())
    with pytest.raises(InvalidRequestError) as caught:
        read_card(tmp_path / "alice.card", fingerprint=said)
    assert caught.value.code == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "CARD_UNREADABLE"),
        (b"rubbish", "CARD_UNREADABLE"),
        (ALICE.card.signed.to_bytes() + b"\n\n", "CARD_UNREADABLE"),
        (ALICE.card.signed.to_bytes()[:-1], "CARD_UNREADABLE"),
        (ALICE.card.signed.to_bytes() + b" " * 3 * MAX_CARD_BYTES, "CARD_UNREADABLE"),
        (ALICE.card.signed.document.encode(), "CARD_UNREADABLE"),
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
        assert (caught.value.code, caught.value.details["file"]) == ("FILE_UNUSABLE", str(file))
        assert caught.value.details["problem"]


# --- one's own card --------------------------------------------------------------------------------------------------


def test_a_log_without_a_card_knows_nobody_and_is_nobody(path: Path, clock: FakeClock) -> None:
    """There is nothing to fall back to."""
    with opened(path, clock, create=True) as empty:
        known = KnownPeers(empty, clock)
        assert code_of(known.own) == "CARD_MISSING"
        assert known.certificates() == ()
        assert (known.researchers(), known.inboxes(), known.agencies("health")) == ({}, {}, {})
        with empty.reading() as state:
            assert code_of(lambda: own_card(state.parties)) == "CARD_MISSING"


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
        assert code_of(lambda: announce(journal, stranger.renew(TLS).signed)) == "CARD_UNRELATED"
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
        assert registered(state.parties, "researcher", "bob").card.signed == BOB.card.signed


def test_what_is_not_said_of_a_known_peer_stays_as_it_was(journal: Journal[CensusState], alice: Party) -> None:
    """A newer card takes no study away, and an empty list or inbox does."""
    kept = register(journal, alice.renew("ticket"))
    assert (kept.projects, kept.inbox) == (("study",), "127.0.0.1:1")
    moved = register(journal, alice.card, inbox="127.0.0.1:3")
    assert (moved.card.signed, moved.projects, moved.inbox) == (alice.card.signed, ("study",), "127.0.0.1:3")
    bare = register(journal, alice.card, projects=[], inbox="")
    assert (bare.projects, bare.inbox) == ((), "")


def test_a_known_peers_card_must_follow_the_one_that_is_known(journal: Journal[CensusState], alice: Party) -> None:
    """The sender of a card for a known name is the known party, or the operator says that it is replaced."""
    older, newer, stranger = alice.card, alice.renew("ticket"), Party(ALICE.identity)
    register(journal, newer)
    moved = Party(Identity("institute", "researcher", "alice"))
    with unchanged(journal):
        assert code_of(lambda: register(journal, older)) == "CARD_OUTDATED"
        assert code_of(lambda: register(journal, stranger.card)) == "CARD_UNRELATED"
        assert code_of(lambda: register(journal, stranger.renew("ticket"))) == "CARD_UNRELATED"
        assert code_of(lambda: register(journal, moved.card)) == "WRONG_ORGANISATION"
    replaced = register(journal, stranger.card, replace_because="a lost laptop")
    assert (replaced.card.signed, replaced.projects) == (stranger.card.signed, ("study",))
    assert events(journal)[-1] == Registered(
        card=stranger.card.signed, note="a lost laptop", projects=("study",), inbox="127.0.0.1:1"
    )
    # A peer known before is nobody now.
    assert code_of(lambda: register(journal, alice.renew("ticket"))) == "CARD_UNRELATED"


def test_a_reason_that_is_not_needed_is_not_logged(journal: Journal[CensusState], alice: Party) -> None:
    """An operator who gives one for a card that follows, or for somebody new, registers it like any other."""
    for card in (BOB.card, alice.renew("ticket"), alice.card):
        register(journal, card, replace_because="to be sure")
        event = events(journal)[-1]
        assert isinstance(event, Registered)
        assert (event.card, event.note) == (card.signed, "")


def test_a_card_that_the_log_would_refuse_is_the_callers_mistake(journal: Journal[CensusState]) -> None:
    """Not a damaged log: the node goes on, and the operator reads what is wrong."""
    double = Party(BOB.identity, given={TLS: twin(ALICE.tls, BOB.identity)})
    with unchanged(journal):
        assert code_of(lambda: register(journal, OTHER_CENSUS.card)) == "WRONG_ORGANISATION"
        assert code_of(lambda: register(journal, CENSUS.card)) == "WRONG_ORGANISATION"
        assert code_of(lambda: register(journal, double.card)) == "MALFORMED_MESSAGE"
    assert register(journal, BOB.card).card.signed == BOB.card.signed


def test_a_card_with_somebody_elses_log_is_said_before_anything_is_logged(journal: Journal[CensusState]) -> None:
    """Ours or another agency's, which stays its own when it is revoked: the operator reads whose it is and what to ask for."""
    revoke(journal, "health", "health-on", "a drill")
    for origin, owner in ((CENSUS.card.card.origin, "this node"), (HEALTH.card.card.origin, "health health-on")):
        puppet = Party(Identity("health-x", "health", "node"), origin)
        with unchanged(journal), pytest.raises(InvalidRequestError) as caught:
            register(journal, puppet.card)
        assert caught.value.code == "LOG_NAME_TAKEN"
        assert f"names its log {origin}, which is the log of {owner}." in caught.value.text
        assert "has another name" in caught.value.hint


def test_revoking_is_an_entry_of_the_log(journal: Journal[CensusState]) -> None:
    """From there on the peer is not known; nobody is revoked twice, or without having been known."""
    revoke(journal, "researcher", "alice", "the study is over")
    assert events(journal)[-1] == Revoked(role="researcher", name="alice", note="the study is over")
    with journal.reading() as state:
        assert code_of(lambda: registered(state.parties, "researcher", "alice")) == "NOT_REGISTERED"
    with unchanged(journal):
        for role, name in (("researcher", "alice"), ("health", "alice"), ("census", "census-ca"), ("health", "x")):
            assert code_of(lambda: revoke(journal, role, name, "again")) == "NOT_REGISTERED"  # type: ignore[arg-type]  # noqa: B023 - a role, called here


def test_who_was_revoked_may_be_registered_anew(journal: Journal[CensusState], alice: Party) -> None:
    """An operator does it, like the first time: nothing of what was known before is left, neither card nor studies."""
    register(journal, alice.renew("ticket"))
    revoke(journal, "researcher", "alice", "a lost laptop")
    stranger = Party(ALICE.identity)
    again = register(journal, stranger.card)
    assert (again.card.signed, again.projects, again.inbox) == (stranger.card.signed, (), "")


# --- exchange --------------------------------------------------------------------------------------------------------


def test_a_peer_that_shows_what_is_known_learns_our_card(journal: Journal[CensusState]) -> None:
    """And the log stays as it is, however often it asks."""
    with unchanged(journal):
        for _ in range(3):
            assert exchange(journal, ALICE.identity, ALICE.card.signed) == CENSUS.card.signed


def test_a_newer_card_is_taken_from_whoever_it_belongs_to(journal: Journal[CensusState], alice: Party) -> None:
    """Its entry keeps studies and inbox, which are the operator's to give."""
    newer = alice.renew("ticket")
    assert exchange(journal, ALICE.identity, newer.signed) == CENSUS.card.signed
    assert events(journal)[-1] == Registered(card=newer.signed, note="", projects=("study",), inbox="127.0.0.1:1")
    health = HEALTH.copy()
    exchange(journal, HEALTH.identity, health.renew("manifest").signed)
    with journal.reading() as state:
        assert registered(state.parties, "health", "health-on").card.signed == health.card.signed


def test_an_older_card_changes_nothing_and_is_answered(journal: Journal[CensusState], alice: Party) -> None:
    """A peer may come from a backup, or from a machine that has not heard of its own newest card."""
    older = alice.card.signed
    exchange(journal, ALICE.identity, alice.renew("ticket").signed)
    with unchanged(journal):
        assert exchange(journal, ALICE.identity, older) == CENSUS.card.signed


def test_another_card_of_the_same_serial_changes_nothing(journal: Journal[CensusState], alice: Party) -> None:
    """Two machines of one owner each made a next card: the one that came first stands."""
    one, other = alice.successor("ticket"), alice.successor("ticket")
    assert one.card.serial == other.card.serial
    exchange(journal, ALICE.identity, one.signed)
    with unchanged(journal):
        assert exchange(journal, ALICE.identity, other.signed) == CENSUS.card.signed


def forged_cards() -> dict[str, tuple[SignedCard, str]]:
    """Attempts of a caller who is Alice on the wire, and how each is refused."""
    bob, stranger, alice = BOB.copy(), Party(ALICE.identity), ALICE.copy()
    next_card = alice.successor("ticket")
    copied = forge(ALICE.identity, subject=subject_of(HEALTH.tls))
    return {
        "another researcher's card": (bob.renew("ticket").signed, "WRONG_ORGANISATION"),
        "an agency's card": (HEALTH.copy().renew("manifest").signed, "WRONG_ORGANISATION"),
        "our own card": (CENSUS.card.signed, "WRONG_ORGANISATION"),
        "a card of one's name by other keys": (stranger.renew("ticket").signed, "CARD_UNRELATED"),
        "one's next card signed by somebody": (
            alice.sign(next_card.card, [bob.signing(Purpose.IDENTITY)]),
            "BAD_SIGNATURE",
        ),
        "one's next card with the old signature": (
            msgspec.structs.replace(next_card.signed, signatures=ALICE.card.signed.signatures),
            "BAD_SIGNATURE",
        ),
        "rubbish": (msgspec.structs.replace(next_card.signed, document="{}"), "MALFORMED_MESSAGE"),
        "another peer's subject": (alice.showing(copied), "MALFORMED_MESSAGE"),
        "one subject twice": (
            alice.successor(TLS, key=twin(alice.tls, ALICE.identity)).signed,
            "MALFORMED_MESSAGE",
        ),
        **{
            f"a certificate with {what}": (alice.showing(alice.tls, make(ALICE.identity)), "MALFORMED_MESSAGE")
            for what, make in STRANGE.items()
        },
    }


FORGED = forged_cards()


@pytest.mark.parametrize("what", FORGED)
def test_a_card_that_does_not_follow_changes_nothing(
    journal: Journal[CensusState], clock: FakeClock, what: str
) -> None:
    """A caller's own connection gives no power over anybody's card, its own included."""
    signed, code = FORGED[what]
    with unchanged(journal):
        assert code_of(lambda: exchange(journal, ALICE.identity, signed)) == code
    assert KnownPeers(journal, clock).card("researcher", "alice").signed == ALICE.card.signed


def test_a_peer_that_was_revoked_exchanges_nothing(journal: Journal[CensusState], alice: Party) -> None:
    """Not even with a newer card: who may come back is for an operator to say."""
    revoke(journal, "researcher", "alice", "a lost laptop")
    with unchanged(journal):
        for signed in (ALICE.card.signed, alice.renew("ticket").signed):
            assert code_of(lambda: exchange(journal, ALICE.identity, signed)) == "NOT_REGISTERED"  # noqa: B023 - called here


Take = Callable[[Journal[CensusState], SignedCard], object]
# The ways in which a card that its owner sent comes into a log: the owner called, or our node called and was told.
WAYS: dict[str, Take] = {
    "exchange": lambda journal, signed: exchange(journal, ALICE.identity, signed),
    "renew": lambda journal, signed: renew(journal, verify_card(signed)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_card_that_was_under_way_does_not_bring_back_who_is_revoked(
    journal: Journal[CensusState], path: Path, clock: FakeClock, alice: Party, way: str
) -> None:
    """The operator's command holds the lock when the card is looked at: the card is decided on after it, and refused."""
    newer, waiting = alice.renew("ticket").signed, threading.Event()

    with opened(path, clock) as operator, ThreadPoolExecutor(1) as node:
        watch(journal.db, before=at("BEGIN IMMEDIATE", waiting.set))
        with operator.transaction() as transaction:
            taken = node.submit(WAYS[way], journal, newer)
            # It has looked at the log, where Alice is known, and asks for the lock.
            assert waiting.wait(PATIENCE_SECONDS)
            transaction.append(Revoked(role="researcher", name="alice", note="a lost laptop"))
        assert code_of(taken.result) == "NOT_REGISTERED"
    assert "alice" not in KnownPeers(journal, clock).researchers()
    assert isinstance(events(journal)[-1], Revoked)


@pytest.mark.parametrize("way", WAYS)
def test_a_revocation_that_waits_for_a_card_revokes_all_the_same(
    journal: Journal[CensusState], path: Path, clock: FakeClock, alice: Party, way: str
) -> None:
    """The other order: the card holds the lock when the operator's command comes; it is taken, and its owner revoked."""
    newer, waiting = alice.renew("ticket").signed, threading.Event()
    with opened(path, clock) as command, ThreadPoolExecutor(1) as operator:
        revoking: list[Future[object]] = []

        def meanwhile(_: WatchedConnection, statement: str) -> None:
            if statement.startswith("insert into entries") and not revoking:
                revoking.append(operator.submit(revoke, command, "researcher", "alice", "a lost laptop"))
                assert waiting.wait(PATIENCE_SECONDS)

        watch(command.db, before=at("BEGIN IMMEDIATE", waiting.set))
        watch(journal.db, before=meanwhile)
        WAYS[way](journal, newer)
        revoking[0].result()
        assert "alice" not in KnownPeers(journal, clock).researchers()
        assert [type(event) for event in events(journal)[-2:]] == [Registered, Revoked]
        # Whatever she sends from now on.
        with unchanged(journal):
            for signed in (newer, alice.renew("ticket").signed):
                assert code_of(lambda: WAYS[way](journal, signed)) == "NOT_REGISTERED"  # noqa: B023 - called here


@pytest.mark.parametrize("way", WAYS)
def test_a_card_that_was_under_way_does_not_follow_what_replaced_it(
    journal: Journal[CensusState], path: Path, clock: FakeClock, alice: Party, way: str
) -> None:
    """The operator's command holds the lock when the card is looked at: whom it follows is decided after it."""
    newer, stranger, waiting = alice.renew("ticket").signed, Party(ALICE.identity), threading.Event()

    with opened(path, clock) as operator, ThreadPoolExecutor(1) as node:
        watch(journal.db, before=at("BEGIN IMMEDIATE", waiting.set))
        with operator.transaction() as transaction:
            taken = node.submit(WAYS[way], journal, newer)
            assert waiting.wait(PATIENCE_SECONDS)
            transaction.append(Registered(card=stranger.card.signed, note="a lost key", projects=("study",), inbox=""))
        assert code_of(taken.result) == "CARD_UNRELATED"
    assert KnownPeers(journal, clock).card("researcher", "alice").signed == stranger.card.signed


def test_a_card_of_nobody_whom_an_operator_has_registered_is_not_taken(journal: Journal[CensusState]) -> None:
    """A card over the wire renews a known party, and introduces nobody."""
    with unchanged(journal):
        assert code_of(lambda: renew(journal, BOB.card)) == "NOT_REGISTERED"
        assert code_of(lambda: renew(journal, Party(ALICE.identity).renew("ticket"))) == "CARD_UNRELATED"
        assert code_of(lambda: renew(journal, ALICE.card)) == "CARD_OUTDATED"


def test_a_peer_makes_the_log_grow_by_few_cards_a_day(journal: Journal[CensusState], alice: Party) -> None:
    """Each is an entry. The 21st within a day is not taken, and is answered like any other; others are not concerned."""
    clock, health = FakeClock(), HEALTH.copy()
    exchanging = CardExchange(journal, clock)
    for serial in range(2, 22):
        clock.advance(60_000)
        exchanging(ALICE.identity, alice.changed(serial=serial))
    known = KnownPeers(journal, clock).card("researcher", "alice")
    assert known.card.serial == 21
    # An hour less than a day after the first of them.
    clock.advance(22 * 3_600_000)
    with unchanged(journal):
        for serial in (22, 23, 10**6):
            assert exchanging(ALICE.identity, alice.changed(serial=serial)) == CENSUS.card.signed
    assert KnownPeers(journal, clock).researchers()["alice"].keys == tuple(known.verify_keys(Purpose.TICKET, 0))
    exchanging(HEALTH.identity, health.renew("manifest").signed)
    assert KnownPeers(journal, clock).card("health", "health-on").signed == health.card.signed
    # An operator is not a peer, and a day later the peer is heard again.
    assert register(journal, verify_card(alice.changed(serial=50))).card.card.serial == 50
    clock.advance(2 * 3_600_000)
    exchanging(ALICE.identity, alice.changed(serial=51))
    assert KnownPeers(journal, clock).card("researcher", "alice").card.serial == 51


def test_cards_that_are_refused_or_not_newer_do_not_count(journal: Journal[CensusState], alice: Party) -> None:
    """A peer on an old backup goes on showing its old card, and is heard when it has a newer one."""
    exchanging, older = CardExchange(journal, FakeClock()), alice.card.signed
    exchanging(ALICE.identity, alice.renew("ticket").signed)
    stranger = Party(ALICE.identity).renew("ticket").signed
    for _ in range(30):
        exchanging(ALICE.identity, older)
        exchanging(ALICE.identity, alice.card.signed)
        assert code_of(lambda: exchanging(ALICE.identity, stranger)) == "CARD_UNRELATED"
    newer = alice.renew("ticket").signed
    exchanging(ALICE.identity, newer)
    assert KnownPeers(journal, FakeClock()).card("researcher", "alice").signed == newer


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


def test_an_identity_key_that_was_replaced_makes_no_card(
    journal: Journal[CensusState], clock: FakeClock, alice: Party
) -> None:
    """A thief of it can no longer replace anything, from the moment that the new one is known."""
    thief = ALICE.copy()
    register(journal, alice.renew(IDENTITY, now_ms=NOW_MS, from_ms=NOW_MS, until_ms=LATER_MS))
    thief.renew("ticket")
    stolen = thief.renew("ticket")
    assert stolen.card.serial > alice.card.card.serial
    for now_ms in (NOW_MS, LATER_MS):
        clock.now_ms = now_ms
        with unchanged(journal):
            assert code_of(lambda: exchange(journal, ALICE.identity, stolen.signed)) == "CARD_UNRELATED"
            assert code_of(lambda: register(journal, stolen)) == "CARD_UNRELATED"
            assert code_of(lambda: renew(journal, stolen)) == "CARD_UNRELATED"
    assert exchange(journal, ALICE.identity, alice.renew("ticket", now_ms=LATER_MS).signed) == CENSUS.card.signed


@pytest.mark.parametrize(
    ("projects", "inbox"),
    [([""], ""), (["x" * 65], ""), (["x"] * 101, ""), (["\udcff"], ""), (["x"], "h" * 300 + ":1")],
    ids=["empty", "long", "many", "no text", "inbox"],
)
def test_terms_that_no_log_can_hold_are_the_operators_mistake(
    journal: Journal[CensusState], projects: list[str], inbox: str
) -> None:
    """They are refused with what is wrong; nothing is logged, and nothing looks like a bug."""
    with unchanged(journal):
        assert code_of(lambda: register(journal, BOB.card, projects=projects, inbox=inbox)) == "INVALID_VALUE"


def test_a_log_that_registers_what_it_may_not_is_damaged(journal: Journal[CensusState]) -> None:
    """For a writer past the commands, the log refuses, and the journal says that it does not hold."""
    before = events(journal)
    with pytest.raises(InternalError, match="CARD_INVALID"), journal.transaction() as transaction:
        transaction.append(Registered(card=OTHER_CENSUS.card.signed, note="", projects=(), inbox=""))
    assert events(journal) == before
