"""The on-call operator's view of real nodes: probes, metrics, alerts at a real Prometheus, and lines of the log.

Every outage is made as it happens, and is looked for in four places: the first page, the metrics, the log and the alerts.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, Node, make, run_here, wait_until
from fakes.nursery import PROGRAM
from fakes.patience import PATIENCE_SECONDS
from process.watching import MONITORING, Watch, configure, get, needs_prometheus, prometheus, watching

from broker_common.crypto.certificates import Identity, make_certificate
from broker_common.storage.clock import system_clock
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
AGENCIES = ("census", "health")
YEAR_MS = 366 * 86_400_000
MINUTE_MS = 60_000
QUESTION = ("age >= 65", FRENCH)
HANDBOOK = Path(__file__).parents[2] / "docs" / "watching.md"
NAME = re.compile(r"\btripartite_[a-z_]+\b")


@dataclass
class Scene:
    """Both agencies, each with its dashboard as a service; standard error of each node in a file of its own."""

    deployment: Deployment
    watches: dict[str, Watch]
    nodes: dict[str, Node]

    def start(self, role: str, *launcher: str | Path) -> None:
        """A node, ready when this returns."""
        words = [*launcher, role, "serve", "--home", self.deployment.home(role)]
        self.nodes[role] = Node(
            self.deployment.directory.with_name(f"node-{role}"), words, ready_lines=1, is_forked=True
        )
        self.nodes[role].wait_ready()

    def end(self, role: str) -> None:
        """Stop a node, also one that was held."""
        with suppress(ProcessLookupError):
            self.nodes[role].process.send_signal(signal.SIGCONT)
        self.nodes[role].end()

    def restart(self, role: str) -> None:
        """Stop a node and start it again."""
        self.end(role)
        self.start(role, PROGRAM)

    def log(self, role: str) -> list[dict[str, Any]]:
        """A node's lines."""
        return [json.loads(line) for line in self.nodes[role].stderr.splitlines()]


def begin(stack: ExitStack, deployment: Deployment, *launcher: str | Path) -> Scene:
    """Dashboards first, as they read what the nodes write; then the nodes."""
    watches = {role: stack.enter_context(watching(deployment.home(role), role)) for role in AGENCIES}
    scene = Scene(deployment, watches, {})
    for role in AGENCIES:
        scene.start(role, *(launcher or (PROGRAM,)))
        stack.callback(scene.end, role)
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Nodes that have answered one question."""
    deployment = make(tmp_path_factory.mktemp("watching") / "deployment", population=200)
    with ExitStack() as stack:
        shown = begin(stack, deployment)
        (asked,) = deployment.ask_all([QUESTION], wait_seconds=PATIENCE_SECONDS)
        assert isinstance(asked, AskedQuestion), asked
        for watch in shown.watches.values():
            wait_until(lambda: watch.metric("answers_total") == 1, "the answer is counted")  # noqa: B023 - called here
        yield shown


# --- probes and metrics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", AGENCIES)
def test_probes_and_metrics_are_served_without_a_certificate(scene: Scene, role: str) -> None:
    """On the address of config.toml, in the clear: the service runs, the node can be asked, and its figures are there."""
    watch = scene.watches[role]
    assert get(f"http://{watch.address}/healthz") == (200, "ok\n")
    wait_until(lambda: watch.ready() == (200, []), f"nothing is wrong: {watch.ready()}")
    assert watch.metric("up") == 1
    assert watch.metric("answers_total") >= 1


def names_of(watches: dict[str, Watch]) -> set[str]:
    """Every metric of which a dashboard shows a sample, by the name that it has in rules."""
    samples = re.findall(r"^(tripartite_\w+)[{ ]", "".join(each.metrics() for each in watches.values()), re.MULTILINE)
    return {name for name in samples if not name.endswith("_created")}


def test_every_metric_that_rules_and_panels_name_is_written(scene: Scene) -> None:
    """A rule over a name that nobody writes never fires, and a panel stays empty."""
    written = names_of(scene.watches)
    for file in ("alerts.yml", "grafana.json"):
        named = set(NAME.findall((MONITORING / file).read_text("utf-8")))
        assert len(named) > 5
        assert named <= written, file


def test_the_handbook_names_every_metric_and_no_other(scene: Scene) -> None:
    """Authors of alert rules rely on its table."""
    rows = [
        line.split("|")[1] for line in HANDBOOK.read_text("utf-8").splitlines() if line.startswith("| `tripartite_")
    ]
    documented = set(NAME.findall(" ".join(rows)))
    written = {re.sub(r"(answer_seconds)_(bucket|count|sum)$", r"\1", name) for name in names_of(scene.watches)}
    assert documented == written


def test_labels_are_few(scene: Scene) -> None:
    """Roles, parties by role, methods, codes and the bounds of buckets: nothing that grows with use."""
    text = "".join(watch.metrics() for watch in scene.watches.values())
    values: dict[str, set[str]] = {}
    for labels in re.findall(r"^tripartite_\w+\{([^}]*)\}", text, re.MULTILINE):
        for name, value in re.findall(r'(\w+)="([^"]*)"', labels):
            values.setdefault(name, set()).add(value)
    assert values.keys() <= {"role", "party", "method", "outcome", "reason", "le"}
    assert values["role"] == set(AGENCIES)
    assert values["party"] <= {"own", "census", "health", "researcher"}
    assert all(re.fullmatch(r"[A-Za-z]+", method) for method in values["method"])
    assert all(re.fullmatch(r"ok|[A-Z_]+", outcome) for outcome in values["outcome"])


# --- the log -----------------------------------------------------------------------------------------------------------


def speak(address: str, context: ssl.SSLContext | None, name: str = "") -> None:
    """Connect, ask for a server of this name, say something, and listen until the other side has had enough."""
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)))
    with (
        suppress(ssl.SSLError, ConnectionError),
        closing(plain if context is None else context.wrap_socket(plain, server_hostname=name or None)) as connection,
    ):
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        while connection.recv(1024):
            pass


def stranger(folder: Path) -> ssl.SSLContext:
    """Somebody with a certificate of their own making."""
    made = make_certificate(Identity("university", "researcher", "researcher-1"), now_ms=system_clock(), days=2)
    file = folder / "stranger.pem"
    file.write_bytes(made.private_key + made.certificate)
    context = anonymous()
    context.load_cert_chain(file)
    return context


def anonymous() -> ssl.SSLContext:
    """Somebody without a certificate, who does not care whom they speak to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def refused_connections(scene: Scene, role: str) -> Counter[str]:
    """One connection of each kind that is refused; gives the reasons that the node has logged since, in all."""
    address = scene.nodes[role].ready[0].split()[-1]
    before = refusals(scene, role).total()
    contexts = (anonymous(), stranger(scene.deployment.directory), None)
    for context in contexts:
        speak(address, context)
    wait_until(lambda: refusals(scene, role).total() >= before + len(contexts), "refused and logged")
    return refusals(scene, role)


