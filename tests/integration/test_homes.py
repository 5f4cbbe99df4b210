"""Homes as `init` lays them out, opened and served as the commands do, three nodes in one process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from fakes.cards import Party
from fakes.deployment import run_here
from fakes.forged import STRANGE, twin
from fakes.homes import moved_copy
from fakes.patience import PATIENCE_SECONDS, until
from fakes.world import FRENCH, verify_stored_log
from grpc.aio import ServicerContext
from integration.loopback import running
from integration.loopback import serving as serving_inbox
from structlog.testing import capture_logs
from tripartite.v1 import card_service_pb2, card_service_pb2_grpc, inbox_service_pb2, inbox_service_pb2_grpc

from broker_common.agency.home import AgencyHome
from broker_common.crypto.cards import TLS, SignedCard, VerifiedCard, sign_card, verify_card
from broker_common.crypto.certificates import Identity, PeerCertificate, Role, make_certificate
from broker_common.crypto.signing import Purpose
from broker_common.errors import (
    REASONS,
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
)
from broker_common.parties.exchange import fetch_card
from broker_common.parties.registration import read_card
from broker_common.privacy.accounting import price
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.status import calling, trailing_metadata
from broker_common.storage.clock import system_clock
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Registered
from broker_common.tlog.health_state import HealthState
from census_node import assembly as census_opening
from census_node.assembly import CensusHome
from deploy.local import Plan, lay_out
from health_node import assembly as health_opening
from health_node import census_link
from health_node.assembly import HealthHome
from health_node.flow import Flow
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session
from researcher_node.assembly import ResearcherHome

Serve = Callable[[Callable[[str], None]], Awaitable[None]]
SECOND = Identity("university", "researcher", "researcher-2")
SECOND_AGENCY = Identity("second-agency", "health", "node")
HOMES: dict[str, type[CensusHome | HealthHome | ResearcherHome]] = {
    "census": CensusHome,
    "health": HealthHome,
    "researcher": ResearcherHome,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four homes for a hundred people, without waiting."""
    folder = tmp_path_factory.mktemp("homes") / "deployment"
    plan = Plan(population=100, seed=1, accounting="strict", max_belief="0.75", release_tick_ms=0)
    lay_out(folder, plan, lambda _: lambda _done, _total: None)
    return folder


@pytest.fixture
def deployment(made: Path, tmp_path: Path) -> Path:
    """A copy for one test, with addresses of its own."""
    return moved_copy(made, tmp_path / "deployment")


@contextlib.asynccontextmanager
async def serving(*nodes: Serve) -> AsyncIterator[None]:
    """All of these nodes, ready."""
    async with contextlib.AsyncExitStack() as stack:
        for serve in nodes:
            await stack.enter_async_context(running(serve))
        yield


async def refused_start(home: Path) -> BrokerError:
    """The error with which a node does not start; it never says that it is ready."""
    ready: list[str] = []
    with pytest.raises(BrokerError) as caught:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await HOMES[home.name](home).serve(ready.append)
    assert ready == []
    return caught.value


async def ask(home: ResearcherHome, scale: int) -> int:
    """Ask for everybody who speaks French; gives what was charged."""
    answers = home.open_answers()
    wanted = Wanted("age >= 0", FRENCH, Precision(scale=scale), 1_000_000, home.config.project)
    try:
        async with home.session(answers) as session:
            asked = await session.prepare(wanted)
            answered = await session.ask(asked, wait_seconds=PATIENCE_SECONDS, on_stage=lambda _: None)
    finally:
        answers.close()
    assert answered.charged is not None
    return answered.charged


async def leave(home: ResearcherHome, scale: int) -> None:
    """Ask for everybody who speaks French, to the release of the answer, which nobody collects."""
    answers = home.open_answers()
    wanted = Wanted("age >= 0", FRENCH, Precision(scale=scale), 1_000_000, home.config.project)
    try:
        async with home.session(answers) as session:
            until_s = asyncio.get_running_loop().time() + PATIENCE_SECONDS
            await session._submit(await session.prepare(wanted), until_s, lambda _: None)
    finally:
        answers.close()


