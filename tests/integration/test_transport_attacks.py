"""Connections that are not mutual TLS 1.3 between pinned certificates get nowhere, and say so where they can."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from fakes.clock import FakeClock
from fakes.forged import forge, subject_of, twin
from fakes.patience import PATIENCE_SECONDS
from fakes.world import CENSUS, HEALTH, OTHER, OTHER_HEALTH, OWNER, World, rows
from google.protobuf.descriptor import MethodDescriptor
from grpc import aio
from grpc_health.v1 import health_pb2
from integration.loopback import Loopback, call, hand_over, raw_channel, registered, serving
from tripartite.v1 import census_service_pb2, census_service_pb2_grpc, health_service_pb2, inbox_service_pb2

from broker_common.crypto.certificates import (
    Identity,
    Role,
    TlsCredentials,
    make_certificate,
    server_name,
)
from broker_common.errors import InvalidRequestError, PeerUnavailableError
from broker_common.rpc.callers import by_fingerprint, verify_caller
from broker_common.rpc.channel import MAX_MESSAGE_BYTES, Peer, open_channel
from broker_common.rpc.status import calling
from broker_common.storage.clock import system_clock

DAY_MS = 86_400_000
ROLES: tuple[Role, ...] = ("census", "health", "researcher")
CENSUS_RPCS = census_service_pb2.DESCRIPTOR.services_by_name["CensusService"].methods_by_name
HEALTH_RPCS = health_service_pb2.DESCRIPTOR.services_by_name["HealthService"].methods_by_name
INBOX_RPCS = inbox_service_pb2.DESCRIPTOR.services_by_name["InboxService"].methods_by_name
PROBE_RPCS = health_pb2.DESCRIPTOR.services_by_name["Health"].methods_by_name
SERVED_BY = {"census": CENSUS_RPCS, "health": HEALTH_RPCS, "researcher": INBOX_RPCS}
# Everything that the node of a role answers.
ALL_RPCS: dict[Role, list[MethodDescriptor]] = {
    role: [cast("MethodDescriptor", method) for method in (*SERVED_BY[role].values(), *PROBE_RPCS.values())]
    for role in ROLES
}


def expired(identity: Identity) -> TlsCredentials:
    """A certificate whose time is over."""
    return make_certificate(identity, now_ms=system_clock() - 3 * DAY_MS, days=1)


async def code_over(channel: aio.Channel) -> str:
    """Code that a caller of the policy hears over this channel."""
    async with channel:
        return await call(channel, CENSUS_RPCS["GetPolicy"])


# --- clients ---------------------------------------------------------------------------------------------------------


async def test_registered_client_is_served(loopback: Loopback) -> None:
    """The refusals below differ from this in one place each."""
    assert await code_over(raw_channel(loopback.peers["census"], loopback.tls[OWNER])) == "OK"


async def test_client_without_certificate_is_refused(loopback: Loopback) -> None:
    """Mutual TLS is mutual: nobody is anonymous."""
    assert await code_over(raw_channel(loopback.peers["census"], None)) == "PEER_UNAVAILABLE"


@pytest.mark.parametrize("identity", [CENSUS, HEALTH, OWNER])
async def test_certificate_of_ones_own_making_is_refused(loopback: Loopback, identity: Identity) -> None:
    """A certificate says who it claims to be; only those that were registered are believed."""
    forged = make_certificate(identity, now_ms=system_clock(), days=2)
    assert await code_over(raw_channel(loopback.peers["census"], forged)) == "PEER_UNAVAILABLE"


Forger = Callable[[TlsCredentials, TlsCredentials, Identity], TlsCredentials]


def with_chain(issuer: TlsCredentials, claimed: Identity) -> TlsCredentials:
    """A forged certificate that brings the certificate of its issuer along."""
    forged = forge(claimed, issuer=issuer)
    return TlsCredentials(forged.certificate + issuer.certificate, forged.private_key)


# Certificates that the holder of a registered one can make, given its own credentials, the victim's and whom it wants to be.
FORGERS: dict[str, Forger] = {
    "a fresh key": lambda issuer, _, claimed: forge(claimed, issuer=issuer),
    "with its chain": lambda issuer, _, claimed: with_chain(issuer, claimed),
    "under the victim's subject": lambda issuer, victim, claimed: forge(
        claimed, issuer=issuer, subject=subject_of(victim)
    ),
    "an authority": lambda issuer, _, claimed: forge(claimed, issuer=issuer, authority=True),
    "no word on authority": lambda issuer, _, claimed: forge(claimed, issuer=issuer, authority=None),
}


@pytest.mark.parametrize("forger", FORGERS)
@pytest.mark.parametrize("victim", [HEALTH, OWNER, CENSUS], ids=lambda identity: str(identity.role))
async def test_registered_researcher_vouches_for_nobody_else(loopback: Loopback, victim: Identity, forger: str) -> None:
    """The holder of a registered key signs itself another identity: TLS lets it pass, no RPC of any node does."""
    world, issuer = loopback.world, loopback.tls[OTHER]
    constraints = x509.load_pem_x509_certificate(issuer.certificate).extensions.get_extension_for_class(
        x509.BasicConstraints
    )
    assert not constraints.value.ca
    forged = FORGERS[forger](issuer, loopback.tls[victim], victim)
    before = world.entries(), world.health_entries(), loopback.answers.all(), world.census.slots._next
    for role, rpcs in ALL_RPCS.items():
        async with raw_channel(loopback.peers[role], forged) as channel:
            for method in rpcs:
                # The typed refusal is the node's: it is heard only when the handshake has passed.
                assert await call(channel, method) == "INSECURE_TRANSPORT", method.full_name
    assert (world.entries(), world.health_entries(), loopback.answers.all(), world.census.slots._next) == before
    assert rows(world.census_folder / "journal.db", "pending") == []


@pytest.mark.parametrize("same_key", [False, True])
@pytest.mark.parametrize("victim", [HEALTH, OWNER, CENSUS], ids=lambda identity: str(identity.role))
async def test_registered_key_under_another_name_is_refused(
    loopback: Loopback, victim: Identity, *, same_key: bool
) -> None:
    """A second certificate in a registered party's own name, for another identity, does not replace the first."""
    own = loopback.tls[OTHER]
    again = forge(victim, issuer=own, key_of=own if same_key else None, subject=subject_of(own))
    for peer in loopback.peers.values():
        # It names itself as its issuer, so that TLS itself sees that it is not the one that it knows.
        assert await code_over(raw_channel(peer, again)) == "PEER_UNAVAILABLE"


