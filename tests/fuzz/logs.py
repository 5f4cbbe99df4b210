"""Targets on the logs: notes, cosignatures, entries, proofs, exported files, and the fold of whole logs."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, get_args

import msgspec
from fakes import logs
from fakes.cards import Party
from fakes.tile_tree import TileTree
from fuzz.cards import RESEARCHER, signed_again
from fuzz.target import Cut, Target, joined, require

from broker_common.crypto.cards import Card, SignedCard
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import parse_policy
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import (
    MAX_TIME_S,
    CosignatureVerifier,
    Cosigned,
    Cosigner,
    merge_cosignatures,
    note_lines,
    only_lines_of,
)
from broker_common.tlog.entries import (
    Adopted,
    Announced,
    Delivered,
    Entry,
    Event,
    Expired,
    Forwarded,
    Registered,
    Released,
    Reopened,
    ReportedCharge,
    Settled,
    Shutdown,
    encode_entry,
    parse_entry,
)
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.merkle import CompactTree, MerkleTree, leaf_hash, root_from_inclusion, verify_consistency
from broker_common.tlog.note import Checkpoint, NoteVerifier, join_note, parse_note
from broker_common.tlog.replay import LogState, ReplayError, replay
from broker_common.tlog.tiles import (
    TILE_WIDTH,
    encode_entry_bundle,
    hash_tiles,
    parse_entry_bundle,
    parse_hash_tile,
    tile_path,
)

__all__ = ["TARGETS", "key_hash"]

_TIME_MS = 1_800_000_000_000


def _text(data: bytes) -> str:
    # Notes come as strings of messages, which are valid UTF-8, or from a database, which need not be.
    return data.decode("utf-8", "surrogateescape")


def key_hash(name: str, key: VerifyKey, kind: bytes = b"\1") -> bytes:
    """The short name of a key in a signature line, from the format's own text."""
    return hashlib.sha256(name.encode() + b"\n" + kind + key.raw).digest()[:4]


# --- notes -----------------------------------------------------------------------------------------------------------


def _parse_note(data: bytes) -> Checkpoint:
    """A whole note, or the text of one that the log's own key signs."""
    if data[:1] != b"s":
        return logs.SIGNER.verifier.verify_checkpoint(_text(data[1:]))
    text = data[1:].decode("utf-8", "replace")
    blob = key_hash(logs.ORIGIN, logs.LOG_KEY.verify_key) + logs.LOG_KEY.sign(text.encode())
    signature = f"\u2014 {logs.ORIGIN} {b64encode(blob).decode('ascii')}\n"
    return logs.SIGNER.verifier.verify_checkpoint(f"{text}\n{signature}")


def _check_note(checkpoint: Checkpoint, data: bytes) -> None:
    require(checkpoint.origin == logs.ORIGIN, "a checkpoint is its log's own")
    require(checkpoint.to_text().encode() in data[1:], "a checkpoint has one spelling")


def _note_seeds() -> dict[str, bytes]:
    note = logs.SIGNER.sign_checkpoint(42, bytes(range(32)))
    text = Checkpoint(logs.ORIGIN, 42, bytes(32)).to_text()
    return {
        "whole": b"w" + note.encode(),
        "signed": b"s" + text.encode(),
        "two signatures": b"w" + note.replace("\n\n", "\n\n\u2014 other AAAAAA==\n").encode(),
        "bad origin": b"s" + b"x" + text.encode(),
        "bad size": b"s" + text.replace("42", "4" * 5000).encode(),
    }


# --- cosignatures ----------------------------------------------------------------------------------------------------

_WITNESS = Cosigner("witness.test/w", SigningKey(Purpose.WITNESS, bytes(32)))
_COSIGNED = _WITNESS.cosign(logs.SIGNER.sign_checkpoint(42, bytes(range(32))), 1_763_458_236)


