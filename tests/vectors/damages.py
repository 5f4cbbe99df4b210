"""Damaged exports by name: how each is made, and as CODE:LOG:ENTRY every problem that an audit has to find in it, and no more.

A maker gives the same bytes every time: `tests/vectors/damaged_exports.py` writes them as files, for authors of another
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
from fakes.history import START_MS, Exports, History, Lie, SignedLog, honest
from fakes.randomness import SeededRandomness
from google.protobuf.message import Message
from tripartite.v1 import answer_pb2, quote_pb2

from broker_common.audit.export.documents import MAX_DOCUMENT_BYTES, ReceiptFile, file_of, parse_receipt_file
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.query.dictionary_document import dictionary_document
from broker_common.query.quote import sign_quote
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Delivered, Event, Refused, Shutdown
from broker_common.tlog.merkle import leaf_hash
from broker_common.tlog.note import MAX_NOTE_BYTES, NoteSigner
from broker_common.tlog.tiles import CHECKPOINT_PATH, encode_entry_bundle, hash_tiles, parse_entry_bundle
from broker_common.values import base64_text, parse_base64

__all__ = ["DAMAGES", "SEEN", "Damage", "begun_with_neighbour", "bundle_of", "flipped", "with_entries"]

# Checkpoints that this auditor, or another who told of it, has verified before.
SEEN: Final = "seen"
DAY_MS: Final = 86_400_000
# Files by how their names begin.
BUNDLE, TILE, DICTIONARY, RECEIPT, CRITERIA = "tile/entries/", "tile/0/", "dictionaries/", "receipts/", "criteria/"
Maker: TypeAlias = Callable[[], Exports]
Edit: TypeAlias = Callable[[bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged export."""

    make: Maker
    problems: str

    @property
    def codes(self) -> set[str]:
        return {problem.partition(":")[0] for problem in self.problems.split()}


# --- files that were changed after they were signed ------------------------------------------------------------------


def flipped(data: bytes, at: int) -> bytes:
    """One bit changed."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def named(exports: Exports, role: str, prefix: str) -> str:
    """The first file whose name begins so."""
    return min(name for name in exports[role] if name.startswith(prefix))


def bundle_of(exports: Exports, role: str) -> list[bytes]:
    """The entries of a short log, in its only bundle."""
    name = named(exports, role, BUNDLE)
    return parse_entry_bundle(exports[role][name], int(name.rpartition("/")[2]))


def with_entries(exports: Exports, role: str, entries: list[bytes], *, tiles: bool = False) -> Exports:
    """Other entries in the bundle; `tiles` makes the hashes fit."""
    exports[role][named(exports, role, BUNDLE)] = encode_entry_bundle(entries)
    if tiles:
        exports[role].update(hash_tiles(map(leaf_hash, entries)))
    return exports


def changed(role: str, prefix: str, edit: Edit, *, criteria: bool = False) -> Maker:
    """An honest export with one file changed; None deletes it."""

    def make() -> Exports:
        exports = honest().exports(criteria=criteria)
        name = named(exports, role, prefix)
        content = edit(exports[role].pop(name))
        if content is not None:
            exports[role][name] = content
        return exports

    return make


def checkpoint(edit: Edit) -> Maker:
    """An honest export with another checkpoint of the census log."""
    return changed("census", CHECKPOINT_PATH, edit)


def added(role: str, name: str, content: bytes) -> Maker:
    """An honest export with one file more."""
    return lambda: (exports := honest().exports()) | {role: {**exports[role], name: content}}


def entries(role: str, change: Callable[[list[bytes]], list[bytes]], *, tiles: bool = False) -> Maker:
    """An honest export with other entries in a bundle."""

    def make() -> Exports:
        exports = honest().exports()
        return with_entries(exports, role, change(bundle_of(exports, role)), tiles=tiles)

    return make


def entry_flipped(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda these: [*these[:number], flipped(these[number], 40), *these[number + 1 :]]


def swapped(these: list[bytes]) -> list[bytes]:
    return [*these[:9], these[10], these[9], *these[11:]]


def line(number: int, change: Callable[[bytes], bytes]) -> Edit:
    """One line of a note changed."""

    def edit(note: bytes) -> bytes:
        lines = note.split(b"\n")
        lines[number] = change(lines[number])
        return b"\n".join(lines)

    return edit


def base64_flipped(at: int) -> Callable[[bytes], bytes]:
    """One bit changed in the base64 that stands behind the last space."""

    def change(text: bytes) -> bytes:
        head, space, last = text.rpartition(b" ")
        return head + space + base64_text(flipped(parse_base64(last.decode()), at)).encode()

    return change


def signed_by(keys: Callable[[], list[SigningKey]]) -> Maker:
    """The census log's checkpoint, signed with these keys alone."""

    def sign(note: bytes) -> bytes:
        lines = note.decode().split("\n")
        signer = NoteSigner(logs.ORIGIN, tuple(keys()))
        return signer.sign_checkpoint(int(lines[1]), parse_base64(lines[2])).encode()

    return checkpoint(sign)


def with_stranger(note: bytes) -> bytes:
    """Cosigned by somebody besides."""
    stranger = Cosigner("stranger.test/log", SigningKey(Purpose.WITNESS, bytes(32)))
    return stranger.cosign(note.decode(), 1_800_000_000).encode()


# --- what the researcher shows ---------------------------------------------------------------------------------------

THIEF: Final = SigningKey(Purpose.ANSWER, bytes(range(5, 37)))
Fields: TypeAlias = dict[str, "str | Message"]


def receipts(change: Callable[[list[ReceiptFile]], Fields], *, answers: int = 1) -> Maker:
    """An honest export with other fields in the first file of the researcher's."""

    def make() -> Exports:
        exports = honest(answers).exports()
        files = [parse_receipt_file(content) for _, content in sorted(exports["researcher"].items())]
        fields = {
            name: base64_text(value.SerializeToString(deterministic=True)) if isinstance(value, Message) else value
            for name, value in change(files).items()
        }
        exports["researcher"][files[0].name] = msgspec.structs.replace(files[0], **fields).to_bytes()
        return exports

    return make


