"""Signatures: one key, one purpose; nothing that was signed for one purpose can serve another."""

from __future__ import annotations

from base64 import b64encode
from itertools import permutations

import pytest
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError

RAW = bytes(range(32))
PURPOSES = list(Purpose)


def refusal(key: VerifyKey, message: bytes, signature: bytes) -> InvalidRequestError:
    """The error that verifying raises."""
    with pytest.raises(InvalidRequestError) as caught:
        key.verify_signature(message, signature)
    return caught.value


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_signature_verifies_under_its_own_key(purpose: Purpose) -> None:
    """A key's public half accepts its signatures."""
    key = SigningKey.generate(purpose, SeededRandomness())
    key.verify_key.verify_signature(b"message", key.sign(b"message"))


def test_a_signature_for_one_purpose_never_serves_another() -> None:
    """Even where one raw key was registered twice, a ticket's signature is no manifest's, answer's or policy's."""
    # C2SP fixes every signed byte of a log's and a witness's key; tests/unit/tlog/test_cosignature.py keeps those apart.
    pairs = [pair for pair in permutations(PURPOSES, 2) if set(pair) != {Purpose.LOG, Purpose.WITNESS}]
    assert len(pairs) > 100
    for made_for, used_as in pairs:
        signature = SigningKey(made_for, RAW).sign(b"message")
        error = refusal(SigningKey(used_as, RAW).verify_key, b"message", signature)
        assert (error.code, error.details) == ("BAD_SIGNATURE", {"subject": used_as.value}), made_for


def test_prefixes_are_distinct_and_none_begins_another() -> None:
    """No message can carry the prefix of a second purpose in its own first bytes; log and witness keys sign notes only."""
    prefixes = [purpose.prefix for purpose in Purpose if purpose not in {Purpose.LOG, Purpose.WITNESS}]
    assert all(prefix.endswith(b"\0") and prefix.count(b"\0") == 1 for prefix in prefixes)
    assert not any(one.startswith(other) for one, other in permutations(prefixes, 2))
    assert Purpose.LOG.prefix == Purpose.WITNESS.prefix == b""


def test_another_key_of_the_same_purpose_is_refused() -> None:
    """A signature binds to one key, not to a purpose."""
    other = SigningKey.generate(Purpose.TICKET, SeededRandomness("other"))
    assert refusal(other.verify_key, b"m", SigningKey(Purpose.TICKET, RAW).sign(b"m")).code == "BAD_SIGNATURE"


def test_a_signature_survives_its_text_form() -> None:
    """Canonical base64, as documents and log entries carry it."""
    key = SigningKey(Purpose.OPERATOR, RAW)
    text = key.sign_text(b"message")
    assert text == b64encode(key.sign(b"message")).decode()
    key.verify_key.verify_text(b"message", text)


def test_a_signature_has_one_text_form() -> None:
    """Texts that decode to the very same bytes do not hold, nor does what decodes to nothing; all with one code."""
    key = SigningKey(Purpose.OPERATOR, RAW)
    text = key.sign_text(b"message")
    spellings = (f"{text}\n", f" {text}", text.rstrip("="), text[:-3] + chr(ord(text[-3]) + 1) + "==", f"{text}====")
    for other in (*spellings, "", "no base64", "\u00e9" * 88, key.sign_text(b"another")):
        with pytest.raises(InvalidRequestError) as caught:
            key.verify_key.verify_text(b"message", other)
        assert (caught.value.code, caught.value.details) == ("BAD_SIGNATURE", {"subject": "operator"})


@given(message=st.binary(max_size=60), bit=st.integers(0, 511))
def test_a_flipped_bit_of_the_signature_is_refused(message: bytes, bit: int) -> None:
    """No bit of a signature is idle."""
    key = SigningKey(Purpose.TICKET, RAW)
    signature = bytearray(key.sign(message))
    signature[bit // 8] ^= 1 << bit % 8
    assert refusal(key.verify_key, message, bytes(signature)).code == "BAD_SIGNATURE"


@given(message=st.binary(min_size=1, max_size=60), data=st.data())
def test_an_altered_message_is_refused(message: bytes, data: st.DataObject) -> None:
    """A flipped bit, a cut and an addition are all noticed."""
    key = SigningKey(Purpose.MANIFEST, RAW)
    signature = key.sign(message)
    place = data.draw(st.integers(0, len(message) - 1))
    flipped = message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :]
    for altered in (flipped, message[:-1], message + b"\0"):
        assert refusal(key.verify_key, altered, signature).code == "BAD_SIGNATURE"


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(65), b"\xff" * 64])
def test_a_signature_of_any_form_is_refused_with_the_same_code(signature: bytes) -> None:
    """Malformed signatures are refused like wrong ones; nothing else escapes."""
    assert refusal(SigningKey(Purpose.ANSWER, RAW).verify_key, b"m", signature).code == "BAD_SIGNATURE"