def _parse_cosigned(data: bytes) -> tuple[Cosigned, str]:
    """A whole note; or the text of one, or a time and a text, that the witness itself signs; or one more note to merge."""
    part, note = data[:1], _text(data[1:])
    if part == b"s":
        note = _WITNESS.cosign(note, 7)
    elif part == b"t":
        time, text = data[1:9], data[9:].decode("utf-8", "replace")
        message = f"cosignature/v1\ntime {int.from_bytes(time, 'big')}\n{text}"
        short = key_hash(_WITNESS.name, _WITNESS.key.verify_key, b"\4")
        note = join_note(text, [(_WITNESS.name, short + time + _WITNESS.key.sign(message.encode()))])
    elif part == b"m":
        note = merge_cosignatures([_COSIGNED, note])
    return _WITNESS.verifier.verify(note), note


def _check_cosigned(verified: tuple[Cosigned, str], data: bytes) -> None:
    cosigned, note = verified
    del data
    require(note.startswith(f"{cosigned.checkpoint.to_text()}\n"), "a checkpoint has one spelling")
    require(0 <= cosigned.time_s <= MAX_TIME_S, "a time is one that C2SP allows")
    lines = note_lines(note)
    require(any(name == _WITNESS.name for name, _ in lines), "a cosignature is by its witness")
    require(join_note(cosigned.checkpoint.to_text(), parse_note(note)[1]) == note, "a note has one spelling")
    merged = merge_cosignatures([note, note])
    require(set(note_lines(merged)) == set(lines), "merging loses and adds nothing")
    require(_WITNESS.verifier.verify(merged) == cosigned, "merging changes nothing that is said")
    only = only_lines_of(note, logs.SIGNER.verifier, _WITNESS.verifier)
    kept = note_lines(only)
    require(len(set(kept)) == len(kept) <= 2, "one line for each known key")
    require(set(parse_note(only)[1]) <= set(parse_note(note)[1]), "nothing is made up")
    require(_WITNESS.verifier.verify(only) == cosigned, "leaving lines out changes nothing that is said")
    require(only_lines_of(only, logs.SIGNER.verifier, _WITNESS.verifier) == only, "what is left is left")


def _cosigned_seeds() -> dict[str, bytes]:
    text = Checkpoint(logs.ORIGIN, 42, bytes(32)).to_text().encode()
    return {
        "whole": b"w" + _COSIGNED.encode(),
        "cosigned": b"s" + logs.SIGNER.sign_checkpoint(42, bytes(32)).encode(),
        "timed": b"t" + bytes(7) + b"\7" + text,
        "merged": b"m" + Cosigner("other", _WITNESS.key).cosign(_COSIGNED, 5).encode(),
        "bad merger": b"m" + logs.SIGNER.sign_checkpoint(43, bytes(32)).encode(),
        "bad time": b"t" + b"\x80" + bytes(7) + text,
        "bad text": b"t" + bytes(8) + b"x" + text + b"x\n",
        "bad alone": b"w" + logs.SIGNER.sign_checkpoint(42, bytes(32)).encode(),
    }


# --- entries ---------------------------------------------------------------------------------------------------------


def _line(sequence: int, event: Event, policy: str = "", *, after_ms: int = 0) -> bytes:
    return encode_entry(Entry(sequence=sequence, time_ms=_TIME_MS + after_ms, policy=policy, event=event))


def _release(covered: int) -> Released:
    """The release of the first answer, under a cosigned checkpoint of so many entries."""
    return Released(ticket=logs.hash_of(1), answer=logs.hash_of(9), checkpoint=logs.cosigned_note(covered))


