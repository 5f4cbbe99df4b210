"""A deployment that is watched as an agency watches its own: dashboards as services, and a real Prometheus with our rules."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import Node, wait_until
from fakes.nursery import PROGRAM

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
_PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    _PROMETHEUS is None, reason="no Prometheus here: 'make check-alerts' installs one"
)
# Whatever proxy the environment names, this machine is asked directly.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def get(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with _direct.open(url) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def configure(home: Path, **dashboard: Any) -> str:
    """Let a home's log be JSON and its dashboard be served on a port; gives the address."""
    address = f"127.0.0.1:{free_port()}"
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"address": address, **dashboard}.items()]
    config = home / "config.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text('log_format = "json"\n' + text + "\n[dashboard]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return address


@dataclass
class Watch:
    """One home's dashboard, which runs as a service of its own."""

    role: str
    address: str
    process: Node

    def page(self, path: str = "/") -> str:
        """A page as its reader sees it, without tags."""
        status, text = get(f"http://{self.address}{path}")
        assert status == 200, (path, status, text)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())

    def ready(self) -> tuple[int, list[str]]:
        """Status and problems of /readyz."""
        status, text = get(f"http://{self.address}/readyz")
        return status, json.loads(text)["problems"]

    def metrics(self) -> str:
        """Metrics as Prometheus scrapes them."""
        status, text = get(f"http://{self.address}/metrics")
        assert status == 200
        return text

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        values = re.findall(rf"^tripartite_{name}(?:\{{[^}}]*\}})? (\S+)$", self.metrics(), re.MULTILINE)
        assert values, name
        return sum(map(float, values))

    @property
    def logged(self) -> list[dict[str, Any]]:
        """The lines of the dashboard's own log."""
        return [json.loads(line) for line in self.process.stderr.splitlines()]

    def has_logged(self, problem: str) -> bool:
        """Whether a problem stands in the log."""
        return any(line["event"] == "problem" and problem in line["problem"] for line in self.logged)


@contextmanager
def watching(home: Path, role: str) -> Iterator[Watch]:
    """The dashboard of a home as a service of its own; ready when it has read the log or found that it cannot."""
    address = configure(home, with_node=False)
    words: list[str | Path] = [PROGRAM, role, "dashboard", "--home", home, "--configured"]
    # Its standard error stands in a file beside the home.
    process = Node(home.with_name(f"{home.name}-dashboard"), words, ready_lines=0, is_forked=True)
    watch = Watch(role, address, process)
    try:
        wait_until(lambda: bool(process.lines) or process.process.poll() is not None, "the dashboard is ready")
        assert process.process.poll() is None, process.stderr
        wait_until(lambda: "tripartite_log_entries{" in watch.metrics() or watch.metric("log_problem") == 1, "read")
        yield watch
    finally:
        process.end()


class Prometheus:
    """A real one, asked over its API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, what: str) -> Any:
        status, text = get(f"http://{self._address}/api/v1/{what}")
        assert status == 200, text
        return json.loads(text)["data"]

    def is_up(self) -> bool:
        """Whether it answers, and has scraped every target."""
        try:
            status, text = get(f"http://{self._address}/api/v1/targets")
        except urllib.error.URLError:
            return False
        # It refuses while it starts.
        targets = json.loads(text)["data"]["activeTargets"] if status == HTTPStatus.OK else []
        return bool(targets) and all(target["health"] == "up" for target in targets)

    def rules(self) -> list[dict[str, Any]]:
        """Every rule as it was evaluated last."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[tuple[str, str]]:
        """(alert, instance) of what fires now."""
        alerts = self.ask("alerts")["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"]["instance"]) for each in alerts if each["state"] == "firing"
        }

    def wait_firing(self, *alerts: tuple[str, Watch]) -> None:
        """Return when all of these fire."""
        wanted = {(f"Tripartite{name}", watch.address) for name, watch in alerts}
        wait_until(lambda: wanted <= self.firing(), f"these fire: {sorted(wanted)}; {self.firing()} do")


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Sequence[str]]) -> Iterator[Prometheus]:
    """Prometheus with our scrape configuration and our rules; `targets` are the addresses of each role's dashboards."""
    text = (MONITORING / "prometheus.yml").read_text("utf-8")
    for role, port in (("census", 9101), ("health", 9102)):
        ours = f'["127.0.0.1:{port}"]'
        assert ours in text, "the configuration names the ports of its comment"
        text = text.replace(ours, json.dumps(list(targets[role])))
    folder.mkdir()
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(MONITORING / "alerts.yml", folder)
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(
            [
                _PROMETHEUS or "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            shown = Prometheus(address)
            wait_until(lambda: process.poll() is not None or shown.is_up(), "Prometheus has scraped every dashboard")
            assert process.poll() is None, (folder / "log").read_text("utf-8")
            yield shown
        finally:
            process.terminate()
            process.wait()
