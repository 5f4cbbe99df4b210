"""Errors: one closed table; the sentence comes from code and details alone, no matter who sent them."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_common.errors import (
    REASONS,
    BrokerError,
    ExitCode,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
    StateUnknownError,
    error_for,
    exit_code_of,
)
from broker_common.language import language

CODES = sorted(REASONS)
MAX_DETAIL_CHARACTERS = 500
FAMILIES: dict[type[BrokerError], ExitCode] = {
    InvalidRequestError: ExitCode.INVALID_REQUEST,
    RefusedError: ExitCode.REFUSED,
    PeerUnavailableError: ExitCode.PEER_UNAVAILABLE,
    InternalError: ExitCode.INTERNAL,
    StateUnknownError: ExitCode.INTERNAL,
}


# Details that are whole sentences.
SENTENCES = {
    ("STUDY_INVALID", "{problem}"),
    ("DICTIONARY_INVALID", "{problem}"),
    ("DICTIONARY_CHANGED", "{changes}"),
    ("RUN_INVALID", "{problem}"),
    ("SENSITIVITY_REFUSED", "{problem}"),
}


def placeholders(text: str) -> set[str]:
    """The details that a sentence uses."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_reason_is_complete() -> None:
    """A code in capitals, one of the five families, a sentence and a hint, with plain placeholders only."""
    for code in CODES:
        reason = REASONS[code]
        assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code)
        assert reason.family.exit_code == FAMILIES[reason.family], code
        # The text behind a colon is whole sentences.
        assert reason.text.endswith(".") or (code, reason.text.rpartition(": ")[2]) in SENTENCES, code
        assert reason.hint, code
        names = placeholders(reason.text) | placeholders(reason.hint)
        assert all(re.fullmatch(r"[a-z_0-9]+", name) for name in names), code


def test_every_error_can_be_made_from_the_wire() -> None:
    """With all details, and with none: the sentence then shows blanks instead of failing a second time."""
    for code in CODES:
        reason = REASONS[code]
        names = placeholders(reason.text) | placeholders(reason.hint)
        error = error_for(code, {name: f"<{name}>" for name in names})
        assert type(error) is reason.family, code
        assert error.exit_code == exit_code_of(code), code
        assert (error.exit_code == reason.family.exit_code) == (
            code not in {"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK"}
        ), code
        assert all(f"<{name}>" in error.text + error.hint for name in names), code
        bare = error_for(code, {})
        assert ("?" in bare.text.rstrip("?") + bare.hint) >= bool(names), code
        assert error.as_json() == {"error": {"code": code, "text": error.text, "hint": error.hint}}
        assert str(error) == f"{code}: {error.text}"


@given(
    code=st.sampled_from(CODES),
    details=st.dictionaries(
        st.sampled_from(["code", "self", "problem", "args", "details", "family", "text", "", "{", "0"]) | st.text(),
        st.text() | st.sampled_from(["{problem}", "{0}", "{", "%s", "{problem.__class__}"]),
    ),
)
def test_a_hostile_peer_cannot_break_the_sentence(code: str, details: dict[str, str]) -> None:
    """Details of any name and content are shown as they are, but for what a terminal would obey and what is endless.

    They are never formatted again, and nothing escapes.
    """
    error = error_for(code, details)
    assert error.code == code
    assert error.details.keys() == details.keys()
    for name, value in details.items():
        shown = error.details[name]
        assert len(shown) == min(len(value), MAX_DETAIL_CHARACTERS)
        assert shown.isprintable()
        assert all(now in {was, "?"} for was, now in zip(value, shown, strict=False))
        assert shown == value or not value.isprintable() or len(value) > MAX_DETAIL_CHARACTERS
    if "{problem}" in REASONS[code].text and "problem" in details:
        assert error.details["problem"] in error.text
    assert error.as_json()


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("caf\u00e9 \u4e2d \U0001f341 'x' {y} %s", "caf\u00e9 \u4e2d \U0001f341 'x' {y} %s"),
        ("\x1b[2J\x1b]0;title\x07", "?[2J?]0;title?"),
        ("fine\r\nrefused: everything", "fine??refused: everything"),
        ("\u202egnihtemos\u2066\u200b\ufeff", "?gnihtemos???"),
        ("\x00\x7f\x9b\u2028\ud800", "?????"),
        ("x" * 501, "x" * 500),
        ("\x1b" * 10**6, "?" * 500),
    ],
    ids=["harmless", "escape sequences", "new lines", "direction", "other controls", "long", "endless"],
)
def test_a_terminal_obeys_nothing_that_a_peer_sends(sent: str, shown: str) -> None:
    """Neither colours, titles, a second line that looks like ours, nor text that runs the other way, nor a flood."""
    error = error_for("INVALID_VALUE", {"name": "x", "problem": sent, "remedy": "y"})
    assert error.details["problem"] == shown
    assert error.text == f"x {shown}."
    assert error.text.isprintable()