def _entry_seeds() -> dict[str, bytes]:
    return {
        "opened": _line(0, logs.opened()),
        "adopted": _line(1, logs.adopted()),
        "charged": _line(3, logs.charged(0), logs.policy().hash.hex()),
        "shutdown": _line(4, Shutdown(reason="operator", note="é\u2028")),
        "announced": _line(1, Announced(card=RESEARCHER.card.signed)),
        "registered": _line(
            2, Registered(card=RESEARCHER.card.signed, note="", projects=("study",), inbox="127.0.0.1:1")
        ),
        "revoked": _line(3, logs.revoked(logs.ALICE)),
        "relinked": _line(4, logs.relinked()),
        "reopened": _line(5, Reopened(note="the drill is over", signature="x", key_id="y")),
        "expired": _line(6, Expired(ticket=logs.hash_of(1))),
        "slots": _line(3, logs.slots(count=2), logs.policy().hash.hex()),
        "released": _line(7, _release(7)),
        "bad slots": _line(3, logs.slots(count=2)).replace(b'"first":0', b'"first":-1'),
        "bad spelling": _line(0, logs.opened()).replace(b":", b": "),
    }


# --- whole logs ------------------------------------------------------------------------------------------------------


def _replayed(data: bytes, state: LogState) -> LogState:
    """The fold of entries, one per line, between the first and second of which the log says who is who.

    Policies, orders and cards are signed again, so that any of them can be given.
    """
    first, *others = (parse_entry(line) for line in data.split(b"\n"))
    known = [
        Entry(sequence=at, time_ms=first.time_ms, policy="", event=event) for at, event in enumerate(_known(state))
    ]
    replay([first, *known[1:]], state)
    for entry in others:
        shifted = msgspec.structs.replace(entry, sequence=entry.sequence + len(known) - 1)
        replay([_resigned(shifted, state)], state)
    return state


def _known(state: LogState) -> tuple[Event, ...]:
    return logs.beginning(state.role)


def _resigned(entry: Entry, state: LogState) -> Entry:
    event = entry.event
    if isinstance(event, Announced | Registered):
        event = msgspec.structs.replace(event, card=signed_again(event.card.document.encode()))
    if isinstance(event, Adopted):
        event = msgspec.structs.replace(event, signature=logs.POLICY_KEY.sign_text(event.document.encode()))
    if isinstance(state, CensusState):
        event = _ordered(event, state)
    return msgspec.structs.replace(entry, event=event)


def _ordered(event: Event, state: CensusState) -> Event:
    """The event with the operator's signature, where it takes one and says that it has one."""
    if isinstance(event, Adopted) and event.confirmation:
        with suppress(InvalidRequestError):
            order = state.order("adopt", event.note, adopting=parse_policy(event.document.encode()))
            return msgspec.structs.replace(event, confirmation=logs.OPERATOR_KEY.sign_text(order.document))
    if (isinstance(event, Shutdown) and event.reason == "operator") or isinstance(event, Reopened):
        order = state.order("reopen" if isinstance(event, Reopened) else "shutdown", event.note)
        signature = logs.OPERATOR_KEY.sign_text(order.document)
        return msgspec.structs.replace(event, signature=signature, key_id=logs.OPERATOR_KEY.key_id)
    return event


def _check_census(state: LogState, data: bytes) -> None:
    assert isinstance(state, CensusState)
    require(state.size == len(data.split(b"\n")) + len(_known(state)) - 1, "every entry is taken in")
    require(state.shut_down or state.must_shut_down or state.anything_fits == bool(state.policy), "the cap holds")
    require(not state.shut_down or not state.must_shut_down, "a shutdown comes once")
    _check_parties(state)
    require(
        state.charged_units == sum(ticket.charge.units for ticket in state.tickets.values()),
        "the total is the sum of the charges",
    )
    spent = [ticket.charge.slot for ticket in state.tickets.values()]
    require(len(set(spent)) == len(spent), "a slot serves one ticket")
    require(not state.open_slots.keys() & set(spent), "a slot that was charged is not open")
    require(max([-1, *state.open_slots, *spent]) < state.next_slot, "what is open or spent was committed to")


