"""Every line of DESIGN 9's table once, from end to end, as the other end meets it.

Each case says what goes wrong, the stable code (and where a command is used its exit code), what the text or hint must name,
and then, whatever happened: nothing was charged (or once), no node's log has a word of what was asked or who was meant, and
an honest question is answered. Variations of each case are tested at the levels below.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from fakes.deployment import FRENCH, Deployment, Node, Outcome, make, run_here, wait_until
from fakes.homes import set_limits
from fakes.patience import PATIENCE_SECONDS, linger_here
from process.liars import END, LyingHealth, LyingResearcher
from tripartite.v1 import condition_pb2, ticket_pb2

from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError
from broker_common.storage.durable import replace_file
from researcher_node.answers.store import AskedQuestion

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
# Budget for every honest question of this file.
BUDGET = ("--max-belief", "0.999999999999")
SENIORS = "age >= 65 and procedure = 'angioplasty'"
# Words that a log must not have: of criteria and questions.
CONTENTS = ("angioplast", "French", "mother_ton", "age >", "agee")
UNKNOWN_FIELD = b"\xa0\x06\x01"
TWO_MEBIBYTES = bytes(2 << 20)
HOUR_MS = 3_600_000
TICK_MS = 1500
QUARTER_MS = 91 * 24 * HOUR_MS


# --- what holds after every failure --------------------------------------------------------------------------------------


def charged(deployment: Deployment) -> int:
    """How often the budget was charged."""
    return sum(deployment.tickets("census", "charged").values())


def honest(deployment: Deployment) -> None:
    """A question of somebody who does everything right is charged once and answered."""
    before = charged(deployment)
    (outcome,) = deployment.ask_all([(SENIORS, FRENCH)], wait_seconds=PATIENCE_SECONDS)
    assert isinstance(outcome, AskedQuestion), outcome
    assert charged(deployment) == before + 1


class Watched:
    """A deployment, its failures so far, and what its nodes have said."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._stderr = deployment.directory.with_name(f"{deployment.directory.name}.stderr")

    def said(self) -> str:
        return self._stderr.read_text(encoding="utf-8") if self._stderr.exists() else ""

    @contextmanager
    def harmless(self, *, charges: int = 0, logged: str = "", secrets: tuple[str, ...] = ()) -> Iterator[None]:
        """Inside, something fails. It charges `charges` times, logs `logged` and no contents, and hinders nobody."""
        before, heard = charged(self.deployment), len(self.said())
        yield
        assert charged(self.deployment) == before + charges
        honest(self.deployment)
        said = self.said()[heard:]
        assert logged in said
        assert "unforeseen" not in said
        assert "Traceback" not in said
        for secret in (*CONTENTS, *secrets):
            assert secret not in said
        self.deployment.verify_ledger()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Both agencies' nodes, serving; answers at once."""
    deployment = make(tmp_path_factory.mktemp("served") / "deployment", *BUDGET, population=300)
    with deployment.node("census"), deployment.node("health"):
        deployment.wait_until_still()
        yield Watched(deployment)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A deployment whose nodes each test starts and ends itself."""
    return Watched(make(tmp_path_factory.mktemp("still") / "deployment", *BUDGET, population=300, tick_ms=100))


def ask(deployment: Deployment, *words: str, where: str = SENIORS, count: str = FRENCH) -> Outcome:
    """`researcher ask`, in this process."""
    asked = ("--where", where, "--count", count) if "--again" not in words else ()
    return run_here("researcher", "ask", "--home", deployment.home("researcher"), "--json", *asked, *words)


def assert_says(outcome: Outcome, exit_code: int, code: str, *named: str) -> None:
    """The command ends so, and text or hint name what its user needs."""
    error = outcome.error
    assert (outcome.code, error["code"]) == (exit_code, code), outcome
    for words in named:
        assert words in error["text"] + " " + error["hint"], outcome
    assert "Traceback" not in outcome.stderr


# --- row 1: messages -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Liars:
    """A registered researcher and a registered health agency that may say anything."""

    researcher: LyingResearcher
    health: LyingHealth


@pytest.fixture(scope="module")
def liars(served: Watched) -> Liars:
    """Dishonest peers of the nodes of `served`."""
    return Liars(LyingResearcher(served.deployment), LyingHealth(served.deployment))


def another_key(purpose: Purpose) -> SigningKey:
    """A key that nobody has registered."""
    return SigningKey.generate(purpose, os.urandom)


def from_researcher(
    spoil: Callable[[bytes], bytes] = lambda wire: wire,
    change: Callable[[ticket_pb2.Ticket], object] = lambda _: None,
    key: SigningKey | None = None,
) -> Callable[[Liars, AskedQuestion], BrokerError | None]:
    """A submission that is wrong in one respect."""

    def lie(liars: Liars, asked: AskedQuestion) -> BrokerError | None:
        submission = liars.researcher.submission(asked, change=change, key=key)
        return liars.researcher.submit(spoil(submission.SerializeToString()))

    return lie


def another_condition(liars: Liars, asked: AskedQuestion) -> BrokerError | None:
    """Criteria that were not committed to."""
    submission = liars.researcher.submission(asked)
    submission.criteria.CopyFrom(condition_pb2.Condition())
    return liars.researcher.submit(submission.SerializeToString())


def bad_signature(liars: Liars, asked: AskedQuestion) -> BrokerError | None:
    """One bit of the signature is another one."""
    submission = liars.researcher.submission(asked)
    signature = submission.ticket.signature
    submission.ticket.signature = bytes([signature[0] ^ 1]) + signature[1:]
    return liars.researcher.submit(submission.SerializeToString())


def from_health(
    arrange: Callable[[list[bytes]], list[bytes]] = lambda parts: [*parts, END],
    *,
    places: range = range(100),
    roster: int | None = None,
    key: SigningKey | None = None,
    census_key: UnsealingKey | None = None,
) -> Callable[[Liars, AskedQuestion], BrokerError | None]:
    """An attempt to hand a sample over that is wrong in one respect: a head and one part."""

    def lie(liars: Liars, asked: AskedQuestion) -> BrokerError | None:
        sealing_key = None if census_key is None else census_key.sealing_key
        parts = liars.health.parts(asked, places, roster=roster, key=key, census_key=sealing_key)
        return liars.health.count(arrange(parts))

    return lie


def with_bit_flipped(part: bytes) -> bytes:
    """Somewhere in the ciphertext."""
    return part[:1000] + bytes([part[1000] ^ 1]) + part[1001:]


LIES: dict[str, tuple[Callable[[Liars, AskedQuestion], BrokerError | None], str, str]] = {
    # Fault -> how, the code, and words of its text or hint.
    "submission, malformed": (from_researcher(lambda _: b"\xff\xff"), "MALFORMED_MESSAGE", "Use a current client"),
    "submission, truncated": (from_researcher(lambda wire: wire[:-1]), "MALFORMED_MESSAGE", "Nothing was charged"),
    # The transport refuses it, before there is anything of ours that could log or answer.
    "submission, oversized": (from_researcher(lambda wire: wire + TWO_MEBIBYTES), "PEER_MISBEHAVED", "EXHAUSTED"),
    "submission, unknown field": (from_researcher(lambda wire: wire + UNKNOWN_FIELD), "MALFORMED_MESSAGE", "a field"),
    "ticket, unknown field": (
        from_researcher(change=lambda body: body.MergeFromString(UNKNOWN_FIELD)),
        "MALFORMED_MESSAGE",
        "a Ticket holds a field that is unknown",
    ),
    "ticket, bad signature": (bad_signature, "BAD_SIGNATURE", "The signature of the ticket is not valid"),
    "ticket, wrong key": (from_researcher(key=another_key(Purpose.TICKET)), "UNKNOWN_KEY", "tripartite keys list"),
    "ticket, expired": (
        from_researcher(change=lambda body: setattr(body, "expires_ms", 1)),
        "TICKET_EXPIRED",
        "'When the clock was wrong'",
    ),
    "ticket, of somebody else": (
        from_researcher(change=lambda body: setattr(body, "researcher_id", "researcher-2")),
        "UNKNOWN_RESEARCHER",
        "tripartite census register",
    ),
    "criteria, not those committed to": (another_condition, "MALFORMED_MESSAGE", "Nothing was charged"),
    "sample, malformed": (from_health(lambda parts: [parts[0], b"\xff\xff"]), "MALFORMED_MESSAGE", "not the request"),
    "sample, oversized": (
        from_health(lambda parts: [parts[0], parts[1] + TWO_MEBIBYTES]),
        "PEER_MISBEHAVED",
        "EXHAUSTED",
    ),
    "sample, two heads": (from_health(lambda parts: [parts[0], parts[0]]), "MALFORMED_MESSAGE", "out of order"),
    "sample, head not first": (from_health(lambda parts: parts[1:2]), "MALFORMED_MESSAGE", "begin with its head"),
    "sample, truncated": (from_health(lambda parts: [parts[0], END]), "MALFORMED_MESSAGE", "ends before its last part"),
    "sample, a part altered": (
        from_health(lambda parts: [parts[0], with_bit_flipped(parts[1]), END]),
        "SEALED_WRONGLY",
        "Nothing was charged",
    ),
    "sample, sealed to another key": (
        from_health(census_key=UnsealingKey.generate(os.urandom)),
        "SEALED_WRONGLY",
        "sealed to another key",
    ),
    "manifest, wrong key": (from_health(key=another_key(Purpose.MANIFEST)), "UNKNOWN_KEY", "tripartite keys card"),
    # Row 2. Places at which nobody stands, and places of a roster that is not there, which its head tells.
    "sample, bits behind the last person": (from_health(places=range(10_000, 10_001)), "BAD_SAMPLE", "behind the last"),
    "sample, another roster": (
        from_health(lambda parts: parts[:1], roster=4711),
        "ROSTER_NOT_IN_FORCE",
        "Nothing was charged",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_row_1_and_2_a_message_that_is_not_what_it_should_be(served: Watched, liars: Liars, lie: str) -> None:
    """Refused before anything is charged, with a stable code and a hint; the log has the code and no contents."""
    say, code, words = LIES[lie]
    asked = liars.researcher.prepare(SENIORS, FRENCH)
    logged = "" if "oversized" in lie else f"code={code}"
    with served.harmless(logged=logged, secrets=(asked.query, asked.criteria_nonce.hex())):
        error = say(liars, asked)
        assert error is not None, "taken as if nothing were wrong"
        assert error.code == code
        assert words in f"{error.text} {error.hint}"


def test_row_1_a_replayed_question_is_one_question(served: Watched, liars: Liars) -> None:
    """The same submission three times: one charge, one answer, and no failure that could tell anything."""
    asked = liars.researcher.prepare(SENIORS, FRENCH)
    wire = liars.researcher.submission(asked).SerializeToString()
    with served.harmless(charges=1, secrets=(asked.query,)):
        assert [liars.researcher.submit(wire) for _ in range(3)] == [None, None, None]


def test_row_1_a_replayed_sample_is_one_sample(served: Watched, liars: Liars) -> None:
    """A recorded attempt is good for the answer that there is, and for no second charge."""
    asked = liars.researcher.prepare(SENIORS, FRENCH)
    wire = liars.researcher.submission(asked).SerializeToString()
    with served.harmless(charges=1, logged="code=TICKET_REUSED"):
        assert liars.researcher.submit(wire) is None
        # The same ticket for other people.
        error = liars.health.count(liars.health.parts(asked))
        assert error is not None
        assert error.code == "TICKET_REUSED"
        assert "Nothing was charged twice" in error.hint


def test_row_1_a_call_that_is_not_for_this_role(served: Watched, liars: Liars) -> None:
    """A researcher's own good certificate opens no door of the health agency's."""
    with served.harmless(logged="code=WRONG_ROLE"):
        error = liars.researcher.count()
        assert error is not None
        assert (error.code, "protos/README.md" in error.hint) == ("WRONG_ROLE", True)


# --- row 3: criteria -----------------------------------------------------------------------------------------------------

CRITERIA: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "unknown column": ("agee >= 65", "UNKNOWN_COLUMN", ("'agee'", "age", "tripartite researcher dictionary")),
    "unknown code": ("procedure = 'angioplast'", "UNKNOWN_CODE", ("'angioplasty'", "Published codes", "colonoscopy")),
    "unknown operator": ("sex > 'female'", "WRONG_OPERATOR", ("'>' is not defined", "Codes know =, <>, in")),
    "unknown type": ("age = 'old'", "WRONG_TYPE", ("whole number", "without quotes")),
    "outside the grammar": ("length(sex) > 1", "CRITERIA_SYNTAX", ("Write it like: age >= 65",)),
    "an injection": ("age >= 65; drop table people", "CRITERIA_SYNTAX", ("Allowed: =",)),
    "too long": (" or ".join(["age >= 65"] * 1000), "CRITERIA_TOO_LARGE", ("use in (...)",)),
    "too deep": ("(" * 500 + "age >= 65" + ")" * 500, "CRITERIA_TOO_LARGE", ("Split the study",)),
    "language in the criteria": ("mother_tongue = 'French'", "UNKNOWN_COLUMN", ("belongs to --count",)),
}


@pytest.mark.parametrize("case", CRITERIA)
def test_row_3_criteria_that_nobody_can_be_selected_by(served: Watched, case: str) -> None:
    """Exit 3 with the nearest valid names and the published codes."""
    where, code, named = CRITERIA[case]
    with served.harmless():
        assert_says(ask(served.deployment, where=where), 3, code, *named)


def test_row_3_criteria_that_no_command_would_send(served: Watched, liars: Liars) -> None:
    """A client of one's own that skips the check meets the same refusal at the health node, and the log no name."""
    asked = liars.researcher.prepare(SENIORS, FRENCH)
    submission = liars.researcher.submission(asked)
    literal = condition_pb2.Literal(integer=44)
    comparison = condition_pb2.Comparison(column="shoe_size", operator=condition_pb2.OPERATOR_EQUAL, literal=literal)
    submission.criteria.CopyFrom(condition_pb2.Condition(comparison=comparison))
    with served.harmless(logged="code=UNKNOWN_COLUMN", secrets=("shoe_size",)):
        error = liars.researcher.submit(submission.SerializeToString())
        assert error is not None
        assert (error.code, error.details["column"]) == ("UNKNOWN_COLUMN", "shoe_size")