@given(code=st.text().filter(lambda code: code not in REASONS))
def test_an_unknown_code_is_the_peers_fault(code: str) -> None:
    """It is said to be, cut and quoted."""
    error = error_for(code, {"problem": "x"})
    assert isinstance(error, PeerUnavailableError)
    assert error.code == "PEER_MISBEHAVED"
    assert error.details["problem"] == f"unknown error code {code[:40]!r}"
    assert error.text.isprintable()


def test_a_code_cannot_be_raised_as_another_family() -> None:
    """The table says whose fault it is, not the call."""
    with pytest.raises(TypeError, match="BUSY belongs to RefusedError, not InvalidRequestError"):
        InvalidRequestError("BUSY")
    with pytest.raises(KeyError):
        InvalidRequestError("NO_SUCH_CODE")


def test_details_become_text() -> None:
    """Numbers and strings travel alike."""
    error = RefusedError("SCALE_REFUSED", scale=7, scales="1 to 5")
    assert error.details == {"scale": "7", "scales": "1 to 5"}
    assert "scale 7" in error.text
    assert "1 to 5" in error.hint


def test_exactly_the_failures_of_our_own_state_stop_a_node() -> None:
    """No request can stop a node by provoking an error; what a peer reports is tests/unit/rpc/test_status.py's."""
    stopping = {code for code in CODES if REASONS[code].family(code).stops_node}
    assert stopping == {"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK", "STORE_FAILED", "STATE_UNKNOWN"}
    assert all(REASONS[code].family.exit_code == ExitCode.INTERNAL for code in stopping)
    # All of them are of the two families that become PEER_FAILED when a peer says them.
    assert {REASONS[code].family for code in stopping} == {InternalError, StateUnknownError}
    assert not PeerUnavailableError("PEER_FAILED").stops_node


def test_exit_codes_are_the_published_ones() -> None:
    """Scripts rely on them."""
    assert [(code.name, code.value) for code in ExitCode] == [
        ("OK", 0),
        ("AUDIT_FAILED", 1),
        ("USAGE", 2),
        ("INVALID_REQUEST", 3),
        ("REFUSED", 4),
        ("PEER_UNAVAILABLE", 5),
        ("INTERNAL", 6),
        ("STOPPED", 7),
    ]
    assert BrokerError.exit_code is ExitCode.INTERNAL


@given(st.text())
@example("Known names: {names}")
def test_a_sentence_does_nothing_to_a_terminal(quoted: str) -> None:
    """Details may quote what somebody else's file holds: no escape sequence, no new line, nothing that is no text."""
    error = InvalidRequestError("INVALID_VALUE", name=quoted, problem=quoted, remedy=quoted)
    assert (error.text + error.hint).isprintable()
    assert error.details["problem"] == quoted
    # A quoted text may be one of ours by chance; its French has spaces that do not break.
    assert "".join(error.said(language("fr"))).replace("\xa0", " ").isprintable()
