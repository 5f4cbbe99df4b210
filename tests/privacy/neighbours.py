"""Worlds that differ in one person x look the same, but for the noise, to everyone who is not to know x.

All worlds are copies of one deployment, so that all keys are the same; the people are the same but for one. The questions
are the same, word by word. A `View` keeps the comparable part of each party's view: values that are drawn at random (ids,
signatures, hashes, times, the noise) by their lengths, everything else as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.deployment import FRENCH, Outcome, make, wait_until
from fakes.homes import move, set_limits
from fakes.ledger_rules import Note
from fakes.patience import PATIENCE_SECONDS
from privacy.made_once import made_once
from privacy.marked_people import Row, health_and_census_rows, write_csv
from privacy.recorded import Watched
from privacy.wiretap import LINKS, Call, Link, Wiretap
from tripartite.v1 import answer_pb2, health_service_pb2, log_service_pb2

from broker_common.errors import BrokerError
from census_node.ledger.samples import SampleFolder
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Session

TICK_MS = 250
DELAY_MS = 250
PEOPLE = 16_385
"""One more than stand in one frame of a roster, 262144 / 16."""
X, Y = 0, 1
VISITS = 86_413
# Everyone else, only x; everyone.
ONLY_X = f"hospital_visits = {VISITS}"
ONLY_Y = f"hospital_visits = {VISITS + 1}"
EVERYONE = "age >= 0"
# Worlds in which that is nobody.
NOBODY_MATCHES = {"x is absent", "x's record is another"}
CHEAP, DEAR, LAST = 50, 5, 20
"""Under 0.8, after six answers at scale 50 and one at scale 1, one at scale 5 fits and not two; then one at scale 20,
after which nothing does."""
# Between questions that are asked at once: whose sample comes first decides.
_APART_SECONDS = 0.1
_RESEARCHERS_LINKS = (Link("researcher", "health"), Link("researcher", "census"), Link("census", "researcher"))
_COUNTS = Link("health", "census")
# Values that are random or depend on the clock.
_RANDOM_TEXT = {"checkpoint", "asked", "answered", "expires", "ticket_expires"}
# Ids and hashes, wherever they stand.
_ID = re.compile(r"[0-9a-f]{16,}")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\+00:00")
_NUMBER = re.compile(r"-?\d+")
# How wide a column is follows from the longest noisy count.
_GAP = re.compile(r"  +")
_NOISE_REMARK = re.compile(r"\nA count below zero is noise[^\n]*")


@dataclass(frozen=True, slots=True)
class Instants:
    """When things were said on one question's way, in milliseconds since 1970."""

    # Samples: of everyone, of one person, of nobody.
    cohort: str
    submitted: int
    # When the last part of the sample passed.
    sent: int
    # Times by stage.
    stages: dict[int, int]
    # Fields of the charge, as its entry says, which the researcher reads in the receipt.
    entry: int
    # When the health agency said that it had cosigned a checkpoint that covers the charge.
    cosigned: int


@dataclass
class World:
    """One world, lived to its end: what the researcher saw, and what the health agency saw."""

    name: str
    # Output of the researcher's commands, in order.
    commands: list[Any] = field(default_factory=list)
    # Messages on the researcher's links: per question in order of asking, and those that belong to none; each in the order of its link, since a question is submitted and collected at once.
    links: list[Any] = field(default_factory=list)
    # Exchanges of cards, link by link, as many alike as one: an inbox makes them on its own, every few minutes.
    cards: list[Any] = field(default_factory=list)
    # Rosters that were sent: on their own, whatever else the health node asks at that instant.
    rosters: list[Any] = field(default_factory=list)
    # Content of the researcher's receipts.
    receipts: list[Any] = field(default_factory=list)
    # Messages from the census node to the health agency, and their results.
    counts: list[Any] = field(default_factory=list)
    # How long the census log was whenever it was shown, and the lengths of note and proof. How many rounds there were in
    # between, in which nothing was shown, is chance.
    shown: list[Any] = field(default_factory=list)
    health_events: list[Any] = field(default_factory=list)
    health_log: list[str] = field(default_factory=list)
    health_status: dict[str, Any] = field(default_factory=dict)
    instants: list[Instants] = field(default_factory=list)
    # How many of each sample were active, which nobody outside the census agency is to see.
    counted: list[int] = field(default_factory=list)


