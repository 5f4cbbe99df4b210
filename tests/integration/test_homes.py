"""Homes as `init` lays them out, opened and served as the commands do, three nodes in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from cryptography import x509
from fakes.forged import common_name, forge, subject_of
from fakes.loopback import serving as serving_inbox
from fakes.world import FRENCH, verify_stored_log
from grpc.aio import ServicerContext
from tripartite.v1 import inbox_service_pb2, inbox_service_pb2_grpc

from broker_common.crypto.certificates import Identity, PeerCertificate, TlsCredentials, make_certificate
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import REASONS, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.accounting import price_units
from broker_common.rpc.status import trailing_metadata
from broker_common.storage.clock import system_clock
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.health_state import HealthState
from census_node.opening import CensusHome
from deploy.local import Plan, lay_out
from health_node.opening import HealthHome
from researcher_node.asking import Precision, Wanted
from researcher_node.opening import ResearcherHome

Serve = Callable[[Callable[[str], None]], Awaitable[None]]
RESEARCHER = Identity("university", "researcher", "researcher-1")
SECOND = Identity("university", "researcher", "researcher-2")
SECOND_AGENCY = Identity("second-agency", "health", "node")
HOMES: dict[str, type[CensusHome | HealthHome | ResearcherHome]] = {
    "census": CensusHome,
    "health": HealthHome,
    "researcher": ResearcherHome,
}


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """Four homes for a hundred people, without waiting."""
    plan = Plan(population=100, seed=1, max_belief="0.75", release_tick_ms=0)
    lay_out(tmp_path / "deployment", plan, lambda _: lambda _done, _total: None)
    return tmp_path / "deployment"


@contextlib.asynccontextmanager
async def serving(*nodes: Serve) -> AsyncIterator[None]:
    """All of these nodes, ready."""
    async with contextlib.AsyncExitStack() as stack:
        for serve in nodes:
            await stack.enter_async_context(_one(serve))
        yield


@contextlib.asynccontextmanager
async def _one(serve: Serve) -> AsyncIterator[None]:
    ready = asyncio.Event()
    running = asyncio.ensure_future(serve(lambda _: ready.set()))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not ready.is_set():
        await running
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def reconfigure(home: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a home's configuration, as its operator would."""
    config: dict[str, Any] = msgspec.toml.decode((home / "config.toml").read_bytes())
    change(config)
    (home / "config.toml").write_text(tomli_w.dumps(config))


async def refused_start(home: Path) -> InvalidRequestError:
    """The error with which a node does not start; it never says that it is ready."""
    ready: list[str] = []
    with pytest.raises(InvalidRequestError) as caught:
        async with asyncio.timeout(10):
            await HOMES[home.name](home).serve(ready.append)
    assert ready == []
    return caught.value


async def ask(home: ResearcherHome, scale: int, *, wait_seconds: float = 30) -> int:
    """Ask for everybody who speaks French; gives what was charged."""
    answers = home.open_answers()
    wanted = Wanted("age >= 0", FRENCH, Precision(scale=scale), 1_000_000, home.config.project)
    try:
        async with home.session(answers) as session:
            asked = await session.prepare(wanted)
            answered = await session.ask(asked, wait_seconds=wait_seconds, on_stage=lambda _: None)
    finally:
        answers.close()
    assert answered.charged is not None
    return answered.charged


async def test_homes_serve_a_question_to_its_answer_and_shut_at_the_cap(deployment: Path) -> None:
    """What `init` makes works as it is: one answer at scale 1, and afterwards less than one more of them fits."""
    census, health = CensusHome(deployment / "census"), HealthHome(deployment / "health")
    researcher = ResearcherHome(deployment / "researcher")
    async with serving(census.serve, health.serve, researcher.serve):
        assert await ask(researcher, 1) == price_units(1)
        with pytest.raises(RefusedError) as caught:
            await ask(researcher, 1)
        assert caught.value.code == "BUDGET_EXHAUSTED"
        assert await ask(researcher, 50) == price_units(50)
    census_journal, health_journal = census.open_journal(), health.open_journal()
    state = verify_stored_log(
        deployment / "census" / "journal.db", CensusState(census.policy_key), census_journal._signer
    )
    assert state.charged_units == price_units(1) + price_units(50)
    assert not verify_stored_log(
        deployment / "health" / "journal.db", HealthState(), health_journal._signer
    ).open_tickets
    census_journal.close()
    health_journal.close()