async def test_forged_health_node_hands_over_no_sample(loopback: Loopback) -> None:
    """A perfect sample over a connection that a researcher's key vouches for: nothing is charged."""
    world = loopback.world
    forged = forge(HEALTH, issuer=loopback.tls[OTHER])
    messages = world.messages(world.sample(world.order()))
    with world.unchanged():
        async with raw_channel(loopback.peers["census"], forged) as channel:
            # A client that writes while being refused may hear of a broken stream instead.
            with pytest.raises((InvalidRequestError, PeerUnavailableError, asyncio.InvalidStateError)) as caught:
                await hand_over(channel, messages)
    if isinstance(caught.value, InvalidRequestError):
        assert caught.value.code == "INSECURE_TRANSPORT"
    async with loopback.channel(HEALTH, "census") as channel:
        assert await hand_over(channel, messages) == ["charged", "released"]


@pytest.mark.parametrize("issuer", [HEALTH, CENSUS], ids=lambda identity: str(identity.role))
async def test_agency_vouches_for_no_researcher(loopback: Loopback, issuer: Identity) -> None:
    """Neither agency can ask in a researcher's name, though it is trusted for its own."""
    forged = forge(OWNER, issuer=loopback.tls[issuer])
    for role, rpcs in ALL_RPCS.items():
        async with raw_channel(loopback.peers[role], forged) as channel:
            for method in rpcs:
                assert await call(channel, method) == "INSECURE_TRANSPORT", method.full_name


async def test_peers_with_equal_subjects_are_refused_at_start(loopback: Loopback) -> None:
    """TLS would see one of them only: two researchers who share a key would keep each other out."""
    equal = twin(loopback.tls[OWNER], OTHER)
    for parties in ((loopback.tls[OWNER], equal), (equal, loopback.tls[OWNER])):
        with pytest.raises(InvalidRequestError) as caught:
            async with serving("census", loopback.tls[CENSUS], registered(*parties), serve_nothing):
                pass
        assert caught.value.code == "CONFIG_INVALID"
        assert {OTHER.uri, OWNER.uri} <= set(caught.value.details["problem"].split())
    assert len(by_fingerprint(registered(loopback.tls[HEALTH], loopback.tls[HEALTH]))) == 1


async def test_two_health_agencies_send_each_its_own_samples(loopback: Loopback) -> None:
    """Both are recognised, each by its certificate; a sample that the other one signed is refused."""
    world = loopback.world
    own, other = world.secrets.manifest, world.secrets.other_manifest
    for identity, key, wrong in ((HEALTH, own, other), (OTHER_HEALTH, other, own)):
        order = world.order()
        async with loopback.channel(identity, "census") as channel:
            with world.unchanged(), pytest.raises(InvalidRequestError) as caught:
                await hand_over(channel, world.messages(world.sample(order), wrong))
            assert caught.value.code == "UNKNOWN_KEY"
            heard = await hand_over(channel, world.messages(world.sample(order), key))
        assert heard == ["charged", "released"]
        assert world.charges()[-1].health == identity.organisation