def refusals(scene: Scene, role: str) -> Counter[str]:
    """Reasons of connections that a node has refused, from its log."""
    return Counter(line["reason"] for line in scene.log(role) if line["event"] == "connection refused")


@pytest.mark.parametrize("role", AGENCIES)
def test_every_refused_connection_is_one_line_and_counted(scene: Scene, role: str) -> None:
    """Without a certificate, with one that nobody registered, and without TLS at all."""
    before = refusals(scene, role)
    new = refused_connections(scene, role) - before
    assert new.total() == 3
    assert new["PEER_DID_NOT_RETURN_A_CERTIFICATE"] == new["CERTIFICATE_VERIFY_FAILED"] == 1
    total = refusals(scene, role).total()
    wait_until(lambda: scene.watches[role].metric("connections_refused_total") == total, "counted")


@pytest.mark.parametrize("role", AGENCIES)
def test_a_stranger_writes_no_line_of_the_log_and_names_no_metric(scene: Scene, role: str) -> None:
    """The transport library quotes the server name that a client asks for, with whatever stands in it."""
    address = scene.nodes[role].ready[0].split()[-1]
    before = refusals(scene, role)
    line = "I1119 07:06:58.442698 7293 ssl_transport_security.cc:1] Handshake failed with error S: error:1:a:b:"
    forged = {"event": "answered"}
    names = [json.dumps(forged), f"{line}FORGED"]
    for name in (*(f"a\n{each}\n" for each in names), "a Handshake failed with error S: error:1:a:b:FORGED_IN_LINE"):
        speak(address, anonymous(), name)
    # The library says what it likes of the one that looks like its own line: that counts once more, without its word.
    wait_until(lambda: refusals(scene, role).total() >= before.total() + 4, "refused and logged")
    # Every line is JSON, or reading them fails; the forged ones are none of them, but quoted in one.
    assert forged not in scene.log(role)
    assert any("FORGED_IN_LINE" in line.get("text", "") for line in scene.log(role))
    wait_until(
        lambda: scene.watches[role].metric("connections_refused_total") == refusals(scene, role).total(), "counted"
    )
    assert "FORGED" not in scene.watches[role].metrics()