def _check_parties(state: LogState) -> None:
    own = state.parties.own
    require(own is not None and own.card.origin == state.origin, "a log is of the node whose card it holds")
    certificates = state.parties.certificates(0)
    require(len({each.subject for each in certificates}) == len(certificates), "no certificate hides another")
    for peer in state.parties.everybody():
        require(peer.card.card.role != state.role, "a node knows none of its own role")


def _check_health(state: LogState, data: bytes) -> None:
    require(state.size == len(data.split(b"\n")) + len(_known(state)) - 1, "every entry is taken in")
    _check_parties(state)


def _peers(own: Party, start: int, policy: str = "") -> list[bytes]:
    """Who is known changes: a peer comes, has a newer card, and goes; the node has a newer card itself."""
    newer = RESEARCHER.card.card
    return [
        _line(start, Registered(card=RESEARCHER.card.signed, note="", projects=("study",), inbox=""), policy),
        _line(
            start + 1,
            Registered(card=_second(newer), note="", projects=("study", "other"), inbox="127.0.0.1:1"),
            policy,
        ),
        _line(start + 2, logs.revoked(RESEARCHER), policy),
        _line(start + 3, Announced(card=_second(own.card.card)), policy),
    ]


def _second(card: Card) -> SignedCard:
    return signed_again(msgspec.structs.replace(card, serial=2).document)


def _census_log_seeds() -> dict[str, bytes]:
    policy = logs.policy().hash.hex()
    known = len(logs.beginning()) - 1
    slots = _line(4, logs.slots(count=3), policy)
    lines = [
        _line(0, logs.opened()),
        _line(1, logs.adopted()),
        _line(2, logs.loaded(), policy),
        _line(3, logs.rostered(), policy),
        slots,
        _line(5, logs.charged(1), policy),
        _line(6, _release(known + 6), policy),
        _line(7, Delivered(ticket=logs.hash_of(1), by="inbox"), policy),
        _line(8, Shutdown(reason="operator", note="a drill"), policy),
    ]
    # Documents signed here are signed again when the log is read.
    reopened = Reopened(note="the drill is over", signature="x", key_id="x")
    unconfirmed = logs.adopted(logs.policy(max_belief="0.9"))
    weaker = msgspec.structs.replace(
        unconfirmed, note="a drill", confirmation="x", confirmation_key_id=logs.OPERATOR_KEY.key_id
    )
    last = [
        *lines[:5],
        _line(5, logs.charged(1, scale=1), policy),
        _line(6, logs.charged(2, before=price(1), scale=30), policy),
    ]
    persons = logs.policy(accounting="per_person")
    expired = Expired(ticket=logs.hash_of(1))
    afresh = logs.slots(3, count=1, void_below=3)
    return {
        "whole": b"\n".join(lines),
        "opened": lines[0],
        "dear": b"\n".join(last),
        "bad twice": b"\n".join([*lines[:6], lines[5]]),
        "peers": b"\n".join([*lines[:2], *_peers(logs.CENSUS, 2, policy)]),
        "relinked": b"\n".join([*lines[:3], _line(3, logs.relinked(), policy)]),
        "reopened": b"\n".join(
            [*lines, _line(9, reopened, policy), _line(10, logs.charged(2, before=price(30)), policy)]
        ),
        "expired": b"\n".join([*lines[:7], _line(7, expired, policy, after_ms=logs.policy().answer_retention_ms)]),
        "weaker": b"\n".join([*lines[:3], _line(3, weaker, policy)]),
        "persons": b"\n".join(
            [
                lines[0],
                _line(1, logs.adopted(persons)),
                _line(2, logs.loaded(), persons.hash.hex()),
                _line(3, logs.rostered(), persons.hash.hex()),
                _line(4, logs.slots(count=3), persons.hash.hex()),
                _line(5, logs.charged(1, scale=1, ledger=logs.hash_of(5)), persons.hash.hex()),
                _line(6, logs.charged(2, before=price(1), scale=1, ledger=logs.hash_of(6)), persons.hash.hex()),
            ]
        ),
        "bad ledger": b"\n".join([*lines[:5], _line(5, logs.charged(1, ledger=logs.hash_of(5)), policy)]),
        "afresh": b"\n".join([*lines[:6], _line(6, afresh, policy), _line(7, _release(known + 7), policy)]),
        "bad void": b"\n".join([*lines[:5], _line(5, afresh, policy), _line(6, logs.charged(1), policy)]),
        "bad gap": b"\n".join([*lines[:5], _line(5, logs.slots(4), policy)]),
        "bad cover": b"\n".join([*lines[:6], _line(6, _release(known + 5), policy)]),
        "bad future": b"\n".join([*lines[:6], _line(6, _release(known + 7), policy)]),
        "bad unconfirmed": b"\n".join([*lines[:3], _line(3, unconfirmed, policy)]),
        "bad open": b"\n".join([*lines[:8], _line(8, reopened, policy)]),
        "bad early": b"\n".join([*lines[:7], _line(7, expired, policy)]),
        "bad stranger": b"\n".join([*lines[:2], _line(2, logs.revoked(RESEARCHER), policy)]),
        "bad outdated": b"\n".join([*lines[:2], _line(2, Announced(card=logs.CENSUS.card.signed), policy)]),
    }