async def test_expired_certificate_is_refused_and_said_to_be(world: World) -> None:
    """The handshake refuses it without a word, so the client's own check says what is wrong first."""
    nodes = Loopback(world)
    nodes.tls[OWNER] = expired(OWNER)
    async with nodes:
        assert await code_over(raw_channel(nodes.peers["census"], nodes.tls[OWNER])) == "PEER_UNAVAILABLE"
        with pytest.raises(InvalidRequestError) as caught:
            nodes.channel(OWNER, "census")
    assert caught.value.code == "CERTIFICATE_EXPIRED"
    assert "client" in caught.value.text


async def test_certificate_that_expires_during_a_connection_is_refused(world: World) -> None:
    """TLS looks at the handshake only; a connection that outlives its certificate is refused at the next call."""
    clock = FakeClock(system_clock())
    async with Loopback(world, clock=clock) as nodes, nodes.channel(OWNER, "census") as channel:
        assert await call(channel, CENSUS_RPCS["GetPolicy"]) == "OK"
        clock.advance(2 * DAY_MS)
        for method in ALL_RPCS["census"]:
            assert await call(channel, method) == "CERTIFICATE_EXPIRED", method.full_name
        # Only the clock has moved: the connection is the same, and as good as it was.
        clock.advance(-2 * DAY_MS)
        assert await call(channel, CENSUS_RPCS["GetPolicy"]) == "OK"


async def test_plain_text_connection_is_refused(loopback: Loopback) -> None:
    """There is no port without TLS."""
    channel = aio.insecure_channel(loopback.peers["census"].address, options=[("grpc.enable_http_proxy", 0)])
    assert await code_over(channel) == "PEER_UNAVAILABLE"


# HTTP/2, by hand: preface, settings, and one POST without body in literal header fields (RFC 7541, 6.2.2).
def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def get_policy_by_hand() -> bytes:
    """The bytes of one call of GetPolicy with an empty message."""
    headers = b"".join(
        _literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"https"),
            (b":path", b"/tripartite.v1.CensusService/GetPolicy"),
            (b":authority", b"census.tripartite.internal"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
    )
    empty_message = bytes(5)
    return b"".join(
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _frame(4, 0, 0, b""),
            _frame(1, 0x4, 1, headers),
            _frame(0, 0x1, 1, empty_message),
        ]
    )


def speak(peer: Peer, own: TlsCredentials, folder: Path, version: ssl.TLSVersion) -> bytes:
    """Call GetPolicy over a TLS connection of exactly this version; gives everything that came back."""
    certificate, key = folder / "client.crt", folder / "client.key"
    certificate.write_bytes(own.certificate)
    key.write_bytes(own.private_key)
    context = ssl.create_default_context(cadata=peer.certificates[0].pem.decode())
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    host, _, port = peer.address.rpartition(":")
    heard = b""
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=server_name(peer.role)) as secured,
    ):
        assert secured.version() == version.name.replace("_", ".", 1).replace("TLSv1_", "TLSv1.")
        secured.sendall(get_policy_by_hand())
        while chunk := secured.recv(65536):
            heard += chunk
            # The end of our stream: trailers, or a reset.
            if b"grpc-message" in heard or b"grpc-status" in heard:
                break
    return heard


async def test_tls_1_2_is_refused_before_any_handler(loopback: Loopback, tmp_path: Path) -> None:
    """A registered certificate over TLS 1.2 gets the typed refusal; the same bytes over TLS 1.3 get the policy."""
    peer, own = loopback.peers["census"], loopback.tls[OWNER]
    refused = await asyncio.to_thread(speak, peer, own, tmp_path, ssl.TLSVersion.TLSv1_2)
    assert b"The connection is not mutual TLS 1.3" in refused
    assert b"max_belief" not in refused
    served = await asyncio.to_thread(speak, peer, own, tmp_path, ssl.TLSVersion.TLSv1_3)
    assert b"max_belief" in served
    assert b"not mutual TLS" not in served


def auth_context(tls: TlsCredentials, **changes: list[bytes]) -> dict[str, list[bytes]]:
    """GRPC's auth context of a good connection, with changes."""
    return {
        "transport_security_type": [b"ssl"],
        "security_level": [b"TSI_PRIVACY_AND_INTEGRITY"],
        "ssl_tls_version": [b"TLSv1.3"],
        "peer_uri": [OWNER.uri.encode()],
        "x509_pem_cert": [tls.certificate],
        **changes,
    }


