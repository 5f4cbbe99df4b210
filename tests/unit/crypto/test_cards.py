"""Cards: one spelling each, every rule broken alone, and who may make the next one."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from fakes.cards import IDENTITY, Party, make_key, public_text
from fakes.forged import forge
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.cards import (
    MAX_CARD_BYTES,
    PURPOSES,
    SAMPLE,
    SAMPLING,
    TLS,
    Card,
    CardKey,
    CardSignature,
    SignedCard,
    VerifiedCard,
    parse_signed_card,
    sign_card,
    verify_card,
    verify_successor,
    with_new_key,
)
from broker_common.crypto.certificates import Identity, PeerCertificate, Role, TlsCredentials, make_certificate
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.storage.clock import system_clock

PARTIES: dict[Role, Party] = {
    "census": Party(Identity("census-ca", "census", "node"), "census.test/log", randomness=SeededRandomness("c")),
    "health": Party(Identity("health-on", "health", "node"), "health.test/log", randomness=SeededRandomness("h")),
    "researcher": Party(Identity("university", "researcher", "alice"), randomness=SeededRandomness("a")),
}
ALICE, CENSUS, HEALTH = PARTIES["researcher"], PARTIES["census"], PARTIES["health"]
MALLORY = Party(Identity("university", "researcher", "mallory"), randomness=SeededRandomness("m"))
DAY_MS = 86_400_000


def code_of(action: Callable[[], object]) -> str:
    """The code with which something is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        action()
    return caught.value.code


# --- what an honest card says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", PARTIES)
def test_an_honest_card_is_what_it_was_made_of(role: Role) -> None:
    """The keys of every role come back as what they are, each for its purpose."""
    party = PARTIES[role]
    card = verify_card(party.card.signed)
    assert card.card.identity == party.identity
    assert [key.purpose for key in card.card.keys] == list(PURPOSES[role])
    for key, public in card.listed(TLS):
        assert isinstance(public, PeerCertificate)
        assert (public.pem.decode(), public.identity) == (key.key, party.identity)
    kinds = {TLS: PeerCertificate, SAMPLE: SealingKey, SAMPLING: str}
    for key, public in zip(card.card.keys, card.public, strict=True):
        assert isinstance(public, kinds.get(key.purpose, VerifyKey))
        if isinstance(public, VerifyKey):
            assert public.purpose.value == key.purpose


def test_a_sampling_key_shows_nothing_but_its_name() -> None:
    """It is a secret that nobody else needs."""
    ((key, public),) = HEALTH.card.listed(SAMPLING)
    assert key.key == public
    assert key.key.startswith("secret ")
    assert len(key.key) == len("secret ") + 16


def test_only_the_census_agency_has_a_sample_key() -> None:
    """A caller that asks another card for one has mixed up two cards."""
    assert CENSUS.card.sealing_key(0).raw == CENSUS.listed(SAMPLE, UnsealingKey)[0].sealing_key.raw
    for role in ("health", "researcher"):
        with pytest.raises((TypeError, IndexError)):
            PARTIES[role].card.sealing_key(0)


def test_the_fingerprint_is_of_the_card_and_not_of_its_signatures() -> None:
    """Two people compare the card's content, in SHA-256."""
    alice = ALICE.copy()
    assert len(bytes.fromhex(alice.card.fingerprint)) == 32
    assert alice.card.fingerprint != MALLORY.card.fingerprint
    assert alice.renew("ticket").fingerprint != ALICE.card.fingerprint
    assert verify_card(ALICE.card.signed).fingerprint == ALICE.card.fingerprint


# --- one spelling ----------------------------------------------------------------------------------------------------

# The last millisecond of the year 9999: beyond it no calendar goes.
LAST_MS = 253_402_300_799_999
times = st.integers(0, LAST_MS)
names = st.from_regex(r"\A[a-z0-9][a-z0-9-]{0,20}\Z")
keys = st.lists(
    st.builds(
        CardKey,
        purpose=st.text(max_size=10),
        key=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40),
        from_ms=times,
        until_ms=times,
    ),
    min_size=1,
    max_size=4,
).map(tuple)
cards = st.builds(
    Card,
    role=st.sampled_from(["researcher", "health", "census"]),
    organisation=names,
    name=names,
    serial=st.integers(1, 2**53 - 1),
    origin=st.text(st.characters(codec="utf-8"), max_size=20),
    keys=keys,
)
IDENTITY_KEYS = [SigningKey(Purpose.IDENTITY, bytes([number]) * 32) for number in range(1, 4)]


