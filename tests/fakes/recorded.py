"""One whole life of a deployment, recorded: everything that parties do, and everything that goes wrong on the way.

Real node processes under a wiretap, asked with the documented commands: loads with wrong rows, quotes, answers at once
and at ticks, fractions, an empty cohort, typos, refusals, an expired ticket, retries, a connection that is cut in the
middle, each node down and back, kill -9 at a durable step, an inbox that opens late, a shutdown. What tests then look at
is `evidence`: everything that anybody held or was told meanwhile (`fakes.evidence`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
from fakes.canaries import Exhibit, Place
from fakes.deployment import FRENCH, PROGRAM, Deployment, Node, Outcome, make, run_here, wait_until
from fakes.evidence import Snapshots, on_the_wire
from fakes.homes import adopt, server_name_of, tls_of
from fakes.marked_people import MarkedPeople
from fakes.wiretap import Link, Wiretap
from grpc_health.v1 import health_pb2, health_pb2_grpc

from researcher_node.asking import Precision, Session, Wanted

__all__ = ["TYPED_CRITERIA", "TYPED_QUESTION", "TYPOS", "Recorded", "Watched", "record"]

CRASHING_NODE = Path(__file__).parents[1] / "process" / "crashing_node.py"
MAX_BELIEF = "0.99999"
"""Some 11.5 nat: enough for every question below, and the service still open at the end."""
TYPED_CRITERIA = (
    f"EMERGENCY_visits>={MarkedPeople.emergency_visits}   AND HOSPITAL_visits={MarkedPeople.visits} "
    f"and last_admission_date='{MarkedPeople.admission}'"
)
TYPED_QUESTION = "knowledge_of_official_languages in ('Neither', 'French only')"
# A word that means nothing, and the command line it stands in.
TYPOS = {
    "hospitl_vsits_qx": ("--where", "hospitl_vsits_qx > 3", "--count", FRENCH),
    "epilepsie-qx-71": ("--where", "diagnosis = 'epilepsie-qx-71'", "--count", FRENCH),
    "mother_tonge_qx": ("--where", "age >= 65", "--count", "mother_tonge_qx = 'French'"),
    "Klingon-qx-904": ("--where", "age >= 65", "--count", "mother_tongue = 'Klingon-qx-904'"),
    "rubbish_qx_1 ((": ("--where", "rubbish_qx_1 ((", "--count", FRENCH),
}
WRONG_ROW = "wrong-value-qx-3358"
"""In a column of the sources, where it is no published code: the loads leave its rows out."""
ONE_PERSON = f"hospital_visits = {MarkedPeople.visits}"
NOBODY = "age > 129"
# Of the large cohort still more than one frame. What such a sample counts is no canary: noise could not be told from it.
MOST = ("--fraction", "0.9")
QUOTE_SECONDS = 2.0
# Smaller noisy counts are not told from other numbers.
_LARGE = 10_000


class Watched(Deployment):
    """A deployment that keeps what its commands and nodes say, each node's standard error in a file of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.said: list[Exhibit] = []
        self._nodes: dict[str, Node] = {}

    def run(self, role: str, command: str, *words: str | Path) -> Outcome:
        """A command in a process of its own, so that it may run beside others."""
        return self._keep(role, command, super().run(role, command, *words))

    def run_here(self, role: str, command: str, *words: str | Path) -> Outcome:
        """A command in this process, a third of a second faster; one at a time."""
        return self._keep(role, command, run_here(role, command, "--home", self.home(role), *words))

    def both(self, role: str, command: str, *words: str) -> Outcome:
        """The command for people and with --json; gives the latter."""
        self.run_here(role, command, *words)
        return self.run_here(role, command, *words, "--json")

    def _keep(self, role: str, command: str, outcome: Outcome) -> Outcome:
        said = f"{outcome.stdout}\n{outcome.stderr}".encode()
        self.said.append(Exhibit(Place(role, "output"), f"{role} {command}", said))
        return outcome

    # --- nodes -----------------------------------------------------------------------------------------------------

    def start(self, role: str, *, launcher: Sequence[str | Path] = (PROGRAM,)) -> Node:
        """Start a node; ready when this returns."""
        node = Node(self._log_name(role), [*launcher, role, "serve", "--home", self.home(role)], ready_lines=1)
        self._nodes[role] = node
        node.wait_ready()
        process = Path("/proc") / str(node.process.pid)
        for name in ("cmdline", "environ"):
            content = (process / name).read_bytes().replace(b"\0", b"\n")
            self.said.append(Exhibit(Place(role, "process"), name, content))
        return node

    def stop(self, role: str, number: int = signal.SIGTERM) -> None:
        """Stop a node with a signal, unless it has ended."""
        node = self._nodes.pop(role)
        if node.process.poll() is None:
            node.signal(number)
        node.end()
        self.said.append(Exhibit(Place(role, "log"), "standard output", "\n".join(node.lines).encode()))

    def stop_all(self) -> None:
        for role in list(self._nodes):
            self.stop(role)

    def log(self, role: str) -> bytes:
        """What a role's nodes wrote on standard error, all of them together."""
        file = self._log_name(role).with_name(f"{self._log_name(role).name}.stderr")
        return file.read_bytes() if file.exists() else b""

    def _log_name(self, role: str) -> Path:
        return self.directory.with_name(f"{self.directory.name}-{role}")