# Many comparisons of single values, about everybody and about nobody.
DEAR = " or ".join(f"(hospital_visits = {at} and emergency_visits in (1,3,5))" for at in range(40))


def test_row_3_criteria_that_take_too_much_work(still: Watched) -> None:
    """Refused by the node from their text, no matter who matches, with a number of comparisons that does; nothing is charged."""
    home = still.deployment.home("health")
    # A slow machine, or everything would pass for so few places.
    set_limits(home, work_per_second=600_000_000)
    with still.deployment.node("census"), still.deployment.node("health"), still.harmless(logged="CRITERIA_TOO_DEAR"):
        heard = [ask(still.deployment, where=f"{DEAR} or {end}") for end in ("age >= 0", "age > 130")]
        for outcome in heard:
            assert_says(outcome, 3, "CRITERIA_TOO_DEAR", "about 24 comparisons", "several questions")
    assert heard[0].error == heard[1].error
    set_limits(home, work_per_second=4_000_000_000)


# --- row 4: questions and scales -----------------------------------------------------------------------------------------

QUESTIONS: dict[str, tuple[str, tuple[str, ...], int, str, tuple[str, ...]]] = {
    "unknown variable": ("mother_tung = 'French'", (), 3, "UNKNOWN_VARIABLE", ("mother_tongue", "'all'")),
    "unknown value": ("mother_tongue = 'Klingon'", (), 3, "UNKNOWN_VALUE", ("Published values", "'English'")),
    "no question": ("mother_tongue <> 'French'", (), 3, "QUESTION_SYNTAX", ("Type: mother_tongue in (",)),
    "scale outside the policy": (FRENCH, ("--scale", "51"), 4, "SCALE_REFUSED", ("1 to 50", "the scale 51")),
    "margin that no scale reaches": (FRENCH, ("--margin", "1"), 3, "INVALID_VALUE", ("The smallest margin is 3",)),
}