BAD_CONNECTIONS: dict[str, dict[str, list[bytes]]] = {
    "TLS 1.2": {"ssl_tls_version": [b"TLSv1.2"]},
    "no TLS": {"transport_security_type": [b"insecure"]},
    "a local socket": {"transport_security_type": [b"local"]},
    "TLS without encryption": {"security_level": [b"TSI_INTEGRITY_ONLY"]},
    "no version": {"ssl_tls_version": []},
    "two versions": {"ssl_tls_version": [b"TLSv1.3", b"TLSv1.2"]},
    "no certificate": {"x509_pem_cert": []},
    "an empty certificate": {"x509_pem_cert": [b""]},
    "a certificate that is none": {"x509_pem_cert": [b"-----BEGIN CERTIFICATE-----\n"]},
    "a certificate that is no text": {"x509_pem_cert": [b"\xff\xfe"]},
}
# The certificate's own words decide nothing.
CLAIMS: dict[str, list[bytes]] = {
    "nobody": [],
    "the census node": [CENSUS.uri.encode()],
    "two identities": [OWNER.uri.encode(), CENSUS.uri.encode()],
    "an unknown role": [b"tripartite://university/auditor/node"],
    "no text": [b"\xff\xfe"],
}


@pytest.mark.parametrize("what", BAD_CONNECTIONS)
def test_connection_that_is_not_whole_names_nobody(what: str) -> None:
    """Anything but exactly one recognised certificate over TLS 1.3 is INSECURE_TRANSPORT."""
    own, other = (make_certificate(identity, now_ms=system_clock(), days=1) for identity in (OWNER, CENSUS))
    peers = by_fingerprint(registered(own, other))
    assert verify_caller(auth_context(own), peers, system_clock) == OWNER
    for changes in (BAD_CONNECTIONS[what], {"x509_pem_cert": [own.certificate, other.certificate]}):
        with pytest.raises(InvalidRequestError) as caught:
            verify_caller(auth_context(own, **changes), peers, system_clock)
        assert caught.value.code == "INSECURE_TRANSPORT"


@pytest.mark.parametrize("claim", CLAIMS)
def test_caller_is_whom_the_certificate_was_registered_for(claim: str) -> None:
    """Identities that TLS reads out of it do not matter: they are its maker's words."""
    own, other = (make_certificate(identity, now_ms=system_clock(), days=1) for identity in (OWNER, CENSUS))
    peers = by_fingerprint(registered(own, other))
    assert verify_caller(auth_context(own, peer_uri=CLAIMS[claim]), peers, system_clock) == OWNER


def test_certificate_that_nobody_registered_names_nobody() -> None:
    """A perfect connection with a certificate that was not registered is INSECURE_TRANSPORT."""
    own, other = (make_certificate(OWNER, now_ms=system_clock(), days=1) for _ in range(2))
    with pytest.raises(InvalidRequestError) as caught:
        verify_caller(auth_context(other), by_fingerprint(registered(own)), system_clock)
    assert caught.value.code == "INSECURE_TRANSPORT"