def bit_of(field: str, part: str, at: int) -> Maker:
    """One bit flipped in a part of a signed message."""

    def change(files: list[ReceiptFile]) -> Fields:
        signed = getattr(files[0], f"signed_{field}")
        setattr(signed, part, flipped(getattr(signed, part), at))
        return {field: signed}

    return receipts(change)


def receipt_by_thief(files: list[ReceiptFile]) -> Fields:
    receipt = files[0].signed_receipt.receipt
    return {"receipt": answer_pb2.SignedReceipt(receipt=receipt, signature=THIEF.sign(receipt), key_id=THIEF.key_id)}


def quote_by_thief(files: list[ReceiptFile]) -> Fields:
    return {"quote": sign_quote(quote_pb2.Quote.FromString(files[0].signed_quote.quote), THIEF)}


def quote_as_answer(files: list[ReceiptFile]) -> Fields:
    signed = files[0].signed_quote
    signed.signature = logs.CENSUS.signing(Purpose.ANSWER).sign(signed.quote)
    return {"quote": signed}


def renamed_receipt() -> Exports:
    exports = honest().exports()
    exports["researcher"] = {f"receipts/{'f' * 32}.json": content for content in exports["researcher"].values()}
    return exports


def receipt_in_other_base64() -> Exports:
    exports = honest(4).exports()
    for name, content in sorted(exports["researcher"].items()):
        receipt = parse_receipt_file(content).receipt
        # The later a charge stands in the log, the longer is its proof; one of them has a length that takes padding.
        if receipt.endswith("="):
            bare = receipt.rstrip("=")
            # The next letter differs in bits that no encoder sets.
            other = (bare[:-1] + chr(ord(bare[-1]) + 1)).ljust(len(receipt), "=")
            exports["researcher"][name] = content.replace(receipt.encode(), other.encode())
            return exports
    raise AssertionError("no receipt takes padding")


# --- lies, step by step ----------------------------------------------------------------------------------------------

SENT = "answer cosign order submit forward "
CHARGED = SENT + "charge "
REST = "report_charge cosign release deliver settle receive cosign "
WHOLE = CHARGED + REST
UNTIL_RECEIVED = WHOLE.removesuffix("cosign ")
# A sample that is charged in a log without a question before.
FIRST = "order submit forward charge "
PERSONS = {"accounting": "per_person"}
BY_ADDRESS = {"accounting": "per_person", "subject": "household", "linkage": "household"}
QUOTA = {"accounting": "per_person", "researcher_answers": 7}
SHUT = "SERVICE_SHUT_DOWN"
Step: TypeAlias = str | Callable[[History], object]


def told(
    *steps: Step, rules: dict[str, Any] | None = None, begin: Callable[[History], object] = History.begin, **lies: Lie
) -> Maker:
    """A history of these steps (`History.take`), each with the fields that a liar gives it."""

    def make() -> Exports:
        history = History(rules=logs.policy(**rules or {}))
        for step in (begin, *steps):
            if isinstance(step, str):
                history.take(step, **lies)
            else:
                step(history)
        return history.exports()

    return make


def adopting(before: dict[str, Any] | None = None, **rules: Any) -> Maker:
    """Another policy, which no operator confirms."""
    return told("answer cosign adopt", rules=before, adopt={"rules": logs.policy(**rules)})


def quoting(rules: dict[str, Any] | None = None, **quoted: Any) -> Maker:
    """The second question of a history has this in its quote."""
    return told(UNTIL_RECEIVED, rules=rules, order={"quoted": quoted})


def ordering(**order: Any) -> Maker:
    """The second question has this in its ticket, and is never submitted."""
    return told("answer cosign order commit_slots", order=order)


def mixed(before: str, after: str, *earlier: str) -> Maker:
    """The export after all steps, with parts that were exported before the last of them."""

    def make() -> Exports:
        history = History().begin()
        history.take(before)
        old = history.exports()
        history.take(after)
        return history.exports() | {part: old[part] for part in earlier}

    return make


def late_receipt(receive: Lie) -> Maker:
    """A whole question, and another receipt for it when everything is over."""

    def make() -> Exports:
        history = History().begin()
        history.take(WHOLE)
        exports = history.exports()
        history.take("receive", receive=receive)
        return exports | {"researcher": history.exports()["researcher"]}

    return make


def begun_otherwise(place: int, event: Callable[[], Event]) -> Maker:
    """One answer in a census log that begins with another event in one place."""
    return told("answer", begin=lambda history: history.begin({place: event()}))


def begun_with_neighbour(history: History) -> History:
    """A sample is sent, and the census log has registered another health agency before."""
    history.begin().take("answer cosign")
    history.write_census(logs.registered(logs.NEIGHBOUR))
    history.write_census(logs.rostered(health="health-x"))
    history.take("cosign order submit forward")
    return history