@pytest.mark.parametrize("case", QUESTIONS)
@pytest.mark.parametrize("command", ["quote", "ask"])
def test_row_4_a_question_that_cannot_be_asked(served: Watched, command: str, case: str) -> None:
    """Refused when it is quoted, with what could be asked: the health node has not heard of it."""
    count, words, exit_code, code, named = QUESTIONS[case]
    taken = len(served.deployment.tickets("health", "submitted"))
    with served.harmless():
        if command == "ask":
            outcome = ask(served.deployment, *words, count=count)
        else:
            home = served.deployment.home("researcher")
            outcome = run_here("researcher", "quote", "--home", home, "--count", count, *words, "--json")
        assert_says(outcome, exit_code, code, *named)
        assert len(served.deployment.tickets("health", "submitted")) == taken


def test_row_4_a_scale_that_was_never_quoted(served: Watched, liars: Liars) -> None:
    """A ticket that says another scale than its quote is refused at its header, and our log shows that it was forwarded."""
    asked = liars.researcher.prepare(SENIORS, FRENCH)
    submission = liars.researcher.submission(asked, change=lambda body: setattr(body, "scale", 51))
    with served.harmless(logged="code=SCALE_REFUSED"):
        error = liars.researcher.submit(submission.SerializeToString())
        assert error is not None
        assert (error.code, "1 to 50" in error.hint) == ("SCALE_REFUSED", True)
    assert served.deployment.tickets("health", "forwarded")[served.deployment.ticket_of(asked.query)] == 1