@pytest.mark.parametrize("impostor", ["health.crt", "../keys/tls.crt"])
async def test_certificate_registered_for_somebody_else_is_not_trusted(deployment: Path, impostor: str) -> None:
    """A node does not start with a researcher's entry that leads to an agency's certificate."""
    config = deployment / "census" / "config.toml"
    config.write_text(config.read_text().replace("file:trust/researcher-1.crt", f"file:trust/{impostor}"))
    assert (await refused_start(deployment / "census")).code == "CONFIG_INVALID"


# Every certificate that one party was given of another.
TRUSTED = [
    ("census", "health"),
    ("census", "researcher-1"),
    ("health", "census"),
    ("health", "researcher-1"),
    ("researcher", "census"),
]


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
async def test_trust_file_with_two_certificates_is_refused(deployment: Path, home: str, peer: str) -> None:
    """TLS would trust both: whoever hands in a file hands in one certificate, wherever the second one stands."""
    file = deployment / home / "trust" / f"{peer}.crt"
    honest = file.read_bytes()
    stowaway = make_certificate(SECOND, now_ms=system_clock(), days=1).certificate
    for content in (honest + stowaway, stowaway + honest, honest + honest, honest + b"\n" + stowaway[:-30], b""):
        file.write_bytes(content)
        error = await refused_start(deployment / home)
        assert error.code == "CONFIG_INVALID"
        assert f"{peer}.crt" in error.details["problem"]


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
async def test_authoritys_certificate_is_refused(deployment: Path, home: str, peer: str) -> None:
    """A certificate that may make certificates, or does not say that it may not, is no peer's."""
    file = deployment / home / "trust" / f"{peer}.crt"
    identity = PeerCertificate.parse_pem(file.read_bytes()).identity
    for authority in (True, None):
        file.write_bytes(forge(identity, authority=authority).certificate)
        error = await refused_start(deployment / home)
        assert (error.code, "authority" in error.details["problem"]) == ("CONFIG_INVALID", True)


def register_second(home: Path, certificate: bytes) -> None:
    """Register another researcher at an agency."""
    (home / "trust" / "researcher-2.crt").write_bytes(certificate)
    ticket_key = SigningKey(Purpose.TICKET, bytes(32)).verify_key.to_text()
    (home / "trust" / "researcher-2-ticket.pub").write_text(ticket_key)
    peer = {
        "certificate": "file:trust/researcher-2.crt",
        "ticket_key": "file:trust/researcher-2-ticket.pub",
        "projects": ["official-languages"],
    }
    reconfigure(home, lambda config: config["researchers"].update({"researcher-2": peer}))


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f" {text} "], ids=["same", "upper", "spaces"])
@pytest.mark.parametrize("home", ["census", "health"])
async def test_two_researchers_with_equal_subjects_are_refused_at_start(
    deployment: Path, home: str, change: Callable[[str], str]
) -> None:
    """One would keep the other one out; the operator is told who they are."""
    first = TlsCredentials((deployment / home / "trust" / "researcher-1.crt").read_bytes(), b"")
    (attribute,) = subject_of(first)
    twin = forge(SECOND, subject=common_name(change(str(attribute.value))))
    register_second(deployment / home, twin.certificate)
    error = await refused_start(deployment / home)
    assert error.code == "CONFIG_INVALID"
    assert {RESEARCHER.uri, SECOND.uri} <= set(error.details["problem"].split())