# --- the cosigned note of a release ----------------------------------------------------------------------------------

_CHARGED_AT = 9


@cache
def _charged_log() -> list[Entry]:
    """A log that ends with a charge."""
    state, entries = logs.census_state(), list[Entry]()
    for event in (
        *logs.beginning(),
        logs.adopted(),
        logs.loaded(),
        logs.rostered(),
        logs.slots(count=2),
        logs.charged(1),
    ):
        entries.append(Entry(sequence=state.size, time_ms=_TIME_MS, policy=state.policy_hash, event=event))
        state.apply(entries[-1])
    return entries


def _parse_release(data: bytes) -> Checkpoint:
    """The note that a release carries, two entries after its charge."""
    state = logs.census_state()
    events: list[Event] = [logs.loaded("load2"), logs.released(state, checkpoint=_text(data))]
    replay(_charged_log(), state)
    for event in events:
        entry = Entry(sequence=state.size, time_ms=_TIME_MS, policy=state.policy_hash, event=event)
        # A note that does not fit into an entry is refused before it is judged.
        state.apply(parse_entry(encode_entry(entry)))
    return parse_note(_text(data))[0]


def _check_release(checkpoint: Checkpoint, data: bytes) -> None:
    require(checkpoint.origin == logs.ORIGIN, "a release is under a checkpoint of its own log")
    require(_CHARGED_AT < checkpoint.size <= _CHARGED_AT + 2, "that covers the charge, and is there")
    require(data.startswith(checkpoint.to_text().encode()), "a checkpoint has one spelling")


def _release_seeds() -> dict[str, bytes]:
    return {
        "charge": logs.cosigned_note(_CHARGED_AT + 1).encode(),
        "later": logs.cosigned_note(_CHARGED_AT + 2).encode(),
        "bad before": logs.cosigned_note(_CHARGED_AT).encode(),
        "bad beyond": logs.cosigned_note(_CHARGED_AT + 3).encode(),
        "bad log": logs.cosigned_note(_CHARGED_AT + 1, "census.test/other").encode(),
        "bad half": logs.cosigned_note(_CHARGED_AT + 1).encode()[:-30],
        "bad bytes": logs.cosigned_note(_CHARGED_AT + 1).encode() + b"\xff\n",
        "bad nothing": b"",
    }


