"""Base64 with one spelling: what `parse_base64` reads, `base64_text` writes back letter by letter.

The decoder of the standard library lets bits pass that no encoder sets, so that one key or signature would have several
texts.
"""

from __future__ import annotations

import base64

__all__ = ["base64_text", "parse_base64"]


def base64_text(data: bytes) -> str:
    """The one spelling of `data`."""
    return base64.b64encode(data).decode("ascii")


def parse_base64(text: str) -> bytes:
    """The bytes that `text` spells; ValueError, which never quotes it, for any other spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError("base64 is malformed") from error
    if base64_text(data) != text:
        raise ValueError("base64 is not canonical")
    return data
