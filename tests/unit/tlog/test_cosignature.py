"""Cosignatures: what other tools make and read, from the right witness only, and never of another text or time."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from fakes.logs import LOG_KEY, ORIGIN, SIGNER
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.tlog.cosignature import (
    MAX_TIME_S,
    CosignatureVerifier,
    Cosigned,
    Cosigner,
    merge_cosignatures,
    note_lines,
    only_lines_of,
)
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, NoteVerifier, join_note

VECTORS = Path(__file__).parents[2] / "vectors"
VECTOR = json.loads((VECTORS / "cosignature.json").read_text())
GOLANG = json.loads((VECTORS / "golang.json").read_text())
ROOT = bytes(range(32))
CHECKPOINT = Checkpoint(ORIGIN, 42, ROOT)
NOTE = SIGNER.sign_checkpoint(42, ROOT)
NAME = "witness.test/w1"
KEY = SigningKey(Purpose.WITNESS, bytes(range(3, 35)))
NEXT_KEY = SigningKey(Purpose.WITNESS, bytes(range(4, 36)))
WITNESS = Cosigner(NAME, KEY)
OTHER = Cosigner("other.test/w2", SigningKey(Purpose.WITNESS, bytes(range(5, 37))))
TIME_S = 1_763_458_236
COSIGNED = WITNESS.cosign(NOTE, TIME_S)


def line_of(key: SigningKey, message: str, time: bytes, name: str = NAME) -> str:
    """A signature line put together by hand, as the specification says."""
    short = hashlib.sha256(name.encode() + b"\n\x04" + key.verify_key.raw).digest()[:4]
    return f"\u2014 {name} {b64encode(short + time + key.sign(message.encode())).decode()}\n"


def message(time: int | str = TIME_S, checkpoint: Checkpoint = CHECKPOINT) -> str:
    """The signed bytes, from the specification's text."""
    return f"cosignature/v1\ntime {time}\n{checkpoint.origin}\n{checkpoint.size}\n{b64encode(ROOT).decode()}\n"