def _health_log_seeds() -> dict[str, bytes]:
    ticket = logs.hash_of(1)
    lines = [
        _line(0, logs.opened("health")),
        _line(1, logs.loaded()),
        _line(2, logs.rostered()),
        _line(3, logs.submitted(1)),
        _line(4, Forwarded(ticket=ticket, roster=1, manifest=logs.hash_of(2))),
        _line(5, ReportedCharge(ticket=ticket, log_index=3, checkpoint="note")),
        _line(6, Settled(ticket=ticket)),
    ]
    refused = [
        *lines[:5],
        _line(5, logs.signed_refusal(Forwarded(ticket=ticket, roster=1, manifest=logs.hash_of(2)), "BUDGET_EXHAUSTED")),
    ]
    return {
        "settled": b"\n".join(lines),
        "refused": b"\n".join(refused),
        "peers": b"\n".join([lines[0], *_peers(logs.HEALTH, 1)]),
        "relinked": b"\n".join([*lines[:2], _line(2, logs.relinked())]),
        "bad chain": b"\n".join([*lines[:2], _line(2, logs.relinked(previous=logs.chain_of(3)))]),
        "bad role": _line(0, logs.opened()),
        "bad end": b"\n".join([*refused, _line(6, Settled(ticket=ticket))]),
    }


# --- proofs ----------------------------------------------------------------------------------------------------------

_MOST_LEAVES = 64


def _parse_proof(data: bytes) -> tuple[bytes, bytes, list[bytes], int, int]:
    """An index, a size, an entry and a proof of any pieces; where the size is small, also the real proof."""
    cut = Cut(data)
    index, size, entry, proof = cut.number(8), cut.number(8), cut.piece(), []
    while not cut.is_empty:
        proof.append(cut.piece())
    if 0 <= index < size <= _MOST_LEAVES:
        tree = _tree(entry, index, size)
        real = root_from_inclusion(entry, index, size, tree.inclusion_proof(index))
        require(real == tree.root(), "a proof leads to the root")
    return entry, root_from_inclusion(entry, index, size, proof), proof, index, size


def _tree(entry: bytes, index: int, size: int) -> MerkleTree:
    tree = MerkleTree()
    for place in range(size):
        tree.append(entry if place == index else place.to_bytes(8, "big"))
    return tree


def _check_proof(proved: tuple[bytes, bytes, list[bytes], int, int], data: bytes) -> None:
    del data
    entry, root, proof, index, size = proved
    require(len(proof) <= size.bit_length(), "a proof is as long as its tree is high")
    require(bool(proof) == (size > 1), "a tree of one leaf needs no proof")
    if size == 1:
        require(root == leaf_hash(entry), "the root of one leaf is its hash")
    elif size <= _MOST_LEAVES and root == _tree(entry, index, size).root():
        require(proof == _tree(entry, index, size).inclusion_proof(index), "a leaf has one proof")


def _proof_seeds() -> dict[str, bytes]:
    def seed(index: int, size: int) -> bytes:
        proof = _tree(b"entry", index, size).inclusion_proof(index)
        return index.to_bytes(8, "big") + size.to_bytes(8, "big") + joined(b"entry", *proof)

    return {"one": seed(0, 1), "last": seed(6, 7), "middle": seed(11, 20), "bad size": bytes(16)}


# --- one tree continues another --------------------------------------------------------------------------------------

_GROWN = _tree(b"entry", 0, _MOST_LEAVES + 1)


def _parse_consistency(data: bytes) -> tuple[int, int, list[bytes]]:
    """Two sizes and a proof of any pieces, between trees that we know or, for long ones, between roots that are given."""
    cut = Cut(data)
    old_size, size, proof = cut.number(8), cut.number(8), list[bytes]()
    roots = (cut.piece(), cut.piece())
    while not cut.is_empty:
        proof.append(cut.piece())
    if old_size <= size <= _MOST_LEAVES:
        roots = (_GROWN.root(old_size), _GROWN.root(size))
        verify_consistency(old_size, roots[0], size, roots[1], _GROWN.consistency_proof(old_size, size))
    verify_consistency(old_size, roots[0], size, roots[1], proof)
    return old_size, size, proof