@dataclass
class Recorded:
    """The recording, and what the tests must know to look for it."""

    deployment: Watched
    tap: Wiretap
    people: MarkedPeople
    snapshots: Snapshots
    # Where nodes put temporary files, if they do.
    temporary: Path
    # Query ids by what was asked.
    queries: dict[str, str] = field(default_factory=dict)
    # Large answers. One in 60 happens to be exact (P(noise is 0) at scale 30): then it says an exact count, rightly.
    noisy_counts: set[int] = field(default_factory=set)
    slot_secrets: list[bytes] = field(default_factory=list)
    opening_keys: list[str] = field(default_factory=list)
    # Second names of sample files, by which their content can be seen after they were removed.
    wiped_samples: list[Path] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.deployment.directory

    def evidence(self) -> Iterator[Exhibit]:
        """Everything that anybody held or was told."""
        yield from self.snapshots.exhibits
        yield from self.deployment.said
        for role in ("researcher", "health", "census"):
            yield Exhibit(Place(role, "log"), "standard error", self.deployment.log(role))
        yield from on_the_wire(self.tap)


@contextlib.contextmanager
def record(directory: Path) -> Iterator[Recorded]:
    """Live that life; everything has ended when the recording is given."""
    temporary = directory.with_name("temporary")
    temporary.mkdir()
    make(directory, "--max-belief", MAX_BELIEF, population=10)
    deployment = Watched(directory)
    people = MarkedPeople.make()
    with patch.dict(os.environ, {"TMPDIR": str(temporary)}), Wiretap(directory) as tap, ThreadPoolExecutor() as pool:
        life = _Life(Recorded(deployment, tap, people, Snapshots(directory), temporary), pool)
        try:
            life.live()
        finally:
            deployment.stop_all()
        life.recorded.snapshots.take("at the end")
    yield life.recorded


