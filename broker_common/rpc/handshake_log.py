"""Lines about refused connections: the transport library says on standard error, in its own words, when a handshake fails.

Standard error becomes a pipe whose other end is read here: a line about a failed handshake becomes one of the operator log
with its reason, and every other line becomes one that quotes it. The library's last lines before it ends the process may be
lost; Python's own account of a crash does not pass through the pipe.

SECURITY: the library also writes what strangers send, such as the server name that they ask for, with any line break in it.
So nothing from the pipe reaches the log unquoted, and a reason is one of a list.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator

import structlog

from broker_common.logs import LogFormat, log_as

# As the library writes it: I1119 07:06:58.442698 7293 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL:
# error:100000c0:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE: ...
_FAILED = re.compile(
    rb"[IWEF]\d{4} [0-9:.]+ +\d+ ssl_transport_security\.cc:\d+\] "
    rb"Handshake failed with error [A-Z_]+(?:: error:[0-9a-f]+:[^:]*:[^:]*:([A-Z0-9_]+))?"
)
_OTHER = "HANDSHAKE_FAILED"
# Errors that strangers cause, by the library's names; everything else counts as `_OTHER`.
_REASONS = frozenset(
    {
        "BAD_SIGNATURE",
        "CERTIFICATE_VERIFY_FAILED",
        "DECODE_ERROR",
        "HTTPS_PROXY_REQUEST",
        "HTTP_REQUEST",
        "NO_COMMON_SIGNATURE_ALGORITHMS",
        "NO_SHARED_CIPHER",
        "NO_SHARED_GROUP",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV1_ALERT_UNKNOWN_CA",
        "UNEXPECTED_MESSAGE",
        "UNEXPECTED_RECORD",
        "UNKNOWN_PROTOCOL",
        "UNSUPPORTED_PROTOCOL",
        "WRONG_VERSION_NUMBER",
    }
)
_PIECE = 65_536
# The most characters of a quoted line.
_MOST_QUOTED = 1000


def reason_of(line: bytes) -> str | None:
    """Why a handshake failed, if that is what a line of the library says."""
    found = _FAILED.match(line)
    if found is None:
        return None
    reason = (found[1] or b"").decode("ascii")
    return reason if reason in _REASONS else _OTHER


@contextlib.contextmanager
def noting_refused_connections(form: LogFormat, refused: Callable[[str], object] = lambda _: None) -> Iterator[None]:
    """Log every refused connection of the block, and tell `refused` of it; the operator log is written in this form."""
    sys.stderr.flush()
    original = os.dup(2)
    read_end, write_end = os.pipe()
    os.dup2(write_end, 2)
    os.close(write_end)
    with os.fdopen(original, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False) as stream:
        faulthandler.enable(stream)
        # Our own lines need no sieve, and must not be lost in one.
        log_as(form, stream)
        reader = threading.Thread(target=_sieve, args=(read_end, refused), name="stderr", daemon=True)
        reader.start()
        try:
            yield
        finally:
            sys.stderr.flush()
            # The last writing end closes, so that the reader comes to its end.
            os.dup2(original, 2)
            reader.join()
            faulthandler.enable(2)
            log_as(form)
    os.close(original)


def _sieve(read_end: int, refused: Callable[[str], object]) -> None:
    log = structlog.get_logger()
    with os.fdopen(read_end, "rb", buffering=_PIECE) as lines:
        for line in lines:
            reason = reason_of(line)
            if reason is None:
                log.info("standard error", text=_printable(line))
            else:
                refused(reason)
                log.info("connection refused", reason=reason)


def _printable(line: bytes) -> str:
    text = line.rstrip(b"\n")[:_MOST_QUOTED].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "?" for character in text)