async def test_two_health_agencies_and_two_researchers_are_registered_side_by_side(deployment: Path) -> None:
    """Certificates that our own tool makes never have the same subject, and the service goes on for those before."""
    for home in ("census", "health"):
        register_second(deployment / home, make_certificate(SECOND, now_ms=system_clock(), days=1).certificate)
    trust = deployment / "census" / "trust"
    second = make_certificate(SECOND_AGENCY, now_ms=system_clock(), days=1)
    (trust / "second.crt").write_bytes(second.certificate)
    (trust / "second-manifest.pub").write_text(SigningKey(Purpose.MANIFEST, bytes(32)).verify_key.to_text())
    peer = {"certificate": "file:trust/second.crt", "manifest_key": "file:trust/second-manifest.pub"}
    reconfigure(deployment / "census", lambda config: config["health"].update({SECOND_AGENCY.organisation: peer}))
    registered = [PeerCertificate.parse_pem(file.read_bytes()) for file in trust.glob("*.crt")]
    assert len({certificate.subject for certificate in registered}) == len(registered) == 4
    nodes = [home(deployment / role).serve for role, home in HOMES.items()]
    async with serving(*nodes):
        assert await ask(ResearcherHome(deployment / "researcher"), 30) == price_units(30)


async def test_made_certificates_say_that_they_are_no_authority(deployment: Path) -> None:
    """What `init` hands round is what the nodes accept."""
    for home in HOMES:
        for file in (deployment / home).glob("*/*.crt"):
            assert x509.load_pem_x509_certificates(file.read_bytes())
            assert PeerCertificate.parse_pem(file.read_bytes()).pem == file.read_bytes()


class HostileInbox(inbox_service_pb2_grpc.InboxServiceServicer):
    """The registered researcher's inbox, which answers each delivery with the next error that would stop a node."""

    codes = ("STATE_UNKNOWN", "STORE_FAILED", "INTEGRITY")

    def __init__(self) -> None:
        self.said: list[str] = []

    async def Deliver(  # noqa: N802 - the name that the proto gives it
        self, request: inbox_service_pb2.DeliverRequest, context: ServicerContext[object, object]
    ) -> inbox_service_pb2.DeliverResponse:
        """Refuse."""
        del request
        code = self.codes[len(self.said) % len(self.codes)]
        self.said.append(code)
        await context.abort(*trailing_metadata(REASONS[code].family(code, problem="of the researcher's own making")))
        raise AssertionError("abort raises")


async def test_registered_inbox_cannot_stop_the_census_node(deployment: Path) -> None:
    """A whole census node goes on serving whatever the inboxes that it delivers to say of their own stores."""
    researcher, inbox = ResearcherHome(deployment / "researcher"), HostileInbox()
    own = researcher.home.read_tls(researcher.config.tls)
    census = [PeerCertificate.parse_pem((deployment / "researcher" / "trust" / "census.crt").read_bytes())]
    async with serving_inbox(
        "researcher",
        own,
        census,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server),
    ) as hostile:
        reconfigure(
            deployment / "census",
            lambda config: config["researchers"]["researcher-1"].update(inbox=hostile.address),
        )
        nodes = CensusHome(deployment / "census").serve, HealthHome(deployment / "health").serve
        async with serving(*nodes):
            # Asked and left, so that only the inbox can have the answer, which it refuses.
            with pytest.raises(PeerUnavailableError, match="ANSWER_PENDING"):
                await ask(researcher, 50, wait_seconds=0)
            async with asyncio.timeout(30):
                while set(inbox.said) != set(HostileInbox.codes):  # noqa: ASYNC110 - the courier's pauses pass
                    await asyncio.sleep(0.05)
            assert await ask(researcher, 50) == price_units(50)


async def test_second_node_on_the_same_address_says_so(deployment: Path) -> None:
    """Two nodes never share a port, not even on systems that would let them."""
    async with serving(ResearcherHome(deployment / "researcher").serve):
        with pytest.raises(RefusedError) as caught:
            await ResearcherHome(deployment / "researcher").serve(lambda _: None)
    assert caught.value.code == "PORT_TAKEN"
