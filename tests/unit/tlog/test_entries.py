"""Entries: one spelling per event, strings and integers only, and nothing unknown."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from fakes.logs import (
    ALICE,
    CENSUS,
    adopted,
    charged,
    hash_of,
    loaded,
    opened,
    policy,
    registered,
    relinked,
    revoked,
    slots,
    submitted,
)
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.cards import MAX_CARD_BYTES, CardSignature, SignedCard
from broker_common.tlog import entries
from broker_common.tlog.entries import (
    MAX_ENTRY_BYTES,
    MAX_NOTE_CHARACTERS,
    MAX_SLOTS,
    Adopted,
    Announced,
    Charged,
    Delivered,
    DictionaryAdopted,
    Entry,
    Event,
    Expired,
    Forwarded,
    Loaded,
    Opened,
    Refused,
    Registered,
    Released,
    Relinked,
    Reopened,
    ReportedCharge,
    Revoked,
    Rostered,
    Settled,
    Shutdown,
    Slots,
    Submitted,
    encode_entry,
    parse_entry,
)

counts = st.integers(0, 2**53 - 1)
numbers = st.integers(1, 2**53 - 1)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
chains = st.binary(min_size=8, max_size=8).map(bytes.hex)
queries = st.binary(min_size=16, max_size=16).map(bytes.hex)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50)
signatures = st.builds(
    CardSignature,
    key_id=st.binary(min_size=8, max_size=8).map(bytes.hex),
    signature=st.binary(min_size=64, max_size=64).map(lambda raw: base64.b64encode(raw).decode()),
)
# Any text stands for a card here: what a card may say is a matter of the state.
cards = st.builds(
    SignedCard,
    document=st.text(st.characters(codec="utf-8"), min_size=2, max_size=60),
    signatures=st.lists(signatures, min_size=1, max_size=3).map(tuple),
)
maybe_texts = texts | st.just("")
projects = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)

# Every event type with its tag; a new one has to be added here, in FORMAT.md and in a state.
EVENTS: dict[type[Event], tuple[str, st.SearchStrategy[Event]]] = {
    Opened: ("opened", st.builds(Opened, origin=texts, role=texts, format=counts)),
    Announced: ("announced", st.builds(Announced, card=cards)),
    Registered: (
        "registered",
        st.builds(
            Registered,
            card=cards,
            projects=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=3).map(tuple),
            inbox=texts | st.just(""),
        ),
    ),
    Revoked: ("revoked", st.builds(Revoked, role=st.sampled_from(["researcher", "health"]), name=texts, note=texts)),
    Adopted: (
        "adopted",
        st.builds(
            Adopted,
            document=st.text(st.characters(codec="utf-8"), min_size=2, max_size=60),
            signature=texts,
            key_id=texts,
            note=maybe_texts,
            confirmation=maybe_texts,
            confirmation_key_id=maybe_texts,
        ),
    ),
    DictionaryAdopted: (
        "dictionary_adopted",
        st.builds(
            DictionaryAdopted,
            format=counts,
            version=st.integers(1, 2**53 - 1),
            dictionary=hashes,
            document=hashes,
            signature=texts,
            key_id=texts,
        ),
    ),
    Loaded: (
        "loaded",
        st.builds(Loaded, load=texts, release=texts, linkage=chains, dictionary=hashes, commitment=hashes),
    ),
    Rostered: (
        "rostered",
        st.builds(Rostered, health=texts, number=numbers, linkage=chains, commitment=hashes, manifest=hashes),
    ),
    Relinked: ("relinked", st.builds(Relinked, load=texts, previous=chains, linkage=chains, commitment=hashes)),
    Slots: (
        "slots",
        st.builds(
            Slots,
            first=counts,
            void_below=counts,
            commitments=st.lists(hashes, min_size=1, max_size=3).map(tuple),
        ),
    ),
    Charged: (
        "charged",
        st.builds(
            Charged,
            query=queries,
            ticket=hashes,
            slot=counts,
            scale=counts,
            units=counts,
            question=texts,
            researcher=texts,
            project=projects,
            health=texts,
            load=texts,
            roster=numbers,
            manifest=hashes,
            submitted=hashes,
            active=hashes,
            ledger=st.just("") | hashes,
            total=counts,
        ),
    ),
    Released: ("released", st.builds(Released, ticket=hashes, answer=hashes, checkpoint=texts)),
    Delivered: ("delivered", st.builds(Delivered, ticket=hashes, by=st.sampled_from(["inbox", "collect"]))),
    Expired: ("expired", st.builds(Expired, ticket=hashes)),
    Shutdown: (
        "shutdown",
        st.builds(
            Shutdown,
            reason=st.sampled_from(["budget", "operator"]),
            note=maybe_texts,
            signature=maybe_texts,
            key_id=maybe_texts,
        ),
    ),
    Reopened: ("reopened", st.builds(Reopened, note=maybe_texts, signature=texts, key_id=texts)),
    Submitted: (
        "submitted",
        st.builds(
            Submitted, query=queries, ticket=hashes, criteria=hashes, researcher=texts, project=projects, load=texts
        ),
    ),
    Forwarded: ("forwarded", st.builds(Forwarded, ticket=hashes, roster=numbers, manifest=hashes)),
    ReportedCharge: (
        "reported_charge",
        st.builds(ReportedCharge, ticket=hashes, log_index=counts, checkpoint=texts),
    ),
    Refused: ("refused", st.builds(Refused, ticket=hashes, code=texts)),
    Settled: ("settled", st.builds(Settled, ticket=hashes)),
}
any_entry = st.builds(
    Entry,
    sequence=counts,
    time_ms=counts,
    policy=hashes | st.just(""),
    event=st.one_of([strategy for _, strategy in EVENTS.values()]),
)
CHARGE = Entry(sequence=7, time_ms=1000, policy=hash_of(9), event=charged(1))
CHARGE_BYTES = encode_entry(CHARGE)


def test_every_event_type_is_listed() -> None:
    """The table above, the union, the public types and the tags are the same list."""
    assert set(get_args(Event)) == set(EVENTS)
    tags = {kind: msgspec.inspect.type_info(kind).tag for kind in EVENTS}  # type: ignore[attr-defined]  # of structs
    assert tags == {kind: tag for kind, (tag, _) in EVENTS.items()}
    defined = {
        kind for kind in vars(entries).values() if isinstance(kind, type) and kind.__module__ == entries.__name__
    }
    assert {kind for kind in defined if not kind.__name__.startswith("_")} - {Entry} == set(EVENTS)


@given(entry=any_entry)
def test_an_entry_survives_its_bytes(entry: Entry) -> None:
    """Every event of every type is read back as it was written."""
    assert parse_entry(encode_entry(entry)) == entry


@given(entry=any_entry)
def test_the_bytes_are_what_any_canonical_json_writer_makes(entry: Entry) -> None:
    """Python's json with sorted keys and no white space makes the same bytes: an auditor needs no library of ours."""
    plain = json.loads(encode_entry(entry))
    written = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert written == encode_entry(entry)