class Worlds:
    """Makes worlds by name; each lives once in a run. `persons`: in a shorter life, under per-person accounting."""

    def __init__(self, factory: pytest.TempPathFactory, kind: str, *, persons: bool = False) -> None:
        self._factory = factory
        self._kind = kind
        self._persons = persons
        self._lives: dict[str, Life] = {}

    def __getitem__(self, name: str) -> World:
        return self.life(name).world

    def life(self, name: str) -> Life:
        """The life of a world, which has ended."""
        if name not in self._lives:
            self._lives[name] = made_once(
                self._factory, f"{self._kind}, {name}", lambda folder: self._live(name, folder / "deployment")
            )
        return self._lives[name]

    @cached_property
    def _base(self) -> Path:
        def base(folder: Path) -> Path:
            self._make(folder / "base")
            return folder / "base"

        return made_once(self._factory, self._kind, base)

    def _make(self, base: Path) -> None:
        make(base, "--max-belief", "0.8", population=10)

    def _live(self, name: str, directory: Path) -> Life:
        shutil.copytree(self._base, directory)
        move(directory)
        self._fill(directory, name)
        set_limits(directory / "health", max_queries=2)
        deployment, world = Watched(directory), World(name)
        for role in ("health", "census"):
            assert deployment.run_here(role, "load", "--json").code == 0
        if self._persons:
            deployment.order_policy(accounting="per_person")
        with Wiretap(directory) as tap:
            life = self._life(deployment, tap, world)
            try:
                life.live()
            finally:
                deployment.stop_all()
        life.look_back()
        return life

    def _fill(self, directory: Path, name: str) -> None:
        """The sources of a world."""
        health, census = _people(name)
        write_csv(directory / "health" / "people.csv", health)
        write_csv(directory / "census" / "people.csv", census)

    def _life(self, deployment: Watched, tap: Wiretap, world: World) -> Life:
        return (_PersonsLife if self._persons else Life)(deployment, tap, world)


