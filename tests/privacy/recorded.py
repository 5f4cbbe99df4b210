"""One whole life of a deployment, recorded: everything that parties do, and everything that goes wrong on the way.

Real node processes under a wiretap, asked with the documented commands: loads of either kind with wrong rows, quotes, answers at once and at ticks, fractions, an empty cohort, typos, refusals, an
expired ticket, an expired answer, retries, a connection that is cut in the middle, each node down and back, kill -9 at a durable step, every kind of key replaced, the linkage key changed, a second
researcher registered and revoked, an inbox that opens late, a shutdown, a reopening. Both dashboards are looked at by everybody who may, and an audit report is made of it all. Tests then examine
`evidence`: everything that anybody held or was told meanwhile (`fakes.evidence`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import structlog
from fakes.deployment import FRENCH, Deployment, Node, Outcome, make, run_here, wait_until
from fakes.homes import AGENCIES, role_of
from fakes.nursery import PROGRAM
from fakes.parquet import HEALTH_TYPES, parquet_from_csv
from grpc_health.v1 import health_pb2, health_pb2_grpc
from privacy.canaries import Exhibit, Place
from privacy.evidence import Snapshots, on_the_wire
from privacy.handshakes import server_name_of, tls_of
from privacy.marked_people import MarkedPeople
from privacy.shown_pages import everything_shown, wait_for_log
from privacy.wiretap import Link, Traffic, Wiretap

from broker_common.dashboard.running import say_changes
from broker_common.language import LANGUAGES
from broker_common.storage.clock import system_clock
from census_node.assembly import CensusHome
from census_node.operator.dashboard import CensusDashboard
from census_node.release.slot_secrets import SLOT_SECRET_BYTES
from health_node.assembly import HealthHome
from health_node.operator.dashboard import HealthDashboard
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

_PROCESS = Path(__file__).parents[1] / "process"
CRASHING_NODE = _PROCESS / "crashing_node.py"
SHIFTED_NODE = _PROCESS / "shifted_node.py"
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
# Most of the large cohort. The count of such a sample is no canary: noise could not be told from it.
MOST = ("--fraction", "0.9")
COLLEAGUES_CRITERIA = f"emergency_visits = {MarkedPeople.colleagues_visits}"
QUOTE_SECONDS = 2.0
RETENTION_MS = 60_000
"""The shortest that a policy may name; the census node's clock jumps over it."""
# Every kind of key that a card lists, all of which are replaced. TLS is the last: for it peers must be handed the card.
KEYS = {
    "researcher": ("identity", "ticket", "tls"),
    "health": ("identity", "log", "witness", "manifest", "sampling", "tls"),
    "census": ("identity", "log", "witness", "answer", "refusal", "sample", "policy", "operator", "tls"),
}
_NOW = ("--in", "0s")
# Earlier sealings to it can no longer be opened once it is replaced.
_HONOURED = {"sample": ("--honour", "0s")}
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
        return self._keep(role, f"{role} {command}", super().run(role, command, *words))

    def run_here(self, role: str, command: str, *words: str | Path) -> Outcome:
        """A command in this process, a third of a second faster; one at a time."""
        return self.type(role, role_of(role), command, *words)

    def type(self, party: str, *words: str | Path) -> Outcome:
        """Any command, in this process, with the party's home."""
        outcome = run_here(*words, "--home", self.home(party))
        return self._keep(party, " ".join(map(str, words[:3])), outcome)

    def both(self, role: str, command: str, *words: str | Path) -> Outcome:
        """The command for people and with --json; gives the latter."""
        self.run_here(role, command, *words)
        return self.run_here(role, command, *words, "--json")

    def adopt(self, **settings: int) -> None:
        """Let the census agency change its policy, as its operators would; a running node goes by it at once."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        proposed = self.type("census", "census", "policy", "propose", *words, "--json").result
        confirmed = ("--confirm", "--reason", "for a test") if proposed["weaker"] else ()
        adopted = self.type("census", "census", "policy", "adopt", proposed["policy_hash"], *confirmed)
        assert adopted.code == 0, adopted

    def _keep(self, party: str, command: str, outcome: Outcome) -> Outcome:
        said = f"{outcome.stdout}\n{outcome.stderr}".encode()
        self.said.append(Exhibit(Place(party, "output"), command, said))
        return outcome

    # --- nodes -----------------------------------------------------------------------------------------------------

    def start(self, role: str, *, launcher: Sequence[str | Path] = (PROGRAM,), is_forked: bool = True) -> Node:
        """Start a node; ready when this returns. Not forked: its command line and environment are kept, too."""
        words = [*launcher, role, "serve", "--home", self.home(role)]
        node = Node(self._log_name(role), words, ready_lines=1, is_forked=is_forked)
        self._nodes[role] = node
        node.wait_ready()
        process = Path("/proc") / str(node.process.pid)
        for name in () if is_forked else ("cmdline", "environ"):
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
        """Standard error of a role's nodes, all of them together."""
        file = self._log_name(role).with_name(f"{self._log_name(role).name}.stderr")
        return file.read_bytes() if file.exists() else b""

    def _log_name(self, role: str) -> Path:
        return self.directory.with_name(f"{self.directory.name}-{role}")