# --- row 5: the census node ----------------------------------------------------------------------------------------------


class Asking(Thread):
    """`researcher ask` in a process of its own, while the test does something to a node."""

    def __init__(self, deployment: Deployment, *words: str) -> None:
        super().__init__(daemon=True)
        self._deployment = deployment
        self._words = words
        self.outcome: Outcome | None = None
        self.start()

    def run(self) -> None:
        self.outcome = self._deployment.ask(SENIORS, FRENCH, "--wait", str(PATIENCE_SECONDS), *self._words)

    def ended(self) -> Outcome:
        self.join()
        assert self.outcome is not None
        return self.outcome


def crashing(step: str, when: str) -> tuple[str | Path, ...]:
    """Start a node that kills itself at a step; see crashing_node.py."""
    return (sys.executable, HERE / "crashing_node.py", step, when)


def wait_for_death(node: Node) -> None:
    """Return when the node has killed itself."""
    wait_until(lambda: node.process.poll() is not None, "killed")
    assert node.process.returncode == -signal.SIGKILL


def test_row_5_census_down(still: Watched) -> None:
    """Exit 5 names the node that is missed and how it is started; with the node back the same words are answered."""
    with still.deployment.node("health"):
        assert_says(ask(still.deployment), 5, "PEER_UNAVAILABLE", "census node", "tripartite up DIR")
        with still.deployment.node("census"), still.harmless(charges=1):
            assert ask(still.deployment).code == 0


