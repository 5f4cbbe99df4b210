"""Refused connections leave a line of the operator log, and nothing else of standard error is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fakes.patience import PATIENCE_SECONDS

from broker_common.rpc.handshake_log import reason_of

# As the transport library writes them.
FAILED = (
    b"I1119 07:06:58.442698    7293 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
    b"error:100000c0:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context\n"
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (FAILED, "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        (FAILED.replace(b": error:", b"\n"), "HANDSHAKE_FAILED"),
        (FAILED.replace(b"PEER_DID_NOT_RETURN_A_CERTIFICATE", b"SOMETHING_NEW"), "HANDSHAKE_FAILED"),
        # A stranger's request is not the library's finding.
        (b"E1119 10:20:15.6 8302 ssl_transport_security.cc:3238] No match found for server name: " + FAILED, None),
        (b"timestamp=1 level=info event=refused\n", None),
        (b"", None),
    ],
)
def test_the_library_s_lines_are_understood(line: bytes, reason: str | None) -> None:
    """They are known by their reason; every other line is somebody else's."""
    assert reason_of(line) == reason


PROGRAM = """
import os, sys
from broker_common.rpc.handshake_log import noting_refused_connections
reasons = []
with noting_refused_connections("json", reasons.append):
    os.write(2, sys.argv[1].encode())
    os.write(2, b"something else\\n")
print(reasons)
os.write(2, b"afterwards\\n")
"""


def test_a_refused_connection_is_one_line_and_the_rest_stays() -> None:
    """The library's words become one line with the reason; others are quoted; afterwards standard error is as before."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, FAILED.decode()],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.strip() == "['PEER_DID_NOT_RETURN_A_CERTIFICATE']"
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert '"event": "connection refused"' in lines[0]
    assert '"reason": "PEER_DID_NOT_RETURN_A_CERTIFICATE"' in lines[0]
    assert '"event": "standard error"' in lines[1]
    assert '"text": "something else"' in lines[1]
    assert lines[2] == "afterwards"