@dataclass
class Recorded:
    """The recording, and what the tests must know to look for it."""

    deployment: Watched
    traffic: Traffic
    people: MarkedPeople
    snapshots: Snapshots
    # Where nodes put temporary files, if they do.
    temporary: Path
    # Query ids by what was asked.
    queries: dict[str, str] = field(default_factory=dict)
    # Large answers. One in 60 happens to be exact (P(noise is 0) at scale 30): then it says an exact count, rightly.
    noisy_counts: set[int] = field(default_factory=set)
    slot_secrets: set[bytes] = field(default_factory=set)
    unsealing_keys: list[str] = field(default_factory=list)
    # Keys of the files of samples that were kept when the census node was killed.
    sample_keys: set[bytes] = field(default_factory=set)
    # Second names of those files and of noise secrets, by which their content can be seen after they were removed.
    wiped_samples: list[Path] = field(default_factory=list)
    wiped_slots: list[Path] = field(default_factory=list)
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
        yield from on_the_wire(self.traffic)


def record(directory: Path) -> Recorded:
    """Live that life; everything has ended when the recording is given."""
    temporary = directory.with_name("temporary")
    temporary.mkdir()
    make(directory, "--max-belief", MAX_BELIEF, population=10)
    deployment = Watched(directory)
    people = MarkedPeople.make()
    with patch.dict(os.environ, {"TMPDIR": str(temporary)}), Wiretap(directory) as tap, ThreadPoolExecutor() as pool:
        life = _Life(Recorded(deployment, tap.traffic, people, Snapshots(directory), temporary), tap, pool)
        try:
            life.live()
        finally:
            deployment.stop_all()
        life.recorded.snapshots.take("at the end")
    return life.recorded