def test_row_5_census_slow(still: Watched) -> None:
    """Frozen in the middle and thawed: the question has waited, and is charged and answered once."""
    deployment = still.deployment
    with deployment.node("census") as census, deployment.node("health"):
        # From here on the health node knows the policy.
        honest(deployment)
        query = LyingResearcher(deployment).prepare(SENIORS, FRENCH).query
        with still.harmless(charges=1):
            census.process.send_signal(signal.SIGSTOP)
            again = Thread(target=lambda: answers.append(deployment.run("researcher", *words)), daemon=True)
            words = ("ask", "--again", query, "--wait", str(PATIENCE_SECONDS), "--json")
            answers: list[Outcome] = []
            again.start()
            wait_until(lambda: bool(deployment.ticket_of(query)), "taken by the health node")
            linger_here(0.5)
            assert not answers
            assert not deployment.tickets("census", "charged")[deployment.ticket_of(query)]
            census.process.send_signal(signal.SIGCONT)
            again.join()
            assert answers[0].result["query_id"] == query
            assert deployment.tickets("census", "charged")[deployment.ticket_of(query)] == 1


@pytest.mark.parametrize(("step", "when"), [("sample opened", "after"), ("charged", "after")])
def test_row_5_and_9_census_dies_in_the_middle(still: Watched, step: str, when: str) -> None:
    """Kill -9 on either side of the charge: the command that was waiting gets its answer, for one charge."""
    deployment = still.deployment
    before = charged(deployment)
    with deployment.node("health"):
        with deployment.node("census", launcher=crashing(step, when)) as dying:
            asking = Asking(deployment)
            wait_for_death(dying)
        with deployment.node("census"):
            outcome = asking.ended()
            assert outcome.result["question"] == FRENCH
            # Before the charge the quote died with the node, which is said, and quoted anew.
            assert ("quoting again. Nothing was charged" in outcome.stderr) == (step != "charged")
            assert outcome.result["quoted_again"] == (step != "charged")
            *_, kept = deployment.json("researcher", "answers")["answers"]
            assert kept["quoted_again"] == outcome.result["quoted_again"]
            assert charged(deployment) == before + 1
            with still.harmless():
                pass