class _Life:
    def __init__(self, recorded: Recorded, pool: ThreadPoolExecutor) -> None:
        self.recorded = recorded
        self._deployment = recorded.deployment
        self._directory = recorded.directory
        self._tap = recorded.tap
        self._pool = pool

    def live(self) -> None:
        self._load()
        self._deployment.start("census")
        self._deployment.start("health")
        self._look_around()
        self._ask_at_once()
        self._ask_wrongly()
        self._lose_a_connection()
        self.recorded.snapshots.take("while the nodes serve")
        self._kill_the_census_node()
        self._lose_the_census_node()
        self._lose_the_health_node()
        self._ask_at_ticks()
        self._let_a_ticket_expire()
        self._read_again()
        self._shut_down()
        self.recorded.snapshots.take("after the shutdown")

    # --- the parts of it -------------------------------------------------------------------------------------------

    def _load(self) -> None:
        people, home = self.recorded.people, self._deployment.home
        for rows, column in ((people.health, "census_division"), (people.census, "home_language")):
            rows.append({**rows[-1], column: WRONG_ROW})
        people.write(home("health") / "people.csv", home("census") / "people.csv")
        for role in ("health", "census"):
            for how in ((), ("--json",)):
                loaded = self._deployment.run(role, "load", *how)
            assert loaded.result["rejected"] == 1
        self.recorded.snapshots.take("after the loads")

    def _look_around(self) -> None:
        for role, command in (
            ("researcher", "dictionary"),
            ("health", "dictionary"),
            ("health", "status"),
            ("census", "policy"),
            ("census", "status"),
        ):
            assert self._deployment.run(role, command).code == 0
            assert self._deployment.run_here(role, command, "--json").code == 0
        self._deployment.both("researcher", "quote", "--count", TYPED_QUESTION)
        self._deployment.both("researcher", "quote", "--margin", "90")
        for role in ("health", "census"):
            self._probe(Link("researcher", role))

    def _ask_at_once(self) -> None:
        self._ask("marked", TYPED_CRITERIA, TYPED_QUESTION)
        self._ask("one", ONE_PERSON, FRENCH)
        self._ask("nobody", NOBODY, FRENCH)
        self._ask("many", MarkedPeople.large_cohort, FRENCH)
        self._ask("many, again", MarkedPeople.large_cohort, "all")
        self._ask("part", MarkedPeople.large_cohort, FRENCH, *MOST)
        self._ask("one, by its ticket", "", "", query=self.recorded.queries["one"])
        self._deployment.run_here("researcher", "ask", "--again", self.recorded.queries["many"])

    def _ask_wrongly(self) -> None:
        for words in (*TYPOS.values(), ("--where", ONE_PERSON, "--count", FRENCH, "--scale", "70")):
            for how in ((), ("--json",)):
                assert self._deployment.run_here("researcher", "ask", *words, *how).code in {3, 4}
        assert self._deployment.run_here("researcher", "ask", "--again", "0" * 32).code == 3

    def _lose_a_connection(self) -> None:
        cut = self._tap.cut(Link("health", "census"), after_bytes=400_000)
        self._ask("cut", MarkedPeople.large_cohort, "all", *MOST)
        assert cut.is_set(), "the sample was not cut"

    def _kill_the_census_node(self) -> None:
        self._deployment.stop("census")
        crashing = self._deployment.start("census", launcher=(sys.executable, CRASHING_NODE, "charged", "after"))
        asking = self._pool.submit(self._deployment.ask, MarkedPeople.large_cohort, "all", *MOST)
        wait_until(lambda: crashing.process.poll() is not None, "killed")
        self.recorded.snapshots.take("with a charge and no answer")
        for sample in (self._directory / "census" / "samples").iterdir():
            self.recorded.slot_secrets.append(sample.read_bytes()[:32])
            second_name = self._directory.with_name(sample.name)
            second_name.hardlink_to(sample)
            self.recorded.wiped_samples.append(second_name)
        assert len(self.recorded.slot_secrets) == 1
        self._deployment.stop("census")
        self._deployment.start("census")
        self._keep_query("killed", asking.result())

    def _lose_the_census_node(self) -> None:
        """A ticket that the health node forwards while nobody listens, and whose slot is forgotten when somebody does."""
        query = self._prepare(MarkedPeople.large_cohort)
        self._deployment.stop("census", signal.SIGKILL)
        assert self._deployment.both("researcher", "ask", "--where", ONE_PERSON, "--count", FRENCH).code == 5
        submitted = self._pool.submit(self._deployment.run, "researcher", "ask", "--again", query, "--json")
        wait_until(lambda: bool(self._deployment.ticket_of(query)), "the health node has taken it")
        self._deployment.start("census")
        assert submitted.result().error["code"] == "SLOT_UNUSABLE"

    def _lose_the_health_node(self) -> None:
        self._deployment.stop("health")
        for command in (("ask", "--where", ONE_PERSON, "--count", FRENCH), ("dictionary",)):
            assert self._deployment.both("researcher", *command).code == 5
        crashing = self._deployment.start(
            "health", launcher=(sys.executable, CRASHING_NODE, "reported_charge", "after")
        )
        asking = self._pool.submit(self._deployment.ask, ONE_PERSON)
        wait_until(lambda: crashing.process.poll() is not None, "killed")
        self._deployment.stop("health")
        self._deployment.start("health")
        self._keep_query("health killed", asking.result())

    def _ask_at_ticks(self) -> None:
        adopt(self._directory, release_tick_ms=250, forward_delay_ms=250, answer_delay_ms=250)
        self._ask("nobody at ticks", NOBODY, FRENCH)
        self._ask("many at ticks", MarkedPeople.large_cohort, FRENCH, *MOST)
        for where in (NOBODY, MarkedPeople.large_cohort):
            left = self._deployment.run_here(
                "researcher", "ask", "--where", where, "--count", FRENCH, *MOST, "--wait", "0", "--json"
            )
            assert left.error["code"] == "ANSWER_PENDING"
        queries = [row["query_id"] for row in self._answers()[-2:]]
        self.recorded.opening_keys += self._opening_keys()
        assert len(self.recorded.opening_keys) == len(queries)
        self.recorded.snapshots.take("with answers that nobody has read")
        wait_until(lambda: self._all_released(queries), "released")
        assert self._deployment.both("researcher", "answers", queries[0], "--collect").code == 0
        self._deployment.start("researcher")
        wait_until(lambda: self._state(queries[1]) == "answered", "pushed")
        self.recorded.queries |= {"collected": queries[0], "pushed": queries[1]}

    def _let_a_ticket_expire(self) -> None:
        adopt(self._directory, quote_lifetime_ms=int(1000 * QUOTE_SECONDS))
        query = self._prepare(ONE_PERSON)
        time.sleep(QUOTE_SECONDS)
        expired = self._deployment.run_here("researcher", "ask", "--again", query, "--json")
        assert expired.error["code"] == "TICKET_EXPIRED"

    def _read_again(self) -> None:
        self._deployment.both("researcher", "answers")
        self._deployment.both("researcher", "answers", "--collect")
        for role in ("health", "census"):
            self._deployment.both(role, "status")

    def _shut_down(self) -> None:
        assert self._deployment.both("census", "shutdown", "--reason", "the recording ends").code == 0
        for command in (("quote",), ("ask", "--where", ONE_PERSON, "--count", FRENCH)):
            assert self._deployment.both("researcher", *command).error["code"] == "SERVICE_SHUT_DOWN"
        self._deployment.both("census", "status")

    def _probe(self, link: Link) -> None:
        """Ask a node the standard question whether it serves."""
        own, peer = tls_of(self._directory / link.client), tls_of(self._directory / link.server)
        credentials = grpc.ssl_channel_credentials(
            peer.certificate.read_bytes(), own.key.read_bytes(), own.certificate.read_bytes()
        )
        options = [("grpc.ssl_target_name_override", server_name_of(link.server))]
        with grpc.secure_channel(self._tap.address(link), credentials, options) as channel:
            # The stubs know only the asynchronous form.
            probe: Any = health_pb2_grpc.HealthStub(channel)
            answer = probe.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    # --- how it is asked -------------------------------------------------------------------------------------------

    def _ask(self, name: str, where: str, count: str, *words: str, query: str = "") -> int:
        question = ("--again", query) if query else ("--where", where, "--count", count)
        outcome = self._deployment.run_here("researcher", "ask", *question, *words, "--json")
        return self._keep_query(name, outcome)

    def _keep_query(self, name: str, outcome: Outcome) -> int:
        self.recorded.queries[name] = outcome.result["query_id"]
        self.recorded.outcomes[name] = outcome
        noisy: int = outcome.result["noisy_count"]
        if noisy > _LARGE:
            self.recorded.noisy_counts.add(noisy)
        return noisy

    def _prepare(self, where: str) -> str:
        """A ticket that is signed and quoted and not submitted; its query id."""

        async def prepare(session: Session) -> str:
            wanted = Wanted(where, FRENCH, Precision(30), 1_000_000, "official-languages")
            return (await session.prepare(wanted)).query

        query: str = self._deployment.in_session(prepare)
        return query

    def _answers(self) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = self._deployment.run_here("researcher", "answers", "--json").result["answers"]
        return rows

    def _state(self, query: str) -> str:
        return next(row["state"] for row in self._answers() if row["query_id"] == query)

    def _opening_keys(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self._directory / "researcher" / "answers.db")) as db:
            rows = db.execute(
                "select opening_key from questions where opening_key <> '' and refused = '' order by rowid desc limit 2"
            )
            return [row[0] for row in rows]

    def _all_released(self, queries: Sequence[str]) -> bool:
        released = self._deployment.tickets("census", "released")
        return all(released[self._deployment.ticket_of(query)] for query in queries)