@pytest.mark.parametrize(("role", "purpose"), [("census", "sample"), ("health", "manifest")])
async def test_key_that_was_stolen_is_replaced_without_a_question_lost(
    deployment: Path, role: str, purpose: str
) -> None:
    """The key is useless from one moment to the next: the agencies exchange cards when that first matters, and not minutes later."""
    census, health = CensusHome(deployment / "census"), HealthHome(deployment / "health")
    researcher = ResearcherHome(deployment / "researcher")
    async with serving(census.serve, health.serve):
        assert await ask(researcher, 30) == price(30)
        words = ("keys", "rotate", "--home", deployment / role, "--in", "0s", "--honour", "0s", purpose)
        assert (await asyncio.to_thread(run_here, *words)).code == 0
        assert await ask(researcher, 30) == price(30)


async def test_damaged_load_that_is_not_in_force_keeps_no_node_from_starting_or_serving(
    deployment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader was killed before, or is about to put it in force: the nodes answer from the load that is in force."""
    census, health = CensusHome(deployment / "census"), HealthHome(deployment / "health")
    researcher = ResearcherHome(deployment / "researcher")
    for opening in (census_opening, health_opening):
        monkeypatch.setattr(opening, "_READ_AHEAD_SECONDS", 0.01)
    with contextlib.ExitStack() as loading, capture_logs() as said:
        left = [(loads, loading.enter_context(loads.loading(os.urandom))) for loads in (census.loads, health.loads)]
        for loads, load in left:
            loads.file(load).write_bytes(b"damaged")
        async with serving(census.serve, health.serve, researcher.serve):
            await until(lambda: {load for _, load in left} <= {line.get("load") for line in said})
            assert await ask(researcher, 30) == price(30)
    assert sorted(line["load"] for line in said if "load" in line) == sorted(load for _, load in left)


async def test_homes_serve_a_question_to_its_answer_and_shut_at_the_cap(deployment: Path) -> None:
    """A deployment of `init` works as it is: one answer at scale 1, and afterwards less than one more of them fits."""
    census, health = CensusHome(deployment / "census"), HealthHome(deployment / "health")
    researcher = ResearcherHome(deployment / "researcher")
    async with serving(census.serve, health.serve, researcher.serve):
        assert await ask(researcher, 1) == price(1)
        with pytest.raises(RefusedError) as caught:
            await ask(researcher, 1)
        assert caught.value.code == "BUDGET_EXHAUSTED"
        assert await ask(researcher, 50) == price(50)
    census_journal, health_journal = census.open_journal(), health.open_journal()
    state = verify_stored_log(
        deployment / "census" / "journal.db",
        CensusState(census.own_card().verify_keys(Purpose.IDENTITY, 0)[0]),
        census_journal._signer(census_journal.state),
    )
    assert state.charged_units == price(1) + price(50)
    assert not verify_stored_log(
        deployment / "health" / "journal.db",
        HealthState(health.own_card().verify_keys(Purpose.IDENTITY, 0)[0]),
        health_journal._signer(health_journal.state),
    ).open_tickets
    census_journal.close()
    health_journal.close()


# Every card that one party was given of another.
TRUSTED = [
    ("census", "health"),
    ("census", "researcher"),
    ("health", "census"),
    ("health", "researcher"),
    ("researcher", "census"),
    ("researcher", "health"),
]


def own_card(home: Path) -> VerifiedCard:
    """The card of whose home this is."""
    return HOMES[home.name](home).own_card()


def showing(home: Path, *pems: bytes) -> SignedCard:
    """The next card of whose home this is, showing these as its certificates, and signed as it should be."""
    before = own_card(home).card
    keys = tuple(
        shown
        for key in before.keys
        for shown in (
            (msgspec.structs.replace(key, key=pem.decode("ascii")) for pem in pems) if key.purpose == TLS else (key,)
        )
    )
    card = msgspec.structs.replace(before, serial=before.serial + 1, keys=keys)
    return sign_card(card, [HOMES[home.name](home).keyring.only_signing(Purpose.IDENTITY)])


def certificate_of(home: Path) -> PeerCertificate:
    """The certificate that this home's owner shows to its peers."""
    (certificate,) = own_card(home).certificates(system_clock())
    return certificate


def code_of(action: Callable[[], object]) -> str:
    """The code of the error that the action raises."""
    with pytest.raises(BrokerError) as caught:
        action()
    return caught.value.code


async def verify_not_taken(home: Path, signed: SignedCard) -> None:
    """Return if a card is taken by this home neither from a file, nor into its log, nor where a node finds it."""
    file = home / "handed-over.card"
    file.write_bytes(signed.to_bytes() + b"\n")
    assert code_of(lambda: read_card(file)) == "CARD_UNREADABLE"
    if home.name == "researcher":
        role: Role = "census" if '"role":"census"' in signed.document else "health"
        trusted = home / "trust" / f"{role}.card"
        before = trusted.read_bytes()
        trusted.write_bytes(signed.to_bytes() + b"\n")
        assert code_of(lambda: ResearcherHome(home).trust.card(role)) == "CARD_UNREADABLE"
        if role == "census":
            assert (await refused_start(home)).code == "CARD_UNREADABLE"
        trusted.write_bytes(before)
        return
    opened = HOMES[home.name](home)
    assert isinstance(opened, AgencyHome)
    with opened.journal() as journal:
        size = journal.state.size
        # Past every check that a command makes: the log itself has none of it.
        with pytest.raises(InternalError, match="CARD_INVALID"), journal.transaction() as transaction:
            transaction.append(Registered(card=signed, note="", projects=(), inbox=""))
    with opened.journal() as journal:
        assert journal.state.size == size


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
async def test_certificate_of_somebody_else_on_a_card_is_not_trusted(deployment: Path, home: str, peer: str) -> None:
    """The sender of a card chooses its content: another party's certificate, or one made in its name."""
    others = [certificate_of(deployment / other).pem for other in HOMES if other != peer]
    own = certificate_of(deployment / peer).identity
    renamed = [Identity(own.organisation, own.role, "other"), Identity("other", own.role, own.name)]
    forged = [make_certificate(claimed, now_ms=system_clock(), days=1).certificate for claimed in (SECOND, *renamed)]
    for pem in (*others, *forged):
        await verify_not_taken(deployment / home, showing(deployment / peer, pem))


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
async def test_card_with_two_certificates_in_one_key_is_refused(deployment: Path, home: str, peer: str) -> None:
    """TLS would trust both: each key is one certificate, wherever the second one stands."""
    honest = certificate_of(deployment / peer).pem
    stowaway = make_certificate(SECOND, now_ms=system_clock(), days=1).certificate
    for pem in (honest + stowaway, stowaway + honest, honest + honest, honest + b"\n" + stowaway[:-30], b""):
        await verify_not_taken(deployment / home, showing(deployment / peer, pem))


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
async def test_certificate_of_another_form_is_refused(deployment: Path, home: str, peer: str) -> None:
    """An authority's, another key's, another version's: whatever TLS might read differently is on nobody's card."""
    identity = certificate_of(deployment / peer).identity
    for make in STRANGE.values():
        await verify_not_taken(deployment / home, showing(deployment / peer, make(identity).certificate))


async def test_certificates_of_another_form_keep_nobody_out(deployment: Path) -> None:
    """A registered researcher sends every one of them to both nodes, which go on recognising those who come later.

    Beside the good certificate and in its place; what TLS trusts is a file of all certificates, and one that it could not
    read would hide those behind it.
    """
    opened: dict[Role, CensusHome | HealthHome] = {
        "census": CensusHome(deployment / "census"),
        "health": HealthHome(deployment / "health"),
    }
    researcher, second = ResearcherHome(deployment / "researcher"), Party(SECOND)
    own = researcher.own_card()
    async with serving(*(HOMES[role](deployment / role).serve for role in HOMES)):
        for role, home in opened.items():
            known, address = home.own_card(), home.config.address
            peer = Peer(known.card.role, address, tuple(known.certificates(system_clock())))
            async with open_channel(peer, researcher.keyring.tls(own, system_clock()), system_clock) as channel:
                stub: Any = card_service_pb2_grpc.CardServiceStub(channel)
                for make in STRANGE.values():
                    pem = make(own.card.identity).certificate
                    good = own.certificates(0)[0].pem
                    for certificates in ([pem], [good, pem], [pem, good]):
                        odd = showing(deployment / "researcher", *certificates).to_bytes()
                        with pytest.raises(InvalidRequestError, match="MALFORMED_MESSAGE"):
                            await calling(role, stub.Exchange(card_service_pb2.ExchangeRequest(card=odd)))
            home.register(second.card, projects=["official-languages"])
            async with open_channel(peer, second.tls, system_clock) as channel:
                assert await fetch_card(channel, second.card.signed, known) is None
            assert own.signed in [each.card.signed for each in home.known()]
        assert await ask(researcher, 30) == price(30)


@pytest.mark.parametrize(("home", "peer"), TRUSTED)
def test_honest_next_card_is_taken(deployment: Path, home: str, peer: str) -> None:
    """The refusals above differ from this in the certificate alone."""
    own = certificate_of(deployment / peer).identity
    next_card = showing(deployment / peer, make_certificate(own, now_ms=system_clock(), days=1).certificate)
    opened = HOMES[home](deployment / home)
    if isinstance(opened, ResearcherHome):
        opened.trust.put(verify_card(next_card))
        assert opened.trust.card(own.role).signed == next_card
    else:
        assert opened.register(verify_card(next_card)).card.signed == next_card


@pytest.mark.parametrize("home", ["census", "health"])
async def test_two_researchers_with_equal_subjects_are_not_registered(deployment: Path, home: str) -> None:
    """Two that share a key, and so a subject: one would keep the other one out; the first stays, and is served."""
    researcher = ResearcherHome(deployment / "researcher")
    first = researcher.keyring.tls(researcher.own_card(), system_clock())
    double = Party(SECOND, given={TLS: twin(first, SECOND)})
    opened = HOMES[home](deployment / home)
    assert isinstance(opened, AgencyHome)
    for reason in ("", "a lost laptop"):
        code = code_of(lambda: opened.register(double.card, projects=["p"], replace_because=reason))  # noqa: B023 - called here
        assert code == "MALFORMED_MESSAGE"
    assert SECOND not in [peer.card.card.identity for peer in opened.known()]
    async with serving(*(HOMES[role](deployment / role).serve for role in HOMES)):
        assert await ask(researcher, 30) == price(30)


async def test_two_health_agencies_and_two_researchers_are_registered_side_by_side(deployment: Path) -> None:
    """Certificates that our own tool makes never have the same subject, and the service goes on for those before."""
    census, health = CensusHome(deployment / "census"), HealthHome(deployment / "health")
    for home in (census, health):
        home.register(Party(SECOND).card, projects=["official-languages"])
    census.register(Party(SECOND_AGENCY, "second.example/log").card)
    registered = [certificate for peer in census.known() for certificate in peer.card.certificates(system_clock())]
    assert len({certificate.subject for certificate in registered}) == len(registered) == 4
    async with serving(*(HOMES[role](deployment / role).serve for role in HOMES)):
        assert await ask(ResearcherHome(deployment / "researcher"), 30) == price(30)


def test_made_certificates_say_that_they_are_no_authority(deployment: Path) -> None:
    """Certificates of `init` are those that the nodes accept."""
    cards = [read_card(file) for file in deployment.glob("*/trust/*.card")]
    assert len(cards) == len(HOMES) + 2
    for card in cards:
        for key, _ in card.listed(TLS):
            assert x509.load_pem_x509_certificates(key.key.encode())
            assert PeerCertificate.parse_pem(key.key.encode()).pem == key.key.encode()


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
    own = researcher.keyring.tls(researcher.own_card(), system_clock())
    census = researcher.trust.card("census").certificates(system_clock())
    async with serving_inbox(
        "researcher",
        own,
        census,
        lambda server: inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(inbox, server),
    ) as hostile:
        CensusHome(deployment / "census").register(researcher.own_card(), inbox=hostile.address)
        nodes = CensusHome(deployment / "census").serve, HealthHome(deployment / "health").serve
        async with serving(*nodes):
            for _ in range(20):
                said = len(inbox.said)
                # Left to the inbox, which refuses it.
                await leave(researcher, 50)
                await until(lambda: len(inbox.said) > said)  # noqa: B023 - awaited here
                if set(inbox.said) == set(HostileInbox.codes):
                    break
            assert set(inbox.said) == set(HostileInbox.codes)
            assert await ask(researcher, 50) == price(50)


@pytest.mark.parametrize("hears", [True, False], ids=["answered", "away"])
async def test_health_node_hears_of_a_new_card_before_it_seals_anything(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, hears: bool
) -> None:
    """Work that it takes up again after a start would be sealed to the key before; if nobody answers, it goes on all the same."""
    steps: list[str] = []

    async def fetch(*_: object) -> None:
        steps.append("cards")
        if not hears:
            raise PeerUnavailableError("PEER_UNAVAILABLE", peer="census")

    async def recover(_: Flow) -> None:
        steps.append("questions")

    monkeypatch.setattr(census_link, "fetch_card", fetch)
    monkeypatch.setattr(Flow, "recover", recover)
    async with serving(HealthHome(deployment / "health").serve):
        await until(lambda: "questions" in steps)
    assert steps[:2] == ["cards", "questions"]


@pytest.mark.parametrize("role", ["census", "health"])
async def test_start_that_fails_keeps_no_file_open(deployment: Path, role: str) -> None:
    """Whatever is missing is said, and the journal is closed."""
    (deployment / role / "keys" / ("answer.key" if role == "census" else "manifest.key")).unlink()
    assert (await refused_start(deployment / role)).code == "SECRET_MISSING"
    assert not [file for file in open_files() if file.startswith(str(deployment))]


@pytest.mark.parametrize("role", ["census", "health"])
def test_journal_that_does_not_open_is_closed(deployment: Path, role: str) -> None:
    """Neither one that is damaged nor one that is no database is held open."""
    journal = deployment / role / "journal.db"
    for statement in ("update head set checkpoint = ''", "drop table entries"):
        with contextlib.closing(sqlite3.connect(journal)) as connection:
            connection.execute(statement)
            connection.commit()
        assert code_of(HOMES[role](deployment / role).open_journal) == "INTEGRITY"  # type: ignore[union-attr]  # an agency's
    journal.write_bytes(b"not a database" * 1000)
    assert code_of(HOMES[role](deployment / role).open_journal) == "INTEGRITY"  # type: ignore[union-attr]  # an agency's
    assert not [file for file in open_files() if file.startswith(str(deployment))]


def open_files() -> list[str]:
    """Every file that this process holds open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "STORE_FAILED"),
        (InternalError("STORE_FAILED"), "STORE_FAILED"),
        (ValueError("of a peer's making"), ""),
        (PeerUnavailableError("PEER_UNAVAILABLE", peer="census"), ""),
    ],
    ids=["disk", "store", "bug", "away"],
)
async def test_inbox_stops_for_its_own_disk_alone(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, stops: str
) -> None:
    """A new card that cannot be kept is said and ends it; nothing that a peer does ends it."""
    met: list[str] = []

    async def meet(_: Session, role: Role) -> None:
        met.append(role)
        raise error

    monkeypatch.setattr(Session, "meet", meet)
    serving = asyncio.ensure_future(ResearcherHome(deployment / "researcher").serve(lambda _: None))
    await until(lambda: serving.done() or len(met) == 2)
    if stops:
        with pytest.raises(InternalError, match=stops):
            await asyncio.wait_for(serving, PATIENCE_SECONDS)
        return
    assert not serving.done()
    serving.cancel()
    await asyncio.wait({serving})


async def test_second_node_on_the_same_address_says_so(deployment: Path) -> None:
    """Two nodes never share a port, not even on systems that would let them."""
    async with serving(ResearcherHome(deployment / "researcher").serve):
        with pytest.raises(RefusedError) as caught:
            await ResearcherHome(deployment / "researcher").serve(lambda _: None)
    assert caught.value.code == "PORT_TAKEN"


# --- what an operator is told -------------------------------------------------------------------------------------------


def test_registering_says_which_studies_are_dropped(deployment: Path) -> None:
    """Those that are named are all there are; what was before and is not named must not vanish without a word."""
    words = ("census", "register", "--home", deployment / "census", "--researcher", "researcher-1")
    dropping = run_here(*words, "--project", "another", "--inbox", "localhost:443")
    assert "dropped      official-languages\n" in dropping.stdout
    assert "inbox        localhost:443\n" in dropping.stdout
    adding = run_here(*words, "--project", "another", "--project", "third", "--json").result
    assert (adding["projects"], adding["dropped"]) == (["another", "third"], [])


def test_agency_is_registered_by_its_organisation(deployment: Path, tmp_path: Path) -> None:
    """It has no other name, and no studies."""
    (tmp_path / "card").write_bytes(CensusHome(deployment / "census").own_card().signed.to_bytes())
    said = run_here("health", "register", "--home", deployment / "health", tmp_path / "card").stdout
    assert said.startswith("Registered census agency census-agency, card 1")
    assert "projects" not in said


@pytest.mark.parametrize("inbox", ["localhost:99999", "localhost:0", "localhost"])
def test_inbox_that_nobody_could_call_is_not_registered(deployment: Path, inbox: str) -> None:
    """Answers would be pushed to nowhere for good."""
    words = ("--home", deployment / "census", "--researcher", "researcher-1", "--inbox", inbox, "--json")
    assert run_here("census", "register", *words).error["code"] == "INVALID_VALUE"


@pytest.mark.parametrize("role", ["census", "researcher"])
def test_card_by_other_keys_is_refused_with_the_way_out(deployment: Path, tmp_path: Path, role: str) -> None:
    """A known party that has lost its keys: nothing was altered on the way, and the hint does not say so."""
    identity = Identity("health-agency", "health", "node")
    origin = HealthHome(deployment / "health").own_card().card.origin
    (tmp_path / "card").write_bytes(Party(identity, origin).card.signed.to_bytes())
    error = run_here(role, "register", "--home", deployment / role, tmp_path / "card", "--json").error
    assert error["code"] == "CARD_UNRELATED"
    for words in ("--replace", "--reason", "fingerprint"):
        assert words in error["hint"]


def test_status_says_when_and_why_it_was_shut_down(deployment: Path) -> None:
    """And what is loaded; a second shutdown does not pretend that its reason was logged."""
    home = deployment / "census"
    assert "shut down " not in run_here("census", "status", "--home", home).stdout
    run_here("census", "shutdown", "--home", home, "--reason", "drill")
    again = run_here("census", "shutdown", "--home", home, "--reason", "another").stdout
    assert "is not logged" in again
    said = run_here("census", "status", "--home", home).stdout
    assert "by the operator: drill\n" in said
    assert f"release         {CensusHome(home).read(lambda state: state.release)}\n" in said
    assert "passes this cap" not in said
    assert run_here("census", "reopen", "--home", home, "--reason", "over").code == 0
    assert "drill" not in run_here("census", "status", "--home", home).stdout


def test_proposal_of_a_key_that_was_replaced_is_to_be_made_again(deployment: Path) -> None:
    """Nobody's card is missing; and a retention that nobody can keep up with is warned of."""
    home = deployment / "census"
    words = ("--answer-retention-ms", "60000", "--json")
    proposed = run_here("census", "policy", "propose", "--home", home, *words).result
    assert any("not collected within 60 s" in warning for warning in proposed["warnings"])
    assert run_here("keys", "rotate", "--home", home, "policy", "--honour", "0s").code == 0
    error = run_here("census", "policy", "adopt", "--home", home, proposed["policy_hash"], "--json").error
    assert error["code"] == "INVALID_VALUE"
    assert "census policy propose" in error["hint"]


def test_policy_takes_its_options_before_and_after_the_command(deployment: Path) -> None:
    """The group lists --home and --json, so they hold for what follows it."""
    home = deployment / "census"
    shown = run_here("census", "policy", "--home", home, "--json", "show").result
    assert shown == run_here("census", "policy", "show", "--home", home, "--json").result
    assert "odds move by at most 3;" in run_here("census", "policy", "--home", home, "show").stdout


@pytest.mark.parametrize("scales", ["0-5", "0", "1-1000001"])
def test_scales_that_no_policy_admits_are_a_usage_error(deployment: Path, scales: str) -> None:
    """Said of the option, not of a document that nobody has typed."""
    words = ("policy", "propose", "--home", deployment / "census", "--scales", scales)
    outcome = run_here("census", *words, "--json")
    assert (outcome.code, outcome.error["code"]) == (2, "USAGE")
    assert "--scales" in outcome.error["text"]
