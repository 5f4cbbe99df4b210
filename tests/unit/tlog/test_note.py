"""Signed notes and checkpoints: the format that other tools read, in one spelling, from the right key only."""

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
from broker_common.tlog.note import MAX_NOTE_BYTES, Checkpoint, NoteSigner, NoteVerifier

VECTORS = Path(__file__).parents[2] / "vectors"
GOLANG = json.loads((VECTORS / "golang.json").read_text())
VECTOR = json.loads((VECTORS / "signed_note.json").read_text())
ROOT = bytes(range(32))
NOTE = SIGNER.sign_checkpoint(42, ROOT)
TEXT, SIGNATURE_LINE = NOTE.split("\n\n")
OTHER_KEY = SigningKey(Purpose.LOG, bytes(32))

names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"], exclude_characters="+"), min_size=1, max_size=30)
roots = st.binary(min_size=32, max_size=32)


def key_hash(name: str, key: VerifyKey) -> bytes:
    """The short name of a key in a signature line, from the format's own text."""
    return hashlib.sha256(name.encode() + b"\n\x01" + key.raw).digest()[:4]


def sign(text: str, name: str = ORIGIN, key: SigningKey = LOG_KEY) -> str:
    """A note over any text, put together by hand."""
    blob = key_hash(name, key.verify_key) + key.sign(text.encode())
    return f"{text}\n\u2014 {name} {b64encode(blob).decode()}\n"


def refusal(note: str, verifier: NoteVerifier = SIGNER.verifier) -> str:
    """The code with which a note is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        verifier.verify_checkpoint(note)
    return caught.value.code


def test_the_example_of_the_go_package_verifies() -> None:
    """Key text, key hash and signature of the published example hold under our derivations."""
    name, hash_said, encoded = VECTOR["verifier"].split("+", 2)
    key = VerifyKey(Purpose.LOG, b64decode(encoded)[1:])
    verifier = NoteVerifier(name, (key,))
    assert verifier.to_text() == VECTOR["verifier"]
    assert key_hash(name, key).hex() == hash_said
    line_name, blob = VECTOR["signature_line"].removeprefix("\u2014 ").removesuffix("\n").split(" ")
    assert line_name == name
    assert b64decode(blob)[:4] == key_hash(name, key)
    key.verify_signature(VECTOR["text"].encode(), b64decode(blob)[4:])
    with pytest.raises(InvalidRequestError):
        key.verify_signature(VECTOR["text"].encode() + b"\n", b64decode(blob)[4:])


@pytest.mark.parametrize("case", GOLANG["notes"], ids=lambda case: case["origin"])
def test_notes_of_the_go_package(case: dict[str, Any]) -> None:
    """The same key, origin, size and root give the same note and key text there and here."""
    signer = NoteSigner(case["origin"], (SigningKey(Purpose.LOG, bytes.fromhex(case["log_seed"])),))
    checkpoint = signer.verifier.verify_checkpoint(case["note"])
    assert checkpoint.size == case["size"]
    assert signer.sign_checkpoint(checkpoint.size, checkpoint.root) == case["note"]
    assert signer.verifier.to_text() == case["log_vkey"]
    assert signer.verifier.verify_checkpoint(case["cosigned"]) == checkpoint


def test_a_sound_note_that_is_no_checkpoint_is_refused() -> None:
    """The published example has two lines; we accept checkpoints and nothing else."""
    name, _, encoded = VECTOR["verifier"].split("+", 2)
    verifier = NoteVerifier(name, (VerifyKey(Purpose.LOG, b64decode(encoded)[1:]),))
    assert refusal(f"{VECTOR['text']}\n{VECTOR['signature_line']}", verifier) == "MALFORMED_MESSAGE"


def test_the_layout_is_the_documented_one() -> None:
    """Origin, size and root in three lines, an empty line, one signature line."""
    lines = NOTE.split("\n")
    assert lines[:4] == [ORIGIN, "42", b64encode(ROOT).decode(), ""]
    assert lines[4].startswith(f"\u2014 {ORIGIN} ")
    assert lines[5:] == [""]


@given(origin=names, size=st.integers(0, 2**64), root=roots)
def test_a_checkpoint_survives_its_text(origin: str, size: int, root: bytes) -> None:
    """The text is read as it was written, whatever the origin, size and root."""
    checkpoint = Checkpoint(origin, size, root)
    assert Checkpoint.parse_text(checkpoint.to_text()) == checkpoint


@given(name=names, size=st.integers(0, 2**53), root=roots, key=st.binary(min_size=32, max_size=32))
def test_what_is_signed_verifies(name: str, size: int, root: bytes, key: bytes) -> None:
    """Signer and verifier agree for every name and key."""
    signer = NoteSigner(name, (SigningKey(Purpose.LOG, key),))
    assert signer.verifier.verify_checkpoint(signer.sign_checkpoint(size, root)) == Checkpoint(name, size, root)


@given(place=st.integers(0, len(NOTE) - 1), data=st.data())
def test_no_altered_character_goes_unnoticed(place: int, data: st.DataObject) -> None:
    """Whatever one character of a note is changed into, inserted as or dropped, the note is refused."""
    character = data.draw(st.characters(codec="utf-8").filter(lambda other: other != NOTE[place]))
    refusal(NOTE[:place] + character + NOTE[place + 1 :])
    refusal(NOTE[:place] + NOTE[place + 1 :])


@pytest.mark.parametrize(
    ("name", "key"), [(ORIGIN, OTHER_KEY), ("other.test/log", LOG_KEY), ("other.test/log", OTHER_KEY)]
)
def test_another_name_or_key_is_refused(name: str, key: SigningKey) -> None:
    """A checkpoint is its own log's; the same key under another name is another log."""
    assert refusal(NOTE, NoteVerifier(name, (key.verify_key,))) == "BAD_SIGNATURE"