def test_row_9_the_health_node_is_killed(still: Watched) -> None:
    """Kill -9 after the question was taken: it goes on by itself at the next start, and is charged once."""
    deployment = still.deployment
    before = charged(deployment)
    with deployment.node("census"):
        with deployment.node("health", launcher=crashing("forwarded", "after")) as dying:
            asking = Asking(deployment)
            wait_for_death(dying)
        with deployment.node("health"):
            assert asking.ended().result["question"] == FRENCH
            deployment.wait_until_closed()
            assert charged(deployment) == before + 1
            with still.harmless():
                pass


# --- row 6: the researcher -----------------------------------------------------------------------------------------------


def test_row_6_researcher_gone(still: Watched) -> None:
    """Exit 5 says that nothing is lost; the sealed answer waits in the outbox and is collected, for one charge."""
    deployment = still.deployment
    # The answer comes later than anybody looks for it.
    deployment.order_policy(release_tick_ms=TICK_MS)
    with deployment.node("census"), deployment.node("health"), still.harmless(charges=1):
        outcome = ask(deployment, "--wait", "0")
        assert_says(outcome, 5, "ANSWER_PENDING", "It is not lost", "tripartite researcher answers --collect")
        query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]

        def collected() -> bool:
            (row,) = deployment.run("researcher", "answers", "--collect", query, "--json").result["answers"]
            assert row["query_id"] == query
            return bool(row["state"] == "answered")

        # A release stands in the log a little before the tick at which its answer is out.
        wait_until(collected, "collected")
    deployment.order_policy(release_tick_ms=100)


def test_row_6_researcher_gone_for_too_long(machines: Machines) -> None:
    """An answer that nobody fetched is removed when its retention has ended, which is said; its charge stands."""
    deployment = machines.watched.deployment
    deployment.leave(SENIORS, FRENCH)
    query = deployment.json("researcher", "answers")["answers"][-1]["query_id"]
    machines.set("census", QUARTER_MS)
    with machines.watched.harmless(charges=1):
        honest(deployment)
        ticket = deployment.ticket_of(query)
        wait_until(lambda: deployment.tickets("census", "expired")[ticket] == 1, "what has expired is removed")
        words = ("removed", "A new question gets a new answer")
        assert_says(ask(deployment, "--again", query), 3, "ANSWER_EXPIRED", *words)
    assert deployment.tickets("census", "expired")[deployment.ticket_of(query)] == 1