@pytest.mark.parametrize("role", AGENCIES)
def test_every_answered_question_is_one_line(scene: Scene, role: str) -> None:
    """With the request that brought it, in JSON, and without a word of what was asked."""
    before = [line for line in scene.log(role) if line["event"] == "answered"]
    outcomes = scene.deployment.ask_all([QUESTION] * 2, wait_seconds=PATIENCE_SECONDS)
    assert all(isinstance(each, AskedQuestion) for each in outcomes)
    # The health node's line is written after the researcher has the answer.
    wait_until(lambda: len(answered(scene, role)) == len(before) + 2, "both are logged")
    lines = answered(scene, role)
    assert len({line["request"] for line in lines}) == len(lines)
    assert all(set(line) == {"event", "level", "timestamp", "request"} for line in lines)


def answered(scene: Scene, role: str) -> list[dict[str, Any]]:
    """The lines about answered questions."""
    return [line for line in scene.log(role) if line["event"] == "answered"]


# --- the dashboard beside a node ---------------------------------------------------------------------------------------


def test_a_node_runs_its_dashboard_and_takes_it_along(tmp_path: Path) -> None:
    """With an address in config.toml; a dashboard that dies is started again, and none is left when the node has ended."""
    deployment = make(tmp_path / "deployment", population=10)
    address = configure(deployment.home("census"))

    def is_served() -> bool:
        try:
            return get(f"http://{address}/healthz") == (200, "ok\n")
        except OSError:
            return False

    with deployment.node("census") as node:
        wait_until(is_served, "the dashboard is there")
        (child,) = children(node.process.pid)
        subprocess.run(["kill", "-KILL", str(child)], check=True)  # noqa: S607 - wherever it is
        wait_until(lambda: children(node.process.pid) not in ([], [child]) and is_served(), "there again")
        assert 'tripartite_up{role="census"} 1.0' in get(f"http://{address}/metrics")[1]
        lines = [json.loads(line) for line in node.stderr.splitlines() if line.startswith("{")]
        assert "the dashboard has ended and is started again" in {line["event"] for line in lines}
    wait_until(lambda: not is_served(), "gone with its node")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end while we look.
        with suppress(FileNotFoundError):
            found |= {int(word) for word in (task / "children").read_text().split()}
    return sorted(found)


# --- outages -----------------------------------------------------------------------------------------------------------


def assert_shown(watch: Watch, problem: str) -> None:
    """The first page says it, /readyz lists it, and the dashboard's log has a line."""
    wait_until(lambda: problem in watch.page(), f"on the page: {problem}")
    assert any(problem in each for each in watch.ready()[1])
    wait_until(lambda: watch.has_logged(problem), f"in the log: {problem}")


@needs_prometheus
@pytest.mark.parametrize("dies", AGENCIES)
def test_outages_of_running_nodes_show_everywhere(tmp_path: Path, dies: str) -> None:
    """One of the nodes comes late, refuses a load, changes a key, dies; the other one is alone, and hangs at last."""
    other = "health" if dies == "census" else "census"
    deployment = make(tmp_path / "deployment", population=10, tick_ms=200)
    with ExitStack() as stack:
        scene = begin(stack, deployment, sys.executable, HERE / "late_node.py", "1000")
        alone, dead = scene.watches[other], scene.watches[dies]
        targets = {role: [watch.address] for role, watch in scene.watches.items()}
        alerts = stack.enter_context(prometheus(tmp_path / "prometheus", targets))
        wait_until(lambda: all(rule["health"] == "ok" for rule in alerts.rules()), "every rule is evaluated")

        # Ticks missed.
        (asked,) = deployment.ask_all([QUESTION], wait_seconds=PATIENCE_SECONDS)
        assert isinstance(asked, AskedQuestion), asked
        for role in AGENCIES:
            said = {line["event"] for line in scene.log(role) if line["level"] == "warning"}
            assert any("tick" in event or "late" in event for event in said), (role, said)
            wait_until(lambda: scene.watches[role].metric("ticks_missed_total") >= 1, "counted")  # noqa: B023

        # A load refused, and a key changed.
        bad = tmp_path / "bad.csv"
        bad.write_text("no,such,columns\n1,2,3\n", encoding="utf-8")
        for role in AGENCIES:
            assert run_here(role, "load", "--home", deployment.home(role), bad, "--json").code == 3
            assert_shown(scene.watches[role], "The last load was refused")
        assert run_here("keys", "rotate", "witness", "--home", deployment.home(other), "--json").code == 0
        for role in AGENCIES:
            # The other agency hears of it by the next exchange of cards.
            assert_shown(scene.watches[role], "Keys of this node or of a peer have changed")
        for watch in scene.watches.values():
            wait_until(lambda: watch.ready()[0] == 200, "it can be asked all the same")  # noqa: B023 - called here
        alerts.wait_firing(
            *(
                (name, watch)
                for name in ("TickMissed", "LoadRefused", "KeysChanged")
                for watch in scene.watches.values()
            )
        )

        # One dies. The other is alone, and what it logs is not cosigned.
        scene.nodes[dies].signal(signal.SIGKILL)
        assert_shown(dead, "The node's process is not running.")
        assert dead.metric("up") == 0
        log_something(scene, other)
        assert_shown(alone, "was not heard of for half a minute")
        assert_shown(alone, "has not cosigned the newest entries")
        assert alone.metric("witnessed_entries") < alone.metric("log_due_entries")
        assert [alone.ready()[0], dead.ready()[0]] == [503, 503]
        alerts.wait_firing(("NodeDown", dead), ("PeerGone", alone), ("WitnessStale", alone))
        if other == "census":
            alerts.wait_firing(("ShutDown", alone))
            assert "The service is shut down" in alone.page()

        # The other one hangs, and the dashboard of the dead one is gone, too.
        scene.nodes[other].process.send_signal(signal.SIGSTOP)
        assert_shown(alone, "has said nothing of itself for ten seconds")
        dead.process.end()
        alerts.wait_firing(("NodeSilent", alone), ("DashboardGone", dead))