def _people(name: str) -> tuple[list[Row], list[Row]]:
    """The people of a world: of all that could be, one record is another."""
    health, census = health_and_census_rows(PEOPLE, linked=PEOPLE * 3 // 4)
    health[X]["hospital_visits"] = str(VISITS)
    health[Y]["hospital_visits"] = str(VISITS + 1)
    census[X]["mother_tongue"] = "French"
    match name:
        case "x is there":
            pass
        case "x is y":
            # One person with two cards.
            census[Y] |= {name: value for name, value in census[X].items() if name != "health_card"}
        case "x is absent":
            del health[X]
        case "x's record is another":
            health[X]["hospital_visits"] = "1"
        case "x is not in the census":
            census[X]["health_card"] = ""
        case "x speaks another language":
            census[X]["mother_tongue"] = "Other"
        case _:
            raise AssertionError(name)
    return health, census


class Life:
    """Questions asked in every world, and observations of them."""

    def __init__(self, deployment: Watched, tap: Wiretap, world: World) -> None:
        self._deployment = deployment
        self._traffic = tap.traffic
        self._world = world
        self._order: list[str] = []
        # Queries that were left before they were answered.
        self._left: set[str] = set()

    @property
    def world(self) -> World:
        return self._world

    def _status(self) -> dict[str, Any]:
        """Output of `health status`, but for the instant at which the census node took the roster."""
        status: dict[str, Any] = self._deployment.run_here("health", "status", "--json").result
        assert status["roster"].pop("acknowledged")
        return status

    def live(self) -> None:
        self._deployment.start("census")
        self._deployment.start("health")
        self._deployment.wait_until_still()
        self._ask_at_once()
        self._deployment.adopt(release_tick_ms=TICK_MS, forward_delay_ms=DELAY_MS)
        self._ask_at_ticks()
        self._deployment.in_session(self._ask_for_the_last_of_it)
        self._exhaust()
        self._world.health_status = self._status()

    # --- what is asked ---------------------------------------------------------------------------------------------

    def _ask_at_once(self) -> None:
        self._say("dictionary")
        self._say("quote", "--count", FRENCH)
        self._ask(ONLY_X, FRENCH)
        self._ask(EVERYONE, FRENCH)
        self._ask("sex = 'female'", "all", "--fraction", "0.5")
        self._say("ask", "--again", self._order[0])
        for where, count, *words in (
            ("hospitl_visits > 3", FRENCH),
            ("diagnosis = 'epilepsie'", FRENCH),
            (ONLY_X, "mother_tongue = 'Klingon'"),
            (ONLY_X, FRENCH, "--scale", "70"),
            (ONLY_X, FRENCH, "--project", "another"),
        ):
            self._say("ask", "--where", where, "--count", count, *words)

    def _ask_at_ticks(self) -> None:
        self._ask(ONLY_X, FRENCH)
        self._ask(EVERYONE, FRENCH)
        self._say("ask", "--where", EVERYONE, "--count", "all", "--scale", str(CHEAP), "--wait", "0")
        query = self._rows()[-1]["query_id"]
        self._order.append(query)
        self._left.add(query)
        self._deployment.start("researcher")
        wait_until(lambda: self._rows()[-1]["state"] == "answered", "pushed")
        wait_until(lambda: self._is_delivered(query), "delivered")
        self._deployment.stop("researcher")

    async def _ask_for_the_last_of_it(self, session: Session) -> None:
        """Budget for one of two, places for two of three: the third waits in line."""
        asked = [
            await session.prepare(Wanted(where, FRENCH, Precision(scale), 1_000_000, "official-languages"))
            for where, scale in ((ONLY_X, 1), (EVERYONE, DEAR), (ONLY_X, DEAR), (EVERYONE, DEAR))
        ]
        self._order += [each.query for each in asked]
        said: list[list[int]] = [[] for _ in asked]

        async def ask(number: int, taken: asyncio.Event) -> str:
            def on_stage(stage: health_service_pb2.Stage.ValueType) -> None:
                said[number].append(stage)
                # The next sample leaves a forwarding delay later than that of the question whose price is paid.
                if number != 1 or stage >= health_service_pb2.STAGE_FORWARDED:
                    taken.set()

            try:
                return (await session.ask(asked[number], wait_seconds=PATIENCE_SECONDS, on_stage=on_stage)).state
            except BrokerError as error:
                return f"{error.code}: {error.text} {error.hint}"

        async def start(number: int) -> asyncio.Task[str]:
            taken = asyncio.Event()
            asking = asyncio.create_task(ask(number, taken))
            asking.add_done_callback(lambda _: taken.set())
            await taken.wait()
            await asyncio.sleep(_APART_SECONDS)
            return asking

        first = await (await start(0))
        others = [await start(number) for number in range(1, len(asked))]
        self._world.commands.append(("three at once", [first, *await asyncio.gather(*others)], said))

    def _exhaust(self) -> None:
        self._say("quote", "--scale", str(DEAR))
        self._ask(EVERYONE, FRENCH, scale=LAST)
        self._say("quote")
        self._say("ask", "--where", ONLY_X, "--count", FRENCH)
        self._say("answers", "--collect")
        for query in self._order[:2]:
            self._say("answers", query)

    def _ask(self, where: str, count: str, *words: str, scale: int = CHEAP) -> None:
        self._say("ask", "--where", where, "--count", count, "--scale", str(scale), *words)
        self._order.append(self._rows()[-1]["query_id"])

    def _say(self, command: str, *words: str) -> None:
        """One command with --json; reading commands also as people have them."""
        outcome = self._deployment.run_here("researcher", command, *words, "--json")
        self._world.commands.append((command, *map(_anonymous, words), _shown(outcome)))
        if command in {"quote", "answers"}:
            outcome = self._deployment.run_here("researcher", command, *words)
            text = _GAP.sub("  ", _NUMBER.sub("0", _NOISE_REMARK.sub("", _anonymous(outcome.stdout))))
            self._world.commands.append((command, outcome.code, text, _anonymous(outcome.stderr)))

    def _rows(self) -> list[dict[str, Any]]:
        outcome = self._deployment.run_here("researcher", "answers", "--json")
        rows: list[dict[str, Any]] = outcome.result["answers"]
        return rows

    def _is_delivered(self, query: str) -> bool:
        return bool(self._deployment.tickets("census", "delivered")[self._deployment.ticket_of(query)])

    def _count_samples(self) -> None:
        """Where the ledger keeps whom it charged."""
        home = self._deployment.home("census")
        samples = SampleFolder(home / "samples")
        with contextlib.closing(sqlite3.connect(f"file:{home}/journal.db?mode=ro", uri=True)) as db:
            files = db.execute("select file from ledger_steps where kind = 'charge' order by place").fetchall()
        self._world.counted = [int(np.bitwise_count(samples.read(file).active).sum()) for (file,) in files]

    # --- what was seen ---------------------------------------------------------------------------------------------

    def look_back(self) -> None:
        """Fill the view of the world, now that everything has ended."""
        calls = self._traffic.calls()
        questions: dict[str, list[Call]] = {query: [] for query in self._order}
        for call in calls:
            if call.method not in {"Exchange", "Witness", "SendRoster"}:
                questions.setdefault(call.query, []).append(call)
        for query, of_question in questions.items():
            seen = [call for link in _RESEARCHERS_LINKS for call in of_question if call.link == link]
            forms = [(call.link, *self._form(call)) for call in seen]
            # A researcher who does not wait looks once or twice, depending on how quick the two nodes are.
            self._world.links.append([form for form, _ in groupby(forms)] if query in self._left else forms)
            counts = [call.form for call in of_question if call.link == _COUNTS]
            # How often `health status` had to ask until the roster was there is chance.
            self._world.counts.append(counts if query else [form for form, _ in groupby(counts)])
        rounds = [call for call in calls if call.method == "Witness"]
        self._world.shown = list(_shown_in(rounds))
        exchanges = [call for call in calls if call.method == "Exchange"]
        # How often an inbox exchanges cards follows from how long it runs.
        self._world.cards = [
            (link, [form for form, _ in groupby(call.form for call in exchanges if call.link == link)])
            for link in LINKS
        ]
        self._world.rosters = [call.form for call in calls if call.method == "SendRoster"]
        self._world.receipts = list(self._receipts())
        self._world.health_events = self._events_by_ticket()
        log = self._deployment.log("health").decode().splitlines()
        # Without time and the random id of the call.
        self._world.health_log = [re.sub(r" request=[0-9a-f]{8}", "", line.split(" ", 1)[1]) for line in log]
        self._world.instants = list(self._instants(questions, rounds))

    def _instants(self, questions: dict[str, list[Call]], rounds: list[Call]) -> Iterator[Instants]:
        only_x = "nobody" if self._world.name in NOBODY_MATCHES else "one person"
        for cohort, query in zip((only_x, "everyone"), self._order[3:5], strict=True):
            yield _instants(cohort, questions[query], self._charge_of(query), rounds)

    def _form(self, call: Call) -> Any:
        method, asked, said = call.form
        if call.query in self._left and call.method == "Submit":
            # Nobody listened any more: how much was said until that was noticed is chance.
            said = said[:1]
        # The text of a refusal is in its headers. Those of several questions on one connection refer to each other.
        refusal = [len(part.data) for part in call.server.headers] if not said and not call.query else []
        return method, asked, said, refusal

    def _events_by_ticket(self) -> list[Any]:
        """The health log, ticket by ticket: what happens to two of them at one tick has no order."""
        events: dict[str, list[Any]] = {}
        for event in self._deployment.events("health"):
            kept = (event["type"], event.get("code"), event.get("log_index"))
            events.setdefault(event.get("ticket", ""), []).append(kept)
        return list(events.values())

    def _charge_of(self, query: str) -> dict[str, Any]:
        (entry,) = [each for each in self._charges() if each["event"]["query"] == query]
        return entry

    def _charges(self) -> Iterator[dict[str, Any]]:
        file = self._deployment.home("researcher") / "answers.db"
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            for (signed,) in db.execute("select signed_receipt from questions where signed_receipt is not null"):
                yield json.loads(_receipt(signed).entry)

    def _receipts(self) -> Iterator[Any]:
        file = self._deployment.home("researcher") / "answers.db"
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            for refused, signed in db.execute("select refused, signed_receipt from questions order by asked_ms, rowid"):
                if signed is None:
                    yield refused
                    continue
                receipt = _receipt(signed)
                entry = json.loads(receipt.entry)
                yield (
                    (
                        receipt.scale,
                        receipt.charged,
                        receipt.log_index,
                        receipt.policy_hash,
                        len(receipt.inclusion_proof),
                    ),
                    [line if line.isdecimal() else len(line) for line in receipt.checkpoint.split("\n")],
                    {name: _shape(name, value) for name, value in entry["event"].items()},
                )


class _PersonsLife(Life):
    """The ledger drops everyone who was asked about at scale 1 from then on."""

    def live(self) -> None:
        self._deployment.start("census")
        self._deployment.start("health")
        self._deployment.wait_until_still()
        self._say("quote")
        # x, then y, who may be the same person; then both again, and everybody.
        for where in (ONLY_X, ONLY_Y, ONLY_X, EVERYONE):
            self._ask(where, FRENCH, scale=1)
        self._say("quote", "--scale", "1")
        self._say("answers", "--collect")
        self._say("answers", self._order[2])
        self._world.health_status = self._status()
        self._count_samples()

    def _instants(self, questions: dict[str, list[Call]], rounds: list[Call]) -> Iterator[Instants]:
        del questions, rounds
        return iter(())


def _receipt(signed: bytes) -> answer_pb2.Receipt:
    return answer_pb2.Receipt.FromString(answer_pb2.SignedReceipt.FromString(signed).receipt)


def _shown(outcome: Outcome) -> Any:
    return (outcome.code, _shape("", outcome.json), _anonymous(outcome.stderr))


def _anonymous(text: str) -> str:
    return _INSTANT.sub("<an instant>", _ID.sub(lambda found: f"<{len(found[0])} digits>", text))


def _shape(name: str, value: Any) -> Any:
    """A value as it is; what is random by its length, what is noise by its kind."""
    match value:
        case dict():
            return {key: _shape(key, each) for key, each in value.items()}
        case list():
            return [_shape(name, each) for each in value]
        case int() if name in {"noisy_count", "scaled_count"}:
            return "a number"
        case str() if name in _RANDOM_TEXT:
            return len(value)
        case str():
            return _anonymous(value)
        case _:
            return value


def _shown_in(rounds: list[Call]) -> Iterator[Any]:
    """New observations of each round, with their lengths."""
    for call in rounds:
        for response in call.responses:
            if isinstance(response, log_service_pb2.WitnessResponse) and response.checkpoint:
                sizes = [len(node) for node in response.consistency_proof]
                yield Note(response.checkpoint).size, len(response.checkpoint), sizes


def _cosigned_ms(rounds: list[Call], index: int) -> int:
    """When a round first began with a cosigned checkpoint that covers an entry."""
    for call in rounds:
        for request, part in zip(call.requests, call.client.messages, strict=True):
            note = request.cosigned if isinstance(request, log_service_pb2.WitnessRequest) else ""
            if note and Note(note).size > index:
                return part.at_ms
    raise AssertionError("a charge that nobody cosigned")


def _instants(cohort: str, calls: list[Call], entry: dict[str, Any], rounds: list[Call]) -> Instants:
    (submit,) = [call for call in calls if call.method == "Submit"]
    (count,) = [call for call in calls if call.method == "Count"]
    stages: dict[int, int] = {
        response.stage: part.at_ms
        for response, part in zip(submit.responses, submit.server.messages, strict=True)
        if isinstance(response, health_service_pb2.SubmitResponse)
    }
    cosigned = _cosigned_ms(rounds, entry["sequence"])
    submitted, sent = submit.client.messages[0].at_ms, count.client.messages[-1].at_ms
    return Instants(cohort, submitted, sent, stages, entry["time_ms"], cosigned)
