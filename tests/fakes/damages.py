"""Damaged exports by name: each with how it is made, and every problem that an audit has to find in it, no more and no less.

A maker gives the same bytes every time: `tests/vectors/damaged_exports.py` writes them as files, for whoever writes another
verifier. The part `seen` is nothing that is handed in: it is what stands in the auditor's home from before.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from fakes import logs
from fakes.cards import Party
from fakes.history import START_MS, Asked, Exports, History, SignedLog
from fakes.randomness import SeededRandomness
from tripartite.v1 import answer_pb2, quote_pb2

from broker_common.audit.export.dictionaries import file_of, is_dictionary
from broker_common.audit.export.documents import MAX_DOCUMENT_BYTES, ReceiptFile, parse_receipt_file
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.query.dictionary_document import dictionary_document
from broker_common.query.quote import sign_quote
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Delivered, Refused, Shutdown
from broker_common.tlog.merkle import leaf_hash
from broker_common.tlog.note import MAX_NOTE_BYTES, NoteSigner
from broker_common.tlog.tiles import CHECKPOINT_PATH, encode_entry_bundle, hash_tiles, parse_entry_bundle
from broker_common.values import base64_text, parse_base64

__all__ = ["DAMAGES", "SEEN", "Damage", "begun_with_neighbour"]

# Checkpoints that this auditor, or another who told of it, has verified before.
SEEN: Final = "seen"

# Code, log, entry.
Expected: TypeAlias = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged export."""

    make: Callable[[], Exports]
    problems: tuple[Expected, ...]


DAMAGES: Final[dict[str, Damage]] = {}


def damage(name: str, *problems: Expected) -> Callable[[Callable[[], Exports]], Callable[[], Exports]]:
    """Put a maker into the table."""

    def put(make: Callable[[], Exports]) -> Callable[[], Exports]:
        assert name not in DAMAGES
        DAMAGES[name] = Damage(make, problems)
        return make

    return put


def honest(answers: int = 1, **rules: Any) -> History:
    """A history in which everybody did what they should."""
    history = History(rules=logs.policy(**rules)).begin()
    for _ in range(answers):
        history.answer()
    history.cosign()
    return history


def flipped(data: bytes, at: int) -> bytes:
    """One bit changed."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def bundle_of(exports: Exports, role: str) -> tuple[str, list[bytes]]:
    """The only bundle of a short log."""
    name = next(name for name in exports[role] if name.startswith("tile/entries/"))
    width = int(name.rpartition("/")[2])
    return name, parse_entry_bundle(exports[role][name], width)


def with_entries(exports: Exports, role: str, entries: list[bytes], *, tiles: bool = False) -> Exports:
    """Other entries in the bundle; `tiles` makes the hashes fit."""
    name, before = bundle_of(exports, role)
    assert len(entries) == len(before)
    exports[role][name] = encode_entry_bundle(entries)
    if tiles:
        exports[role].update(hash_tiles(map(leaf_hash, entries)))
    return exports


def receipt_of(exports: Exports, place: int = 0) -> tuple[str, ReceiptFile]:
    """One file of the researcher's."""
    name = sorted(exports["researcher"])[place]
    return name, parse_receipt_file(exports["researcher"][name])


def with_receipt(exports: Exports, place: int = 0, **changes: Any) -> Exports:
    """The same with other content."""
    name, file = receipt_of(exports, place)
    exports["researcher"][name] = msgspec.structs.replace(file, **changes).to_bytes()
    return exports


# --- files that were changed after they were signed ------------------------------------------------------------------


@damage("bit_flip_in_entry", ("ENTRY_DAMAGED", "census", 9))
def _() -> Exports:
    exports = honest().exports()
    _, entries = bundle_of(exports, "census")
    entries[9] = flipped(entries[9], 40)
    return with_entries(exports, "census", entries)


@damage("another_label_in_a_dictionary", ("DICTIONARY_DIFFERS", "census", 4))
def _() -> Exports:
    exports = honest().exports()
    (name,) = (each for each in exports["census"] if is_dictionary(each))
    exports["census"][name] = exports["census"][name].replace(b"Age.", b"Years.")
    return exports


@damage("dictionary_that_is_none", ("DICTIONARY_DIFFERS", "health", 4))
def _() -> Exports:
    exports = honest().exports()
    (name,) = (each for each in exports["health"] if is_dictionary(each))
    exports["health"][name] = b"[]"
    return exports


@damage("dictionary_missing", ("FILE_MISSING", "health", 4))
def _() -> Exports:
    exports = honest().exports()
    (name,) = (each for each in exports["health"] if is_dictionary(each))
    del exports["health"][name]
    return exports