def test_a_checkpoint_of_another_log_signed_by_this_key_is_refused() -> None:
    """The origin in the text must be the name of the key; else two logs under one key could be swapped."""
    text = Checkpoint("other.test/log", 42, ROOT).to_text()
    assert refusal(sign(text)) == "BAD_SIGNATURE"


def test_a_signature_under_the_right_key_hash_must_hold() -> None:
    """Copying name and key hash onto another text or signature does not help."""
    moved = Checkpoint(ORIGIN, 43, ROOT).to_text() + "\n" + SIGNATURE_LINE
    assert refusal(moved) == "BAD_SIGNATURE"
    blob = key_hash(ORIGIN, LOG_KEY.verify_key) + bytes(64)
    assert refusal(f"{TEXT}\n\n\u2014 {ORIGIN} {b64encode(blob).decode()}\n") == "BAD_SIGNATURE"
    assert refusal(f"{TEXT}\n\n\u2014 {ORIGIN} {b64encode(blob[:4]).decode()}\n") == "BAD_SIGNATURE"


def test_cosignatures_of_others_are_ignored() -> None:
    """Unknown keys before and after ours change nothing, as C2SP asks; alone they do not suffice."""
    other = sign(TEXT + "\n", "witness.test", OTHER_KEY).split("\n\n")[1]
    colliding = f"\u2014 {ORIGIN} {b64encode(b'----' + bytes(64)).decode()}\n"
    note = f"{TEXT}\n\n{other}{colliding}{SIGNATURE_LINE}{other}"
    assert SIGNER.verifier.verify_checkpoint(note) == Checkpoint(ORIGIN, 42, ROOT)
    assert refusal(f"{TEXT}\n\n{other}") == "BAD_SIGNATURE"
    assert refusal(f"{TEXT}\n\n{other}{colliding}") == "BAD_SIGNATURE"


