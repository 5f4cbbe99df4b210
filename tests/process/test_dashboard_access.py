"""A dashboard over TLS, attacked by real clients: the right certificate has its rank, and everything else leaves a line.

Certificates are made and let in by the commands that the handbook gives an operator.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.deployment import Deployment, make, run, wait_until
from fakes.patience import PATIENCE_SECONDS
from process.secured import HOST, OPENSSL, Configured, Pair, configure, configured, documented, form_of, made, operator

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed here: 'make browser' installs it"),
]

PAGES = ("/", "/people", "/activity", "/orders")
RANKS = {"reader": [200, 403, 403, 403], "staff": [200, 200, 200, 403], "operator": [200] * 4}
TLS_SETTINGS = {
    "address": "127.0.0.1:0",
    "hosts": [HOST],
    "certificate": "keys/dashboard.crt",
    "certificate_key": "keys/dashboard.key",
    "operator_certificates": "keys/operators.pem",
}


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A census home with the dashboard's certificate, and nobody let in."""
    deployment = make(tmp_path_factory.mktemp("access") / "deployment", population=10)
    documented("server", deployment.home("census"))
    return deployment


@dataclass
class World:
    """A dashboard over TLS, its home, and those who come."""

    home: Path
    pairs: dict[str, Pair]
    shown: Configured = field(init=False)

    def client(
        self, pair: Pair | None, *, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, **headers: str
    ) -> httpx.Client:
        """Somebody with this certificate, who trusts the dashboard's as it stands in its home."""
        context = ssl.create_default_context(cafile=self.home / "keys" / "dashboard.crt")
        context.maximum_version = newest
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.shown.port}",
            verify=context,
            headers={"host": f"{HOST}:{self.shown.port}", **headers},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )

    def get(self, client: httpx.Client, path: str = "/", **headers: str) -> httpx.Response:
        """A page; the dashboard's certificate has to be for its name."""
        return client.get(path, headers=headers, extensions={"sni_hostname": HOST})

    def post(self, client: httpx.Client, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
        """A form."""
        return client.post(path, data=form, headers=headers, extensions={"sni_hostname": HOST})

    def is_refused(self, pair: Pair | None, **options: Any) -> bool:
        """Whether no answer at all comes over a connection with this certificate."""
        with self.client(pair, **options) as client:
            try:
                self.get(client)
            except httpx.TransportError:
                return True
            return False

    def settle(self, ranks: dict[str, str]) -> None:
        """Configure these ranks."""
        certificates = {self.pairs[name].fingerprint: rank for name, rank in ranks.items()}
        configure(self.home, TLS_SETTINGS | {"certificates": certificates})

    def orders(self) -> int:
        """How many orders stand in the census log."""
        return len([event for event in Deployment(self.home.parent).events("census") if event["type"] == "shutdown"])


@contextmanager
def opened(laid_out: Deployment, folder: Path) -> Iterator[World]:
    """A dashboard that knows one certificate of each rank, and that lets in one without a rank."""
    shutil.copytree(laid_out.directory, folder / "deployment")
    home = folder / "deployment" / "census"
    pairs = {name: operator(name, home) for name in ("rhea", "sten", "opal", "nina")}
    world = World(home, pairs)
    world.settle({"rhea": "reader", "sten": "staff", "opal": "operator"})
    with configured(home, folder / "log") as world.shown:
        assert world.shown.scheme == "https"
        yield world


@pytest.fixture(scope="module")
def shared(laid_out: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests that change nothing."""
    with opened(laid_out, tmp_path_factory.mktemp("shared")) as world:
        yield world


@pytest.fixture
def world(shared: World) -> World:
    """The shared one, whose log begins now."""
    shared.shown.log.new()
    return shared


@pytest.fixture
def changing(laid_out: Deployment, tmp_path: Path) -> Iterator[World]:
    """One for a test that changes it."""
    with opened(laid_out, tmp_path) as world:
        yield world


@pytest.mark.parametrize(("name", "rank"), [("rhea", "reader"), ("sten", "staff"), ("opal", "operator")])
def test_an_operator_certificate_has_its_rank(world: World, name: str, rank: str) -> None:
    """Each page is shown to its ranks, and each refused page leaves one line that says who asked."""
    with world.client(world.pairs[name]) as client:
        assert [world.get(client, path).status_code for path in PAGES] == RANKS[rank]
    lines = world.shown.log.new()
    assert [line["event"] for line in lines] == ["a page was refused at the dashboard"] * RANKS[rank].count(403)
    assert all(line["by"] == f"certificate {world.pairs[name].fingerprint[:16]}" for line in lines)


def test_forged_certificates_let_nobody_in(changing: World) -> None:
    """The operator's names under another key, an ended one that is let in, and one that an operator signed for a friend."""
    opal = changing.pairs["opal"]
    forged = made(changing.home, "forged", days=(-1, 30), subject="opal")
    minted = made(changing.home, "minted", days=(-1, 30), issuer=opal)
    ended = made(changing.home, "ended", days=(-30, -1))
    operators = changing.home / "keys" / "operators.pem"
    operators.write_bytes(operators.read_bytes() + ended.certificate.read_bytes())
    for pair, detail in ((forged, "self-signed"), (minted, "invalid CA"), (ended, "expired")):
        assert changing.is_refused(pair), detail
        (line,) = changing.shown.log.new()
        assert (line["event"], line["reason"]) == ("connection refused", "CERTIFICATE_VERIFY_FAILED")
        assert detail in line["detail"]


def test_without_certificate_or_with_an_old_protocol_nobody_is_let_in(world: World) -> None:
    """Each attempt leaves one line with its reason."""
    assert world.is_refused(None)
    assert [line["reason"] for line in world.shown.log.new()] == ["PEER_DID_NOT_RETURN_A_CERTIFICATE"]
    assert world.is_refused(world.pairs["opal"], newest=ssl.TLSVersion.TLSv1_2)
    assert [line["reason"] for line in world.shown.log.new()] == ["UNSUPPORTED_PROTOCOL"]
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{world.shown.port}/", timeout=PATIENCE_SECONDS, trust_env=False)
    assert [line["reason"] for line in world.shown.log.new()] == ["HTTP_REQUEST"]


def test_a_certificate_that_is_not_in_the_list_sees_the_public_face(world: World) -> None:
    """TLS lets it in, no rank belongs to it, and the log names its fingerprint once a connection."""
    with world.client(world.pairs["nina"]) as client:
        assert world.get(client).status_code == 200
        lines = world.shown.log.new()
        assert [world.get(client, path).status_code for path in PAGES[1:]] == [403] * 3
    assert [(line["event"], line["fingerprint"]) for line in lines] == [
        ("a certificate without a rank", world.pairs["nina"].fingerprint)
    ]


def test_a_certificate_that_was_taken_out_has_no_rank_on_an_open_connection(changing: World) -> None:
    """Taken out of config.toml it is a reader's; taken out of the operators' file it is nobody's. Nothing is restarted."""
    with changing.client(changing.pairs["opal"]) as client:
        form = form_of(lambda: changing.get(client, "/orders"))
        changing.settle({"sten": "staff"})
        wait_until(lambda: changing.get(client, "/orders").status_code == 403, "the rank is gone")
        assert changing.post(client, "/shutdown", form).status_code == 403
    assert changing.orders() == 0
    kept = [changing.pairs[name].certificate.read_bytes() for name in ("rhea", "sten", "nina")]
    (changing.home / "keys" / "operators.pem").write_bytes(b"".join(kept))
    changing.shown.log.new()
    assert changing.is_refused(changing.pairs["opal"])
    assert [line["reason"] for line in changing.shown.log.new()] == ["CERTIFICATE_VERIFY_FAILED"]
    assert not changing.is_refused(changing.pairs["sten"])


def test_a_broken_configuration_takes_no_rank_and_is_said(changing: World) -> None:
    """A slip in config.toml or in a certificate's file leaves the dashboard as it was, with a line about it."""
    (changing.home / "keys" / "operators.pem").write_text("no certificate", encoding="utf-8")
    with changing.client(changing.pairs["opal"]) as client:
        assert changing.get(client, "/orders").status_code == 200
        assert [line["event"] for line in changing.shown.log.new()] == ["the dashboard's certificates cannot be read"]
        config = changing.home / "config.toml"
        config.write_text(config.read_text("utf-8") + "nonsense = 1\n", encoding="utf-8")
        wait_until(
            lambda: "the dashboard could not look" in {line["event"] for line in changing.shown.log.new()}, "said"
        )
        assert changing.get(client, "/orders").status_code == 200


def test_the_dashboard_s_renewed_certificate_is_shown_at_once(changing: World) -> None:
    """A client that trusts the new one alone is served, without a restart."""
    before = (changing.home / "keys" / "dashboard.crt").read_bytes()
    documented("server", changing.home)
    assert (changing.home / "keys" / "dashboard.crt").read_bytes() != before
    with changing.client(changing.pairs["opal"]) as client:
        assert changing.get(client, "/orders").status_code == 200
    assert changing.shown.log.new() == []


@contextmanager
def raw(world: World) -> Iterator[ssl.SSLSocket]:
    """A connection of an operator on which anything can be sent."""
    context = ssl.create_default_context(cafile=world.home / "keys" / "dashboard.crt")
    opal = world.pairs["opal"]
    context.load_cert_chain(opal.certificate, opal.key)
    with (
        socket.create_connection(("127.0.0.1", world.shown.port), PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        yield secured


def test_no_session_is_taken_up_again_without_its_certificate(world: World) -> None:
    """The dashboard gives no session tickets: who comes again shows a certificate that is checked again."""
    with raw(world) as secured:
        secured.sendall(f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        assert secured.recv(12) == b"HTTP/1.1 200"
        assert secured.session is None or not secured.session.has_ticket


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({}, {"origin": "https://evil.example"}),
        ({}, {"origin": "null"}),
        ({}, {"origin": f"https://{HOST}.evil.example"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"sec-fetch-site": "same-site"}),
        ({"token": ""}, {}),
        ({"token": "0" * 64}, {}),
        ({"token": "sten's"}, {}),
        ({}, {"content-type": "application/json"}),
    ],
)
def test_another_site_cannot_make_an_operator_s_browser_act(
    world: World, form: dict[str, str], headers: dict[str, str]
) -> None:
    """The browser shows the certificate to whatever page asks: a foreign origin or a guessed token orders nothing."""
    with world.client(world.pairs["sten"]) as client:
        sten = world.get(client, "/people").text.partition('name="token" value="')[2][:64]
    with world.client(world.pairs["opal"]) as client:
        right = form_of(lambda: world.get(client, "/orders"))
        attack = right | (form if form.get("token") != "sten's" else {"token": sten})
        world.shown.log.new()
        if "content-type" in headers:
            answer = client.post(
                "/shutdown", content=json.dumps(attack), headers=headers, extensions={"sni_hostname": HOST}
            )
        else:
            answer = world.post(client, "/shutdown", attack, **headers)
        assert answer.status_code == 403
        assert client.get("/shutdown", params=right, extensions={"sni_hostname": HOST}).status_code == 405
        assert world.orders() == 0
        lines = [line for line in world.shown.log.new() if line["event"] == "an action was refused at the dashboard"]
        assert [line["path"] for line in lines] == ["/shutdown"]


def test_an_operator_s_own_page_acts_over_tls(changing: World) -> None:
    """With the right origin and token the order is given, and the log says by which certificate."""
    with changing.client(changing.pairs["opal"]) as client:
        form = form_of(lambda: changing.get(client, "/orders"))
        origin = f"https://{HOST}:{changing.shown.port}"
        answer = changing.post(client, "/shutdown", form, origin=origin, **{"sec-fetch-site": "same-origin"})
        assert answer.status_code == 200
    assert changing.orders() == 1
    (line,) = changing.shown.log.new()
    assert (line["event"], line["outcome"]) == ("an action at the dashboard", "done")
    assert line["by"] == f"certificate {changing.pairs['opal'].fingerprint[:16]}"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", f"{HOST}.evil.example", f"evil.example#{HOST}", "0.0.0.0", ""],  # noqa: S104 - a name
)
def test_a_request_for_another_host_is_told_nothing(world: World, host: str) -> None:
    """Whatever page a name was made to lead here (DNS rebinding); an operator's certificate changes nothing."""
    with world.client(world.pairs["opal"]) as client:
        for path in ("/", "/orders", "/events", "/metrics"):
            answer = world.get(client, path, host=host, **{"x-forwarded-host": HOST})
            assert (answer.status_code, answer.text) == (421, "unknown host")
        lines = world.shown.log.new()
        assert [line["event"] for line in lines] == ["a request for another host was refused"] * 4
        assert {line["host"] for line in lines} == {host}


def test_two_hosts_in_one_request_are_refused(world: World) -> None:
    """A proxy might believe the one and the dashboard the other."""
    with raw(world) as secured:
        secured.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nHost: evil.example\r\n\r\n".encode())
        assert secured.recv(12) == b"HTTP/1.1 400"
    (line,) = world.shown.log.new()
    assert line["event"] == "the web server complains"


def test_no_redirect_leads_to_the_host_that_a_client_names(world: World) -> None:
    """Every redirect is to a path."""
    with world.client(world.pairs["opal"]) as client:
        for path in ("/?key=guess", "/?lang=fr", "//evil.example/?lang=fr", "/orders?lang=en"):
            answer = world.get(client, path)
            location = answer.headers.get("location", "/")
            assert location.startswith("/")
            assert not location.startswith("//")


PROXY = {"address": "127.0.0.1:0", "proxy_user_header": "X-Remote-User", "proxy_secret": "file:keys/short.secret"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"address": "0.0.0.0:0"}, "has no certificate"),
        ({"address": "nonsense"}, "is not HOST:PORT"),
        ({"address": "127.0.0.1:99999"}, "is not HOST:PORT"),
        (TLS_SETTINGS | {"operator_certificates": ""}, "go together"),
        (TLS_SETTINGS | {"certificate_key": "keys/nowhere.key"}, "nowhere.key"),
        (TLS_SETTINGS | {"operator_certificates": "config.toml"}, "cannot be used"),
        (PROXY | {"proxy_secret": ""}, "go together"),
        (PROXY | {"proxy_user_header": ""}, "go together"),
        (PROXY, "fewer than 32 characters"),
    ],
)
def test_a_half_configured_dashboard_does_not_start(
    laid_out: Deployment, tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    """Nobody believes that a dashboard is protected which is not; the command says what is wrong."""
    home = tmp_path / "census"
    shutil.copytree(laid_out.home("census"), home)
    (home / "keys" / "operators.pem").write_bytes((home / "keys" / "dashboard.crt").read_bytes())
    (home / "keys" / "short.secret").write_text("guess me\n", encoding="utf-8")
    configure(home, settings)
    outcome = run("census", "dashboard", "--home", home, "--configured")
    assert outcome.code == 3
    assert "config.toml" in outcome.stderr
    assert problem in outcome.stderr
    assert "Traceback" not in outcome.stderr
