"""Secrets show nothing: one table of every secret type, formatted, logged, pickled and copied."""

from __future__ import annotations

import copy
import io
import pickle
from base64 import b64encode
from collections.abc import Callable

import msgspec
import pytest
import structlog

from broker_common.crypto.certificates import TlsCredentials
from broker_common.crypto.commitments import SlotSecret
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.secret import Secret, parse_secret, secret_text
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.opening import Opening
from broker_common.values import ExactCounts
from health_node.query.questions import KeptQuestion

MARK = b"\xc5ClassifiedQ7x\xc5"
RAW = (MARK * 10)[:32]
LONG = (MARK * 10)[:96]
COUNT = 7_318_294_651

SECRETS: dict[str, object] = {
    "signing key": SigningKey(Purpose.TICKET, RAW),
    "opening key": UnsealingKey(LONG),
    "linkage key": LinkageKey(RAW),
    "linkage chain": LinkageChain([LinkageKey(bytes(32)), LinkageKey(RAW)]),
    "sampling key": SamplingKey(RAW),
    "slot secret": SlotSecret(RAW),
    "exact count": ExactCounts([COUNT]),
    "TLS credentials": TlsCredentials(MARK, MARK),
    "opening": Opening(
        ticket="00" * 32,
        slot=0,
        secret=RAW.hex(),
        counts=(COUNT,),
        load="load",
    ),
    "kept question": KeptQuestion("ab" * 32, MARK, MARK, MARK, MARK, "load", "secret 00"),
    "noise stream": NoiseStream(RAW),
}
# Every way the content could be written.
SPELLINGS = (
    "ClassifiedQ7",
    MARK.hex(),
    repr(MARK)[2:-1],
    b64encode(RAW).decode()[:12],
    str(list(MARK))[1:-1],
    str(COUNT),
    str(COUNT % 2**32),
    f"{COUNT:x}",
)


def shows_content(text: str) -> bool:
    """Whether any spelling of the content stands in the text."""
    return any(spelling.lower() in text.lower() for spelling in SPELLINGS)


def logged(render: Callable[[], structlog.typing.Processor], secret: object) -> str:
    """A log line about the secret: as a value, inside a list, and in the event's own text."""
    lines = io.StringIO()
    logger = structlog.wrap_logger(structlog.PrintLogger(lines), processors=[render()])
    logger.info("started", key=secret, keys=[secret, {"key": secret}])
    logger.info(f"started with {secret}")  # noqa: G004 - one of the ways
    return lines.getvalue()


every_secret = pytest.mark.parametrize("secret", SECRETS.values(), ids=list(SECRETS))


@every_secret
def test_formatting_a_secret_shows_nothing(secret: object) -> None:
    """Neither repr, str, f-strings, %-formatting nor a container's text show content."""
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{secret!s}", "%s %r" % (secret, secret)):  # noqa: UP031 - one of the ways
        assert not shows_content(text)
    assert not shows_content(f"{[secret]} {({'key': secret},)}")


@every_secret
@pytest.mark.parametrize(
    "render",
    [structlog.processors.JSONRenderer, structlog.processors.KeyValueRenderer, structlog.dev.ConsoleRenderer],
)
def test_logging_a_secret_shows_nothing(secret: object, render: Callable[[], structlog.typing.Processor]) -> None:
    """A log line that was given a key by mistake is harmless."""
    text = logged(render, secret)
    assert "started" in text
    assert not shows_content(text)


@every_secret
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_a_secret_raises(secret: object, protocol: int) -> None:
    """No protocol of pickle gets at the content, so none reaches a cache or another process."""
    with pytest.raises(TypeError, match="serialised") as caught:
        pickle.dumps(secret, protocol)
    assert not shows_content(str(caught.value))


@every_secret
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copying_a_secret_raises(secret: object, duplicate: Callable[[object], object]) -> None:
    """A secret has one place in memory per holder."""
    with pytest.raises(TypeError, match="serialised"):
        duplicate(secret)


@pytest.mark.parametrize(
    "name", ["signing key", "opening key", "linkage key", "linkage chain", "sampling key", "slot secret", "exact count"]
)
def test_no_wire_encoder_knows_a_secret(name: str) -> None:
    """The JSON encoder of this project cannot be handed a key or a count."""
    with pytest.raises(TypeError, match="unsupported"):
        msgspec.json.encode(SECRETS[name])


def test_the_table_names_every_kind_of_key() -> None:
    """A new kind of secret key has to be added to the table above."""
    kinds = {type(secret) for secret in SECRETS.values()}
    assert set(Secret.__subclasses__()) <= kinds


def test_shows_content_notices_content() -> None:
    """The detector used above does detect: a plain dataclass text would be caught."""
    assert shows_content(repr((MARK,)))
    assert shows_content(f"{MARK.hex()}")
    assert shows_content(f"count={COUNT}")


def test_secrets_compare_by_value_and_kind() -> None:
    """Equal keys are equal and hash alike; a key of another kind with the same bytes is another key."""
    assert LinkageKey(RAW) == LinkageKey(RAW)
    assert hash(LinkageKey(RAW)) == hash(LinkageKey(RAW))
    assert LinkageKey(RAW) != LinkageKey(bytes(32))
    assert LinkageKey(RAW) != SamplingKey(RAW)
    assert LinkageKey(RAW) != RAW
    assert LinkageKey(RAW).expose() == RAW


def test_key_ids_tell_keys_apart() -> None:
    """A key's public name depends on its kind and its bytes, and holds none of them."""
    names = [LinkageKey(RAW).key_id, SamplingKey(RAW).key_id, LinkageKey(bytes(32)).key_id]
    assert len(set(names)) == 3
    assert not any(shows_content(name) for name in names)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    """No short key by accident; the message names the kind, not the bytes."""
    with pytest.raises(ValueError, match="LinkageKey needs exactly 32 bytes"):
        LinkageKey(bytes(size))
    with pytest.raises(ValueError, match="SamplingKey needs exactly 32 bytes"):
        SamplingKey(bytes(size))
    with pytest.raises(ValueError, match="SlotSecret needs exactly 32 bytes"):
        SlotSecret(bytes(size))


def test_a_secret_survives_its_text_form() -> None:
    """A key file gives back the key that was written."""
    assert parse_secret(secret_text("linkage", RAW) + "\n", "linkage") == RAW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "linkage",
        secret_text("sampling", RAW),
        secret_text("linkage", RAW) + " x",
        "public linkage AAAA",
        "secret linkage !AAA",
        "secret linkage AAA",
    ],
)
def test_a_malformed_secret_text_is_refused(text: str) -> None:
    """A sampling key file cannot be used as a linkage key, nor half a line."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_secret(text, "linkage")
    assert not shows_content(str(caught.value))