def test_empty_connection_names_nobody() -> None:
    """A connection unknown to gRPC is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        verify_caller({}, {}, system_clock)
    assert caught.value.code == "INSECURE_TRANSPORT"


# --- servers ---------------------------------------------------------------------------------------------------------


def serve_nothing(server: aio.Server) -> None:
    """A server without handlers of its own: only its certificate matters."""
    del server


@pytest.mark.parametrize("identity", [HEALTH, OWNER, CENSUS])
async def test_server_of_another_role_is_not_spoken_to(loopback: Loopback, identity: Identity) -> None:
    """A client pins the role of the server, even one whose certificate it was told to trust."""
    own = loopback.tls[identity]
    async with serving("census", own, loopback.registered, serve_nothing) as impostor:
        for role in ROLES:
            peer = Peer(role, impostor.address, impostor.certificates)
            async with open_channel(peer, loopback.tls[OTHER], system_clock) as channel:
                heard = await call(channel, CENSUS_RPCS["GetPolicy"])
            assert (heard == "PEER_UNAVAILABLE") == (role != identity.role)


async def test_impostor_of_the_right_role_is_not_spoken_to(loopback: Loopback) -> None:
    """The pinned certificate is the only one: another one for the same role and name does not do."""
    own = make_certificate(CENSUS, now_ms=system_clock(), days=1)
    async with serving("census", own, loopback.registered, serve_nothing) as impostor:
        peer = Peer("census", impostor.address, loopback.peers["census"].certificates)
        async with open_channel(peer, loopback.tls[OWNER], system_clock) as channel:
            stub: census_service_pb2_grpc.CensusServiceAsyncStub = census_service_pb2_grpc.CensusServiceStub(channel)
            with pytest.raises(PeerUnavailableError) as caught:
                await calling("census", stub.GetPolicy(census_service_pb2.GetPolicyRequest(), timeout=PATIENCE_SECONDS))
    assert caught.value.code == "PEER_UNAVAILABLE"


async def test_server_with_an_expired_certificate_is_named(loopback: Loopback) -> None:
    """The owner of an expired certificate is named before the handshake fails without a word."""
    peer = Peer("census", loopback.peers["census"].address, tuple(registered(expired(CENSUS))))
    with pytest.raises(InvalidRequestError) as caught:
        open_channel(peer, loopback.tls[OWNER], system_clock)
    assert caught.value.code == "CERTIFICATE_EXPIRED"
    assert "census node" in caught.value.text


# --- messages --------------------------------------------------------------------------------------------------------


async def test_giant_message_is_refused_and_the_server_goes_on(loopback: Loopback) -> None:
    """Nobody can make a node hold more than a message of the size we send; the next call is served."""
    world = loopback.world
    giant = os.urandom(MAX_MESSAGE_BYTES + 1)
    good = [message.SerializeToString() for message in world.messages(world.sample(world.order()))]
    with world.unchanged():
        for role, identity, method, wire in (
            ("census", OWNER, CENSUS_RPCS["Quote"], [giant]),
            ("census", OWNER, CENSUS_RPCS["Collect"], [giant]),
            ("census", HEALTH, CENSUS_RPCS["Count"], [giant]),
            ("census", HEALTH, CENSUS_RPCS["Count"], [good[0], giant]),
            ("census", HEALTH, CENSUS_RPCS["Count"], [*good[:-1], giant]),
            ("health", OWNER, HEALTH_RPCS["Submit"], [giant]),
            ("researcher", CENSUS, INBOX_RPCS["Deliver"], [giant]),
        ):
            async with raw_channel(loopback.peers[role], loopback.tls[identity]) as channel:  # type: ignore[index]  # a role
                assert await call(channel, method, *wire) == "PEER_MISBEHAVED"
    assert not world.verify_health_log().tickets
    async with loopback.channel(HEALTH, "census") as channel:
        assert await call(channel, CENSUS_RPCS["Count"], *good) == "OK"


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x00"])
async def test_bytes_that_are_no_message_are_refused(loopback: Loopback, garbage: bytes) -> None:
    """Unparsable bytes never reach a handler, and stop nothing."""
    world = loopback.world
    with world.unchanged():
        for role, identity, method in (
            ("census", OWNER, CENSUS_RPCS["Quote"]),
            ("census", HEALTH, CENSUS_RPCS["Count"]),
            ("census", HEALTH, CENSUS_RPCS["SendRoster"]),
            ("health", OWNER, HEALTH_RPCS["Submit"]),
            ("researcher", CENSUS, INBOX_RPCS["Deliver"]),
        ):
            async with raw_channel(loopback.peers[role], loopback.tls[identity]) as channel:  # type: ignore[index]  # a role
                assert await call(channel, method, garbage) == "MALFORMED_MESSAGE"
    assert {signal.error for signal in loopback.stops.values()} == {None}
    assert await code_over(loopback.channel(OWNER, "census")) == "OK"


@pytest.mark.parametrize("role", ROLES)
async def test_bytes_of_a_caller_who_may_not_call_are_not_read(loopback: Loopback, role: Role) -> None:
    """Who calls is asked before what was said is looked at: a stranger's bytes meet no parser."""
    intruder = {"census": CENSUS, "health": CENSUS, "researcher": OTHER}[role]
    async with raw_channel(loopback.peers[role], loopback.tls[intruder]) as channel:
        for method in SERVED_BY[role].values():
            assert await call(channel, method, b"\xff" * 100) == "WRONG_ROLE", method.name


async def test_unknown_fields_are_refused_by_every_rpc(loopback: Loopback) -> None:
    """A message with a field that this version does not know is refused whole, no matter who sends it."""
    callers = {"Count": HEALTH, "SendRoster": HEALTH, "Deliver": CENSUS}
    for role, methods in SERVED_BY.items():
        for name, method in methods.items():
            async with loopback.channel(callers.get(name, OWNER), role) as channel:  # type: ignore[arg-type]  # a role
                assert await call(channel, method, b"\xf8\x07\x01") == "MALFORMED_MESSAGE", name