def by_neighbour(history: History) -> dict[str, str]:
    """The census log's newest checkpoint, which only the other health agency has cosigned."""
    cosigner = Cosigner(logs.NEIGHBOUR.card.card.origin, logs.NEIGHBOUR.signing(Purpose.WITNESS))
    return {"checkpoint": cosigner.cosign(history.census.note(), history.now_ms // 1000)}


def by_thief(history: History) -> dict[str, str]:
    """The same, cosigned with a key of nobody."""
    thief = Cosigner(logs.HEALTH_ORIGIN, SigningKey(Purpose.WITNESS, bytes(range(3, 35))))
    return {"checkpoint": thief.cosign(history.census.note(), history.now_ms // 1000)}


def other_root(history: History) -> dict[str, str]:
    """A cosigned checkpoint of another log of this size."""
    note = history.census.signer.sign_checkpoint(history.census.size, bytes(32))
    return {"checkpoint": history.health.cosigner().cosign(note, history.now_ms // 1000)}


def of_another_log(history: History) -> dict[str, Any]:
    """A checkpoint of a log that has this charge alone."""
    leaf = leaf_hash(history.census.entries[history.asked[-1].index])
    return {"checkpoint": history.census.signer.sign_checkpoint(1, leaf), "log_index": 0, "inclusion_proof": []}


def of_the_first(history: History) -> dict[str, Any]:
    """A receipt's statement about the first charge."""
    index = history.asked[0].index
    proof, entry = history.census.tree.inclusion_proof(index), history.census.entries[index]
    return {"log_index": index, "checkpoint": history.census.note(), "inclusion_proof": proof, "entry": entry}


def of_no_charge(history: History) -> dict[str, Any]:
    """A receipt for the second question by the charge of the first."""
    first, second = history.asked
    second.charge, second.index, second.opening = first.charge, first.index, first.opening
    return {}


def signed_by_stranger(_: History) -> dict[str, str]:
    """A checkpoint that somebody else has signed in the census log's name."""
    thief = SignedLog(logs.party(logs.CENSUS.identity, "thief", logs.ORIGIN))
    return {"checkpoint": thief.signer.sign_checkpoint(99, bytes(32))}


def shut_down(history: History) -> dict[str, Any]:
    return {"event": logs.shut_down(history.census_state())}


def say_answered(history: History) -> None:
    history.asked[-1].state = "answered"


def refuse_by_other_key(history: History) -> None:
    key = SigningKey(Purpose.REFUSAL, logs.HEALTH.signing(Purpose.MANIFEST).expose())
    history.refuse(history.asked[-1], SHUT, key=key, key_id=logs.CENSUS.signing(Purpose.REFUSAL).key_id)


def order_and_release(history: History) -> None:
    charged = history.asked[-1]
    history.order(quoted={"remaining": 39})
    history.release(charged, checkpoint=history.cosign())


def follow_another_policy(history: History) -> None:
    history.census.policy = logs.policy(max_belief="0.9").hash.hex()


def charge_again(history: History) -> None:
    history.charge(history.asked[-1], slot=3, query="f" * 32)


def answer_after_late_slots(history: History) -> None:
    early = history.cosigned["census"]
    history.take("commit_slots cosign " + FIRST + REST, order={"slot": 5, "checkpoint": early})


def go_on_as_if_just_started(history: History) -> None:
    for _ in range(4):
        # Never at work for long, if one believes it.
        history.take("commit_slots cosign", commit_slots={"starting": True})
        history.answer(slot=history.next_slot - 1)
    history.cosign()


def begin_with_load(history: History) -> None:
    """The census log adopts its policy after its load."""
    for role, write in (("census", history.write_census), ("health", history.write_health)):
        for event in (*logs.beginning(role), logs.loaded()):
            write(event)
    history.write_census(logs.adopted(history.rules))
    history.cosign()


def load_by_address() -> Exports:
    by_address = dataclasses.replace(logs.DICTIONARY, version=2, linkage="household")
    history, document = honest(), dictionary_document(by_address)
    history.write_census(logs.dictionary_adopted(by_address))
    history.write_census(logs.loaded("load2", dictionary=by_address.hash.hex()))
    history.cosign()
    exports = history.exports()
    exports["census"][file_of(hash_bytes(document).hex())] = document
    return exports


def appended(change: Callable[[bytes], bytes]) -> Maker:
    """The last entry of the census log once more, changed."""
    return told("answer cosign", lambda history: history.census.append_bytes(change(history.census.entries[-1])))


def other_end(history: History) -> SignedLog:
    """Another census log, as long as the one that was cosigned."""
    other = SignedLog(history.census_party)
    other.policy = history.census.policy
    for entry in history.census.entries[:-1]:
        other.append_bytes(entry)
    other.append(Delivered(ticket=history.asked[-1].hash, by="collect"), history.now_ms)
    return other


def two_histories() -> Exports:
    history = honest(2)
    exports = history.exports()
    notes = {name: exports["census"][name] for name in (COSIGNED, WITNESSED)}
    return exports | {"census": other_end(history).files() | notes}


def two_histories_to_two_auditors() -> Exports:
    history = honest(2)
    # As long as this one, and nothing else is wrong with either.
    return history.exports() | {SEEN: {"census": other_end(history).note().encode()}}


def back_from_an_old_backup() -> Exports:
    history = honest()
    yesterday = history.exports()
    history.take("answer cosign")
    return yesterday | {SEEN: {"census": history.census.note().encode(), "health": history.health.note().encode()}}


def health_tail_truncated() -> Exports:
    history = honest()
    exports = history.exports()
    cut = SignedLog(history.health_party)
    for entry in history.health.entries[:-2]:
        cut.append_bytes(entry)
    return exports | {"health": cut.files() | {WITNESSED: exports["health"][WITNESSED]}}


def cosigned_what_it_never_saw() -> Exports:
    history = honest()
    exports = history.exports()
    exports["health"][WITNESSED] = other_root(history)["checkpoint"].encode()
    return exports


def other_criteria() -> Exports:
    history = honest()
    history.asked[0].criteria = b"everybody"
    return history.exports(criteria=True)


def unasked_criteria() -> Exports:
    history = honest()
    exports = history.exports(criteria=True)
    history.order()
    return history.exports(criteria=True) | {"census": exports["census"]}


def without_note(role: str, name: str) -> Maker:
    """Three answers, and a note is deleted."""

    def make() -> Exports:
        exports = honest(3).exports()
        del exports[role][name]
        return exports

    return make


def note_of_before(role: str, name: str) -> Maker:
    """The same with a genuine note from before the last two of the answers."""

    def make() -> Exports:
        history = History().begin()
        history.answer()
        before = history.exports()[role][name]
        history.take("answer answer cosign")
        exports = history.exports()
        exports[role][name] = before
        return exports

    return make


# Nobody ordered it.
UNORDERED: Final = Shutdown(
    reason="operator",
    note="a drill",
    signature=logs.OPERATOR_KEY.sign_text(b"x"),
    key_id=logs.OPERATOR_KEY.key_id,
)
NEW_LOG_KEY: Final = SigningKey.generate(Purpose.LOG, SeededRandomness("new log key"))
DAMAGES: Final[dict[str, Damage]] = {
    # files that were changed after they were signed
    "bit_flip_in_entry": Damage(entries("census", entry_flipped(9)), "ENTRY_DAMAGED:census:9"),
    "another_label_in_a_dictionary": Damage(
        changed("census", DICTIONARY, lambda text: text.replace(b"Age.", b"Years.")), "DICTIONARY_DIFFERS:census:4"
    ),
    "dictionary_that_is_none": Damage(changed("health", DICTIONARY, lambda _: b"[]"), "DICTIONARY_DIFFERS:health:4"),
    "dictionary_missing": Damage(changed("health", DICTIONARY, lambda _: None), "FILE_MISSING:health:4"),
    "dictionary_that_nobody_adopted": Damage(
        added("census", f"dictionaries/{'ab' * 32}.json", b"{}"), "UNKNOWN_FILE:census:"
    ),
    "bit_flip_in_health_entry": Damage(entries("health", entry_flipped(7)), "ENTRY_DAMAGED:health:7"),
    "bit_flip_in_tile": Damage(changed("census", TILE, lambda tile: flipped(tile, 3 * 32 + 5)), "TILE_WRONG:census:3"),
    "bit_flip_in_signature": Damage(checkpoint(line(-2, base64_flipped(20))), "BAD_SIGNATURE:census:"),
    "bit_flip_in_root": Damage(checkpoint(line(2, base64_flipped(0))), "BAD_SIGNATURE:census: ROOT_WRONG:census:"),
    "bit_flip_in_cosignature": Damage(
        changed("census", COSIGNED, line(-2, base64_flipped(30))), "NOT_COSIGNED:census:"
    ),
    "bit_flip_in_receipt_signature": Damage(bit_of("receipt", "signature", 3), "RECEIPT_UNSIGNED:researcher:"),
    "bit_flip_in_receipt": Damage(bit_of("receipt", "receipt", 60), "RECEIPT_UNSIGNED:researcher:"),
    "bit_flip_in_ticket_signature": Damage(bit_of("ticket", "signature", 3), "TICKET_UNSIGNED:researcher:"),
    "reordered_entries": Damage(entries("census", swapped), "ENTRY_DAMAGED:census:9 ENTRY_DAMAGED:census:10"),
    "reordered_entries_and_tiles": Damage(
        entries("census", swapped, tiles=True), "ROOT_WRONG:census: SEQUENCE:census:9"
    ),
    "duplicated_entry": Damage(
        entries("census", lambda these: [*these[:10], these[9], *these[11:]]), "ENTRY_DAMAGED:census:10"
    ),
    "deleted_entry": Damage(entries("census", lambda these: these[:8] + these[9:]), "BUNDLE_MALFORMED:census:0"),
    "bundle_cut_short": Damage(changed("health", BUNDLE, lambda bundle: bundle[:-1]), "BUNDLE_MALFORMED:health:0"),
    "bundle_missing": Damage(changed("census", BUNDLE, lambda _: None), "FILE_MISSING:census:0"),
    "tile_missing": Damage(changed("census", TILE, lambda _: None), "FILE_MISSING:census:"),
    "checkpoint_missing": Damage(checkpoint(lambda _: None), "FILE_MISSING:census:"),
    "health_missing": Damage(
        lambda: {role: files for role, files in honest().exports().items() if role != "health"},
        "EXPORT_MISSING:health:",
    ),
    "unknown_file": Damage(added("census", "README", b"hello"), "UNKNOWN_FILE:census:"),
    "unknown_tile": Damage(added("census", "tile/1/000.p/1", bytes(32)), "UNKNOWN_FILE:census:"),
    "unknown_file_of_researcher": Damage(added("researcher", "counts.csv", b"7"), "UNKNOWN_FILE:researcher:"),
    "receipt_under_another_name": Damage(renamed_receipt, "UNKNOWN_FILE:researcher:"),
    "unknown_signature_line": Damage(
        checkpoint(lambda note: note + "\u2014 example.org/stranger AAAAAAAA\n".encode()), "UNKNOWN_SIGNATURE:census:"
    ),
    "unknown_cosignature_line": Damage(changed("census", COSIGNED, with_stranger), "UNKNOWN_SIGNATURE:census:"),
    "giant_checkpoint": Damage(checkpoint(lambda note: note + b"x" * MAX_NOTE_BYTES), "FILE_TOO_LARGE:census:"),
    "giant_line_in_checkpoint": Damage(
        checkpoint(lambda note: note.replace(b"\n", b"x" * (MAX_NOTE_BYTES - len(note)) + b"\n", 1)),
        "LOG_NOT_TRUSTED:census:",
    ),
    "giant_size": Damage(checkpoint(line(1, lambda _: b"9" * 5000)), "CHECKPOINT_MALFORMED:census:"),
    "made_up_size": Damage(checkpoint(line(1, lambda _: b"9" * 18)), "FILE_MISSING:census:0"),
    "giant_bundle": Damage(changed("census", BUNDLE, lambda _: bytes(17_000_000)), "FILE_TOO_LARGE:census:0"),
    "giant_tile": Damage(changed("census", TILE, lambda _: bytes(9000)), "FILE_TOO_LARGE:census: TILE_WRONG:census:0"),
    "giant_receipt": Damage(
        changed("researcher", RECEIPT, lambda _: b"x" * (MAX_DOCUMENT_BYTES + 1)), "FILE_TOO_LARGE:researcher:"
    ),
    "broken_utf8_in_checkpoint": Damage(
        changed("health", CHECKPOINT_PATH, lambda note: b"\xff\xfe" + note), "CHECKPOINT_MALFORMED:health:"
    ),
    "broken_utf8_in_receipt": Damage(
        changed("researcher", RECEIPT, lambda text: text.replace(b"answered", b"\xff\xfewered")),
        "DOCUMENT_MALFORMED:researcher:",
    ),
    "receipt_in_other_json": Damage(
        changed("researcher", RECEIPT, lambda text: json.dumps(json.loads(text), sort_keys=True).encode() + b"\n"),
        "DOCUMENT_MALFORMED:researcher:",
    ),
    "receipt_in_other_base64": Damage(receipt_in_other_base64, "DOCUMENT_MALFORMED:researcher:"),
    "empty_checkpoint": Damage(checkpoint(lambda _: b""), "CHECKPOINT_MALFORMED:census:"),
    "broken_utf8_in_note": Damage(
        changed("health", WITNESSED, lambda note: b"\xff" + note), "CHECKPOINT_MALFORMED:health:"
    ),
    "base64_line_in_checkpoint": Damage(
        checkpoint(lambda note: note.replace(b"=\n\n", b"\n\n")), "CHECKPOINT_MALFORMED:census:"
    ),
    # the census agency lies
    "truncated_tail": Damage(
        mixed("answer cosign", "answer cosign", "census"), "LOG_BEHIND:census: LOG_BEHIND:census: LOG_BEHIND:census:"
    ),
    "two_histories": Damage(two_histories, "SPLIT_VIEW:census: SPLIT_VIEW:census:"),
    "two_histories_to_two_auditors": Damage(two_histories_to_two_auditors, "SPLIT_VIEW:census:"),
    "back_from_an_old_backup": Damage(back_from_an_old_backup, "ROLLED_BACK:census: ROLLED_BACK:health:"),
    "signed_with_an_unknown_key": Damage(
        signed_by(lambda: logs.party(logs.CENSUS.identity, "thief", logs.ORIGIN).listed("log", SigningKey)),
        "BAD_SIGNATURE:census:",
    ),
    "signed_with_the_wrong_key": Damage(
        signed_by(lambda: [SigningKey(Purpose.LOG, logs.CENSUS.signing(Purpose.ANSWER).expose())]),
        "BAD_SIGNATURE:census:",
    ),
    "key_changed_without_an_entry": Damage(signed_by(lambda: [NEW_LOG_KEY]), "BAD_SIGNATURE:census:"),
    "key_added_without_an_entry": Damage(signed_by(lambda: [logs.LOG_KEY, NEW_LOG_KEY]), "UNKNOWN_SIGNATURE:census:"),
    "registered_a_health_agency_of_its_own": Damage(
        begun_otherwise(2, lambda: logs.registered(logs.party(logs.HEALTH.identity, "fake", logs.HEALTH_ORIGIN))),
        "CARD_UNTRUSTED:census:2 NOT_COSIGNED:census:9 NOT_COSIGNED:census: RELEASE_NOT_COSIGNED:census:10",
    ),
    "charged_to_an_agency_of_its_own": Damage(
        told(
            "order charge release deliver receive cosign",
            begin=begun_with_neighbour,
            charge={"health": "health-x"},
            release=by_neighbour,
        ),
        "AGENCY_UNTRUSTED:census:14",
    ),
    "ticket_of_one_agency_charged_to_another": Damage(
        told(
            "charge report_charge release deliver settle receive cosign",
            begin=begun_with_neighbour,
            charge={"health": "health-x"},
            release=by_neighbour,
        ),
        "AGENCY_UNTRUSTED:census:14 CHARGE_DIFFERS:census:14",
    ),
    "slot_under_a_checkpoint_of_an_agency_of_its_own": Damage(
        told(FIRST + REST, begin=begun_with_neighbour, order=by_neighbour), "NOT_COSIGNED:census:14"
    ),
    "released_under_the_cosignature_of_another_agency": Damage(
        told("charge release", begin=begun_with_neighbour, release=by_neighbour), "RELEASE_NOT_COSIGNED:census:15"
    ),
    "charge_too_small": Damage(told(WHOLE, charge={"units": 1}), "CHARGE_WRONG:census:12"),
    "charge_of_another_scale": Damage(told(WHOLE, charge={"scale": 2}), "TICKET_DIFFERS:census:12"),
    "charge_of_another_question": Damage(
        told(WHOLE, charge={"question": "mother_tongue = 'French'"}), "TICKET_DIFFERS:census:12"
    ),
    "question_in_another_spelling": Damage(
        told(WHOLE, charge={"question": "mother_tongue by 'French'"}), "QUESTION:census:12"
    ),
    "answer_without_charge": Damage(told(SENT + "release"), "RELEASE_WITHOUT_CHARGE:census:12"),
    "charge_after_shutdown": Damage(
        told(SENT + "write_census charge " + REST, write_census=shut_down), "CHARGE_AFTER_SHUTDOWN:census:13"
    ),
    "charge_over_the_cap": Damage(told(2 * (FIRST + "cosign release "), order={"scale": 1}), "CAP_PASSED:census:11"),
    "no_shutdown_when_nothing_fits": Damage(
        told(FIRST + "cosign release", rules={"scales": (1,)}, order={"scale": 1}), "SHUTDOWN_MISSING:census:10"
    ),
    "charge_to_persons_that_names_no_ledger": Damage(
        told(WHOLE, rules=PERSONS, charge={"ledger": ""}), "LEDGER_UNNAMED:census:12"
    ),
    "charge_to_everyone_that_names_a_ledger": Damage(
        told(WHOLE, charge={"ledger": logs.hash_of(5)}), "LEDGER_UNNAMED:census:12"
    ),
    "more_answers_than_allowed": Damage(
        told(2 * FIRST + "cosign", rules={**PERSONS, "max_answers": 1}), "SHUTDOWN_MISSING:census:10"
    ),
    "persons_charged_after_everybody_had_the_cap": Damage(
        told(
            FIRST + "cosign release adopt " + FIRST + "cosign release",
            order={"scale": 1},
            adopt={"rules": logs.policy(**PERSONS), "confirmed": True},
        ),
        "CAP_PASSED:census:12",
    ),
    "shutdown_nobody_ordered": Damage(
        told("answer cosign write_census", write_census={"event": UNORDERED}), "ORDER_INVALID:census:12"
    ),
    "two_charges_for_one_ticket": Damage(told(CHARGED, charge_again), "TICKET_CHARGED_TWICE:census:13"),
    "slot_skipped": Damage(told("answer cosign commit_slots", commit_slots={"first": 8}), "SLOT_SKIPPED:census:12"),
    "slot_reused": Damage(told(WHOLE, order={"slot": 0}), "SLOT_NOT_OPEN:census:12"),
    "slot_committed_after_the_ticket": Damage(told("answer cosign", answer_after_late_slots), "SLOT_LATE:census:13"),
    "slot_with_another_commitment": Damage(told(WHOLE, order={"commitment": bytes(32)}), "SLOT_WRONG:census:12"),
    "slot_under_a_checkpoint_nobody_cosigned": Damage(
        told(WHOLE, order=lambda history: {"checkpoint": history.census.note()}), "NOT_COSIGNED:census:12"
    ),
    "policy_changed_without_an_entry": Damage(told(SENT, follow_another_policy, "charge " + REST), "POLICY:census:12"),
    "weaker_policy_nobody_confirmed": Damage(adopting(max_belief="0.9"), "CAP_RAISED:census:12"),
    "persons_instead_of_everyone_nobody_confirmed": Damage(
        told("answer cosign adopt answer", adopt={"rules": logs.policy(**PERSONS)}), "CHARGE_LOWERED:census:12"
    ),
    "persons_instead_of_households_nobody_confirmed": Damage(
        adopting({**PERSONS, "subject": "household"}, **PERSONS), "CHARGE_LOWERED:census:12"
    ),
    "more_answers_nobody_confirmed": Damage(adopting({"max_answers": 5}), "ANSWERS_RAISED:census:12"),
    "samples_gone_sooner_nobody_confirmed": Damage(
        adopting(PERSONS, **PERSONS, sample_retention_ms=0), "RETENTION_SHORTENED:census:12"
    ),
    "samples_kept_longer_nobody_confirmed": Damage(
        adopting(PERSONS, **PERSONS, sample_retention_ms=10 * 366 * DAY_MS), "RETENTION_LENGTHENED:census:12"
    ),
    "fewer_answers_of_one_researcher_nobody_confirmed": Damage(
        adopting(researcher_answers=1), "QUOTA_LOWERED:census:12"
    ),
    "no_quota_nobody_confirmed": Damage(adopting(researcher_answers=0), "QUOTA_RAISED:census:12"),
    "delay_of_a_day_nobody_confirmed": Damage(adopting(forward_delay_ms=DAY_MS), "DELAY_LENGTHENED:census:12"),
    "quotes_of_a_second_nobody_confirmed": Damage(adopting(quote_lifetime_ms=1000), "QUOTE_SHORTENED:census:12"),
    "more_answers_of_one_researcher_than_the_quota": Damage(
        told(2 * FIRST + "cosign", rules={**PERSONS, "researcher_answers": 1}), "QUOTA_PASSED:census:10"
    ),
    "time_backwards": Damage(
        told(SENT + "write_census", write_census={"event": logs.loaded("load2"), "time_ms": 1}),
        "TIME_BACKWARDS:census:12",
    ),
    "unknown_entry_type": Damage(
        appended(lambda entry: entry.replace(b'"type":"delivered"', b'"type":"forgotten"')), "ENTRY_MALFORMED:census:12"
    ),
    "unknown_version": Damage(begun_otherwise(0, lambda: logs.opened(format=99)), "FORMAT:census:0"),
    "entry_in_other_json": Damage(appended(lambda entry: entry.replace(b":", b": ", 1)), "ENTRY_MALFORMED:census:12"),
    "broken_utf8_in_entry": Damage(appended(lambda _: b'{"event":"\xff\xfe"}'), "ENTRY_MALFORMED:census:12"),
    "giant_entry": Damage(appended(lambda _: b"[" * 65_535), "ENTRY_MALFORMED:census:12"),
    "wrong_sequence": Damage(
        told(SENT + "write_census", write_census={"event": logs.loaded("load2"), "sequence": 99}), "SEQUENCE:census:12"
    ),
    "released_before_it_was_cosigned": Damage(told(CHARGED + "release"), "RELEASE_NOT_COSIGNED:census:13"),
    "released_under_its_own_signature_alone": Damage(
        told(CHARGED + "release", release=lambda history: {"checkpoint": history.census.note()}),
        "RELEASE_NOT_COSIGNED:census:13",
    ),
    "released_under_a_witness_of_its_own": Damage(
        told(CHARGED + "release", release=by_thief), "RELEASE_NOT_COSIGNED:census:13"
    ),
    "released_before_the_time_of_the_cosignature": Damage(
        told(
            CHARGED,
            lambda history: history.cosign(time_s=history.now_ms // 1000 + 86_400),
            "report_charge release cosign",
        ),
        "COSIGNED_LATER:census:13",
    ),
    "released_under_another_history": Damage(
        told(CHARGED + "release cosign", release=other_root), "SPLIT_VIEW:census:13"
    ),
    "suppressed_answer": Damage(
        told(CHARGED + "report_charge cosign pass_time answer pass_time answer cosign", pass_time={"ms": DAY_MS}),
        "ANSWER_SUPPRESSED:census:12",
    ),
    "suppressed_answer_behind_a_start": Damage(
        told(
            CHARGED + "report_charge answer pass_time commit_slots",
            lambda history: history.commit_slots(starting=True),
            "cosign",
            pass_time={"ms": 700_000},
        ),
        "ANSWER_SUPPRESSED:census:12",
    ),
    "suppressed_answer_that_others_pass_by": Damage(
        told(CHARGED + "report_charge", go_on_as_if_just_started), "ANSWER_SUPPRESSED:census:12"
    ),
    "charge_for_a_ticket_nobody_submitted": Damage(
        told("answer cosign order charge cosign release cosign"), "CHARGE_NOT_SUBMITTED:census:12"
    ),
    "manifest_that_does_not_match_the_charge": Damage(
        told(WHOLE, charge={"manifest": logs.hash_of(99)}), "MANIFEST_DIFFERS::"
    ),
    "settled_and_never_released": Damage(told(CHARGED + "report_charge settle cosign"), "SETTLED_NOT_RELEASED::"),
    "answered_and_not_released": Damage(told(CHARGED + "receive cosign"), "ANSWER_NOT_RELEASED:census:12"),
    "refused_and_charged": Damage(
        told(CHARGED + "refuse cosign release cosign", refuse={"code": "SLOT_UNUSABLE"}),
        "REFUSED_BUT_CHARGED:health:13",
    ),
    "refused_with_the_refusal_of_another_sample": Damage(
        told("order submit forward refuse cosign", refuse={"code": SHUT, "manifest": logs.hash_of(99)}),
        "REFUSAL_DIFFERS:health:9",
    ),
    "refused_unsigned": Damage(
        told(
            "order submit forward write_health cosign",
            write_health=lambda history: {"event": Refused(ticket=history.asked[-1].hash, code=SHUT)},
        ),
        "REFUSAL_UNSIGNED:health:9",
    ),
    "refused_without_reason": Damage(
        told("order submit forward", refuse_by_other_key, "order submit forward refuse cosign", refuse={"code": SHUT}),
        "REFUSAL_FORGED:health:9 REFUSED_WITHOUT_REASON:census:",
    ),
    "delivered_and_never_received": Damage(
        told(CHARGED + "report_charge cosign release deliver settle answer cosign"), "DELIVERY_UNCONFIRMED::"
    ),
    "receipt_of_another_place": Damage(late_receipt(of_the_first), "RECEIPT_DIFFERS:census:12"),
    "receipt_for_a_ticket_that_was_never_charged": Damage(
        told(SENT + "receive", receive=of_no_charge), "ANSWER_NOT_CHARGED:researcher:"
    ),
    "receipt_that_proves_nothing": Damage(
        late_receipt({"inclusion_proof": [bytes(32)]}), "RECEIPT_NOT_INCLUDED:researcher:"
    ),
    "receipt_of_another_history": Damage(late_receipt(of_another_log), "SPLIT_VIEW:census:"),
    "receipt_of_a_longer_log": Damage(mixed(WHOLE, "answer", "census", "health"), "LOG_BEHIND:census:"),
    # the health agency lies
    "health_tail_truncated": Damage(health_tail_truncated, "LOG_BEHIND:health: NOTE_WITHHELD::"),
    "report_of_another_charge": Damage(
        told(CHARGED + "report_charge cosign release cosign", report_charge={"log_index": 6}), "REPORT_WRONG:health:13"
    ),
    "report_under_a_checkpoint_nobody_signed": Damage(
        told(CHARGED + "report_charge cosign release cosign", report_charge=signed_by_stranger),
        "BAD_SIGNATURE:health:13",
    ),
    "other_query_for_one_ticket": Damage(told(WHOLE, submit={"query": "e" * 32}), "CHARGE_DIFFERS:census:12"),
    "two_manifests_for_one_ticket": Damage(
        told(SENT, lambda history: history.forward(history.asked[-1], manifest=logs.hash_of(5000))),
        "FORWARDED_TWICE:health:13",
    ),
    "other_criteria_than_the_ticket": Damage(
        told(WHOLE, submit={"criteria": logs.hash_of(1)}), "TICKET_DIFFERS:health:"
    ),
    "linked_by_another_chain": Damage(
        told(
            "answer cosign write_health " + FIRST + REST,
            write_health={"event": logs.relinked()},
            submit={"load": "load2"},
        ),
        "LINKAGE_DIFFERS:census:12",
    ),
    "load_linked_otherwise_than_its_policy": Damage(load_by_address, "LINKAGE_MIXED:census:13"),
    "policy_linked_otherwise_than_the_load": Damage(
        told(rules=BY_ADDRESS, begin=begin_with_load), "LINKAGE_MIXED:census:6"
    ),
    "roster_that_was_never_sent": Damage(
        told(
            "answer cosign roster write_census",
            lambda history: history.roster(4),
            "answer cosign",
            write_census={"event": logs.rostered(3)},
        ),
        "ROSTER_NOT_SENT:census:13",
    ),
    "roster_of_other_people": Damage(
        told("answer cosign roster answer cosign", roster={"commitment": logs.hash_of(99)}), "ROSTER_DIFFERS:census:12"
    ),
    "roster_under_another_manifest": Damage(
        told("answer cosign roster answer cosign", roster={"manifest": logs.hash_of(99)}), "ROSTER_DIFFERS:census:12"
    ),
    "roster_number_that_comes_back": Damage(
        told("answer cosign roster write_census answer cosign", write_census={"event": logs.rostered(1)}),
        "ROSTER_NUMBER:census:13",
    ),
    "roster_of_another_chain": Damage(
        told("answer cosign roster answer cosign", roster={"linkage": logs.chain_of(2)}), "ROSTER_LINKAGE:census:12"
    ),
    "charge_on_a_roster_of_before": Damage(
        told("answer cosign roster " + FIRST + REST, forward={"roster": 1}, charge={"roster": 1}),
        "CHARGE_ROSTER:census:13",
    ),
    "sample_of_another_roster_than_was_sent": Damage(
        told("answer cosign roster " + FIRST + REST, forward={"roster": 1}), "MANIFEST_DIFFERS::"
    ),
    "sample_of_a_roster_that_was_never_numbered": Damage(
        told(WHOLE, forward={"roster": 7}), "FORWARDED_ROSTER:health:12"
    ),
    "cosigned_what_it_never_saw": Damage(cosigned_what_it_never_saw, "SPLIT_VIEW:census:"),
    "opened_other_criteria": Damage(other_criteria, "CRITERIA_DIFFER:health:"),
    "opened_criteria_of_no_ticket": Damage(unasked_criteria, "CRITERIA_UNASKED:health:"),
    "opened_criteria_in_other_base64": Damage(
        changed("health", CRITERIA, lambda text: text.replace(b'"nonce":"', b'"nonce":" '), criteria=True),
        "DOCUMENT_MALFORMED:health:",
    ),
    # somebody leaves a note out
    "census_cosigned_deleted": Damage(without_note("census", COSIGNED), "NOTE_WITHHELD:census:"),
    "census_cosigned_of_before": Damage(note_of_before("census", COSIGNED), "NOTE_WITHHELD:census:"),
    "census_witnessed_deleted": Damage(without_note("census", WITNESSED), "NOTE_WITHHELD::"),
    "census_witnessed_of_before": Damage(note_of_before("census", WITNESSED), "NOTE_WITHHELD::"),
    "health_cosigned_deleted": Damage(without_note("health", COSIGNED), "NOTE_WITHHELD::"),
    "health_cosigned_of_before": Damage(note_of_before("health", COSIGNED), "NOTE_WITHHELD::"),
    "health_witnessed_deleted": Damage(without_note("health", WITNESSED), "NOTE_WITHHELD:health:"),
    "health_witnessed_of_before": Damage(note_of_before("health", WITNESSED), "NOTE_WITHHELD:health:"),
    # the researcher lies
    "answered_without_a_receipt": Damage(told(SENT, say_answered), "RECEIPT_STATE:researcher:"),
    "ticket_of_another_query": Damage(
        receipts(lambda files: {"ticket": files[1].ticket}, answers=2), "TICKET_DIFFERS:researcher:"
    ),
    "receipt_of_another_ticket": Damage(
        receipts(lambda files: {"receipt": files[1].receipt}, answers=2), "RECEIPT_UNSIGNED:researcher:"
    ),
    "receipt_signed_with_another_key": Damage(receipts(receipt_by_thief), "RECEIPT_UNSIGNED:researcher:"),
    # quotes
    "bit_flip_in_quote": Damage(bit_of("quote", "quote", 60), "QUOTE_UNSIGNED:researcher:"),
    "quote_signed_with_another_key": Damage(receipts(quote_by_thief), "QUOTE_UNSIGNED:researcher:"),
    "quote_signed_as_an_answer": Damage(receipts(quote_as_answer), "QUOTE_UNSIGNED:researcher:"),
    "quote_in_other_base64": Damage(
        receipts(lambda files: {"quote": "A" + files[0].quote}), "DOCUMENT_MALFORMED:researcher:"
    ),
    "quote_of_another_question": Damage(
        receipts(lambda files: {"quote": files[1].quote}, answers=2), "QUOTE_DIFFERS:researcher:"
    ),
    "ticket_that_outlives_its_quote": Damage(
        told(
            UNTIL_RECEIVED,
            order=lambda history: {
                "expires_ms": history.now_ms + 60_001,
                "quoted": {"expires_ms": history.now_ms + 60_000},
            },
        ),
        "QUOTE_DIFFERS:researcher:",
    ),
    "quote_too_cheap": Damage(quoting(charged=price(30) - 1), "QUOTE_WRONG:census:12"),
    "quote_of_a_smaller_margin": Damage(quoting(margin_95=89), "QUOTE_WRONG:census:12"),
    "quote_of_a_quota_that_is_none": Damage(quoting(quota=7, quota_left=7), "QUOTE_WRONG:census:12"),
    "quote_that_hides_its_quota": Damage(quoting(QUOTA, quota=None, quota_left=None), "QUOTE_WRONG:census:12"),
    "quote_of_more_than_the_quota": Damage(quoting(QUOTA, quota=7, quota_left=8), "QUOTE_WRONG:census:12"),
    "quote_that_hides_what_is_left": Damage(quoting(remaining=None), "QUOTE_WRONG:census:12"),
    "quote_that_tells_what_persons_have_left": Damage(quoting(PERSONS, remaining=40), "QUOTE_WRONG:census:12"),
    "quote_told_before_its_slot_was_cosigned": Damage(quoting(told_ms=START_MS), "QUOTE_WRONG:census:12"),
    "quote_of_an_answer_too_many": Damage(quoting(remaining=42), "QUOTE_BUDGET:census:12"),
    "quote_of_an_answer_too_few": Damage(quoting(remaining=39), "QUOTE_BUDGET:census:12"),
    "quote_of_no_answer": Damage(quoting(remaining=0), "QUOTE_BUDGET:census:12"),
    "quote_that_lives_too_long": Damage(
        told(
            UNTIL_RECEIVED, order=lambda history: {"expires_ms": history.now_ms + history.rules.quote_lifetime_ms + 1}
        ),
        "QUOTE_WRONG:census:12",
    ),
    "quote_that_counts_answers_nobody_can_count": Damage(
        told("answer answer " + UNTIL_RECEIVED, order={"quoted": {"remaining": 41}}), "QUOTE_BUDGET:census:18"
    ),
    "quote_that_counts_a_charge_before_its_answer_is_out": Damage(
        told(CHARGED, order_and_release), "QUOTE_BUDGET:census:"
    ),
    "quote_under_a_policy_of_before": Damage(
        told(
            "answer cosign adopt commit_slots cosign order commit_slots",
            adopt={"rules": logs.policy(quote_lifetime_ms=61_000)},
            order=lambda history: {"slot": 5, "policy_hash": logs.policy().hash, "expires_ms": history.now_ms + 60_000},
        ),
        "QUOTE_WRONG:census:",
    ),
    "quote_of_another_release": Damage(ordering(census_release="2016"), "QUOTE_WRONG:census:"),
    "quote_of_a_slot_without_commitment": Damage(ordering(commitment=bytes(32)), "QUOTE_WRONG:census:"),
    "quote_of_a_scale_that_is_not_admitted": Damage(
        ordering(scale=51, quoted={"charged": price(51), "margin_95": margin(51)}), "QUOTE_WRONG:census:"
    ),
}