def only_strings_and_integers(value: object) -> bool:
    """Whether a decoded entry holds nothing but strings and integers, in objects and lists."""
    if isinstance(value, dict):
        return all(only_strings_and_integers(inner) for inner in value.values())
    if isinstance(value, list):
        return all(only_strings_and_integers(inner) for inner in value)
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


@given(entry=any_entry)
def test_an_entry_holds_strings_and_integers_only(entry: Entry) -> None:
    """No float, null or boolean that two readers might read differently."""
    assert only_strings_and_integers(json.loads(encode_entry(entry)))


@given(one=any_entry, other=any_entry)
def test_different_entries_have_different_bytes(one: Entry, other: Entry) -> None:
    """A hash names one event."""
    assert (encode_entry(one) == encode_entry(other)) == (one == other)


def respelled(change: Callable[[dict[str, Any]], None], **options: Any) -> bytes:
    """The charge with its JSON tree changed, written canonically unless told otherwise."""
    tree = json.loads(CHARGE_BYTES)
    change(tree)
    canonical: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}
    return json.dumps(tree, **canonical | options).encode()


def in_event(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Sets fields of the event."""
    return lambda tree: tree["event"].update(changes)


def without(name: str) -> Callable[[dict[str, Any]], None]:
    """Drops a field of the event."""
    return lambda tree: tree["event"].pop(name)


def same(tree: dict[str, Any]) -> None:
    """Changes nothing."""
    del tree


SHUTDOWN = {"type": "shutdown", "reason": "operator", "note": "", "signature": "", "key_id": ""}
OTHER_SPELLINGS = {
    "spaces": respelled(same, separators=(", ", ": ")),
    "indented": respelled(same, indent=1),
    "keys in another order": respelled(lambda tree: tree.update(event=tree.pop("event")), sort_keys=False),
    "event's keys in another order": respelled(
        lambda tree: tree["event"].update(active=tree["event"].pop("active")), sort_keys=False
    ),
    "newline at the end": CHARGE_BYTES + b"\n",
    "space in front": b" " + CHARGE_BYTES,
    "byte order mark": b"\xef\xbb\xbf" + CHARGE_BYTES,
    "nothing": b"",
    "half": CHARGE_BYTES[: len(CHARGE_BYTES) // 2],
    "two entries": CHARGE_BYTES * 2,
    "a list": b"[" + CHARGE_BYTES + b"]",
    "not JSON": b"\xff\xfe",
    "float": respelled(lambda tree: tree.update(sequence=7.0)),
    "exponent": CHARGE_BYTES.replace(b'"sequence":7', b'"sequence":7e0'),
    "leading zero": CHARGE_BYTES.replace(b'"sequence":7', b'"sequence":07'),
    "negative zero": CHARGE_BYTES.replace(b'"slot":1', b'"slot":-0'),
    "number as text": respelled(lambda tree: tree.update(sequence="7")),
    "boolean for a number": respelled(lambda tree: tree.update(sequence=True)),
    "null": respelled(in_event(question=None)),
    "negative number": respelled(lambda tree: tree.update(sequence=-1)),
    "number beyond exact JSON": respelled(in_event(slot=2**53)),
    "duplicate key": CHARGE_BYTES.replace(b'"sequence":7', b'"sequence":7,"sequence":7'),
    "duplicate key with another value": CHARGE_BYTES.replace(b'"sequence":7', b'"sequence":8,"sequence":7'),
    "duplicate key in the event": CHARGE_BYTES.replace(b'"slot":1', b'"slot":1,"slot":1'),
    "unknown field": respelled(lambda tree: tree.update(extra=1)),
    "unknown field in the event": respelled(in_event(size=12)),
    "unknown event": respelled(in_event(type="counted")),
    "event of an older format": b'{"event":{"ticket":"%s","type":"lapsed"},"policy":"","sequence":7,"time_ms":0}'
    % hash_of(1).encode(),
    "event without type": respelled(without("type")),
    "missing field": respelled(lambda tree: tree.pop("time_ms")),
    "missing field in the event": respelled(without("active")),
    "another event's fields": respelled(in_event(type="released")),
    "uppercase hash": respelled(in_event(ticket="AB" * 32)),
    "short hash": respelled(in_event(ticket="ab" * 31)),
    "long hash": respelled(in_event(ticket="ab" * 33)),
    "hash with a newline": respelled(in_event(ticket="ab" * 32 + "\n")),
    "hash of a query's length": respelled(in_event(query="ab" * 32)),
    "uppercase policy": respelled(lambda tree: tree.update(policy="AB" * 32)),
    "empty text": respelled(in_event(question="")),
    "long note": respelled(lambda tree: tree.update(event=SHUTDOWN | {"note": "x" * 4097})),
    "shutdown that leaves its empty signature out": respelled(
        lambda tree: tree.update(event={"type": "shutdown", "reason": "budget", "note": ""})
    ),
    "long text": respelled(in_event(question="x" * 4097)),
    "escaped letter": CHARGE_BYTES.replace(b'"question":"all"', b'"question":"\\u0061ll"'),
    "escaped slash": respelled(in_event(question="a/b")).replace(b"a/b", b"a\\/b"),
    "raw control character": respelled(in_event(question="a b")).replace(b"a b", b"a\x01b"),
    "half a surrogate pair": respelled(in_event(question="a b")).replace(b"a b", b"\\ud800"),
    "broken UTF-8": respelled(in_event(question="a b")).replace(b"a b", b"\xff"),
    "overlong UTF-8": respelled(in_event(question="a b")).replace(b"a b", b"\xc0\xaf"),
    "deep nesting": b'{"event":' + b"[" * 30_000,
    "giant": CHARGE_BYTES + b" " * MAX_ENTRY_BYTES,
}


@pytest.mark.parametrize("data", OTHER_SPELLINGS.values(), ids=list(OTHER_SPELLINGS))
def test_every_other_spelling_is_refused(data: bytes) -> None:
    """The bytes of an entry are the only ones that mean it, so that a log cannot be rewritten under other hashes."""
    assert data != CHARGE_BYTES
    with pytest.raises(ValueError, match=r"."):
        parse_entry(data)


def test_the_spelling_helper_changes_nothing_on_its_own() -> None:
    """The table above refuses what it names, not an artefact of how it was written."""
    assert respelled(same) == CHARGE_BYTES
    assert parse_entry(respelled(in_event(question="a/b"))).event != CHARGE.event
    assert parse_entry(respelled(lambda tree: tree.update(event=SHUTDOWN))).event == Shutdown(
        reason="operator", note=""
    )


SIGNATURES = CENSUS.card.signed.signatures
UNREADABLE: dict[str, Event] = {
    "shutdown with an endless note": Shutdown(reason="operator", note="x" * (MAX_NOTE_CHARACTERS + 1)),
    "shutdown for no known reason": Shutdown(reason="whim", note=""),
    "reopening without a signature": Reopened(note="why", signature="", key_id="k"),
    "adoption with an endless note": adopted(note="x" * (MAX_NOTE_CHARACTERS + 1)),
    "delivery by pigeon": Delivered(ticket=hash_of(1), by="pigeon"),
    "negative scale": charged(1, scale=30, units=-1),
    "ticket in capitals": submitted(1, ticket="AB" * 32),
    "empty load": loaded(""),
    "load of no linkage chain": loaded(linkage=""),
    "load of no dictionary": loaded(dictionary=""),
    "linkage chain in capitals": loaded(linkage="AB" * 8),
    "linkage key changed from nothing": relinked(previous=""),
    "endless origin": opened(origin="x" * 5000),
    "endless policy": adopted(document="x" * 32_769),
    "revocation of nobody": revoked(ALICE, name=""),
    "revocation without a word": revoked(ALICE, note=""),
    "revocation of an auditor": revoked(ALICE, role="auditor"),
    "endless card": Announced(card=SignedCard(document="x" * (MAX_CARD_BYTES + 1), signatures=SIGNATURES)),
    "card without signature": Announced(card=SignedCard(document="{}", signatures=())),
    "card with nine signatures": Announced(card=SignedCard(document="{}", signatures=SIGNATURES * 9)),
    "nameless project": registered(ALICE, projects=("study", "")),
    "too many projects": registered(ALICE, projects=("study",) * 101),
    "endless inbox": registered(ALICE, inbox="x" * 257),
    "slots without commitments": slots(commitments=()),
    "commitment in capitals": slots(commitments=("AB" * 32,)),
    "too many slots": slots(count=MAX_SLOTS + 1),
    "slots from below zero": slots(first=-1, count=1, commitments=(hash_of(1),)),
    "slots void below zero": slots(void_below=-1),
    "release without a checkpoint": Released(ticket=hash_of(1), answer=hash_of(2), checkpoint=""),
    "release with an endless checkpoint": Released(ticket=hash_of(1), answer=hash_of(2), checkpoint="x" * 16_385),
    "checkpoint that doubles when escaped": ReportedCharge(ticket=hash_of(1), log_index=1, checkpoint="\x01" * 16_384),
}


@pytest.mark.parametrize("event", UNREADABLE.values(), ids=list(UNREADABLE))
def test_what_could_not_be_read_back_is_not_encoded(event: Event) -> None:
    """An entry outside its limits, once in a log, would keep the node from ever starting again."""
    with pytest.raises(ValueError, match=r"."):
        encode_entry(Entry(sequence=0, time_ms=0, policy="", event=event))


def test_the_largest_honest_entries_fit() -> None:
    """A policy document and a checkpoint of the greatest length admitted make readable entries."""
    for event in (
        adopted(document='"' * 30_000),
        ReportedCharge(ticket=hash_of(1), log_index=1, checkpoint='"' * 16_384),
        Released(ticket=hash_of(1), answer=hash_of(2), checkpoint='"' * 16_384),
        slots(first=2**53 - 1, commitments=("f" * 64,) * MAX_SLOTS, void_below=2**53 - 1),
        # A card is mostly base64: lines of 64 letters, whose ends are escaped in the card and again in the entry.
        Announced(card=SignedCard(document=("x" * 64 + "\\n") * (MAX_CARD_BYTES // 66), signatures=SIGNATURES * 8)),
        Revoked(role="researcher", name="x" * 4096, note="\x01" * MAX_NOTE_CHARACTERS),
        # Every note that a command accepts fits, whatever it is made of: escapes are the longest spelling.
        Shutdown(reason="operator", note="x" * MAX_NOTE_CHARACTERS),
        Shutdown(reason="operator", note="\x01" * MAX_NOTE_CHARACTERS),
        Shutdown(reason="operator", note="\U0001f341" * MAX_NOTE_CHARACTERS),
        Reopened(note="\x01" * MAX_NOTE_CHARACTERS, signature="s" * 88, key_id="k" * 16),
        # A policy of a thousand scales, confirmed with the longest note.
        adopted(policy(scales=tuple(range(999_001, 1_000_001))), note="\x01" * MAX_NOTE_CHARACTERS),
    ):
        entry = Entry(sequence=0, time_ms=0, policy="", event=event)
        assert parse_entry(encode_entry(entry)) == entry