class _Life:
    def __init__(self, recorded: Recorded, tap: Wiretap, pool: ThreadPoolExecutor) -> None:
        self.recorded = recorded
        self._deployment = recorded.deployment
        self._directory = recorded.directory
        self._tap = tap
        self._pool = pool

    def live(self) -> None:
        self._load()
        self._deployment.start("census", is_forked=False)
        self._deployment.start("health", is_forked=False)
        # Before any of them is used.
        self._keep_slot_secrets()
        self._look_around()
        self._ask_at_once()
        self._ask_wrongly()
        self._lose_a_connection()
        self.recorded.snapshots.take("while the nodes serve")
        self._kill_the_census_node("killed", MarkedPeople.large_cohort, *MOST)
        # A waiting call does not survive a change of its connection's certificates.
        left = (*MOST, "--wait", "0")
        self._kill_the_census_node("rotated", MarkedPeople.large_cohort, *left, meanwhile=self._replace_keys)
        self._change_the_linkage_key()
        self._load_again()
        self._welcome_a_colleague()
        self._lose_the_census_node()
        self._lose_the_health_node()
        self._ask_at_ticks()
        self._let_a_ticket_expire()
        self._let_an_answer_expire()
        self._read_again()
        self._look_at_dashboards("while all is well")
        self._shut_down()
        self._look_at_dashboards("after the shutdown")
        self.recorded.snapshots.take("after the shutdown")
        self._audit()

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

    def _load_again(self) -> None:
        """The same people as Parquet."""
        for role, types in (("health", HEALTH_TYPES), ("census", None)):
            home = self._deployment.home(role)
            source = parquet_from_csv(home / "people.csv", home / "people.parquet", types)
            loaded = self._deployment.run(role, "load", source, "--json")
            assert loaded.result["rejected"] == 1
        self._ask("many, from Parquet", MarkedPeople.large_cohort, FRENCH)
        self.recorded.snapshots.take("after the second loads")

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
        for party in KEYS:
            self._look_at_keys(party)
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
        cut = self._tap.cut(Link("health", "census"), after_bytes=40_000)
        self._ask("cut", MarkedPeople.large_cohort, "all", *MOST)
        assert cut.is_set(), "the sample was not cut"

    def _kill_the_census_node(
        self, name: str, where: str, *words: str, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """After the charge. The health node hands the sample over again, and the answer comes after all."""
        self._deployment.stop("census")
        crashing = self._deployment.start("census", launcher=(sys.executable, CRASHING_NODE, "charged", "after"))
        asking = self._pool.submit(self._deployment.ask, where, "all", *words)
        wait_until(lambda: crashing.process.poll() is not None, "killed")
        self.recorded.snapshots.take(f"with a charge and no answer, {name}")
        for folder, wiped in (("samples", self.recorded.wiped_samples), ("slots", self.recorded.wiped_slots)):
            for file in (self._directory / "census" / folder).iterdir():
                second_name = self._directory.with_name(f"{name}-{file.name}")
                second_name.hardlink_to(file)
                wiped.append(second_name)
        self._keep_slot_secrets()
        self._keep_sample_keys()
        self._deployment.stop("census")
        meanwhile()
        self._deployment.start("census")
        query = self._rows()[-1]["query_id"]
        wait_until(lambda: self._all_logged("released", [query]), "released")
        asking.result()
        self._keep_query(name, self._deployment.run_here("researcher", "ask", "--again", query, "--json"))

    def _keep_slot_secrets(self) -> None:
        """Secrets that nobody else may ever have: of slots that were used, and of those that never will be."""
        for file in (self._directory / "census" / "slots").iterdir():
            content = file.read_bytes()
            secrets = [content[at : at + SLOT_SECRET_BYTES] for at in range(0, len(content), SLOT_SECRET_BYTES)]
            self.recorded.slot_secrets.update(secret for secret in secrets if any(secret))

    def _keep_sample_keys(self) -> None:
        """Keys of the samples whose answers are not made; a reference is the name of a file and its key."""
        with contextlib.closing(sqlite3.connect(self._directory / "census" / "journal.db")) as db:
            references = [reference for (reference,) in db.execute("select sample from pending")]
        self.recorded.sample_keys |= {bytes.fromhex(reference.partition(":")[2]) for reference in references}

    # --- keys and parties ------------------------------------------------------------------------------------------

    def _look_at_keys(self, party: str) -> None:
        for how in ((), ("--json",)):
            for command in ("list", "card"):
                assert self._deployment.type(party, "keys", command, *how).code == 0

    def _replace_keys(self) -> None:
        """Every key of everybody, at once, also those in use for a question under way."""
        for party, purposes in KEYS.items():
            for purpose in purposes:
                for how in ((), ("--json",)):
                    words = (*_NOW, *_HONOURED.get(purpose, ()), *how)
                    assert self._deployment.type(party, "keys", "rotate", purpose, *words).code == 0
            self._look_at_keys(party)
        for owner in KEYS:
            self._hand_over(owner, *(party for party in KEYS if party != owner))
        self.recorded.snapshots.take("with new keys")

    def _hand_over(self, owner: str, *peers: str, **terms: str) -> None:
        """Let peers know somebody by the present card."""
        card = self._directory.with_name(f"{owner}.card")
        said = self._deployment.type(owner, "keys", "card", "--to", card, "--json").result
        words = [word for name, value in terms.items() for word in (f"--{name}", value)]
        for peer in peers:
            registered = self._deployment.run_here(
                peer, "register", card, "--fingerprint", said["fingerprint"], *words, "--json"
            )
            assert registered.code == 0, registered
        card.unlink()

    def _change_the_linkage_key(self) -> None:
        assert self._deployment.run_here("health", "relink", "--new-key", "--json").code == 0
        words = ("--where", ONE_PERSON, "--count", FRENCH, "--wait", "0")
        assert self._deployment.both("researcher", "ask", *words).error["code"] == "ANSWER_PENDING"
        key = self._deployment.home("health") / "keys" / "linkage.key"
        assert self._deployment.run_here("census", "relink", "--key-file", key, "--audited").code == 0
        self._ask("many, relinked", MarkedPeople.large_cohort, FRENCH)
        # The question asked in between has waited for the roster.
        waited = [row["query_id"] for row in self._rows() if row["state"] == "pending"]
        wait_until(lambda: self._all_logged("released", waited), "released")
        assert self._deployment.both("researcher", "answers", "--collect").code == 0
        self.recorded.snapshots.take("with new pseudonyms")

    def _welcome_a_colleague(self) -> None:
        """A second researcher, who asks of the same agencies, is revoked, and asks in vain."""
        places = [(f"--{agency}", self._tap.address(Link("colleague", agency))) for agency in AGENCIES]
        who = ("--id", "researcher-2", "--organisation", "other-university", "--project", "prevention")
        assert self._deployment.run_here("colleague", "create", *who, *places[0], *places[1]).code == 0
        self._hand_over("colleague", *AGENCIES, project="prevention")
        for agency in AGENCIES:
            self._hand_over(agency, "colleague")
        self._look_at_keys("colleague")
        question = ("ask", "--where", COLLEAGUES_CRITERIA, "--count", FRENCH)
        assert self._deployment.both("colleague", *question).code == 0
        self._deployment.both("colleague", "answers")
        self.recorded.snapshots.take("with a colleague")
        for agency in AGENCIES:
            words = ("researcher", "researcher-2", "--reason", "the project has ended")
            assert self._deployment.run_here(agency, "revoke", *words).code == 0
            self._look_at_keys(agency)
        assert self._deployment.both("colleague", *question).code == 5

    # --- nodes that are away -----------------------------------------------------------------------------------------

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
        # On a busy machine the command has given up before, and the answer comes all the same.
        asking.result()
        query = self._rows()[-1]["query_id"]
        wait_until(lambda: self._all_logged("released", [query]), "released")
        self._keep_query("health killed", self._deployment.run_here("researcher", "ask", "--again", query, "--json"))

    def _ask_at_ticks(self) -> None:
        self._deployment.adopt(release_tick_ms=250, forward_delay_ms=250)
        self._ask("nobody at ticks", NOBODY, FRENCH)
        self._ask("many at ticks", MarkedPeople.large_cohort, FRENCH, *MOST)
        # Late enough that nothing is out when they have been left.
        self._deployment.adopt(release_tick_ms=2000, forward_delay_ms=2000)
        for where in (NOBODY, MarkedPeople.large_cohort):
            left = self._deployment.run_here(
                "researcher", "ask", "--where", where, "--count", FRENCH, *MOST, "--wait", "0", "--json"
            )
            assert left.error["code"] == "ANSWER_PENDING"
        queries = [row["query_id"] for row in self._rows()[-2:]]
        self.recorded.unsealing_keys += self._opening_keys(2)
        assert len(self.recorded.unsealing_keys) == len(queries)
        self.recorded.snapshots.take("with answers that nobody has read")
        wait_until(lambda: self._all_logged("released", queries), "released")
        assert self._deployment.both("researcher", "answers", queries[0], "--collect").code == 0
        self._deployment.start("researcher", is_forked=False)
        wait_until(lambda: self._state(queries[1]) == "answered", "pushed")
        self.recorded.queries |= {"collected": queries[0], "pushed": queries[1]}

    def _let_a_ticket_expire(self) -> None:
        self._deployment.adopt(quote_lifetime_ms=int(1000 * QUOTE_SECONDS))
        query = self._prepare(ONE_PERSON)
        time.sleep(QUOTE_SECONDS)
        expired = self._deployment.run_here("researcher", "ask", "--again", query, "--json")
        assert expired.error["code"] == "TICKET_EXPIRED"

    def _let_an_answer_expire(self) -> None:
        """Nobody fetches it before the census node's clock has jumped over its retention."""
        self._deployment.stop("researcher")
        self._deployment.adopt(quote_lifetime_ms=600_000, answer_retention_ms=RETENTION_MS)
        words = ("--where", ONE_PERSON, "--count", "all", "--wait", "0", "--json")
        assert self._deployment.run_here("researcher", "ask", *words).error["code"] == "ANSWER_PENDING"
        query = self._rows()[-1]["query_id"]
        self.recorded.unsealing_keys += self._opening_keys(1)
        self.recorded.snapshots.take("with an answer that nobody will read")
        wait_until(lambda: self._all_logged("released", [query]), "released")
        shift = self._directory.with_name("shift")
        shift.write_text(str(2 * RETENTION_MS))
        self._deployment.stop("census")
        self._deployment.start("census", launcher=(sys.executable, SHIFTED_NODE, shift))
        wait_until(lambda: self._all_logged("expired", [query]), "expired")
        assert self._deployment.both("researcher", "answers", query, "--collect").code == 0
        assert self._state(query) == "expired"
        self.recorded.queries["expired"] = query

    def _read_again(self) -> None:
        self._deployment.both("researcher", "answers")
        for words in (
            *(("--state", state) for state in ("answered", "pending", "refused", "expired")),
            ("--project", "official-languages", "--since", "2011-05-10", "--last", "2"),
            ("--until", "2011-05-10T12:00:00"),
        ):
            assert self._deployment.both("researcher", "answers", *words).code == 0
        for words in (("--collect",), ("--check",)):
            assert self._deployment.both("researcher", "answers", *words).code == 0
        for role in ("health", "census"):
            self._deployment.both(role, "status")

    def _shut_down(self) -> None:
        assert self._deployment.both("census", "shutdown", "--reason", "the recording ends").code == 0
        for command in (("quote",), ("ask", "--where", ONE_PERSON, "--count", FRENCH)):
            assert self._deployment.both("researcher", *command).error["code"] == "SERVICE_SHUT_DOWN"
        assert self._deployment.run_here("census", "reopen", "--reason", "it goes on").code == 0
        self._ask("reopened", ONE_PERSON, FRENCH)
        assert self._deployment.run_here("census", "shutdown", "--reason", "the recording ends again").code == 0
        self._deployment.both("census", "status")

    # --- who looks on ----------------------------------------------------------------------------------------------

    def _look_at_dashboards(self, instant: str) -> None:
        """Everything that both dashboards show and log, to everybody that they may show it to."""
        dashboards: dict[str, Any] = {
            "census": CensusDashboard(CensusHome(self._deployment.home("census")), system_clock),
            "health": HealthDashboard(HealthHome(self._deployment.home("health")), system_clock),
        }
        for role, shown in dashboards.items():
            shown.start()
            try:
                wait_for_log(shown)
                with structlog.testing.capture_logs() as lines:
                    shown.work()
                    say_changes(say_changes(set(), {*shown.problems(), "a problem that is over"}), set())
                answers = everything_shown(shown, system_clock)
            finally:
                shown.stop()
            logged = Exhibit(Place(role, "log"), f"dashboard, {instant}", json.dumps(lines).encode())
            pages = [
                Exhibit(Place(role, "pages"), f"{name}, {instant}", answer, _numbers_in(answer))
                for name, answer in answers.items()
            ]
            self._deployment.said += [logged, *pages]

    def _audit(self) -> None:
        """The commissioner's report, from the hand-in; with the openings, whose holder learns counts."""
        exports = self._directory.with_name("exports")
        for role in ("census", "health", "researcher"):
            made = self._deployment.type(role, "audit", "export", "--to", exports / role)
            assert made.code == 0, made
        for tongue in LANGUAGES:
            file = exports.with_name(f"report-{tongue}.html")
            openings = ("--openings", self._deployment.home("census") / "openings")
            words = (exports, "--to", file, "--language", tongue, *openings)
            said = self._deployment.type("auditor", "audit", "report", *words)
            assert said.code in {0, 1}, said
            page = file.read_bytes()
            report = Exhibit(Place("auditor", "report"), f"in {tongue}", page, _numbers_in(page))
            self._deployment.said.append(report)

    def _probe(self, link: Link) -> None:
        """Ask a node the standard question whether it serves."""
        own, peer = tls_of(self._directory / link.client), tls_of(self._directory / link.server)
        credentials = grpc.ssl_channel_credentials(peer.certificate, own.private_key, own.certificate)
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

    def _rows(self) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = self._deployment.run_here("researcher", "answers", "--json").result["answers"]
        return rows

    def _state(self, query: str) -> str:
        return next(row["state"] for row in self._rows() if row["query_id"] == query)

    def _opening_keys(self, count: int) -> list[str]:
        """Opening keys of the newest questions whose answers nobody has read."""
        with contextlib.closing(sqlite3.connect(self._directory / "researcher" / "answers.db")) as db:
            rows = db.execute(
                "select opening_key from questions where opening_key <> '' and refused = '' order by rowid desc limit ?",
                [count],
            )
            return [row[0] for row in rows]

    def _all_logged(self, kind: str, queries: Sequence[str]) -> bool:
        logged = self._deployment.tickets("census", kind)
        return all(logged[self._deployment.ticket_of(query)] for query in queries)


def _numbers_in(page: bytes) -> frozenset[int]:
    """Numbers as metrics have them, with a point and a zero behind."""
    return frozenset(int(number) for number in re.findall(rb"(?<![\d.])(\d{1,12})\.0\b", page))