def test_no_known_key_may_have_signed_wrongly() -> None:
    """With two keys either is enough, but a wrong line of one is not made good by a right line of the other."""
    both = NoteVerifier(ORIGIN, (LOG_KEY.verify_key, OTHER_KEY.verify_key))
    right, other = SIGNATURE_LINE, sign(TEXT + "\n", key=OTHER_KEY).split("\n\n")[1]
    wrong = f"\u2014 {ORIGIN} {b64encode(key_hash(ORIGIN, OTHER_KEY.verify_key) + bytes(64)).decode()}\n"
    for lines in (right, other, right + other, other + right):
        assert both.verify_checkpoint(f"{TEXT}\n\n{lines}").size == 42
    for lines in (wrong, right + wrong, wrong + right, right + other + wrong):
        assert refusal(f"{TEXT}\n\n{lines}", both) == "BAD_SIGNATURE"


ROOT_TEXT = b64encode(ROOT).decode()
BLOB = SIGNATURE_LINE.split(" ")[2].removesuffix("\n")
MALFORMED_TEXTS = {
    "two lines": f"{ORIGIN}\n42\n",
    "four lines": f"{ORIGIN}\n42\n{ROOT_TEXT}\nmore\n",
    "no final newline": f"{ORIGIN}\n42\n{ROOT_TEXT}",
    "no origin": f"\n42\n{ROOT_TEXT}\n",
    "leading zero": f"{ORIGIN}\n042\n{ROOT_TEXT}\n",
    "plus sign": f"{ORIGIN}\n+42\n{ROOT_TEXT}\n",
    "negative": f"{ORIGIN}\n-1\n{ROOT_TEXT}\n",
    "no size": f"{ORIGIN}\n\n{ROOT_TEXT}\n",
    "size with spaces": f"{ORIGIN}\n 42\n{ROOT_TEXT}\n",
    "size with separators": f"{ORIGIN}\n4_2\n{ROOT_TEXT}\n",
    "hexadecimal size": f"{ORIGIN}\n2a\n{ROOT_TEXT}\n",
    "size in digits of another alphabet": f"{ORIGIN}\n\u0664\u0662\n{ROOT_TEXT}\n",
    "superscript size": f"{ORIGIN}\n4\u00b2\n{ROOT_TEXT}\n",
    "size of 5000 digits": f"{ORIGIN}\n{'9' * 5000}\n{ROOT_TEXT}\n",
    "short root": f"{ORIGIN}\n42\n{b64encode(bytes(31)).decode()}\n",
    "long root": f"{ORIGIN}\n42\n{b64encode(bytes(33)).decode()}\n",
    "empty root": f"{ORIGIN}\n42\n\n",
    "root not base64": f"{ORIGIN}\n42\n{ROOT_TEXT[:-2]}!=\n",
    "root without padding": f"{ORIGIN}\n42\n{ROOT_TEXT[:-1]}\n",
    "root with idle bits set": f"{ORIGIN}\n42\n{ROOT_TEXT[:-2]}9=\n",
    "root in the alphabet for URLs": f"{ORIGIN}\n42\n{b64encode(bytes([255] * 32)).decode().replace('/', '_')}\n",
    "root with a space": f"{ORIGIN}\n42\n{ROOT_TEXT} \n",
    "carriage returns": f"{ORIGIN}\r\n42\r\n{ROOT_TEXT}\r\n",
    "an empty line more": f"{ORIGIN}\n42\n{ROOT_TEXT}\n\n",
    "an empty line first": f"\n{ORIGIN}\n42\n{ROOT_TEXT}\n",
    "a control character in the origin": f"{ORIGIN}\x00\n42\n{ROOT_TEXT}\n",
}


@pytest.mark.parametrize("text", MALFORMED_TEXTS.values(), ids=list(MALFORMED_TEXTS))
def test_a_malformed_checkpoint_is_refused_even_when_signed(text: str) -> None:
    """A checkpoint has one spelling; our own key's signature does not make another one acceptable."""
    assert refusal(sign(text)) in {"MALFORMED_MESSAGE", "BAD_SIGNATURE"}
    if "\0" not in text:
        with pytest.raises(ValueError, match=r"."):
            Checkpoint.parse_text(text)