def _check_consistency(proved: tuple[int, int, list[bytes]], data: bytes) -> None:
    del data
    old_size, size, proof = proved
    require(old_size <= size, "no tree continues a longer one")
    require(len(proof) <= size.bit_length() + 1, "a proof is as long as its tree is high")
    if size <= _MOST_LEAVES:
        require(proof == _GROWN.consistency_proof(old_size, size), "two sizes have one proof")


def _consistency_seeds() -> dict[str, bytes]:
    def seed(old_size: int, size: int, *proof: bytes) -> bytes:
        proved = proof or tuple(_GROWN.consistency_proof(old_size, size))
        return old_size.to_bytes(8, "big") + size.to_bytes(8, "big") + joined(b"", b"", *proved)

    equal = (2**40).to_bytes(8, "big") * 2 + joined(bytes(32), bytes(32))
    return {
        "equal": seed(5, 5),
        "empty": seed(0, 9),
        "complete": seed(32, 47),
        "any": seed(13, 50),
        "long": equal,
        "bad order": seed(9, 3, bytes(32)),
        "bad length": seed(13, 50, bytes(32)),
        "bad roots": (2**40).to_bytes(8, "big") + (2**41).to_bytes(8, "big") + joined(bytes(32), bytes(32), bytes(32)),
    }


# --- exported files --------------------------------------------------------------------------------------------------


def _parse_bundle(data: bytes) -> tuple[int, list[bytes]]:
    """A width in two bytes, and a bundle."""
    width = int.from_bytes(data[:2], "big")
    return width, parse_entry_bundle(data[2:], width)


def _check_bundle(parsed: tuple[int, list[bytes]], data: bytes) -> None:
    width, entries = parsed
    require(len(entries) == width <= TILE_WIDTH, "a bundle has as many entries as its name says")
    require(encode_entry_bundle(entries) == data[2:], "a bundle has one spelling")


def _bundle_seeds() -> dict[str, bytes]:
    return {
        "one": b"\0\1" + joined(_line(0, logs.opened())),
        "some": b"\0\3" + joined(b"", b"one", bytes(300)),
        "full": b"\1\0" + joined(*[b""] * 256),
        "bad width": b"\0\1" + joined(b"", b""),
        "bad end": b"\0\2" + joined(b"", b"one")[:-1],
        "bad size": b"\1\1" + joined(*[b""] * 257),
        "bad nothing": b"\0\0",
    }


def _parse_tile(data: bytes) -> list[bytes]:
    """A width in two bytes, and a tile; as the tree that it is, it proves what the same leaves prove."""
    width = int.from_bytes(data[:2], "big")
    hashes = parse_hash_tile(data[2:], width)
    require(len(hashes) == width <= TILE_WIDTH, "a tile has as many hashes as its name says")
    return hashes


def _check_tile(hashes: list[bytes], data: bytes) -> None:
    require(b"".join(hashes) == data[2:], "a tile has one spelling")
    tiles, compact = dict(hash_tiles(hashes)), CompactTree()
    for leaf in hashes:
        compact.append_leaf(leaf)
    require(tiles[tile_path(0, 0, len(hashes))] == data[2:], "a tile is made of its hashes")
    require(TileTree(tiles.__getitem__, len(hashes)).root() == compact.root(), "a tile is a tree")


def _tile_seeds() -> dict[str, bytes]:
    return {
        "one": b"\0\1" + bytes(32),
        "some": b"\0\x05" + bytes(range(160)),
        "full": b"\1\0" + bytes(256 * 32),
        "bad width": b"\0\2" + bytes(32),
        "bad byte": b"\0\1" + bytes(33),
        "bad nothing": b"\0\0",
    }


_MOST_LOG_BYTES = 24_000
_TYPES = tuple(f'"type":"{kind.__struct_config__.tag}"'.encode() for kind in get_args(Event))

