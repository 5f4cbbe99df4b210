"""The scanner: shapes of tokens, and limits that hold before any grammar runs."""

from __future__ import annotations

import pytest

from broker_common.query.scanner import MAX_NESTING, MAX_TEXT_CHARACTERS, MAX_TOKENS, Kind, ScanError, Token, scan


def test_tokens_are_cut_as_written() -> None:
    """Words are folded to lower case, strings lose their quotes, signs are kept."""
    assert scan("AGE>=-5 and Sex<>'it''s'") == [
        Token(Kind.WORD, "age"),
        Token(Kind.SIGN, ">="),
        Token(Kind.NUMBER, "-5"),
        Token(Kind.WORD, "and"),
        Token(Kind.WORD, "sex"),
        Token(Kind.SIGN, "<>"),
        Token(Kind.STRING, "it's"),
    ]


@pytest.mark.parametrize(
    "text",
    ["x" * (MAX_TEXT_CHARACTERS + 1), ", " * (MAX_TOKENS // 2) + ",," * (MAX_TOKENS // 2), "(" * (MAX_NESTING + 1)],
)
def test_each_limit_is_said_to_be_one(text: str) -> None:
    """Over a limit is another error than wrong."""
    with pytest.raises(ScanError) as caught:
        scan(text)
    assert caught.value.too_large


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("(" * MAX_NESTING + ")" * MAX_NESTING, True),
        ("not " * MAX_NESTING + "a", True),
        ("not " * (MAX_NESTING + 1) + "a", False),
        ("not (" * (MAX_NESTING // 2) + "a" + ")" * (MAX_NESTING // 2), True),
        ("not (" * (MAX_NESTING // 2) + "not a" + ")" * (MAX_NESTING // 2), False),
        ("(not a) and " * 50 + "a", True),
        ("not a and " * 50 + "a", True),
    ],
)
def test_nesting_counts_open_parentheses_and_nots(text: str, *, admitted: bool) -> None:
    """Depth is what a recursive reader would need, however parentheses and nots are mixed."""
    if admitted:
        assert scan(text)
    else:
        with pytest.raises(ScanError):
            scan(text)


@pytest.mark.parametrize(
    "character", [chr(code) for code in range(0x20, 0x7F) if chr(code) not in " ()'\"" and not chr(code).isalnum()]
)
def test_every_other_printable_character_is_known_or_refused(character: str) -> None:
    """No character of the keyboard slips through unless it has a meaning."""
    text = f"age {character} 1"
    if character in "=<>,_":
        scan(text)
    else:
        with pytest.raises(ScanError):
            scan(text)