def test_an_origin_must_be_printable() -> None:
    """A control character in the text is malformed, as C2SP says, before any signature is looked at."""
    signer = NoteSigner("a\x01b", (LOG_KEY,))
    assert refusal(signer.sign_checkpoint(1, ROOT), signer.verifier) == "MALFORMED_MESSAGE"


MALFORMED_NOTES = {
    "empty": "",
    "no signature": TEXT + "\n",
    "no signature but the empty line": TEXT + "\n\n",
    "no empty line": f"{TEXT}\n{SIGNATURE_LINE}",
    "no final newline": NOTE[:-1],
    "carriage returns": NOTE.replace("\n", "\r\n"),
    "carriage return at the end": NOTE[:-1] + "\r\n",
    "an empty line more before the signatures": f"{TEXT}\n\n\n{SIGNATURE_LINE}",
    "an empty line after the signatures": NOTE + "\n",
    "an empty line between signatures": f"{NOTE}\n{SIGNATURE_LINE}",
    "a space at the end": NOTE[:-1] + " \n",
    "two spaces": NOTE.replace(f"{ORIGIN} ", f"{ORIGIN}  "),
    "a hyphen for the dash": NOTE.replace("\u2014", "-"),
    "no name": NOTE.replace(f"\u2014 {ORIGIN} ", "\u2014  "),
    "no room for a key hash": f"{NOTE}\u2014 x AAAA\n",
    "a third word": NOTE[:-1] + " more\n",
    "another line among the signatures": NOTE + "hello\n",
    "signature not base64": NOTE.replace(BLOB, "!" + BLOB[1:]),
    "signature without padding": NOTE.replace(BLOB, BLOB.rstrip("=")),
    "signature with idle bits set": f"{TEXT}\n\n\u2014 x AB==\n{SIGNATURE_LINE}",
    "a control character in an unknown name": f"{NOTE}\u2014 x\x01y AAAAAA==\n",
    "half a surrogate pair": f"{NOTE}\u2014 \ud800 AAAAAA==\n",
    "half a surrogate pair in the text": sign("x\n" + NOTE).replace("x", "\ud800", 1),
    "giant": NOTE + f"\u2014 x {'A' * MAX_NOTE_BYTES}\n",
    "giant in bytes": NOTE + f"\u2014 {chr(0x1F600) * (MAX_NOTE_BYTES // 4)} AAAAAA==\n",
}


@pytest.mark.parametrize("note", MALFORMED_NOTES.values(), ids=list(MALFORMED_NOTES))
def test_a_malformed_note_is_refused(note: str) -> None:
    """Nothing but the canonical form is read, and nothing but our own error escapes."""
    assert refusal(note) == "MALFORMED_MESSAGE"


def test_half_a_surrogate_pair_in_the_origin_is_refused() -> None:
    """A string that no UTF-8 file can hold is malformed, not a crash, also where name and key hash fit."""
    assert refusal(NOTE.replace(ORIGIN, ORIGIN + "\ud800", 1)) == "MALFORMED_MESSAGE"


def test_the_longest_note_still_passes() -> None:
    """The limit is exact, in bytes."""
    filler = MAX_NOTE_BYTES - len(NOTE.encode()) - len("\u2014 x \n".encode())
    note = f"{NOTE}\u2014 x{'x' * (filler % 4)} {'A' * (filler // 4 * 4)}\n"
    assert len(note.encode()) == MAX_NOTE_BYTES
    assert SIGNER.verifier.verify_checkpoint(note).size == 42
    assert refusal(note.replace(" A", "x A", 1)) == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("purpose", [purpose for purpose in Purpose if purpose is not Purpose.LOG])
def test_checkpoints_are_signed_with_log_keys_only(purpose: Purpose) -> None:
    """Above all not with a witness's, whose cosignatures are signed without a prefix as well."""
    key = SigningKey(purpose, bytes(32))
    with pytest.raises(ValueError, match="not a log key"):
        NoteSigner(ORIGIN, (LOG_KEY, key))
    with pytest.raises(ValueError, match="not a log key"):
        NoteVerifier(ORIGIN, (key.verify_key,))
