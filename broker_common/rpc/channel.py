"""Channels to a peer: mutual TLS, the peer's own certificate as the only trust, its role pinned by name."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from grpc import aio

from broker_common.crypto.certificates import PeerCertificate, Role, TlsCredentials, certificate_expiry_ms, server_name
from broker_common.errors import InvalidRequestError
from broker_common.values import Clock

# A frame is 256 KiB and the largest message we send.
MAX_MESSAGE_BYTES = 1024 * 1024
# A peer that is there but does not answer, frozen or cut off, is asked this often, and given up after the timeout.
KEEPALIVE_MS = 20_000
KEEPALIVE_TIMEOUT_MS = 10_000
# Initial metadata that admit a stream's header: the rest may follow.
PROCEED = ("tripartite-proceed", "yes")


@dataclass(frozen=True, slots=True)
class Peer:
    """Where another node listens and which certificates it may show."""

    role: Role
    address: str
    certificates: tuple[PeerCertificate, ...]


def open_channel(peer: Peer, own: TlsCredentials, clock: Clock) -> aio.Channel:
    """A channel that only the holder of a pinned certificate's key can answer.

    Raises:
        InvalidRequestError: CERTIFICATE_EXPIRED, said here because a failed handshake says nothing.
    """
    now_ms = clock()
    for subject, expiry_ms in (
        ("client", certificate_expiry_ms(own.certificate)),
        (f"{peer.role} node", max((each.expiry_ms for each in peer.certificates), default=0)),
    ):
        if expiry_ms <= now_ms:
            raise InvalidRequestError("CERTIFICATE_EXPIRED", subject=subject)
    pinned = b"".join(each.pem for each in peer.certificates)
    credentials = grpc.ssl_channel_credentials(pinned, own.private_key, own.certificate)
    options = [
        ("grpc.ssl_target_name_override", server_name(peer.role)),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # A peer that was restarted is found again within a second, not after minutes of backoff.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # Loopback and private links: never through a proxy of the environment.
        ("grpc.enable_http_proxy", 0),
    ]
    return aio.secure_channel(peer.address, credentials, options)