def test_a_public_key_that_is_no_point_refuses_instead_of_failing() -> None:
    """A registered key of nonsense bytes verifies nothing."""
    assert refusal(VerifyKey(Purpose.TICKET, b"\xff" * 32), b"m", bytes(64)).code == "BAD_SIGNATURE"


@pytest.mark.parametrize("purpose", PURPOSES)
def test_keys_survive_their_text_form(purpose: Purpose) -> None:
    """A key file gives back the key that was written, with or without a final newline."""
    key = SigningKey(purpose, RAW)
    assert SigningKey.parse_text(key.to_text() + "\n", purpose) == key
    assert VerifyKey.parse_text(key.verify_key.to_text() + "\n", purpose) == key.verify_key
    assert key.key_id == key.verify_key.key_id


def malformed(kind: str) -> list[str]:
    """Texts that are no ticket key of this kind."""
    key = b64encode(RAW).decode()
    return [
        "",
        key,
        f"{kind} ticket",
        f"{kind} ticket {key} {key}",
        f"{kind}  ticket {key}",
        f"{kind} policy {key}",
        f"ed25519 ticket {key}",
        f"{kind} ticket {key[:-1]}",
        f"{kind} ticket {key[:-5]}=",
        f"{kind} ticket !{key}",
        f"{kind} ticket {b64encode(bytes(31)).decode()}",
        f"{kind} ticket {b64encode(bytes(33)).decode()}",
    ]


@pytest.mark.parametrize("text", malformed("ed25519-private") + malformed("ed25519-public"))
def test_a_malformed_key_text_is_refused_without_quoting_it(text: str) -> None:
    """Half a key, a key for another purpose or a public key in a private file: refused, and no key in the message."""
    for parse in (SigningKey.parse_text, VerifyKey.parse_text):
        with pytest.raises(ValueError, match=r".") as caught:
            parse(text, Purpose.TICKET)
        assert b64encode(RAW).decode()[:8] not in str(caught.value)


def test_a_public_key_file_does_not_pass_for_a_private_one() -> None:
    """An operator who mixes up two key files is told, rather than signing with a public key as secret."""
    key = SigningKey(Purpose.TICKET, RAW)
    with pytest.raises(ValueError, match="ed25519-private"):
        SigningKey.parse_text(key.verify_key.to_text(), Purpose.TICKET)
    with pytest.raises(ValueError, match="ed25519-public"):
        VerifyKey.parse_text(key.to_text(), Purpose.TICKET)


def test_key_ids_differ_by_purpose_and_by_key() -> None:
    """One raw key registered for two purposes has two names."""
    names = {SigningKey(purpose, RAW).key_id for purpose in Purpose}
    assert len(names) == len(PURPOSES)
    assert SigningKey(Purpose.TICKET, bytes(32)).key_id not in names


def test_equality_is_by_purpose_and_key() -> None:
    """Keys compare by value within a purpose, and equal keys hash alike."""
    assert SigningKey(Purpose.TICKET, RAW) == SigningKey(Purpose.TICKET, RAW)
    assert len({SigningKey(Purpose.TICKET, RAW), SigningKey(Purpose.TICKET, RAW)}) == 1
    assert SigningKey(Purpose.TICKET, RAW) != SigningKey(Purpose.POLICY, RAW)
    assert SigningKey(Purpose.TICKET, RAW) != SigningKey(Purpose.TICKET, bytes(32))
    assert SigningKey(Purpose.TICKET, RAW) != RAW


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_private_key_of_another_length_is_refused(size: int) -> None:
    """A truncated key file never makes a weaker key."""
    with pytest.raises(ValueError, match="exactly 32 bytes"):
        SigningKey(Purpose.LOG, bytes(size))


def test_answer_key_signs_quotes_under_their_own_prefix() -> None:
    """Its signature of a quote is no answer's, and its signature of an answer no quote's."""
    key = SigningKey(Purpose.ANSWER, RAW)
    quote, answer = key.sign(b"m", purpose=Purpose.QUOTE), key.sign(b"m")
    key.verify_key.verify_signature(b"m", quote, purpose=Purpose.QUOTE)
    with pytest.raises(InvalidRequestError, match="BAD_SIGNATURE"):
        key.verify_key.verify_signature(b"m", answer, purpose=Purpose.QUOTE)
    with pytest.raises(InvalidRequestError, match="BAD_SIGNATURE"):
        key.verify_key.verify_signature(b"m", quote)


@pytest.mark.parametrize("purpose", [purpose for purpose in Purpose if purpose not in {Purpose.ANSWER, Purpose.QUOTE}])
def test_no_other_key_signs_quotes(purpose: Purpose) -> None:
    """A key that serves one purpose more than its card says would lend its signature to another purpose."""
    key = SigningKey(purpose, RAW)
    with pytest.raises(ValueError, match="signs nothing for quote"):
        key.sign(b"m", purpose=Purpose.QUOTE)
    with pytest.raises(ValueError, match="signs nothing for quote"):
        key.verify_key.verify_signature(b"m", bytes(64), purpose=Purpose.QUOTE)