@damage("dictionary_that_nobody_adopted", ("UNKNOWN_FILE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][f"dictionaries/{'ab' * 32}.json"] = b"{}"
    return exports


@damage("bit_flip_in_health_entry", ("ENTRY_DAMAGED", "health", 7))
def _() -> Exports:
    exports = honest().exports()
    _, entries = bundle_of(exports, "health")
    entries[7] = flipped(entries[7], 40)
    return with_entries(exports, "health", entries)


@damage("bit_flip_in_tile", ("TILE_WRONG", "census", 3))
def _() -> Exports:
    exports = honest().exports()
    name = next(name for name in exports["census"] if name.startswith("tile/0/"))
    exports["census"][name] = flipped(exports["census"][name], 3 * 32 + 5)
    return exports


@damage("bit_flip_in_signature", ("BAD_SIGNATURE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    note = exports["census"][CHECKPOINT_PATH]
    head, _, last = note.rstrip(b"\n").rpartition(b" ")
    blob = flipped(parse_base64(last.decode()), 20)
    exports["census"][CHECKPOINT_PATH] = head + b" " + base64_text(blob).encode() + b"\n"
    return exports


@damage("bit_flip_in_root", ("BAD_SIGNATURE", "census", None), ("ROOT_WRONG", "census", None))
def _() -> Exports:
    exports = honest().exports()
    lines = exports["census"][CHECKPOINT_PATH].split(b"\n")
    lines[2] = base64_text(flipped(parse_base64(lines[2].decode()), 0)).encode()
    exports["census"][CHECKPOINT_PATH] = b"\n".join(lines)
    return exports


@damage("bit_flip_in_cosignature", ("NOT_COSIGNED", "census", None))
def _() -> Exports:
    exports = honest().exports()
    head, _, last = exports["census"][COSIGNED].rstrip(b"\n").rpartition(b" ")
    blob = flipped(parse_base64(last.decode()), 30)
    exports["census"][COSIGNED] = head + b" " + base64_text(blob).encode() + b"\n"
    return exports


@damage("bit_flip_in_receipt_signature", ("RECEIPT_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    signed = receipt_of(exports)[1].signed_receipt
    signed.signature = flipped(signed.signature, 3)
    return with_receipt(exports, receipt=base64_text(signed.SerializeToString(deterministic=True)))


@damage("bit_flip_in_receipt", ("RECEIPT_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    signed = receipt_of(exports)[1].signed_receipt
    signed.receipt = flipped(signed.receipt, 60)
    return with_receipt(exports, receipt=base64_text(signed.SerializeToString(deterministic=True)))


@damage("bit_flip_in_ticket_signature", ("TICKET_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    signed = receipt_of(exports)[1].signed_ticket
    signed.signature = flipped(signed.signature, 3)
    return with_receipt(exports, ticket=base64_text(signed.SerializeToString(deterministic=True)))


@damage("reordered_entries", ("ENTRY_DAMAGED", "census", 9), ("ENTRY_DAMAGED", "census", 10))
def _() -> Exports:
    exports = honest().exports()
    _, entries = bundle_of(exports, "census")
    entries[9], entries[10] = entries[10], entries[9]
    return with_entries(exports, "census", entries)


@damage("reordered_entries_and_tiles", ("ROOT_WRONG", "census", None), ("SEQUENCE", "census", 9))
def _() -> Exports:
    exports = honest().exports()
    _, entries = bundle_of(exports, "census")
    entries[9], entries[10] = entries[10], entries[9]
    return with_entries(exports, "census", entries, tiles=True)


@damage("duplicated_entry", ("ENTRY_DAMAGED", "census", 10))
def _() -> Exports:
    exports = honest().exports()
    _, entries = bundle_of(exports, "census")
    entries[10] = entries[9]
    return with_entries(exports, "census", entries)


@damage("deleted_entry", ("BUNDLE_MALFORMED", "census", 0))
def _() -> Exports:
    exports = honest().exports()
    name, entries = bundle_of(exports, "census")
    exports["census"][name] = encode_entry_bundle(entries[:8] + entries[9:])
    return exports


@damage("bundle_cut_short", ("BUNDLE_MALFORMED", "health", 0))
def _() -> Exports:
    exports = honest().exports()
    name, _ = bundle_of(exports, "health")
    exports["health"][name] = exports["health"][name][:-1]
    return exports


@damage("bundle_missing", ("FILE_MISSING", "census", 0))
def _() -> Exports:
    exports = honest().exports()
    del exports["census"][bundle_of(exports, "census")[0]]
    return exports


@damage("tile_missing", ("FILE_MISSING", "census", None))
def _() -> Exports:
    exports = honest().exports()
    del exports["census"][next(name for name in exports["census"] if name.startswith("tile/0/"))]
    return exports


@damage("checkpoint_missing", ("FILE_MISSING", "census", None))
def _() -> Exports:
    exports = honest().exports()
    del exports["census"][CHECKPOINT_PATH]
    return exports


@damage("health_missing", ("EXPORT_MISSING", "health", None))
def _() -> Exports:
    exports = honest().exports()
    del exports["health"]
    return exports


@damage("unknown_file", ("UNKNOWN_FILE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"]["README"] = b"hello"
    return exports


@damage("unknown_tile", ("UNKNOWN_FILE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"]["tile/1/000.p/1"] = bytes(32)
    return exports


@damage("unknown_file_of_researcher", ("UNKNOWN_FILE", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    exports["researcher"]["counts.csv"] = b"7"
    return exports


@damage("receipt_under_another_name", ("UNKNOWN_FILE", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    name, _ = receipt_of(exports)
    exports["researcher"][f"receipts/{'f' * 32}.json"] = exports["researcher"].pop(name)
    return exports


@damage("unknown_signature_line", ("UNKNOWN_SIGNATURE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][CHECKPOINT_PATH] += "\u2014 example.org/stranger AAAAAAAA\n".encode()
    return exports


@damage("unknown_cosignature_line", ("UNKNOWN_SIGNATURE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    stranger = Cosigner("stranger.test/log", SigningKey(Purpose.WITNESS, bytes(32)))
    note = exports["census"][COSIGNED].decode()
    exports["census"][COSIGNED] = stranger.cosign(note, 1_800_000_000).encode()
    return exports


@damage("giant_checkpoint", ("FILE_TOO_LARGE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][CHECKPOINT_PATH] += b"x" * MAX_NOTE_BYTES
    return exports


@damage("giant_line_in_checkpoint", ("LOG_NOT_TRUSTED", "census", None))
def _() -> Exports:
    exports = honest().exports()
    note = exports["census"][CHECKPOINT_PATH]
    exports["census"][CHECKPOINT_PATH] = note.replace(b"\n", b"x" * (MAX_NOTE_BYTES - len(note)) + b"\n", 1)
    return exports


@damage("giant_size", ("CHECKPOINT_MALFORMED", "census", None))
def _() -> Exports:
    exports = honest().exports()
    lines = exports["census"][CHECKPOINT_PATH].split(b"\n")
    lines[1] = b"9" * 5000
    exports["census"][CHECKPOINT_PATH] = b"\n".join(lines)
    return exports


@damage("made_up_size", ("FILE_MISSING", "census", 0))
def _() -> Exports:
    exports = honest().exports()
    lines = exports["census"][CHECKPOINT_PATH].split(b"\n")
    lines[1] = b"9" * 18
    exports["census"][CHECKPOINT_PATH] = b"\n".join(lines)
    return exports


@damage("giant_bundle", ("FILE_TOO_LARGE", "census", 0))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][bundle_of(exports, "census")[0]] = bytes(17_000_000)
    return exports


@damage("giant_tile", ("FILE_TOO_LARGE", "census", None), ("TILE_WRONG", "census", 0))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][next(name for name in exports["census"] if name.startswith("tile/0/"))] = bytes(9000)
    return exports


@damage("giant_receipt", ("FILE_TOO_LARGE", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    exports["researcher"][receipt_of(exports)[0]] = b"x" * (MAX_DOCUMENT_BYTES + 1)
    return exports


@damage("broken_utf8_in_checkpoint", ("CHECKPOINT_MALFORMED", "health", None))
def _() -> Exports:
    exports = honest().exports()
    exports["health"][CHECKPOINT_PATH] = b"\xff\xfe" + exports["health"][CHECKPOINT_PATH]
    return exports


@damage("broken_utf8_in_receipt", ("DOCUMENT_MALFORMED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    name, _ = receipt_of(exports)
    exports["researcher"][name] = exports["researcher"][name].replace(b"answered", b"\xff\xfewered")
    return exports


@damage("receipt_in_other_json", ("DOCUMENT_MALFORMED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    name, _ = receipt_of(exports)
    exports["researcher"][name] = json.dumps(json.loads(exports["researcher"][name]), sort_keys=True).encode() + b"\n"
    return exports


@damage("receipt_in_other_base64", ("DOCUMENT_MALFORMED", "researcher", None))
def _() -> Exports:
    exports = honest(4).exports()
    # The later a charge stands in the log, the longer is its proof; one of them has a length that takes padding.
    written = [receipt_of(exports, place)[1].receipt for place in range(4)]
    place = next(place for place in range(4) if written[place].endswith("="))
    bare = written[place].rstrip("=")
    # The next letter differs in bits that no encoder sets.
    other = bare[:-1] + chr(ord(bare[-1]) + 1)
    return with_receipt(exports, place, receipt=other.ljust(len(written[place]), "="))


@damage("empty_checkpoint", ("CHECKPOINT_MALFORMED", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][CHECKPOINT_PATH] = b""
    return exports


@damage("broken_utf8_in_note", ("CHECKPOINT_MALFORMED", "health", None))
def _() -> Exports:
    exports = honest().exports()
    exports["health"][WITNESSED] = b"\xff" + exports["health"][WITNESSED]
    return exports


@damage("base64_line_in_checkpoint", ("CHECKPOINT_MALFORMED", "census", None))
def _() -> Exports:
    exports = honest().exports()
    exports["census"][CHECKPOINT_PATH] = exports["census"][CHECKPOINT_PATH].replace(b"=\n\n", b"\n\n")
    return exports


# --- the census agency lies ------------------------------------------------------------------------------------------


@damage("truncated_tail", *[("LOG_BEHIND", "census", None)] * 3)
def _() -> Exports:
    history = honest()
    # Genuine, and so is its checkpoint, with both signatures.
    before = history.exports()["census"]
    history.answer()
    history.cosign()
    return history.exports() | {"census": before}


@damage("two_histories", ("SPLIT_VIEW", "census", None), ("SPLIT_VIEW", "census", None))
def _() -> Exports:
    history = honest(2)
    exports = history.exports()
    # Another last entry, as long as the one that was cosigned.
    other = SignedLog(history.census_party)
    other.policy = history.census.policy
    for entry in history.census.entries[:-1]:
        other.append_bytes(entry)
    other.append(Delivered(ticket=history.asked[-1].hash, by="collect"), history.now_ms)
    files = other.files()
    files[COSIGNED] = exports["census"][COSIGNED]
    files[WITNESSED] = exports["census"][WITNESSED]
    return exports | {"census": files}


@damage("two_histories_to_two_auditors", ("SPLIT_VIEW", "census", None))
def _() -> Exports:
    history = honest(2)
    other = SignedLog(history.census_party)
    for entry in history.census.entries[:-1]:
        other.append_bytes(entry)
    other.policy = history.census.policy
    other.append(Delivered(ticket=history.asked[-1].hash, by="collect"), history.now_ms)
    # As long as this one, and nothing else is wrong with either.
    return history.exports() | {SEEN: {"census": other.note().encode()}}


@damage("back_from_an_old_backup", ("ROLLED_BACK", "census", None), ("ROLLED_BACK", "health", None))
def _() -> Exports:
    history = honest()
    yesterday = history.exports()
    history.answer()
    history.cosign()
    notes = {"census": history.census.note().encode(), "health": history.health.note().encode()}
    return yesterday | {SEEN: notes}


@damage("signed_with_an_unknown_key", ("BAD_SIGNATURE", "census", None))
def _() -> Exports:
    exports = honest().exports()
    other = logs.party(logs.CENSUS.identity, "thief", logs.ORIGIN)
    lines = exports["census"][CHECKPOINT_PATH].decode().split("\n")
    exports["census"][CHECKPOINT_PATH] = signed_text(other, lines).encode()
    return exports


@damage("signed_with_the_wrong_key", ("BAD_SIGNATURE", "census", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    # A key of the agency's own, whose purpose is another.
    wrong = SigningKey(Purpose.LOG, history.census_party.signing(Purpose.ANSWER).expose())
    signer = NoteSigner(logs.ORIGIN, (wrong,))
    exports["census"][CHECKPOINT_PATH] = signer.sign_checkpoint(
        history.census.size, history.census.tree.root()
    ).encode()
    return exports


def signed_text(party: Party, lines: list[str]) -> str:
    """The checkpoint of a note's lines, signed by a party's newest log key."""
    log = SignedLog(party)
    return log.signer.sign_checkpoint(int(lines[1]), parse_base64(lines[2]))


@damage("key_changed_without_an_entry", ("BAD_SIGNATURE", "census", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    party = history.census_party.copy()
    party.renew("log", key=SigningKey.generate(Purpose.LOG, SeededRandomness("new log key")))
    exports["census"][CHECKPOINT_PATH] = (
        NoteSigner(logs.ORIGIN, (party.signing(Purpose.LOG),))
        .sign_checkpoint(history.census.size, history.census.tree.root())
        .encode()
    )
    return exports


@damage("key_added_without_an_entry", ("UNKNOWN_SIGNATURE", "census", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    party = history.census_party.copy()
    party.renew("log", key=SigningKey.generate(Purpose.LOG, SeededRandomness("new log key")))
    lines = exports["census"][CHECKPOINT_PATH].decode().split("\n")
    exports["census"][CHECKPOINT_PATH] = signed_text(party, lines).encode()
    return exports


@damage(
    "registered_a_health_agency_of_its_own",
    ("CARD_UNTRUSTED", "census", 2),
    ("NOT_COSIGNED", "census", 9),
    ("NOT_COSIGNED", "census", None),
    ("RELEASE_NOT_COSIGNED", "census", 10),
)
def _() -> Exports:
    history = History()
    fake = logs.party(logs.HEALTH.identity, "fake", logs.HEALTH_ORIGIN)
    beginning = list(logs.beginning("census"))
    beginning[2] = logs.registered(fake)
    return lied_from_the_start(history, beginning).exports()


def lied_from_the_start(history: History, beginning: list[Any]) -> History:
    """One answer in a census log that begins like this."""
    for event in beginning:
        history.write_census(event)
    for event in logs.beginning("health"):
        history.write_health(event)
    history.write_census(logs.adopted(history.rules))
    history.write_census(logs.loaded())
    history.write_health(logs.loaded())
    history.roster(1)
    history.commit_slots(starting=True)
    history.cosign()
    history.answer()
    return history


def begun_with_neighbour() -> tuple[History, Asked]:
    """As `begun`, in a census log that has registered another health agency before."""
    history = honest()
    history.write_census(logs.registered(logs.NEIGHBOUR))
    history.write_census(logs.rostered(health="health-x"))
    history.cosign()
    asked = history.order()
    history.submit(asked)
    history.forward(asked)
    return history, asked


def cosigned_by_neighbour(history: History) -> str:
    """The census log's newest checkpoint, which nobody else has cosigned."""
    cosigner = Cosigner(logs.NEIGHBOUR.card.card.origin, logs.NEIGHBOUR.signing(Purpose.WITNESS))
    return cosigner.cosign(history.census.note(), history.now_ms // 1000)


@damage("charged_to_an_agency_of_its_own", ("AGENCY_UNTRUSTED", "census", 14))
def _() -> Exports:
    history, _ = begun_with_neighbour()
    asked = history.order()
    # No health agency that the auditor knows has ever heard of it.
    history.charge(asked, health="health-x")
    history.release(asked, checkpoint=cosigned_by_neighbour(history))
    history.deliver(asked)
    history.receive(asked)
    history.cosign()
    return history.exports()


@damage("ticket_of_one_agency_charged_to_another", ("AGENCY_UNTRUSTED", "census", 14), ("CHARGE_DIFFERS", "census", 14))
def _() -> Exports:
    history, asked = begun_with_neighbour()
    history.charge(asked, health="health-x")
    history.report_charge(asked)
    history.release(asked, checkpoint=cosigned_by_neighbour(history))
    history.deliver(asked)
    history.settle(asked)
    history.receive(asked)
    history.cosign()
    return history.exports()


@damage("slot_under_a_checkpoint_of_an_agency_of_its_own", ("NOT_COSIGNED", "census", 14))
def _() -> Exports:
    history, _ = begun_with_neighbour()
    asked = history.order(checkpoint=cosigned_by_neighbour(history))
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("released_under_the_cosignature_of_another_agency", ("RELEASE_NOT_COSIGNED", "census", 15))
def _() -> Exports:
    history, asked = begun_with_neighbour()
    history.charge(asked)
    history.release(asked, checkpoint=cosigned_by_neighbour(history))
    return history.exports()


def begun() -> tuple[History, Asked]:
    """Everything up to a sample that was sent."""
    history = honest()
    asked = history.order()
    history.submit(asked)
    history.forward(asked)
    return history, asked


def finished(history: History, asked: Asked) -> Exports:
    """An honest end of a question that was charged."""
    history.report_charge(asked)
    history.cosign()
    history.release(asked)
    history.deliver(asked)
    history.settle(asked)
    history.receive(asked)
    history.cosign()
    return history.exports()


@damage("charge_too_small", ("CHARGE_WRONG", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, units=1)
    return finished(history, asked)


@damage("charge_of_another_scale", ("TICKET_DIFFERS", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, scale=2)
    return finished(history, asked)


@damage("charge_of_another_question", ("TICKET_DIFFERS", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, question="mother_tongue = 'French'")
    return finished(history, asked)


@damage("question_in_another_spelling", ("QUESTION", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, question="mother_tongue by 'French'")
    return finished(history, asked)


@damage("answer_without_charge", ("RELEASE_WITHOUT_CHARGE", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.release(asked)
    return history.exports()


@damage("charge_after_shutdown", ("CHARGE_AFTER_SHUTDOWN", "census", 13))
def _() -> Exports:
    history, asked = begun()
    state = logs.census_state()
    state.origin, state.size, state.policy_hash = logs.ORIGIN, history.census.size, history.census.policy
    history.write_census(logs.shut_down(state))
    history.charge(asked)
    return finished(history, asked)


@damage("charge_over_the_cap", ("CAP_PASSED", "census", 11))
def _() -> Exports:
    history = History().begin()
    for _ in range(2):
        asked = history.order(scale=1)
        history.submit(asked)
        history.forward(asked)
        history.charge(asked)
        history.cosign()
        history.release(asked)
    return history.exports()


@damage("no_shutdown_when_nothing_fits", ("SHUTDOWN_MISSING", "census", 10))
def _() -> Exports:
    history = History(rules=logs.policy(scales=(1,))).begin()
    asked = history.order(scale=1)
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    history.cosign()
    history.release(asked)
    return history.exports()


@damage("charge_to_persons_that_names_no_ledger", ("LEDGER_UNNAMED", "census", 12))
def _() -> Exports:
    history = honest(accounting="per_person")
    asked = history.order()
    history.submit(asked)
    history.forward(asked)
    history.charge(asked, ledger="")
    return finished(history, asked)


@damage("charge_to_everyone_that_names_a_ledger", ("LEDGER_UNNAMED", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, ledger=logs.hash_of(5))
    return finished(history, asked)


@damage("more_answers_than_allowed", ("SHUTDOWN_MISSING", "census", 10))
def _() -> Exports:
    history = History(rules=logs.policy(accounting="per_person", max_answers=1)).begin()
    for _ in range(2):
        asked = history.order()
        history.submit(asked)
        history.forward(asked)
        history.charge(asked)
    history.cosign()
    return history.exports()


@damage("persons_charged_after_everybody_had_the_cap", ("CAP_PASSED", "census", 12))
def _() -> Exports:
    history = History().begin()
    for step in range(2):
        asked = history.order(scale=1)
        history.submit(asked)
        history.forward(asked)
        history.charge(asked)
        history.cosign()
        history.release(asked)
        if not step:
            # Whoever is charged now was charged for the answer before, which was charged to everybody.
            history.adopt(logs.policy(accounting="per_person"), confirmed=True)
    return history.exports()


@damage("shutdown_nobody_ordered", ("ORDER_INVALID", "census", 12))
def _() -> Exports:
    history = honest()
    key = logs.OPERATOR_KEY
    history.write_census(Shutdown(reason="operator", note="a drill", signature=key.sign_text(b"x"), key_id=key.key_id))
    return history.exports()


@damage("two_charges_for_one_ticket", ("TICKET_CHARGED_TWICE", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.charge(asked, slot=3, query="f" * 32)
    return history.exports()


@damage("slot_skipped", ("SLOT_SKIPPED", "census", 12))
def _() -> Exports:
    history = honest()
    history.commit_slots(first=8)
    return history.exports()


@damage("slot_reused", ("SLOT_NOT_OPEN", "census", 12))
def _() -> Exports:
    history = honest()
    asked = history.order(slot=0)
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("slot_committed_after_the_ticket", ("SLOT_LATE", "census", 13))
def _() -> Exports:
    history = honest()
    early = history.cosigned["census"]
    history.commit_slots()
    history.cosign()
    asked = history.order(slot=5, checkpoint=early)
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("slot_with_another_commitment", ("SLOT_WRONG", "census", 12))
def _() -> Exports:
    history = honest()
    asked = history.order(commitment=bytes(32))
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("slot_under_a_checkpoint_nobody_cosigned", ("NOT_COSIGNED", "census", 12))
def _() -> Exports:
    history = honest()
    asked = history.order(checkpoint=history.census.note())
    history.submit(asked)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("policy_changed_without_an_entry", ("POLICY", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.census.policy = logs.policy(max_belief="0.9").hash.hex()
    history.charge(asked)
    return finished(history, asked)


@damage("weaker_policy_nobody_confirmed", ("CAP_RAISED", "census", 12))
def _() -> Exports:
    history = honest()
    history.write_census(logs.adopted(logs.policy(max_belief="0.9")))
    return history.exports()


@damage("persons_instead_of_everyone_nobody_confirmed", ("CHARGE_LOWERED", "census", 12))
def _() -> Exports:
    history = honest()
    history.adopt(logs.policy(accounting="per_person"))
    history.answer()
    return history.exports()


@damage("persons_instead_of_households_nobody_confirmed", ("CHARGE_LOWERED", "census", 12))
def _() -> Exports:
    history = honest(accounting="per_person", subject="household")
    history.adopt(logs.policy(accounting="per_person"))
    return history.exports()


@damage("more_answers_nobody_confirmed", ("ANSWERS_RAISED", "census", 12))
def _() -> Exports:
    history = honest(max_answers=5)
    history.adopt(logs.policy())
    return history.exports()


@damage("samples_gone_sooner_nobody_confirmed", ("RETENTION_SHORTENED", "census", 12))
def _() -> Exports:
    history = honest(accounting="per_person")
    history.adopt(logs.policy(accounting="per_person", sample_retention_ms=0))
    return history.exports()


@damage("samples_kept_longer_nobody_confirmed", ("RETENTION_LENGTHENED", "census", 12))
def _() -> Exports:
    history = honest(accounting="per_person")
    history.adopt(logs.policy(accounting="per_person", sample_retention_ms=10 * 366 * 86_400_000))
    return history.exports()


@damage("fewer_answers_of_one_researcher_nobody_confirmed", ("QUOTA_LOWERED", "census", 12))
def _() -> Exports:
    history = honest()
    history.adopt(logs.policy(researcher_answers=1))
    return history.exports()


@damage("no_quota_nobody_confirmed", ("QUOTA_RAISED", "census", 12))
def _() -> Exports:
    history = honest()
    history.adopt(logs.policy(researcher_answers=0))
    return history.exports()


@damage("delay_of_a_day_nobody_confirmed", ("DELAY_LENGTHENED", "census", 12))
def _() -> Exports:
    history = honest()
    history.adopt(logs.policy(forward_delay_ms=86_400_000))
    return history.exports()


@damage("quotes_of_a_second_nobody_confirmed", ("QUOTE_SHORTENED", "census", 12))
def _() -> Exports:
    history = honest()
    history.adopt(logs.policy(quote_lifetime_ms=1000))
    return history.exports()


@damage("more_answers_of_one_researcher_than_the_quota", ("QUOTA_PASSED", "census", 10))
def _() -> Exports:
    history = History(rules=logs.policy(accounting="per_person", researcher_answers=1)).begin()
    for _ in range(2):
        asked = history.order()
        history.submit(asked)
        history.forward(asked)
        history.charge(asked)
    history.cosign()
    return history.exports()


@damage("time_backwards", ("TIME_BACKWARDS", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.census.append(logs.loaded("load2"), 1)
    del asked
    return history.exports()


@damage("unknown_entry_type", ("ENTRY_MALFORMED", "census", 12))
def _() -> Exports:
    history = honest()
    entry = history.census.entries[-1].replace(b'"type":"delivered"', b'"type":"forgotten"').replace(b"9", b"9")
    history.census.append_bytes(entry)
    return history.exports()


@damage("unknown_version", ("FORMAT", "census", 0))
def _() -> Exports:
    history = History()
    beginning = list(logs.beginning("census"))
    beginning[0] = logs.opened(format=99)
    return lied_from_the_start(history, beginning).exports()


@damage("entry_in_other_json", ("ENTRY_MALFORMED", "census", 12))
def _() -> Exports:
    history = honest()
    history.census.append_bytes(history.census.entries[-1].replace(b":", b": ", 1))
    return history.exports()


@damage("broken_utf8_in_entry", ("ENTRY_MALFORMED", "census", 12))
def _() -> Exports:
    history = honest()
    history.census.append_bytes(b'{"event":"\xff\xfe"}')
    return history.exports()


@damage("giant_entry", ("ENTRY_MALFORMED", "census", 12))
def _() -> Exports:
    history = honest()
    history.census.append_bytes(b"[" * 65_535)
    return history.exports()


@damage("wrong_sequence", ("SEQUENCE", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.write_census(logs.loaded("load2"), sequence=99)
    del asked
    return history.exports()


@damage("released_before_it_was_cosigned", ("RELEASE_NOT_COSIGNED", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    # The newest cosigned checkpoint is older than the charge.
    history.release(asked)
    return history.exports()


@damage("released_under_its_own_signature_alone", ("RELEASE_NOT_COSIGNED", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.release(asked, checkpoint=history.census.note())
    return history.exports()


@damage("released_under_a_witness_of_its_own", ("RELEASE_NOT_COSIGNED", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    thief = Cosigner(logs.HEALTH_ORIGIN, SigningKey(Purpose.WITNESS, bytes(range(3, 35))))
    history.release(asked, checkpoint=thief.cosign(history.census.note(), history.now_ms // 1000))
    return history.exports()


@damage("released_before_the_time_of_the_cosignature", ("COSIGNED_LATER", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    note = history.cosign(time_s=history.now_ms // 1000 + 86_400)
    history.report_charge(asked)
    history.release(asked, checkpoint=note)
    history.cosign()
    return history.exports()


@damage("released_under_another_history", ("SPLIT_VIEW", "census", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    other = history.census.signer.sign_checkpoint(history.census.size, bytes(32))
    history.release(asked, checkpoint=history.health.cosigner().cosign(other, history.now_ms // 1000))
    history.cosign()
    return history.exports()


@damage("suppressed_answer", ("ANSWER_SUPPRESSED", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked)
    history.cosign()
    history.pass_time(86_400_000)
    history.answer()
    history.pass_time(86_400_000)
    history.answer()
    history.cosign()
    return history.exports()


@damage("suppressed_answer_behind_a_start", ("ANSWER_SUPPRESSED", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked)
    history.answer()
    history.pass_time(700_000)
    history.commit_slots()
    # As if the node had only now come up.
    history.commit_slots(starting=True)
    history.cosign()
    return history.exports()


@damage("suppressed_answer_that_others_pass_by", ("ANSWER_SUPPRESSED", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked)
    for _ in range(4):
        # Never at work for long, if one believes it.
        history.commit_slots(starting=True)
        history.cosign()
        history.answer(slot=history.next_slot - 1)
    history.cosign()
    return history.exports()


@damage("charge_for_a_ticket_nobody_submitted", ("CHARGE_NOT_SUBMITTED", "census", 12))
def _() -> Exports:
    history = honest()
    asked = history.order()
    history.charge(asked)
    history.cosign()
    history.release(asked)
    history.cosign()
    return history.exports()


@damage("manifest_that_does_not_match_the_charge", ("MANIFEST_DIFFERS", "", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked, manifest=logs.hash_of(99))
    return finished(history, asked)


@damage("settled_and_never_released", ("SETTLED_NOT_RELEASED", "", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked)
    history.settle(asked)
    history.cosign()
    return history.exports()


@damage("answered_and_not_released", ("ANSWER_NOT_RELEASED", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.receive(asked)
    history.cosign()
    return history.exports()


@damage("refused_and_charged", ("REFUSED_BUT_CHARGED", "health", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.refuse(asked, "SLOT_UNUSABLE")
    history.cosign()
    history.release(asked)
    history.cosign()
    return history.exports()


def handed_over(history: History, **changes: Any) -> Asked:
    """A sample that was sent, and of which nothing has been heard yet."""
    asked = history.order(**changes)
    history.submit(asked)
    history.forward(asked)
    return asked


@damage("refused_with_the_refusal_of_another_sample", ("REFUSAL_DIFFERS", "health", 9))
def _() -> Exports:
    history = History().begin()
    history.refuse(handed_over(history), "SERVICE_SHUT_DOWN", manifest=logs.hash_of(99))
    history.cosign()
    return history.exports()


@damage("refused_unsigned", ("REFUSAL_UNSIGNED", "health", 9))
def _() -> Exports:
    history = History().begin()
    history.write_health(Refused(ticket=handed_over(history).hash, code="SERVICE_SHUT_DOWN"))
    history.cosign()
    return history.exports()


@damage("refused_without_reason", ("REFUSAL_FORGED", "health", 9), ("REFUSED_WITHOUT_REASON", "census", None))
def _() -> Exports:
    history = History().begin()
    key = SigningKey(Purpose.REFUSAL, history.health_party.signing(Purpose.MANIFEST).expose())
    named = history.census_party.signing(Purpose.REFUSAL).key_id
    history.refuse(handed_over(history), "SERVICE_SHUT_DOWN", key=key, key_id=named)
    history.refuse(handed_over(history), "SERVICE_SHUT_DOWN")
    history.cosign()
    return history.exports()


@damage("delivered_and_never_received", ("DELIVERY_UNCONFIRMED", "", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked)
    history.cosign()
    history.release(asked)
    history.deliver(asked)
    history.settle(asked)
    history.answer()
    history.cosign()
    return history.exports()


@damage("receipt_of_another_place", ("RECEIPT_DIFFERS", "census", 12))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    exports = finished(history, asked)
    first = history.asked[0]
    tree = history.census.tree
    history.receive(
        asked,
        log_index=first.index,
        checkpoint=history.census.note(),
        inclusion_proof=tree.inclusion_proof(first.index),
        entry=history.census.entries[first.index],
    )
    return exports | {"researcher": history.exports()["researcher"]}


@damage("receipt_for_a_ticket_that_was_never_charged", ("ANSWER_NOT_CHARGED", "researcher", None))
def _() -> Exports:
    history, asked = begun()
    first = history.asked[0]
    asked.charge, asked.index, asked.opening = first.charge, first.index, first.opening
    history.receive(asked)
    return history.exports()


@damage("receipt_that_proves_nothing", ("RECEIPT_NOT_INCLUDED", "researcher", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    exports = finished(history, asked)
    history.receive(asked, inclusion_proof=[bytes(32)])
    return exports | {"researcher": history.exports()["researcher"]}


@damage("receipt_of_another_history", ("SPLIT_VIEW", "census", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    exports = finished(history, asked)
    leaf = leaf_hash(history.census.entries[asked.index])
    history.receive(asked, checkpoint=history.census.signer.sign_checkpoint(1, leaf), log_index=0, inclusion_proof=[])
    return exports | {"researcher": history.exports()["researcher"]}


@damage("receipt_of_a_longer_log", ("LOG_BEHIND", "census", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    exports = finished(history, asked)
    later = history.answer()
    files = history.exports()["researcher"]
    del later
    return exports | {"researcher": files}


# --- the health agency lies ------------------------------------------------------------------------------------------


@damage("health_tail_truncated", ("LOG_BEHIND", "health", None), ("NOTE_WITHHELD", "", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    cut = SignedLog(history.health_party)
    for entry in history.health.entries[:-2]:
        cut.append_bytes(entry)
    files = cut.files()
    files[WITNESSED] = exports["health"][WITNESSED]
    return exports | {"health": files}


@damage("report_of_another_charge", ("REPORT_WRONG", "health", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.report_charge(asked, log_index=6)
    history.cosign()
    history.release(asked)
    history.cosign()
    return history.exports()


@damage("report_under_a_checkpoint_nobody_signed", ("BAD_SIGNATURE", "health", 13))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    thief = SignedLog(logs.party(logs.CENSUS.identity, "thief", logs.ORIGIN))
    history.report_charge(asked, checkpoint=thief.signer.sign_checkpoint(99, bytes(32)))
    history.cosign()
    history.release(asked)
    history.cosign()
    return history.exports()


@damage("other_query_for_one_ticket", ("CHARGE_DIFFERS", "census", 12))
def _() -> Exports:
    history = honest()
    asked = history.order()
    history.submit(asked, query="e" * 32)
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("two_manifests_for_one_ticket", ("FORWARDED_TWICE", "health", 13))
def _() -> Exports:
    history, asked = begun()
    history.forward(asked, manifest=logs.hash_of(5000))
    return history.exports()


@damage("other_criteria_than_the_ticket", ("TICKET_DIFFERS", "health", None))
def _() -> Exports:
    history = honest()
    asked = history.order()
    history.submit(asked, criteria=logs.hash_of(1))
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


@damage("linked_by_another_chain", ("LINKAGE_DIFFERS", "census", 12))
def _() -> Exports:
    history = honest()
    history.write_health(logs.relinked())
    asked = history.order()
    history.submit(asked, load="load2")
    history.forward(asked)
    history.charge(asked)
    return finished(history, asked)


BY_ADDRESS = {"accounting": "per_person", "subject": "household", "linkage": "household"}


@damage("load_linked_otherwise_than_its_policy", ("LINKAGE_MIXED", "census", 13))
def _() -> Exports:
    history, by_address = honest(), dataclasses.replace(logs.DICTIONARY, version=2, linkage="household")
    history.write_census(logs.dictionary_adopted(by_address))
    history.write_census(logs.loaded("load2", dictionary=by_address.hash.hex()))
    history.cosign()
    exports, document = history.exports(), dictionary_document(by_address)
    exports["census"][file_of(hash_bytes(document).hex())] = document
    return exports


@damage("policy_linked_otherwise_than_the_load", ("LINKAGE_MIXED", "census", 6))
def _() -> Exports:
    history = History(rules=logs.policy(**BY_ADDRESS))
    for role, write in (("census", history.write_census), ("health", history.write_health)):
        for event in (*logs.beginning(role), logs.loaded()):
            write(event)
    history.write_census(logs.adopted(history.rules))
    history.cosign()
    return history.exports()


def after_rosters(history: History) -> Exports:
    """One more answer, so that the health agency has seen what stands in the census log by now."""
    history.answer()
    history.cosign()
    return history.exports()


@damage("roster_that_was_never_sent", ("ROSTER_NOT_SENT", "census", 13))
def _() -> Exports:
    history = honest()
    history.roster()
    history.write_census(logs.rostered(3))
    history.roster(4)
    return after_rosters(history)


@damage("roster_of_other_people", ("ROSTER_DIFFERS", "census", 12))
def _() -> Exports:
    history = honest()
    history.roster(commitment=logs.hash_of(99))
    return after_rosters(history)


@damage("roster_under_another_manifest", ("ROSTER_DIFFERS", "census", 12))
def _() -> Exports:
    history = honest()
    history.roster(manifest=logs.hash_of(99))
    return after_rosters(history)


@damage("roster_number_that_comes_back", ("ROSTER_NUMBER", "census", 13))
def _() -> Exports:
    history = honest()
    history.roster()
    history.write_census(logs.rostered(1))
    return after_rosters(history)


@damage("roster_of_another_chain", ("ROSTER_LINKAGE", "census", 12))
def _() -> Exports:
    history = honest()
    history.roster(linkage=logs.chain_of(2))
    return after_rosters(history)


@damage("charge_on_a_roster_of_before", ("CHARGE_ROSTER", "census", 13))
def _() -> Exports:
    history = honest()
    history.roster()
    asked = history.order()
    history.submit(asked)
    history.forward(asked, roster=1)
    history.charge(asked, roster=1)
    return finished(history, asked)


@damage("sample_of_another_roster_than_was_sent", ("MANIFEST_DIFFERS", "", None))
def _() -> Exports:
    history = honest()
    history.roster()
    asked = history.order()
    history.submit(asked)
    history.forward(asked, roster=1)
    history.charge(asked)
    return finished(history, asked)


@damage("sample_of_a_roster_that_was_never_numbered", ("FORWARDED_ROSTER", "health", 12))
def _() -> Exports:
    history = honest()
    asked = history.order()
    history.submit(asked)
    history.forward(asked, roster=7)
    history.charge(asked)
    return finished(history, asked)


@damage("cosigned_what_it_never_saw", ("SPLIT_VIEW", "census", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    note = history.census.signer.sign_checkpoint(history.census.size, bytes(32))
    exports["health"][WITNESSED] = history.health.cosigner().cosign(note, history.now_ms // 1000).encode()
    return exports


@damage("opened_other_criteria", ("CRITERIA_DIFFER", "health", None))
def _() -> Exports:
    history = honest()
    history.asked[0].criteria = b"everybody"
    return history.exports(criteria=True)


@damage("opened_criteria_of_no_ticket", ("CRITERIA_UNASKED", "health", None))
def _() -> Exports:
    history = honest()
    exports = history.exports(criteria=True)
    history.order()
    return history.exports(criteria=True) | {"census": exports["census"]}


@damage("opened_criteria_in_other_base64", ("DOCUMENT_MALFORMED", "health", None))
def _() -> Exports:
    exports = honest().exports(criteria=True)
    name = next(name for name in exports["health"] if name.startswith("criteria/"))
    exports["health"][name] = exports["health"][name].replace(b'"nonce":"', b'"nonce":" ')
    return exports


# --- somebody leaves a note out ---------------------------------------------------------------------------------------


def without_note(role: str, name: str, log: str) -> None:
    """Two exports of three answers: without a note, and with a genuine one from before the last two of them."""

    def deleted() -> Exports:
        exports = honest(3).exports()
        del exports[role][name]
        return exports

    def older() -> Exports:
        history = History().begin()
        history.answer()
        before = history.exports()[role][name]
        for _ in range(2):
            history.answer()
        history.cosign()
        exports = history.exports()
        exports[role][name] = before
        return exports

    damage(f"{role}_{name}_deleted", ("NOTE_WITHHELD", log, None))(deleted)
    damage(f"{role}_{name}_of_before", ("NOTE_WITHHELD", log, None))(older)


without_note("census", COSIGNED, "census")
without_note("census", WITNESSED, "")
without_note("health", COSIGNED, "")
without_note("health", WITNESSED, "health")


# --- the researcher lies ---------------------------------------------------------------------------------------------


@damage("answered_without_a_receipt", ("RECEIPT_STATE", "researcher", None))
def _() -> Exports:
    history, asked = begun()
    asked.state = "answered"
    return history.exports()


@damage("ticket_of_another_query", ("TICKET_DIFFERS", "researcher", None))
def _() -> Exports:
    exports = honest(2).exports()
    return with_receipt(exports, 0, ticket=receipt_of(exports, 1)[1].ticket)


@damage("receipt_of_another_ticket", ("RECEIPT_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest(2).exports()
    return with_receipt(exports, 0, receipt=receipt_of(exports, 1)[1].receipt)


@damage("receipt_signed_with_another_key", ("RECEIPT_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    signed = receipt_of(exports)[1].signed_receipt
    thief = SigningKey(Purpose.ANSWER, bytes(range(5, 37)))
    forged = answer_pb2.SignedReceipt(receipt=signed.receipt, signature=thief.sign(signed.receipt), key_id=thief.key_id)
    return with_receipt(exports, receipt=base64_text(forged.SerializeToString(deterministic=True)))


# --- quotes ----------------------------------------------------------------------------------------------------------


def with_quote(exports: Exports, signed: quote_pb2.SignedQuote) -> Exports:
    """The first question with another quote."""
    return with_receipt(exports, quote=base64_text(signed.SerializeToString(deterministic=True)))


@damage("bit_flip_in_quote", ("QUOTE_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    signed = receipt_of(exports)[1].signed_quote
    signed.quote = flipped(signed.quote, 60)
    return with_quote(exports, signed)


@damage("quote_signed_with_another_key", ("QUOTE_UNSIGNED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    body = quote_pb2.Quote.FromString(receipt_of(exports)[1].signed_quote.quote)
    return with_quote(exports, sign_quote(body, SigningKey(Purpose.ANSWER, bytes(range(5, 37)))))


@damage("quote_signed_as_an_answer", ("QUOTE_UNSIGNED", "researcher", None))
def _() -> Exports:
    history = honest()
    exports = history.exports()
    signed = receipt_of(exports)[1].signed_quote
    signed.signature = history.census_party.signing(Purpose.ANSWER).sign(signed.quote)
    return with_quote(exports, signed)


@damage("quote_in_other_base64", ("DOCUMENT_MALFORMED", "researcher", None))
def _() -> Exports:
    exports = honest().exports()
    return with_receipt(exports, quote="A" + receipt_of(exports)[1].quote)


@damage("quote_of_another_question", ("QUOTE_DIFFERS", "researcher", None))
def _() -> Exports:
    exports = honest(2).exports()
    return with_receipt(exports, 0, quote=receipt_of(exports, 1)[1].quote)


@damage("ticket_that_outlives_its_quote", ("QUOTE_DIFFERS", "researcher", None))
def _() -> Exports:
    history = honest()
    history.answer(expires_ms=history.now_ms + 60_001, quoted={"expires_ms": history.now_ms + 60_000})
    return history.exports()


def quoting(*, rules: dict[str, Any] | None = None, **quoted: Any) -> Callable[[], Exports]:
    """The second question of a history has this in its quote."""

    def make() -> Exports:
        history = honest(**rules or {})
        history.answer(quoted=quoted)
        return history.exports()

    return make


for _name, _maker in {
    "quote_too_cheap": quoting(charged=price(30) - 1),
    "quote_of_a_smaller_margin": quoting(margin_95=89),
    "quote_of_a_quota_that_is_none": quoting(quota=7, quota_left=7),
    "quote_that_hides_its_quota": quoting(
        rules={"researcher_answers": 7, "accounting": "per_person"}, quota=None, quota_left=None
    ),
    "quote_of_more_than_the_quota": quoting(
        rules={"researcher_answers": 7, "accounting": "per_person"}, quota=7, quota_left=8
    ),
    "quote_that_hides_what_is_left": quoting(remaining=None),
    "quote_that_tells_what_persons_have_left": quoting(rules={"accounting": "per_person"}, remaining=40),
    "quote_told_before_its_slot_was_cosigned": quoting(told_ms=START_MS),
}.items():
    damage(_name, ("QUOTE_WRONG", "census", 12))(_maker)

for _name, _remaining in {
    "quote_of_an_answer_too_many": 42,
    "quote_of_an_answer_too_few": 39,
    "quote_of_no_answer": 0,
}.items():
    damage(_name, ("QUOTE_BUDGET", "census", 12))(quoting(remaining=_remaining))


@damage("quote_that_lives_too_long", ("QUOTE_WRONG", "census", 12))
def _() -> Exports:
    history = honest()
    history.answer(expires_ms=history.now_ms + history.rules.quote_lifetime_ms + 1)
    return history.exports()


@damage("quote_that_counts_answers_nobody_can_count", ("QUOTE_BUDGET", "census", 18))
def _() -> Exports:
    history = honest(3)
    history.answer(quoted={"remaining": 41})
    return history.exports()


@damage("quote_that_counts_a_charge_before_its_answer_is_out", ("QUOTE_BUDGET", "census", None))
def _() -> Exports:
    history, asked = begun()
    history.charge(asked)
    history.order(quoted={"remaining": 39})
    history.release(asked, checkpoint=history.cosign())
    return history.exports()


@damage("quote_under_a_policy_of_before", ("QUOTE_WRONG", "census", None))
def _() -> Exports:
    history = honest()
    before = bytes.fromhex(history.census.policy)
    history.adopt(logs.policy(quote_lifetime_ms=61_000))
    history.commit_slots()
    history.cosign()
    history.order(slot=5, policy_hash=before, expires_ms=history.now_ms + 60_000)
    history.commit_slots()
    return history.exports()


@damage("quote_of_another_release", ("QUOTE_WRONG", "census", None))
def _() -> Exports:
    history = honest()
    history.order(census_release="2016")
    history.commit_slots()
    return history.exports()


@damage("quote_of_a_slot_without_commitment", ("QUOTE_WRONG", "census", None))
def _() -> Exports:
    history = honest()
    history.order(commitment=bytes(32))
    history.commit_slots()
    return history.exports()


@damage("quote_of_a_scale_that_is_not_admitted", ("QUOTE_WRONG", "census", None))
def _() -> Exports:
    history = honest()
    history.order(scale=51, quoted={"charged": price(51), "margin_95": margin(51)})
    history.commit_slots()
    return history.exports()