@given(card=cards, count=st.integers(1, 3))
def test_a_card_survives_its_bytes(card: Card, count: int) -> None:
    """Whatever it says: what was signed is what is read, and its signatures with it."""
    signed = sign_card(card, IDENTITY_KEYS[:count])
    again = parse_signed_card(signed.to_bytes())
    assert again == signed
    assert msgspec.json.decode(again.document, type=Card) == card
    assert again.document.encode() == card.document
    for key, signature in zip(IDENTITY_KEYS, again.signatures, strict=False):
        key.verify_key.verify_text(card.document, signature.signature)
        assert signature.key_id == key.key_id


@given(card=cards)
def test_any_canonical_json_writer_makes_the_same_card(card: Card) -> None:
    """Python's json with sorted keys and no white space: an auditor needs no library of ours."""
    plain = json.loads(card.document)
    assert json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == card.document


def respelled(change: Callable[[bytes], bytes]) -> bytes:
    """Alice's card with other bytes around what is signed."""
    return change(ALICE.card.signed.to_bytes())


OTHER_SPELLINGS = {
    "newline at the end": respelled(lambda data: data + b"\n"),
    "space in front": respelled(lambda data: b" " + data),
    "two cards": respelled(lambda data: data * 2),
    "half": respelled(lambda data: data[: len(data) // 2]),
    "nothing": b"",
    "not JSON": b"\xff\xfe",
    "a list": respelled(lambda data: b"[" + data + b"]"),
    "spaces": respelled(lambda data: data.replace(b'"signatures":', b'"signatures": ')),
    "unknown field": respelled(lambda data: data[:-1] + b',"zeal":1}'),
    "no signature": respelled(lambda data: data[: data.index(b'"signatures"')] + b'"signatures":[]}'),
    "escaped letter": respelled(lambda data: data.replace(b"alice", b"\\u0061lice")),
    "endless": respelled(lambda data: data + b" " * (2 * MAX_CARD_BYTES)),
    "short key id": respelled(lambda data: data.replace(ALICE.card.signed.signatures[0].key_id.encode(), b"ab")),
}


@pytest.mark.parametrize("data", OTHER_SPELLINGS.values(), ids=list(OTHER_SPELLINGS))
def test_every_other_spelling_is_refused(data: bytes) -> None:
    """A card has one sequence of bytes, so that its hash names it."""
    assert data != ALICE.card.signed.to_bytes()
    assert code_of(lambda: parse_signed_card(data)) == "MALFORMED_MESSAGE"


def signed_document(document: bytes, party: Party = ALICE) -> SignedCard:
    """Any bytes, signed by a party's identity key as a card is."""
    key = party.signing(Purpose.IDENTITY)
    signature = CardSignature(key_id=key.key_id, signature=b64encode(key.sign(document)).decode())
    return SignedCard(document=document.decode(), signatures=(signature,))


OTHER_DOCUMENTS: dict[str, Callable[[bytes], bytes]] = {
    "newline at the end": lambda text: text + b"\n",
    "spaces": lambda text: text.replace(b'"serial":1', b'"serial": 1'),
    "number as text": lambda text: text.replace(b'"serial":1', b'"serial":"1"'),
    "exponent": lambda text: text.replace(b'"serial":1', b'"serial":1e0'),
    "serial of zero": lambda text: text.replace(b'"serial":1', b'"serial":0'),
    "serial beyond exact JSON": lambda text: text.replace(b'"serial":1', b'"serial":9007199254740992'),
    "negative time": lambda text: text.replace(b'"until_ms":0', b'"until_ms":-1', 1),
    "time beyond the calendar": lambda text: text.replace(b'"until_ms":0', b'"until_ms":253402300800000', 1),
    "other format": lambda text: text.replace(b'"format":1', b'"format":2'),
    "no format": lambda text: text.replace(b'"format":1,', b""),
    "key twice": lambda text: text.replace(b'"format":1', b'"format":1,"format":1'),
    "unknown field": lambda text: text.replace(b'"format":1', b'"extra":1,"format":1'),
    "other order": lambda text: text.replace(b'"format":1,', b"").replace(b'"serial":1', b'"format":1,"serial":1'),
    "unknown role": lambda text: text.replace(b'"role":"researcher"', b'"role":"auditor"'),
    "name of another grammar": lambda text: text.replace(b'"name":"alice"', b'"name":"Alice"'),
    "name with a newline": lambda text: text.replace(b'"name":"alice"', b'"name":"alice\\n"'),
    "no card": lambda _: b"{}",
    "no object": lambda _: b"[]",
}


@pytest.mark.parametrize("what", OTHER_DOCUMENTS)
def test_every_other_spelling_of_what_is_signed_is_refused(what: str) -> None:
    """Also when the identity key has signed it: what a card may say has one form."""
    document = ALICE.card.card.document
    assert verify_card(signed_document(document)).card == ALICE.card.card
    changed = OTHER_DOCUMENTS[what](document)
    assert changed != document
    assert code_of(lambda: verify_card(signed_document(changed))) == "MALFORMED_MESSAGE"


# --- the list of keys ------------------------------------------------------------------------------------------------


def edit(party: Party, change: Callable[[list[CardKey]], object]) -> SignedCard:
    """A party's card with other keys, rightly signed by every identity key of its own that it lists."""
    keys = list(party.card.card.keys)
    change(keys)
    return party.sign(msgspec.structs.replace(party.card.card, keys=tuple(keys)), [party.signing(Purpose.IDENTITY)])


def at(keys: list[CardKey], purpose: str) -> int:
    """Where the key for a purpose stands."""
    return [key.purpose for key in keys].index(purpose)


def setting(purpose: str, **changes: Any) -> Callable[[list[CardKey]], None]:
    """Change the key for a purpose."""

    def change(keys: list[CardKey]) -> None:
        place = at(keys, purpose)
        keys[place] = msgspec.structs.replace(keys[place], **changes)

    return change


def beside(purpose: str, text: str = "", **times: int) -> Callable[[list[CardKey]], None]:
    """One more key for a purpose, after the one there is; a fresh one unless it is given."""

    def change(keys: list[CardKey]) -> None:
        place = at(keys, purpose)
        fresh = text or public_text(make_key(purpose, ALICE.identity))
        keys.insert(place + 1, CardKey(purpose=purpose, key=fresh, **{"from_ms": 0, "until_ms": 0} | times))

    return change


def text_of(party: Party, purpose: str) -> str:
    """A party's key for a purpose, as its card has it."""
    return party.card.listed(purpose)[0][0].key


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong with a card that is otherwise sound and signed."""

    party: Party
    change: Callable[[list[CardKey]], object]


OTHER_ALICE = make_certificate(Identity("university", "researcher", "bob"), now_ms=system_clock(), days=1)
TWO = text_of(ALICE, TLS) + text_of(MALLORY, TLS)


def forged_pem(identity: Identity, **how: Any) -> str:
    """A certificate that our tool would not make, as a card would list it."""
    return forge(identity, **how).certificate.decode()


FLAWS: dict[str, Flaw] = {
    "two purposes in the other order": Flaw(ALICE, lambda keys: keys.reverse()),
    "keys of a purpose apart": Flaw(ALICE, lambda keys: keys.append(keys.pop(0))),
    **{
        f"{role} without {purpose}": Flaw(PARTIES[role], lambda keys, purpose=purpose: keys.pop(at(keys, purpose)))  # type: ignore[misc]  # a default binds it
        for role in PARTIES
        for purpose in PURPOSES[role]
    },
    "a purpose of another role": Flaw(
        ALICE, lambda keys: keys.append(CardKey(purpose="log", key=text_of(CENSUS, "log"), from_ms=0, until_ms=0))
    ),
    "a purpose that nobody knows": Flaw(
        ALICE, lambda keys: keys.append(CardKey(purpose="fax", key="x", from_ms=0, until_ms=0))
    ),
    "a census agency that draws samples": Flaw(
        CENSUS,
        lambda keys: keys.append(CardKey(purpose=SAMPLING, key=text_of(HEALTH, SAMPLING), from_ms=0, until_ms=0)),
    ),
    "one key twice": Flaw(ALICE, beside("ticket", text_of(ALICE, "ticket"))),
    "one key twice with other times": Flaw(ALICE, beside("ticket", text_of(ALICE, "ticket"), from_ms=5, until_ms=9)),
    "one certificate twice": Flaw(ALICE, beside(TLS, text_of(ALICE, TLS))),
    "nine keys for a purpose": Flaw(ALICE, lambda keys: [beside("ticket")(keys) for _ in range(8)]),
    "a later key before an earlier one": Flaw(
        ALICE, lambda keys: (setting("ticket", from_ms=9)(keys), beside("ticket", from_ms=8)(keys))
    ),
    "a key that ends before it begins": Flaw(ALICE, setting("ticket", from_ms=10, until_ms=9)),
    "a key for another purpose": Flaw(ALICE, setting("ticket", key=text_of(HEALTH, "manifest"))),
    "the identity key for tickets": Flaw(ALICE, setting("ticket", key=text_of(ALICE, IDENTITY))),
    "a private key": Flaw(ALICE, setting("ticket", key=ALICE.signing(Purpose.TICKET).to_text())),
    "a key with a space after it": Flaw(ALICE, setting("ticket", key=text_of(ALICE, "ticket") + " ")),
    "a key with a newline after it": Flaw(ALICE, setting("ticket", key=text_of(ALICE, "ticket") + "\n")),
    "a key of other base64": Flaw(ALICE, setting("ticket", key=text_of(ALICE, "ticket")[:-2] + "B=")),
    "half a key": Flaw(ALICE, setting("ticket", key=text_of(ALICE, "ticket")[:-4])),
    "a certificate for a ticket key": Flaw(ALICE, setting("ticket", key=text_of(ALICE, TLS))),
    "a ticket key for a certificate": Flaw(ALICE, setting(TLS, key=text_of(ALICE, "ticket"))),
    "a private key beside its certificate": Flaw(
        ALICE, setting(TLS, key=text_of(ALICE, TLS) + ALICE.tls.private_key.decode())
    ),
    "somebody else's certificate": Flaw(ALICE, setting(TLS, key=text_of(MALLORY, TLS))),
    "a certificate of the same organisation's other researcher": Flaw(
        ALICE, setting(TLS, key=OTHER_ALICE.certificate.decode())
    ),
    "an agency's certificate": Flaw(ALICE, setting(TLS, key=text_of(HEALTH, TLS))),
    "a certificate made in an agency's name": Flaw(ALICE, setting(TLS, key=forged_pem(HEALTH.identity))),
    "two certificates in one key": Flaw(ALICE, setting(TLS, key=TWO)),
    "a certificate after the other one's": Flaw(ALICE, setting(TLS, key=text_of(MALLORY, TLS) + text_of(ALICE, TLS))),
    "a certificate with words around it": Flaw(ALICE, setting(TLS, key="trust me\n" + text_of(ALICE, TLS))),
    "a certificate in other line lengths": Flaw(ALICE, setting(TLS, key=text_of(ALICE, TLS).replace("\n", "\r\n"))),
    "an authority's certificate": Flaw(ALICE, setting(TLS, key=forged_pem(ALICE.identity, authority=True))),
    "a certificate that does not say that it is none": Flaw(
        ALICE, setting(TLS, key=forged_pem(ALICE.identity, authority=None))
    ),
    "a second certificate of somebody else": Flaw(ALICE, beside(TLS, text_of(MALLORY, TLS))),
    "a sampling key itself": Flaw(HEALTH, setting(SAMPLING, key="secret sampling " + "A" * 43 + "=")),
    "a sampling key's name in capitals": Flaw(HEALTH, setting(SAMPLING, key="secret 0123456789ABCDEF")),
    "a longer name of a sampling key": Flaw(HEALTH, setting(SAMPLING, key="secret 0123456789abcdef0")),
    "a signing key for samples": Flaw(CENSUS, setting(SAMPLE, key=text_of(CENSUS, "answer"))),
    "an opening key for samples": Flaw(CENSUS, setting(SAMPLE, key=CENSUS.listed(SAMPLE, UnsealingKey)[0].to_text())),
}


@pytest.mark.parametrize("what", FLAWS)
def test_a_card_with_one_flaw_is_refused(what: str) -> None:
    """Its owner signed it, as it should be: nothing but the flaw is wrong with it."""
    flaw = FLAWS[what]
    signed = edit(flaw.party, flaw.change)
    assert signed.document != flaw.party.card.signed.document
    with pytest.raises(InvalidRequestError) as caught:
        verify_card(signed)
    assert caught.value.code == "MALFORMED_MESSAGE"
    # Whatever stood there may be a secret that got there by mistake.
    shown = f"{caught.value} {caught.value.details}"
    words = [word for key in json.loads(signed.document)["keys"] for word in key["key"].split()]
    assert not any(len(word) > 40 and word in shown for word in words)


def test_what_the_flaws_start_from_is_sound() -> None:
    """Untouched, edited by nothing, with a second key of each kind, and with the most of them."""
    for party in PARTIES.values():
        assert verify_card(edit(party, lambda _: None)).card == party.card.card
    two = edit(ALICE, lambda keys: (setting("ticket", from_ms=9)(keys), beside("ticket", from_ms=9)(keys)))
    assert len(verify_card(two).listed("ticket")) == 2
    certificate = make_certificate(ALICE.identity, now_ms=system_clock(), days=1).certificate.decode()
    assert len(verify_card(edit(ALICE, beside(TLS, certificate))).certificates(0)) == 2
    eight = edit(ALICE, lambda keys: [beside("ticket")(keys) for _ in range(7)])
    assert len(verify_card(eight).verify_keys(Purpose.TICKET, 0)) == 8
    for until_ms in (10, 11):
        card = verify_card(edit(ALICE, setting("ticket", from_ms=10, until_ms=until_ms)))
        assert card.listed("ticket")[0][0].until_ms == until_ms


@pytest.mark.parametrize(("role", "origin"), [("census", ""), ("health", ""), ("researcher", "alice.test/log")])
def test_a_card_names_a_log_exactly_where_there_is_one(role: Role, origin: str) -> None:
    """An agency without a log could not be held to anything; a researcher keeps none."""
    assert code_of(lambda: verify_card(PARTIES[role].changed(origin=origin))) == "MALFORMED_MESSAGE"


def test_a_card_of_another_role_under_the_same_name_has_that_roles_keys_to_show() -> None:
    """A researcher cannot turn into an agency by writing another role on the card."""
    assert code_of(lambda: verify_card(ALICE.changed(role="health", origin="x"))) == "MALFORMED_MESSAGE"
    assert code_of(lambda: verify_card(HEALTH.changed(role="census"))) == "MALFORMED_MESSAGE"


def test_a_name_that_the_certificate_does_not_carry_is_refused() -> None:
    """Organisation and name of a card are those of its certificates."""
    for change in ({"organisation": "institute"}, {"name": "bob"}):
        assert code_of(lambda: verify_card(ALICE.changed(**change))) == "MALFORMED_MESSAGE"  # noqa: B023 - called here


# --- signatures ------------------------------------------------------------------------------------------------------


def with_two_identities() -> tuple[Party, Card, list[SigningKey]]:
    """Alice while she replaces her identity key: her card, and both keys in its order."""
    alice = ALICE.copy()
    alice.renew(IDENTITY)
    return alice, alice.card.card, alice.listed(IDENTITY, SigningKey)


def test_a_card_is_signed_by_every_identity_key_that_it_lists() -> None:
    """In their order, each once, by nobody else."""
    _, card, (old, new) = with_two_identities()
    stranger = MALLORY.signing(Purpose.IDENTITY)
    assert verify_card(sign_card(card, [old, new])).card == card
    for signers in ([old], [new], [new, old], [old, old], [old, new, new], [old, stranger], [old, new, stranger]):
        assert code_of(lambda: verify_card(sign_card(card, signers))) == "BAD_SIGNATURE"  # noqa: B023 - called here


def test_a_signature_of_another_card_does_not_hold() -> None:
    """Nor one under another purpose, nor another spelling of the right one."""
    key, document = ALICE.signing(Purpose.IDENTITY), ALICE.card.card.document
    good = ALICE.card.signed.signatures[0]
    as_ticket = SigningKey(Purpose.TICKET, key.expose())
    for text in (
        MALLORY.card.signed.signatures[0].signature,
        key.sign_text(document + b" "),
        as_ticket.sign_text(document),
        b64encode(bytes(64)).decode(),
        good.signature[:85] + chr(ord(good.signature[85]) + 1) + "==",
    ):
        assert text != good.signature
        forged = SignedCard(document=document.decode(), signatures=(CardSignature(key_id=key.key_id, signature=text),))
        assert code_of(lambda: verify_card(forged)) in {"BAD_SIGNATURE", "MALFORMED_MESSAGE"}  # noqa: B023 - called here


def test_the_right_signature_under_another_name_does_not_hold() -> None:
    """Which key signed is said by its place and by its name, and both must agree."""
    good = ALICE.card.signed
    renamed = msgspec.structs.replace(good.signatures[0], key_id=MALLORY.card.signed.signatures[0].key_id)
    forged = SignedCard(document=good.document, signatures=(renamed,))
    assert code_of(lambda: verify_card(forged)) == "BAD_SIGNATURE"


@given(place=st.integers(0, len(ALICE.card.signed.document) - 1), letter=st.characters(codec="ascii"))
def test_no_altered_letter_of_a_card_goes_unnoticed(place: int, letter: str) -> None:
    """Whatever is changed in what was signed, the card is refused."""
    good = ALICE.card.signed
    document = good.document[:place] + letter + good.document[place + 1 :]
    if document != good.document:
        assert code_of(lambda: verify_card(SignedCard(document=document, signatures=good.signatures))) in {
            "MALFORMED_MESSAGE",
            "BAD_SIGNATURE",
        }


# --- the next card ---------------------------------------------------------------------------------------------------


def follow(before: VerifiedCard, signed: SignedCard) -> VerifiedCard:
    """The next card, if it is one."""
    return verify_successor(before, signed)


@pytest.mark.parametrize("role", PARTIES)
def test_any_key_may_be_replaced_by_the_next_card(role: Role) -> None:
    """One at a time, the identity key as well; the card after it follows both."""
    party = PARTIES[role].copy()
    first = party.card
    for purpose in PURPOSES[role]:
        before = party.card
        after = party.renew(purpose)
        assert follow(before, after.signed).card == after.card
        assert follow(first, after.signed).fingerprint == after.fingerprint


@pytest.mark.parametrize("serial", [1, 2, 3])
def test_a_card_that_is_not_newer_is_outdated(serial: int) -> None:
    """Neither an older one nor another of the same serial takes the place of what is known."""
    alice = ALICE.copy()
    alice.renew("ticket")
    known = alice.renew("ticket")
    assert known.card.serial == 3
    assert code_of(lambda: follow(known, alice.changed(serial=serial))) == "CARD_OUTDATED"
    assert follow(known, alice.changed(serial=4)).card.serial == 4
    # Numbers may be left out: cards in between were never heard of.
    assert follow(known, alice.changed(serial=2**53 - 1)).card.serial == 2**53 - 1


def test_a_card_of_another_party_never_follows() -> None:
    """Not even when its list shows and its signatures are by the very key that is known."""
    alice, other = (
        ALICE.copy(),
        Party(Identity("university", "researcher", "bob"), given={IDENTITY: ALICE.signing(Purpose.IDENTITY)}),
    )
    assert other.renew("ticket").verify_keys(Purpose.IDENTITY, 0) == alice.card.verify_keys(Purpose.IDENTITY, 0)
    moved = Party(Identity("institute", "researcher", "alice"), given={IDENTITY: ALICE.signing(Purpose.IDENTITY)})
    moved.renew("ticket")
    for party in (other, moved, MALLORY, HEALTH):
        assert code_of(lambda: follow(alice.card, party.card.signed)) == "WRONG_ORGANISATION"  # noqa: B023 - called here


def test_a_card_of_another_log_never_follows() -> None:
    """An agency that moves to another log is introduced again, by people."""
    moved = CENSUS.changed(origin="census.test/other", serial=2)
    assert verify_card(moved).card.serial == 2
    assert code_of(lambda: follow(CENSUS.card, moved)) == "WRONG_ORGANISATION"


def test_a_stranger_makes_no_card_in_a_known_name() -> None:
    """Their own identity key, however high the serial."""
    stranger = Party(ALICE.identity)
    for serial in (2, 2**53 - 1):
        forged = stranger.changed(serial=serial)
        assert verify_card(forged).card.identity == ALICE.identity
        assert code_of(lambda: follow(ALICE.card, forged)) == "CARD_UNRELATED"  # noqa: B023 - called here


def test_listing_the_known_key_without_its_signature_is_not_enough() -> None:
    """A copier of the public key onto a card of their own cannot sign for it."""
    stranger = Party(ALICE.identity)
    own = CardKey(purpose=IDENTITY, key=text_of(stranger, IDENTITY), from_ms=0, until_ms=0)
    known = CardKey(purpose=IDENTITY, key=text_of(ALICE, IDENTITY), from_ms=0, until_ms=0)
    rest = stranger.card.card.keys[1:]
    card = msgspec.structs.replace(stranger.card.card, serial=2, keys=(known, own, *rest))
    key = stranger.signing(Purpose.IDENTITY)
    named = ALICE.signing(Purpose.IDENTITY).key_id
    by_both_names = SignedCard(
        document=card.document.decode(),
        signatures=(
            CardSignature(key_id=named, signature=key.sign_text(card.document)),
            CardSignature(key_id=key.key_id, signature=key.sign_text(card.document)),
        ),
    )
    for forged in (sign_card(card, [key]), sign_card(card, [key, key]), by_both_names):
        assert code_of(lambda: follow(ALICE.card, forged)) == "BAD_SIGNATURE"  # noqa: B023 - called here


def test_a_key_whose_short_name_collides_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names have 64 bits, and somebody may look for two keys of one name: whole keys are compared."""
    monkeypatch.setattr(VerifyKey, "key_id", "0123456789abcdef")
    stranger = Party(ALICE.identity)
    forged = stranger.renew("ticket").signed
    assert forged.signatures[0].key_id == "0123456789abcdef"
    known = verify_card(ALICE.sign(ALICE.card.card))
    assert known.signed.signatures[0].key_id == forged.signatures[0].key_id
    assert code_of(lambda: follow(known, forged)) == "CARD_UNRELATED"
    assert follow(known, ALICE.copy().renew("ticket").signed).card.serial == 2


def test_the_identity_key_is_replaced_by_a_card_that_both_sign() -> None:
    """While both are honoured both sign; after that only the new one does. The old one alone makes nothing from there on."""
    alice = ALICE.copy()
    first = alice.card
    second = alice.renew(IDENTITY, until_ms=1000)
    assert len(second.signed.signatures) == 2
    assert follow(first, second.signed).card == second.card
    # Later, when the old key's time is over, it leaves the card.
    third = alice.renew("ticket", now_ms=1000)
    assert len(third.signed.signatures) == 1
    assert follow(second, third.signed).card == third.card
    # A peer that has heard of neither in between knows nobody who signed the third.
    assert code_of(lambda: follow(first, third.signed)) == "CARD_UNRELATED"


@pytest.mark.parametrize("honoured_until_ms", [0, 1, LAST_MS])
def test_a_stolen_identity_key_that_was_replaced_makes_no_successor(honoured_until_ms: int) -> None:
    """Not even while it is honoured: it would replace its successor, and the theft could not be ended."""
    alice, thief = ALICE.copy(), ALICE.copy()
    known = alice.renew(IDENTITY, until_ms=honoured_until_ms)
    (old,) = thief.listed(IDENTITY, SigningKey)
    for _ in range(3):
        stolen = thief.renew("ticket")
    assert stolen.card.serial > known.card.serial
    assert verify_card(stolen.signed).card.identity == ALICE.identity
    assert code_of(lambda: follow(known, stolen.signed)) == "CARD_UNRELATED"
    # Nor with an identity key of the thief's own beside it, nor with the real one listed but without its signature.
    own = thief.renew(IDENTITY)
    assert code_of(lambda: follow(known, own.signed)) == "CARD_UNRELATED"
    listing_both = msgspec.structs.replace(known.card, serial=99)
    for signers in ([old], [old, old]):
        assert code_of(lambda: follow(known, sign_card(listing_both, signers))) == "BAD_SIGNATURE"  # noqa: B023 - called here
    assert follow(known, alice.renew("ticket").signed).card.serial == known.card.serial + 1


def test_the_newest_identity_key_is_the_last_that_is_listed() -> None:
    """Which one counts does not depend on when it is asked: a key that begins later counts from its card on."""
    alice, thief = ALICE.copy(), ALICE.copy()
    known = alice.renew(IDENTITY, from_ms=10**12, until_ms=2 * 10**12)
    thief.renew("ticket")
    assert code_of(lambda: follow(known, thief.renew("ticket").signed)) == "CARD_UNRELATED"
    assert follow(known, alice.renew("ticket").signed).card.serial == 3


def test_a_first_card_can_drop_to_another_identity_only_through_both() -> None:
    """A card that lists the new identity key alone is nobody's successor, though the old key would have signed it."""
    alice = ALICE.copy()
    fresh = SigningKey(Purpose.IDENTITY, bytes(range(32)))
    keys = tuple(
        msgspec.structs.replace(key, key=alice.hold(fresh)) if key.purpose == IDENTITY else key
        for key in alice.card.card.keys
    )
    card = msgspec.structs.replace(alice.card.card, serial=2, keys=keys)
    assert code_of(lambda: follow(alice.card, sign_card(card, [fresh]))) == "CARD_UNRELATED"
    assert code_of(lambda: follow(alice.card, sign_card(card, [ALICE.signing(Purpose.IDENTITY)]))) == "BAD_SIGNATURE"


@pytest.mark.parametrize("what", ["two purposes in the other order", "researcher without tls", "one key twice"])
def test_a_next_card_keeps_every_rule_of_cards(what: str) -> None:
    """Being the next one excuses nothing."""
    flaw = FLAWS[what]
    party = flaw.party.copy()
    party.renew("ticket")
    assert code_of(lambda: follow(flaw.party.card, edit(party, flaw.change))) == "MALFORMED_MESSAGE"


# --- replacing a key -------------------------------------------------------------------------------------------------


def times_of(card: Card, purpose: str) -> list[tuple[int, int]]:
    """From when until when the keys of a purpose serve."""
    return [(key.from_ms, key.until_ms) for key in card.keys if key.purpose == purpose]


def test_a_new_key_ends_the_one_before_and_no_other() -> None:
    """The serial grows by one; everything else of the card stays as it was."""
    alice = ALICE.copy()
    fresh = public_text(make_key("ticket", alice.identity))
    card = with_new_key(alice.card.card, "ticket", fresh, now_ms=5, from_ms=10, until_ms=20)
    assert times_of(card, "ticket") == [(0, 20), (10, 0)]
    assert [key.key for key in card.keys if key.purpose == "ticket"] == [text_of(alice, "ticket"), fresh]
    assert card.serial == 2
    others = [key for key in card.keys if key.purpose != "ticket"]
    assert others == [key for key in alice.card.card.keys if key.purpose != "ticket"]
    assert (card.identity, card.origin, card.role) == (alice.identity, "", "researcher")


def test_a_key_that_was_to_end_earlier_still_does() -> None:
    """A later rotation never lengthens the life of a key."""
    alice = ALICE.copy()
    alice.renew("ticket", from_ms=10, until_ms=20)
    alice.renew("ticket", now_ms=15, from_ms=15, until_ms=30)
    assert times_of(alice.card.card, "ticket") == [(0, 20), (10, 30), (15, 0)]


@pytest.mark.parametrize(("role", "purpose"), [(role, purpose) for role in PARTIES for purpose in PURPOSES[role]])
def test_a_key_in_an_emergency_takes_the_place_of_one_that_was_announced(role: Role, purpose: str) -> None:
    """Announced for later, and then replaced at once: the new key is the one that counts, for peers that heard of either."""
    party = PARTIES[role].copy()
    first = party.card
    announced = party.renew(purpose, now_ms=100, from_ms=5000, until_ms=9000)
    (_, (later, _)) = announced.listed(purpose)
    urgent = party.renew(purpose, now_ms=200, from_ms=200, until_ms=200)
    (*_, (newest, public)) = urgent.listed(purpose)
    assert (newest.from_ms, newest.until_ms) == (200, 0)
    assert urgent.honoured(purpose, 200) == [public]
    assert urgent.in_use(purpose, 200) == public
    # Only an identity key stays listed, because a peer that knows the announcement wants to see its signature.
    assert (later.key in [key.key for key, _ in urgent.listed(purpose)]) == (purpose == IDENTITY)
    for before in (first, announced):
        assert follow(before, urgent.signed).card == urgent.card
    assert follow(urgent, party.renew(purpose, now_ms=201, from_ms=201, until_ms=201).signed).card.serial == 4
    assert len(party.card.listed(purpose)) == 2


def test_keys_whose_time_is_over_leave_the_card() -> None:
    """For every purpose, a card lists the keys that are in force or will be."""
    alice = ALICE.copy()
    alice.renew("ticket", from_ms=10, until_ms=20)
    alice.renew(TLS, now_ms=10, from_ms=10, until_ms=20)
    alice.renew(IDENTITY, now_ms=20, from_ms=20, until_ms=40)
    assert {purpose: times_of(alice.card.card, purpose) for purpose in PURPOSES["researcher"]} == {
        IDENTITY: [(0, 40), (20, 0)],
        TLS: [(10, 0)],
        "ticket": [(10, 0)],
    }


@given(
    st.lists(
        st.tuples(st.sampled_from(PURPOSES["health"]), st.integers(0, 50), st.integers(0, 50), st.integers(1, 50)),
        max_size=12,
    )
)
def test_rotations_of_any_kind_make_cards_that_follow(steps: list[tuple[str, int, int, int]]) -> None:
    """However keys are replaced, each card is sound and follows the one before, and there is always a key to use."""
    health, now_ms = HEALTH.copy(), 1000
    for purpose, pause, wait, honour in steps:
        now_ms += pause
        times = [key.from_ms for key, _ in health.card.listed(purpose)]
        before = health.card
        if len(times) == 8:
            continue
        from_ms = max(now_ms + wait, *times)
        health.renew(
            purpose,
            now_ms=now_ms,
            from_ms=from_ms,
            until_ms=from_ms + honour,
            key=None if purpose == TLS else make_key(purpose, health.identity),
        )
        assert follow(before, health.card.signed).card == health.card.card
        for each in PURPOSES["health"]:
            assert health.card.in_use(each, now_ms) in health.card.honoured(each, now_ms)


def test_which_key_is_used_and_which_are_honoured() -> None:
    """The newest that has begun is used; both are honoured, the new one early, the old one until its last instant."""
    alice = ALICE.copy()
    old = alice.signing(Purpose.TICKET).verify_key
    card = alice.renew("ticket", from_ms=10, until_ms=20)
    new = alice.signing(Purpose.TICKET).verify_key
    assert [card.in_use("ticket", now_ms) for now_ms in (0, 9, 10, 19, 20, 99)] == [old, old, new, new, new, new]
    both, one = [old, new], [new]
    assert [card.verify_keys(Purpose.TICKET, now_ms) for now_ms in (0, 9, 10, 19, 20, 99)] == [both] * 4 + [one] * 2


def test_a_first_key_that_has_not_begun_is_used() -> None:
    """A new party whose clock is ahead has no other."""
    key = msgspec.structs.replace(ALICE.card.card.keys[-1], from_ms=DAY_MS)
    card = verify_card(ALICE.changed(keys=(*ALICE.card.card.keys[:-1], key)))
    assert card.in_use("ticket", 0) == ALICE.signing(Purpose.TICKET).verify_key


def test_certificates_of_a_card_end_with_their_time() -> None:
    """The old one is shown and recognised until then, the new one from the beginning."""
    alice = ALICE.copy()
    first = alice.card.certificates(0)
    card = alice.renew(TLS, from_ms=10, until_ms=20)
    second = [PeerCertificate.parse_pem(alice.listed(TLS, TlsCredentials)[-1].certificate)]
    assert card.certificates(19) == [*first, *second]
    assert card.certificates(20) == second