# --- row 7: the disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["census", "health"])
def test_row_7_a_log_that_cannot_be_written(still: Watched, role: str) -> None:
    """No answer; the node ends with exit 6 and says that it is the disk, its state is kept, and it starts again."""
    deployment = still.deployment
    heard = len(still.said())
    with deployment.node("health" if role == "census" else "census"):
        with deployment.node(role) as full:
            honest(deployment)
            # To a process that may not make files any longer, the disk is full.
            limit = (deployment.home(role) / "journal.db-wal").stat().st_size
            resource.prlimit(full.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
            outcome = ask(deployment, "--wait", "1")
            assert (outcome.code, outcome.error["code"]) in {(5, "ANSWER_PENDING"), (5, "PEER_FAILED")}, outcome
            assert "not lost" in outcome.error["text"] + outcome.error["hint"]
            wait_until(lambda: full.process.poll() is not None, "stopped")
            assert full.process.returncode == 6
        said = still.said()[heard:]
        assert "[STORE_FAILED]" in said or "[STATE_UNKNOWN]" in said
        assert "disk" in said
        with deployment.node(role):
            deployment.wait_until_closed()
            with still.harmless():
                pass


# --- row 8: the clock ----------------------------------------------------------------------------------------------------


class Machines:
    """Both agencies' nodes, each on a machine whose wall clock can be set."""

    def __init__(self, watched: Watched, stack: ExitStack) -> None:
        self.watched = watched
        self._stack = stack
        self._nodes: dict[str, Node] = {}
        for role in ("census", "health"):
            self.set(role, 0)
            self._start(role)

    def set(self, role: str, shift_ms: int) -> None:
        """Set an agency's clock, seen from the true time."""
        replace_file(self._shift(role), str(shift_ms).encode())

    def restart(self, role: str) -> None:
        self._nodes[role].end()
        self._start(role)

    def _start(self, role: str) -> None:
        launcher = (sys.executable, HERE / "shifted_node.py", self._shift(role))
        self._nodes[role] = self._stack.enter_context(self.watched.deployment.node(role, launcher=launcher))

    def _shift(self, role: str) -> Path:
        return self.watched.deployment.directory / f"{role}.shift"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A deployment of their own, because a log that was ahead once stays ahead."""
    deployment = make(tmp_path / "deployment", *BUDGET, population=100, tick_ms=100)
    with ExitStack() as stack:
        yield Machines(Watched(deployment), stack)


def test_row_8_a_clock_jumps(machines: Machines) -> None:
    """Back: nothing is noticed, and the log's time never runs backwards. Ahead: refused, uncharged, with where to look."""
    watched, deployment = machines.watched, machines.watched.deployment
    with watched.harmless(charges=1):
        machines.set("census", -QUARTER_MS)
        assert ask(deployment).code == 0
    before = charged(deployment)
    machines.set("health", HOUR_MS)
    assert_says(ask(deployment), 3, "TICKET_EXPIRED", "'When the clock was wrong' in docs/recover.md")
    assert charged(deployment) == before
    machines.set("health", 0)
    machines.restart("health")
    with watched.harmless():
        pass


# --- row 10: the answer to everything else -------------------------------------------------------------------------------


def test_an_error_says_nothing_that_depends_on_anybody(served: Watched) -> None:
    """The same refusal has the same words for a cohort of everybody and for one of nobody."""
    said = [
        ask(served.deployment, "--scale", "51", where=where).error
        for where in ("age >= 0", "age > 129 and procedure = 'angioplasty'")
    ]
    assert said[0] == said[1]
