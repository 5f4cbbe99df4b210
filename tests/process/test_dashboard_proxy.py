"""A dashboard behind Debian's nginx, set up as the handbook says, with the configuration that the product ships."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.deployment import Deployment, make, run_here, wait_until
from fakes.patience import PATIENCE_SECONDS
from process.secured import HOST, OPENSSL, ROOT, Configured, configure, configured, documented, form_of

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not (NGINX and OPENSSL), reason="nginx or openssl is not installed here: 'make browser' installs them"
    ),
]
PAGES = ("/", "/people", "/activity", "/orders")
RANKS = {"rhea": [200, 403, 403, 403], "sten": [200, 200, 200, 403], "ada": [200] * 4, "nina": [200, 403, 403, 403]}
USERS = {"ada": "operator", "sten": "staff", "rhea": "reader"}
PASSWORD = "a password for tests"  # noqa: S105 - of a test


def configuration(home: Path, *, port: int, dashboard: int) -> str:
    """The shipped file with this home's files, ports and secret in place of its own."""
    text = (ROOT / "deploy" / "monitoring" / "nginx.conf").read_text("utf-8")
    for before, after in (
        ("listen 8443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("http://127.0.0.1:9101;", f"http://127.0.0.1:{dashboard};"),
        ("/etc/tripartite/dashboard.crt;", f"{home}/keys/dashboard.crt;"),
        ("/etc/tripartite/dashboard.key;", f"{home}/keys/dashboard.key;"),
        ("/etc/tripartite/dashboard.passwd;", f"{home}/dashboard.passwd;"),
        ("REPLACE-WITH-THE-SECRET;", (home / "keys" / "proxy.secret").read_text("ascii").strip() + ";"),
    ):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    # As root, nginx's workers would be somebody else, who cannot read a test's folder.
    user = "user root;" if os.geteuid() == 0 else ""
    folders = "\n".join(
        f"{name}_temp_path tmp/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"{user}\ndaemon off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}\n{text}\n}}\n"


def free_port() -> int:
    """A port that nobody listens at just now: nginx cannot choose one itself."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class World:
    """A dashboard, nginx before it, and the home."""

    deployment: Deployment
    shown: Configured
    port: int

    @property
    def home(self) -> Path:
        return self.deployment.home("census")

    @property
    def origin(self) -> str:
        return f"https://{HOST}:{self.port}"

    def client(self, user: str | None = "ada", password: str = PASSWORD) -> httpx.Client:
        """Somebody before the proxy."""
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=ssl.create_default_context(cafile=self.home / "keys" / "dashboard.crt"),
            headers={"host": f"{HOST}:{self.port}"},
            auth=None if user is None else (user, password),
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )

    def past_nginx(self, **headers: str) -> httpx.Client:
        """Somebody on the machine who calls the dashboard itself."""
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.shown.port}", headers=headers, timeout=PATIENCE_SECONDS, trust_env=False
        )

    def statuses(self, client: httpx.Client, **headers: str) -> list[int]:
        """Status of each page."""
        return [get(client, path, **headers).status_code for path in PAGES]

    def orders(self) -> list[str]:
        """The orders that stand in the log."""
        events = self.deployment.events("census")
        return [event["type"] for event in events if event["type"] in {"shutdown", "reopened"}]


def get(client: httpx.Client, path: str, **headers: str) -> httpx.Response:
    """A page; the certificate has to be for the dashboard's name."""
    return client.get(path, headers=headers, extensions={"sni_hostname": HOST})