TARGETS: Mapping[str, Target[Any]] = {
    "note": Target(
        parse=_parse_note,
        check=_check_note,
        covers=(NoteVerifier.verify_checkpoint, Checkpoint.parse_text, VerifyKey.verify_signature),
        seeds=_note_seeds,
        codes=frozenset({"BAD_SIGNATURE", "MALFORMED_MESSAGE"}),
        words=("\u2014 ".encode(), b"\n\n", b"=", b"\xd9\xa1", b"00", b"\xff", b"\r", b"\x00"),
    ),
    "cosigned": Target(
        parse=_parse_cosigned,
        check=_check_cosigned,
        covers=(CosignatureVerifier.verify, Cosigner.cosign, merge_cosignatures, note_lines, only_lines_of, parse_note),
        seeds=_cosigned_seeds,
        codes=frozenset({"BAD_SIGNATURE", "MALFORMED_MESSAGE"}),
        words=("\u2014 ".encode(), b"\n\n", b"=", b"00", b"\xff", _COSIGNED.split("\n")[-2].encode() + b"\n"),
    ),
    "entry": Target(
        parse=parse_entry,
        check=lambda entry, data: require(encode_entry(entry) == data, "an entry has one spelling"),
        covers=(parse_entry,),
        seeds=_entry_seeds,
        errors=(ValueError,),
        words=(*_TYPES, b'{"event":', b"[[[[", b"1e2", b"-0", b"9007199254740992", b'"\\ud800"', b"null"),
    ),
    "census_log": Target(
        parse=lambda data: _replayed(data, logs.census_state()),
        mutations=400,
        max_bytes=_MOST_LOG_BYTES,
        check=_check_census,
        covers=(parse_entry, CensusState.apply),
        seeds=_census_log_seeds,
        errors=(ValueError, ReplayError),
        words=(
            b"\n",
            *_TYPES,
            b'"void_below":3',
            b'"first":3',
            b'"slot":2',
            b'"budget"',
            b'"operator"',
            b'\\"serial\\":3',
            b'\\"until_ms\\":1',
        ),
    ),
    "cosigned_release": Target(
        parse=_parse_release,
        check=_check_release,
        mutations=150,
        covers=(parse_note, CensusState.apply),
        seeds=_release_seeds,
        errors=(ValueError, ReplayError),
        words=("\u2014 ".encode(), b"\n\n", b"\n8\n", b"\n9\n", b"=", b"00", b"\xff"),
    ),
    "health_log": Target(
        parse=lambda data: _replayed(data, HealthState(logs.root(logs.HEALTH))),
        check=_check_health,
        mutations=400,
        max_bytes=_MOST_LOG_BYTES,
        covers=(parse_entry, HealthState.apply),
        seeds=_health_log_seeds,
        errors=(ValueError, ReplayError),
        words=(b"\n", *_TYPES, b'\\"serial\\":3', b'\\"until_ms\\":1'),
    ),
    "proof": Target(
        parse=_parse_proof,
        check=_check_proof,
        covers=(root_from_inclusion,),
        seeds=_proof_seeds,
        errors=(ValueError,),
    ),
    "consistency": Target(
        parse=_parse_consistency,
        check=_check_consistency,
        covers=(verify_consistency,),
        seeds=_consistency_seeds,
        errors=(ValueError,),
    ),
    "bundle": Target(
        parse=_parse_bundle,
        check=_check_bundle,
        covers=(parse_entry_bundle,),
        seeds=_bundle_seeds,
        errors=(ValueError,),
        words=(b"\0\0", b"\xff\xff"),
    ),
    "tile": Target(
        parse=_parse_tile,
        check=_check_tile,
        covers=(parse_hash_tile,),
        seeds=_tile_seeds,
        errors=(ValueError,),
        mutations=400,
        max_bytes=2 + 256 * 32,
        words=(bytes(32),),
    ),
}