def log_something(scene: Scene, role: str) -> None:
    """An entry in an agency's log that the other one has to cosign."""
    if role == "census":
        # Noise slots, which a start commits to.
        scene.restart(role)
        scene.deployment.json("census", "shutdown", "--reason", "a test")
    else:
        assert run_here("keys", "rotate", "manifest", "--home", scene.deployment.home(role), "--json").code == 0


@needs_prometheus
def test_outages_that_the_log_and_the_clock_tell_show_everywhere(tmp_path: Path) -> None:
    """Certificates that ended, logs that are ahead, a damaged log, and two machines whose clocks are apart."""
    made = {
        name: shifted_deployment(tmp_path / name, shift_ms)
        for name, shift_ms in (("old", -2 * YEAR_MS), ("ahead", 60 * MINUTE_MS), ("sound", 0))
    }
    damaged = Deployment(shutil.copytree(made["sound"].directory, tmp_path / "damaged"))
    with ExitStack() as stack:
        watches: dict[tuple[str, str], Watch] = {}
        for role in AGENCIES:
            damage(damaged.home(role) / "journal.db")
            for name, deployment in (("old", made["old"]), ("ahead", made["ahead"]), ("damaged", damaged)):
                watches[name, role] = stack.enter_context(watching(deployment.home(role), role))
        # The health agency's machine is two minutes ahead of the census agency's, as both are of their logs.
        apart = made["sound"]
        watches["apart", "census"] = stack.enter_context(watching(apart.home("census"), "census"))
        stack.enter_context(apart.node("census"))
        shift = tmp_path / "two minutes"
        shift.write_text(str(2 * MINUTE_MS))
        stack.enter_context(apart.node("health", launcher=(sys.executable, HERE / "shifted_node.py", shift)))

        targets = {role: [watch.address for watch in watches.values() if watch.role == role] for role in AGENCIES}
        alerts = stack.enter_context(prometheus(tmp_path / "prometheus", targets))
        for role in AGENCIES:
            assert_shown(watches["old", role], "This node's certificate has ended")
            assert_shown(watches["ahead", role], "is ahead of this machine's clock")
            assert_shown(watches["damaged", role], "The log cannot be read, or breaks its own rules")
            assert watches["damaged", role].metric("log_problem") == 1
        assert_shown(watches["apart", "census"], "The clocks of the two agencies are more than a minute apart")
        alerts.wait_firing(
            ("ClockWrong", watches["apart", "census"]),
            *((name, watches["old", role]) for name in ("CertificateEnds", "CertificateEnded") for role in AGENCIES),
            *(("ClockWrong", watches["ahead", role]) for role in AGENCIES),
            *(("LogUnreadable", watches["damaged", role]) for role in AGENCIES),
        )


def shifted_deployment(directory: Path, shift_ms: int) -> Deployment:
    """A deployment that was made while the clock was so much ahead."""
    shift = directory.with_suffix(".shift")
    shift.write_text(str(shift_ms))
    words: list[str | Path] = ["init", directory, "--population", "10", "--release-tick-ms", "0", "--json"]
    subprocess.run(
        [sys.executable, HERE / "shifted_node.py", shift, *words],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    return Deployment(directory)


def damage(journal: Path) -> None:
    """One byte of one entry is another one."""
    import sqlite3  # noqa: PLC0415

    with closing(sqlite3.connect(journal)) as db, db:
        db.execute("update entries set entry = replace(entry, 'a', 'b') where sequence = 1")
