"""Registered researchers are read with their keys, and their names are those that certificates can carry."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fakes.clock import FakeClock

from broker_common.crypto.certificates import (
    Identity,
    PeerCertificate,
    Role,
    certificate_fingerprint,
    make_certificate,
)
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InvalidRequestError
from broker_common.query.ticket import Researcher
from broker_common.storage.home import Home
from broker_common.storage.registration import (
    Identifier,
    LogName,
    ResearcherPeer,
    read_peer_certificate,
    read_researchers,
)

KEY = SigningKey(Purpose.TICKET, bytes(32))


def peer(ticket_key: str = "file:alice.key") -> ResearcherPeer:
    """A researcher as the configuration names her."""
    return ResearcherPeer(certificate="file:alice.crt", ticket_key=ticket_key, projects=["study-1", "study-2"])


def test_researchers_are_read_with_their_keys(tmp_path: Path) -> None:
    """Each gets the id of the configuration, the key it points to, and her studies."""
    (tmp_path / "alice.key").write_text(KEY.verify_key.to_text())
    researchers = read_researchers(Home(tmp_path, "census"), {"alice": peer()})
    assert researchers == {"alice": Researcher("alice", KEY.verify_key, frozenset({"study-1", "study-2"}))}


@pytest.mark.parametrize(
    "text",
    [
        "",
        KEY.to_text(),
        SigningKey(Purpose.POLICY, bytes(32)).verify_key.to_text(),
    ],
)
def test_another_kind_of_key_is_refused(tmp_path: Path, text: str) -> None:
    """A private key, or one for another purpose, is not taken for a ticket key."""
    (tmp_path / "alice.key").write_text(text)
    with pytest.raises(InvalidRequestError) as caught:
        read_researchers(Home(tmp_path, "census"), {"alice": peer()})
    assert caught.value.code == "SECRET_MISSING"
    assert caught.value.details["reference"] == "file:alice.key"


@pytest.mark.parametrize("name", ["a", "0", "alice-2", "a" * 63])
def test_names_that_certificates_can_carry_pass(name: str) -> None:
    """The grammar is that of the URI in a certificate."""
    assert msgspec.convert(name, Identifier) == name


@pytest.mark.parametrize("name", ["", "-a", "Alice", "a_b", "a b", "a" * 64, "a\n", "\u00e9", "a/b"])
def test_other_names_are_refused(name: str) -> None:
    """No name can smuggle a part of a URI, or be one that no certificate says."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, Identifier)


@pytest.mark.parametrize(
    ("name", "fits"),
    [("x.test/log", True), ("", False), ("a b", False), ("a+b", False), ("a\n", False), ("x" * 201, False)],
)
def test_log_names_are_those_that_notes_can_carry(name: str, fits: bool) -> None:
    """No white space and no plus, which the note format forbids."""
    try:
        converted = msgspec.convert(name, LogName)
    except msgspec.ValidationError:
        converted = None
    assert (converted == name) == fits


HEALTH = make_certificate(Identity("health-on", "health", "node-1"), now_ms=FakeClock()(), days=1).certificate
ALICE = make_certificate(Identity("univ", "researcher", "alice"), now_ms=FakeClock()(), days=1).certificate


def test_a_peers_certificate_names_whom_it_is_registered_for(tmp_path: Path) -> None:
    """Then it comes back with whom it names, and by what it is recognised."""
    (tmp_path / "peer.crt").write_bytes(HEALTH)
    home = Home(tmp_path, "census")
    registered = read_peer_certificate(home, "file:peer.crt", "health")
    assert registered == PeerCertificate.parse_pem(HEALTH)
    assert (registered.pem, registered.identity) == (HEALTH, Identity("health-on", "health", "node-1"))
    assert registered.fingerprint == certificate_fingerprint(HEALTH)
    again = read_peer_certificate(home, "file:peer.crt", "health", organisation="health-on", name="node-1")
    assert again == registered


@pytest.mark.parametrize(
    ("certificate", "role", "organisation", "name", "problem"),
    [
        (HEALTH, "researcher", None, None, "names tripartite://health-on/health/node-1, not the researcher"),
        (HEALTH, "health", "health-qc", None, "not the health it is registered for"),
        (ALICE, "researcher", None, "bob", "names tripartite://univ/researcher/alice"),
        (ALICE, "health", None, None, "not the health it is registered for"),
        (ALICE + HEALTH, "researcher", None, "alice", "is not the certificate of a peer"),
        (HEALTH, "health", "health-on", "node-2", "not the health it is registered for"),
        (b"rubbish", "health", None, None, "is not the certificate of a peer"),
    ],
)
def test_a_certificate_of_somebody_else_is_not_trusted(
    tmp_path: Path, certificate: bytes, role: Role, organisation: str | None, name: str | None, problem: str
) -> None:
    """Whoever hands in a certificate chooses what it says; it is trusted for nothing but its place."""
    (tmp_path / "peer.crt").write_bytes(certificate)
    with pytest.raises(InvalidRequestError) as caught:
        read_peer_certificate(Home(tmp_path, "census"), "file:peer.crt", role, organisation=organisation, name=name)
    assert caught.value.code == "CONFIG_INVALID"
    assert problem in caught.value.details["problem"]
    assert "file:peer.crt" in caught.value.details["problem"]


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    """The reference is wrong, not the certificate."""
    with pytest.raises(InvalidRequestError) as caught:
        read_peer_certificate(Home(tmp_path, "census"), "file:peer.crt", "health")
    assert caught.value.code == "SECRET_MISSING"