def post(client: httpx.Client, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
    """A form."""
    return client.post(path, data=form, headers=headers, extensions={"sni_hostname": HOST})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everything as the handbook says."""
    folder = tmp_path_factory.mktemp("proxy")
    deployment = make(folder / "deployment", population=10)
    home = deployment.home("census")
    documented("server", home)
    documented("secret", home)
    for user in RANKS:
        documented("password", home, ("ada", user), ("openssl passwd -6", f"openssl passwd -6 '{PASSWORD}'"))
    settings: dict[str, Any] = {
        "address": "127.0.0.1:0",
        "hosts": [HOST],
        "proxy_user_header": "X-Remote-User",
        "proxy_secret": "file:keys/proxy.secret",
        "users": USERS,
    }
    configure(home, settings)
    with configured(home, folder / "log") as shown:
        port, prefix = free_port(), folder / "nginx"
        (prefix / "tmp").mkdir(parents=True)
        (prefix / "nginx.conf").write_text(configuration(home, port=port, dashboard=shown.port), encoding="utf-8")
        errors = prefix / "errors"
        process = subprocess.Popen([str(NGINX), "-p", prefix, "-c", "nginx.conf", "-e", errors])
        try:
            wait_until(lambda: process.poll() is not None or _listens(port), "nginx listens")
            assert process.poll() is None, errors.read_text("utf-8")
            yield World(deployment, shown, port)
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("user", RANKS)
def test_a_user_of_the_proxy_has_the_rank_that_config_toml_gives(world: World, user: str) -> None:
    """Somebody with a password and without a rank is a reader."""
    with world.client(user) as client:
        assert world.statuses(client) == RANKS[user]


def test_without_a_password_the_proxy_lets_nobody_through(world: World) -> None:
    """Neither with none nor with a wrong one; the dashboard hears nothing of it."""
    world.shown.log.new()
    for user, password in ((None, ""), ("ada", "wrong"), ("eve", PASSWORD)):
        with world.client(user, password) as client:
            assert world.statuses(client, **{"x-remote-user": "ada"}) == [401] * 4
    assert world.shown.log.new() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Remote-User": "ada"},
        {"x-remote-user": "ada", "x-tripartite-proxy": "a guess"},
        {"X_Remote_User": "ada"},
        {"X-Remote-User": "ada", "Connection": "close, X-Remote-User"},
    ],
)
def test_a_client_cannot_name_another_user_through_the_proxy(world: World, headers: dict[str, str]) -> None:
    """Nginx overwrites the user and the secret, however a client spells them."""
    with world.client("rhea") as client:
        assert world.statuses(client, **headers) == RANKS["rhea"]


def test_past_the_proxy_there_is_the_public_face_alone(world: World) -> None:
    """Naming a user needs the secret; a wrong one leaves a line for each request."""
    with world.past_nginx() as client:
        assert world.statuses(client) == RANKS["nina"]
    with world.past_nginx(**{"x-remote-user": "ada"}) as client:
        assert world.statuses(client) == RANKS["nina"]
    world.shown.log.new()
    with world.past_nginx(**{"x-remote-user": "ada", "x-tripartite-proxy": "a guess"}) as client:
        assert client.get("/").status_code == 200
    assert [line["event"] for line in world.shown.log.new()] == ["a wrong proxy secret was tried at the dashboard"]


def test_events_come_through_the_proxy_as_they_happen(world: World) -> None:
    """The first event arrives while the stream is open, and the next one when the log has grown."""
    with world.client("rhea") as client, client.stream("GET", "/events", extensions={"sni_hostname": HOST}) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        first = next(lines)
        assert run_here("keys", "rotate", "log", "--home", world.home, "--json").code == 0
        assert next(lines) != first


def test_orders_are_given_through_the_proxy(world: World) -> None:
    """The browser's origin, with the proxy's port, is our own; the log says who gave them."""
    before = world.orders()
    with world.client("ada") as client:
        own = {"origin": world.origin, "sec-fetch-site": "same-origin"}
        world.shown.log.new()
        assert post(client, "/shutdown", form_of(lambda: get(client, "/orders")), **own).status_code == 200
        assert post(client, "/reopen", form_of(lambda: get(client, "/orders")), **own).status_code == 200
    assert world.orders() == [*before, "shutdown", "reopened"]
    assert [(line["by"], line["outcome"]) for line in world.shown.log.new()] == [("ada", "done")] * 2


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"https://{HOST}", f"https://{HOST}:1"])
def test_another_site_cannot_act_through_the_proxy(world: World, origin: str) -> None:
    """The browser sends the password to whatever page asks; another origin, also another port of ours, orders nothing."""
    before = world.orders()
    with world.client("ada") as client:
        form = form_of(lambda: get(client, "/orders"))
        world.shown.log.new()
        assert post(client, "/shutdown", form, origin=origin).status_code == 403
    assert world.orders() == before
    assert [line["event"] for line in world.shown.log.new()] == ["an action was refused at the dashboard"]


def test_the_token_of_one_user_is_worth_nothing_to_another(world: World) -> None:
    """Staff know their own token and no operator's."""
    with world.client("sten") as staff, world.client("ada") as client:
        token = re.search(r'name="token" value="([0-9a-f]+)"', get(staff, "/people").text)
        assert token is not None
        form = form_of(lambda: get(client, "/orders")) | {"token": token[1]}
        assert post(client, "/shutdown", form, origin=world.origin).status_code == 403
        assert post(staff, "/shutdown", form, origin=world.origin).status_code == 403


def test_another_host_is_refused_through_the_proxy(world: World) -> None:
    """Nginx passes the name on, and the dashboard knows its own."""
    with world.client("ada") as client:
        assert get(client, "/", host="evil.example").status_code == 421


def test_probes_and_metrics_stay_on_the_machine(world: World) -> None:
    """Through the proxy they are not there; past it they are."""
    with world.client("ada") as client, world.past_nginx() as local:
        for path in ("/metrics", "/healthz", "/readyz"):
            assert get(client, path).status_code == 404
            assert local.get(path).status_code in {200, 503}


def test_a_user_who_is_taken_out_has_no_rank(world: World) -> None:
    """Within seconds and without a restart."""
    config = world.home / "config.toml"
    text = config.read_text("utf-8")
    with world.client("sten") as client:
        assert get(client, "/people").status_code == 200
        config.write_text(text.replace('"sten" = "staff", ', ""), encoding="utf-8")
        wait_until(lambda: get(client, "/people").status_code == 403, "the rank is gone")
        config.write_text(text, encoding="utf-8")
        wait_until(lambda: get(client, "/people").status_code == 200, "the rank is back")
