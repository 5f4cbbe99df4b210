"""Private keys in files, and the bytes of them that nobody else may hold."""

from __future__ import annotations

import base64
import re

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

PRIVATE_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----\n.+?-----END PRIVATE KEY-----\n", re.DOTALL)
# A PKCS #8 key on P-256 (RFC 5208, RFC 5915): the private number is bytes 36 to 68, so in the first two lines of 48 bytes.
# The public key follows, which is in the certificate, too.
_PRIVATE_LINES = slice(1, 3)


def key_forms(content: bytes) -> list[bytes]:
    """The raw bytes of every key in a key file; of a PEM key also the text that it is wrapped in."""
    blocks = PRIVATE_BLOCK.findall(content)
    if not blocks:
        return [base64.b64decode(line.split()[-1], validate=True) for line in content.splitlines()]
    forms = []
    for block in blocks:
        key = serialization.load_pem_private_key(block, password=None)
        assert isinstance(key, EllipticCurvePrivateKey)
        forms += [key.private_numbers().private_value.to_bytes(32, "big"), *block.splitlines()[_PRIVATE_LINES]]
    return forms