def refusal(note: str, verifier: CosignatureVerifier = WITNESS.verifier) -> str:
    """The code with which a note is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        verifier.verify(note)
    return caught.value.code


def test_the_format_is_the_specified_one() -> None:
    """The note as it was, and a line made by hand from the words of tlog-cosignature."""
    for time_s in (TIME_S, 0, 7, MAX_TIME_S):
        assert WITNESS.cosign(NOTE, time_s) == NOTE + line_of(KEY, message(time_s), time_s.to_bytes(8, "big"))
    assert WITNESS.verifier.verify(COSIGNED) == Cosigned(CHECKPOINT, TIME_S)
    assert SIGNER.verifier.verify_checkpoint(COSIGNED) == CHECKPOINT


def test_key_text_has_the_type_of_cosignatures() -> None:
    """One vkey for each key, as other tools read them, with type 4."""
    lines = CosignatureVerifier(NAME, (KEY.verify_key, NEXT_KEY.verify_key)).to_text().split("\n")
    for line, key in zip(lines, (KEY, NEXT_KEY), strict=True):
        short = hashlib.sha256(NAME.encode() + b"\n\x04" + key.verify_key.raw).hexdigest()[:8]
        assert line == f"{NAME}+{short}+{b64encode(bytes([4]) + key.verify_key.raw).decode()}"


@pytest.mark.parametrize("case", GOLANG["notes"], ids=lambda case: case["witness"])
def test_cosignatures_of_another_implementation(case: dict[str, Any]) -> None:
    """The same key, note and time give the same bytes there and here, and they verify."""
    cosigner = Cosigner(case["witness"], SigningKey(Purpose.WITNESS, bytes.fromhex(case["witness_seed"])))
    assert cosigner.verifier.to_text() == case["witness_vkey"]
    assert cosigner.cosign(case["note"], case["time_s"]) == case["cosigned"]
    cosigned = cosigner.verifier.verify(case["cosigned"])
    assert (cosigned.checkpoint.origin, cosigned.checkpoint.size) == (case["origin"], case["size"])
    assert cosigned.time_s == case["time_s"]


def test_cosignature_by_a_witness_of_the_world() -> None:
    """One that a witness of a public log made verifies here; under another time it does not."""
    key, blob = (
        VerifyKey(Purpose.WITNESS, bytes.fromhex(VECTOR["android"]["key"])),
        b64decode(VECTOR["android"]["signature"]),
    )
    short = hashlib.sha256(NAME.encode() + b"\n\x04" + key.raw).digest()[:4]
    note = join_note(VECTOR["android"]["text"], [(NAME, short + blob[4:])])
    verifier = CosignatureVerifier(NAME, (key,))
    assert verifier.verify(note).time_s == VECTOR["android"]["time_s"]
    later = blob[4:11] + bytes([blob[11] + 1]) + blob[12:]
    assert refusal(join_note(VECTOR["android"]["text"], [(NAME, short + later)]), verifier) == "BAD_SIGNATURE"


def test_key_text_of_a_witness_of_the_world() -> None:
    """Name, key hash and key of a published vkey fit together as we derive them."""
    name, _, encoded = VECTOR["verifier"].split("+", 2)
    key = VerifyKey(Purpose.WITNESS, b64decode(encoded)[1:])
    assert CosignatureVerifier(name, (key,)).to_text() == VECTOR["verifier"]


def test_published_example_has_the_published_parts() -> None:
    """The note in the specification itself is split as it says: names, key hashes, and a time in March 2023."""
    note = VECTOR["specification"]["note"]
    assert [(name, short.hex()) for name, short in note_lines(note)] == [
        tuple(line) for line in VECTOR["specification"]["lines"]
    ]
    blob = b64decode(note.split("\n")[-2].split(" ")[2])
    assert int.from_bytes(blob[4:12], "big") == VECTOR["specification"]["time_s"]
    assert len(blob) == 4 + 8 + 64


@given(time_s=st.integers(0, MAX_TIME_S), size=st.integers(0, 2**53), key=st.binary(min_size=32, max_size=32))
def test_what_is_cosigned_verifies(time_s: int, size: int, key: bytes) -> None:
    """Witness and verifier agree for every key, size and time."""
    cosigner = Cosigner(NAME, SigningKey(Purpose.WITNESS, key))
    note = SIGNER.sign_checkpoint(size, ROOT)
    cosigned = cosigner.cosign(note, time_s)
    assert cosigned.startswith(note)
    assert cosigner.verifier.verify(cosigned) == Cosigned(Checkpoint(ORIGIN, size, ROOT), time_s)


# The log's own line is none of this verifier's business, as long as it is a line.
SIGNED_PLACES = [*range(len(CHECKPOINT.to_text()) + 1), *range(len(NOTE), len(COSIGNED))]


@given(place=st.sampled_from(SIGNED_PLACES), data=st.data())
def test_no_altered_character_goes_unnoticed(place: int, data: st.DataObject) -> None:
    """Whatever one character of text or cosignature is changed into, inserted as or dropped, the note is refused."""
    character = data.draw(st.characters(codec="utf-8").filter(lambda other: other != COSIGNED[place]))
    refusal(COSIGNED[:place] + character + COSIGNED[place + 1 :])
    refusal(COSIGNED[:place] + COSIGNED[place + 1 :])


@pytest.mark.parametrize("time_s", [-1, MAX_TIME_S + 1, 2**64])
def test_a_time_outside_of_the_format_is_not_signed(time_s: int) -> None:
    """Before 1970, or more than C2SP allows."""
    with pytest.raises(ValueError, match="time"):
        WITNESS.cosign(NOTE, time_s)


WRONG_LINES = {
    "another time": line_of(KEY, message(), (TIME_S + 1).to_bytes(8, "big")),
    "a time that is too large": line_of(KEY, message(MAX_TIME_S + 1), (MAX_TIME_S + 1).to_bytes(8, "big")),
    "little endian": line_of(KEY, message(), TIME_S.to_bytes(8, "little")),
    "four bytes of time": line_of(KEY, message(), TIME_S.to_bytes(4, "big")),
    "no time": line_of(KEY, message(), b""),
    "a leading zero": line_of(KEY, message(f"0{TIME_S}"), TIME_S.to_bytes(8, "big")),
    "the checkpoint alone": line_of(KEY, CHECKPOINT.to_text(), TIME_S.to_bytes(8, "big")),
    "a checkpoint's signature": line_of(KEY, CHECKPOINT.to_text(), b""),
    "another checkpoint": line_of(KEY, message(checkpoint=Checkpoint(ORIGIN, 43, ROOT)), TIME_S.to_bytes(8, "big")),
    "another log": line_of(KEY, message(checkpoint=Checkpoint("other", 42, ROOT)), TIME_S.to_bytes(8, "big")),
    "another version": line_of(KEY, message().replace("v1", "v2"), TIME_S.to_bytes(8, "big")),
    "the whole note": line_of(KEY, message() + NOTE[len(CHECKPOINT.to_text()) :], TIME_S.to_bytes(8, "big")),
    "a byte more": line_of(KEY, message(), TIME_S.to_bytes(8, "big") + b"\0"),
}


@pytest.mark.parametrize("line", WRONG_LINES.values(), ids=list(WRONG_LINES))
def test_a_wrong_cosignature_is_refused(line: str) -> None:
    """A line of another text or time, or in another layout; also beside a right one."""
    assert refusal(NOTE + line) == "BAD_SIGNATURE"
    assert refusal(COSIGNED + line) == "BAD_SIGNATURE"
    assert refusal(NOTE + line + COSIGNED[len(NOTE) :]) == "BAD_SIGNATURE"


def test_another_witness_is_not_this_one() -> None:
    """Neither by name nor by key; and a cosignature by nobody known is none."""
    assert refusal(NOTE) == "BAD_SIGNATURE"
    assert refusal(OTHER.cosign(NOTE, TIME_S)) == "BAD_SIGNATURE"
    assert refusal(Cosigner(NAME, NEXT_KEY).cosign(NOTE, TIME_S)) == "BAD_SIGNATURE"
    assert refusal(Cosigner("other.test", KEY).cosign(NOTE, TIME_S)) == "BAD_SIGNATURE"
    assert refusal(COSIGNED, CosignatureVerifier(NAME, ())) == "BAD_SIGNATURE"


def test_others_before_and_after_change_nothing() -> None:
    """Any number of witnesses may cosign; each is verified by itself."""
    note = OTHER.cosign(WITNESS.cosign(OTHER.cosign(NOTE, 1), TIME_S), 2)
    assert WITNESS.verifier.verify(note) == Cosigned(CHECKPOINT, TIME_S)
    assert OTHER.verifier.verify(note) == Cosigned(CHECKPOINT, 2)


def test_one_known_key_is_enough_and_the_latest_time_counts() -> None:
    """While a key is being replaced either is enough; a witness that cosigned twice has looked at the later time."""
    verifier = CosignatureVerifier(NAME, (KEY.verify_key, NEXT_KEY.verify_key))
    assert verifier.verify(COSIGNED).time_s == TIME_S
    assert verifier.verify(Cosigner(NAME, NEXT_KEY).cosign(COSIGNED, TIME_S - 5)).time_s == TIME_S
    assert verifier.verify(Cosigner(NAME, NEXT_KEY).cosign(COSIGNED, TIME_S + 5)).time_s == TIME_S + 5


@pytest.mark.parametrize("note", ["", NOTE[:-1], NOTE.replace("\n42\n", "\n042\n"), "a\nb\n\n\u2014 x AAAAAA==\n"])
def test_what_is_no_note_of_a_checkpoint_is_neither_cosigned_nor_verified(note: str) -> None:
    """A witness signs checkpoints and nothing else."""
    assert refusal(note) == "MALFORMED_MESSAGE"
    for call in (
        lambda: WITNESS.cosign(note, TIME_S),
        lambda: note_lines(note),
        lambda: merge_cosignatures([NOTE, note]),
        lambda: only_lines_of(note, SIGNER.verifier, WITNESS.verifier),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            call()
        assert caught.value.code == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("purpose", [purpose for purpose in Purpose if purpose is not Purpose.WITNESS])
def test_only_witness_keys_cosign(purpose: Purpose) -> None:
    """A log key signs without a prefix as well: it must not be tricked into a cosignature."""
    key = SigningKey(purpose, bytes(32))
    with pytest.raises(ValueError, match="not a witness key"):
        Cosigner(NAME, key)
    with pytest.raises(ValueError, match="not a witness key"):
        CosignatureVerifier(NAME, (KEY.verify_key, key.verify_key))


@given(size=st.integers(0, 2**53), time_s=st.integers(0, MAX_TIME_S), origin=st.text(max_size=20))
def test_no_checkpoint_is_a_cosigned_message(size: int, time_s: int, origin: str) -> None:
    """Log and witness keys sign without a prefix; by its lines, what one signs can never be what the other signs."""
    with pytest.raises(ValueError, match=r"."):
        Checkpoint.parse_text(f"cosignature/v1\ntime {time_s}\n{Checkpoint(origin, size, ROOT).to_text()}")


# --- several witnesses -----------------------------------------------------------------------------------------------


def test_lines_are_told_by_name_and_key_hash() -> None:
    """Lines that an auditor reports because nobody explains them."""
    hashes = [
        hashlib.sha256(name.encode() + b"\n" + kind + key.verify_key.raw).digest()[:4]
        for name, kind, key in ((ORIGIN, b"\1", LOG_KEY), (NAME, b"\4", KEY))
    ]
    assert note_lines(COSIGNED) == [(ORIGIN, hashes[0]), (NAME, hashes[1])]


def test_cosignatures_are_merged_each_once() -> None:
    """Every line of every note, in order; the same line stands once; what each says still holds."""
    other, both = OTHER.cosign(NOTE, 2), OTHER.cosign(COSIGNED, 2)
    assert merge_cosignatures([COSIGNED, other]) == both
    assert merge_cosignatures([both, COSIGNED, other, NOTE]) == both
    assert merge_cosignatures([NOTE]) == NOTE
    assert WITNESS.verifier.verify(both) == Cosigned(CHECKPOINT, TIME_S)
    assert OTHER.verifier.verify(both) == Cosigned(CHECKPOINT, 2)


def test_of_a_note_the_lines_of_known_keys_are_left() -> None:
    """In their order, each key once: names that another key has, unknown names and earlier words of a witness go."""
    rubbish = f"\u2014 {ORIGIN} AAAAAA==\n\u2014 {NAME} AAAAAAAA\n\u2014 x AAAAAA==\n"
    log = SIGNER.verifier
    assert only_lines_of(COSIGNED + rubbish, log, WITNESS.verifier) == COSIGNED
    assert only_lines_of(OTHER.cosign(COSIGNED, 2), log, WITNESS.verifier) == COSIGNED
    assert only_lines_of(COSIGNED, log) == NOTE
    assert only_lines_of(OTHER.cosign(COSIGNED, 2), log, OTHER.verifier) == OTHER.cosign(NOTE, 2)
    for times in ((3, TIME_S), (TIME_S, 3), (TIME_S, TIME_S)):
        note = NOTE
        for time_s in times:
            note = WITNESS.cosign(note, time_s)
        assert only_lines_of(note, log, WITNESS.verifier) == COSIGNED


def test_a_note_that_no_known_key_signed_is_none() -> None:
    """The remaining text has no signature, which is no note."""
    stranger = NoteVerifier(ORIGIN, (SigningKey(Purpose.LOG, bytes(32)).verify_key,))
    with pytest.raises(InvalidRequestError) as caught:
        only_lines_of(COSIGNED, stranger, OTHER.verifier)
    assert caught.value.code == "BAD_SIGNATURE"


@pytest.mark.parametrize(
    "notes", [[], [NOTE, SIGNER.sign_checkpoint(43, ROOT)], [NOTE, SIGNER.sign_checkpoint(42, bytes(32))]]
)
def test_notes_of_several_checkpoints_are_not_merged(notes: list[str]) -> None:
    """A cosignature under another checkpoint would be a wrong one."""
    with pytest.raises(InvalidRequestError) as caught:
        merge_cosignatures(notes)
    assert caught.value.code == "MALFORMED_MESSAGE"


def test_no_note_grows_longer_than_can_be_read() -> None:
    """Neither by cosigning nor by merging; the last note that fits is still read."""
    note, count = NOTE, 0
    while len(note.encode()) + len(COSIGNED.encode()) - len(NOTE.encode()) <= MAX_NOTE_BYTES:
        note, count = WITNESS.cosign(note, count), count + 1
    with pytest.raises(InvalidRequestError) as caught:
        WITNESS.cosign(note, count)
    assert caught.value.code == "MALFORMED_MESSAGE"
    assert MAX_NOTE_BYTES - 200 < len(note.encode()) <= MAX_NOTE_BYTES
    assert WITNESS.verifier.verify(note).time_s == count - 1
    with pytest.raises(InvalidRequestError):
        merge_cosignatures([note, COSIGNED])
