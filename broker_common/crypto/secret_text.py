"""The text form of keys that are 32 plain bytes: one line in a key file, naming what the key is for."""

from __future__ import annotations

from broker_common.crypto.base64_text import base64_text, parse_base64

__all__ = ["parse_secret", "secret_text"]


def secret_text(purpose: str, key: bytes) -> str:
    """SECURITY: the key itself, for a key file readable by its owner alone."""
    return f"secret {purpose} {base64_text(key)}"


def parse_secret(text: str, purpose: str) -> bytes:
    """Read a key file's text; ValueError when it is not a secret for this purpose."""
    words = text.strip().split(" ")
    if len(words) != 3 or words[:2] != ["secret", purpose]:  # noqa: PLR2004 - kind, purpose, key
        raise ValueError(f"not one line of the form 'secret {purpose} BASE64'")
    return parse_base64(words[2])
