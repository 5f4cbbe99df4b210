"""DESIGN section 5 once more, in plain Python over the JSON of the logs: nothing of the product's is used here.

Written a second time so that a rule which the product forgot, or got wrong in writing and in replay alike, is still missed by
somebody. Signatures of cards and orders are not checked here; the product's replay does that beside this. It leaves one check
to `verify_release`: that the note which a release carries is a cosigned checkpoint of this very log.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Json = dict[str, Any]
_UNITS = 2**24
_ANY = 2**62
_DIGITS = 60


class LedgerError(AssertionError):
    """A log breaks a rule."""


def _require(holds: object, text: str, entry: Json | None = None) -> None:
    if not holds:
        place = "" if entry is None else f"entry {entry['sequence']} ({entry['event']['type']}): "
        raise LedgerError(place + text)


@lru_cache
def cap(max_belief: str) -> int:
    """The budget of a limit in units, rounded down."""
    with localcontext() as context:
        context.prec = _DIGITS
        belief = Decimal(max_belief)
        return int(((belief / (1 - belief)).ln() * _UNITS).to_integral_value(ROUND_FLOOR))


def price(scale: int) -> int:
    """Price of one answer, rounded up."""
    return (_UNITS + scale - 1) // scale


@dataclass
class _Log:
    """Common part of both kinds of log."""

    origin: str = ""
    time_ms: int = 0
    policy: str = ""
    load: str = ""
    release: str = ""
    linkage: str = ""
    format: int = 0
    # Fields of the load in force.
    dictionary: str = ""
    # Versions and meanings that were adopted, in order.
    adopted: list[tuple[int, str]] = field(default_factory=list)
    loads: set[str] = field(default_factory=set)
    chains: set[str] = field(default_factory=set)
    # Every roster of an agency that came into force here, or was sent from here, in order.
    rosters: dict[str, list[Json]] = field(default_factory=dict)
    # The load in force when a roster was recorded, by number: in a log that sends rosters, the load that it belongs to.
    roster_loads: dict[int, str] = field(default_factory=dict)
    known: set[tuple[str, str]] = field(default_factory=set)
    # Every public key that a card of the log's owner or of a peer has listed, by origin and purpose.
    keys: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)

    def begin(self, number: int, entry: Json) -> Json:
        """Everything that holds of every entry; gives its event."""
        event: Json = entry["event"]
        _require(entry["sequence"] == number, f"is not entry {number}", entry)
        _require((event["type"] == "opened") == (number == 0), "a log is opened once, first", entry)
        _require(entry["time_ms"] >= self.time_ms, "time runs backwards", entry)
        _require(entry["policy"] == self.policy, "names another policy than the one in force", entry)
        self.time_ms = entry["time_ms"]
        return event

    def take_common(self, entry: Json, event: Json) -> bool:
        """Cards, loads and rosters; False for anything else."""
        match event["type"]:
            case "opened":
                self.origin, self.format = event["origin"], event["format"]
                _require(self.format in {7, 8}, "a log of no format", entry)
            case "announced":
                self._note_keys(event["card"])
            case "registered":
                self.known.add(_peer(event["card"]))
                self._note_keys(event["card"])
            case "revoked":
                _require((event["role"], event["name"]) in self.known, "revokes whom nobody knows", entry)
                self.known.discard((event["role"], event["name"]))
            case "dictionary_adopted":
                _require(event["format"] == 8, "is of no format", entry)
                _require(
                    self.format == 8 or event["dictionary"] == (self.dictionary or event["dictionary"]),
                    "is not the one in force",
                    entry,
                )
                newest = self.adopted[-1] if self.adopted else (0, "")
                new = (event["version"], event["dictionary"])
                _require(new[0] > newest[0] or new == newest, "a version goes back", entry)
                self.format = 8
                self.adopted.append(new)
            case "loaded":
                _require(event["load"] not in self.loads, "a load comes twice", entry)
                _require(
                    self.format == 7 or event["dictionary"] in [each for _, each in self.adopted[-1:]],
                    "under a dictionary that was not adopted",
                    entry,
                )
                self.dictionary = event["dictionary"]
                _require(self.linkage in {"", event["linkage"]}, "a load of another chain", entry)
                self._put_in_force(event)
                self.release = event["release"]
            case "relinked":
                _require(event["load"] not in self.loads, "a load comes twice", entry)
                _require(event["previous"] == self.linkage != "", "does not follow on the chain in force", entry)
                _require(event["linkage"] not in self.chains, "a chain comes back", entry)
                self._put_in_force(event)
            case "rostered":
                before = self.rosters.setdefault(event["health"], [])
                _require(event["number"] > max((each["number"] for each in before), default=0), "goes back", entry)
                _require(event["linkage"] == self.linkage, "a roster of another chain", entry)
                before.append(event)
                self.roster_loads[event["number"]] = self.load
            case _:
                return False
        return True

    def _note_keys(self, card: Json) -> None:
        content = json.loads(card["document"])
        for key in content["keys"]:
            if key["purpose"] in {"log", "witness"}:
                raw = base64.b64decode(key["key"].split()[-1], validate=True)
                self.keys.setdefault((content["origin"], key["purpose"]), set()).add(raw)

    def _put_in_force(self, event: Json) -> None:
        self.load, self.linkage = event["load"], event["linkage"]
        self.loads.add(self.load)
        self.chains.add(self.linkage)


def _peer(card: Json) -> tuple[str, str]:
    content = json.loads(card["document"])
    return content["role"], content["name"] if content["role"] == "researcher" else content["organisation"]


@dataclass
class Answer:
    """One charged ticket."""

    charge: Json
    # Number of the charge's entry.
    index: int
    policy: str
    # Census release in force at the charge.
    release: str
    # Hash of the sealed answer, once it is out, and the note that it went out under.
    released: str = ""
    cosigned: str = ""
    kept_until_ms: int = 0
    delivered: bool = False
    expired: bool = False
    # From its charge on until then it counts against its researcher's quota; None: it does not.
    counts_until_ms: int | None = None
    # How long its sample is kept.
    sample_ms: int = 0


@dataclass
class CensusLedger(_Log):
    """Result of a census log."""

    rules: Json = field(default_factory=dict)
    # Whom the first answer was charged to.
    subject: str = ""
    # The largest cap that was ever allowed: the first one, or one that the operator confirmed, or a lower one.
    largest_cap: int = 0
    charged: int = 0
    # Everybody's charge: the answers under strict accounting.
    common: int = 0
    is_shut: bool = False
    # `budget` or `operator` while it is shut.
    reason: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    queries: set[str] = field(default_factory=set)
    # Noise slots that were committed to and may still serve: number to commitment.
    open_slots: dict[int, str] = field(default_factory=dict)
    # How many were ever committed to.
    committed: int = 0

    @property
    def cap(self) -> int:
        return cap(self.rules["max_belief"])

    @property
    def is_strict(self) -> bool:
        return bool(self.rules["accounting"] == "strict")

    @property
    def everyone(self) -> int:
        """Everybody's assumed charge under the policy in force."""
        return self.charged if self.is_strict else self.common

    @property
    def anything_fits(self) -> bool:
        if 0 < self.rules["max_answers"] <= len(self.answers):
            return False
        return any(self.everyone + price(scale) <= self.cap for scale in self.rules["scales"])


def read_census(entries: Sequence[Json]) -> CensusLedger:
    """Result of the log, if it keeps every rule."""
    log = CensusLedger()
    must_shut = False
    for number, entry in enumerate(entries):
        event = log.begin(number, entry)
        _require(not must_shut or event["type"] == "shutdown", "nothing fits any more, and it is not shut down", entry)
        if log.take_common(entry, event):
            continue
        match event["type"]:
            case "adopted":
                _adopt(log, entry, event)
                must_shut = not log.is_shut and not log.anything_fits
            case "slots":
                _commit_slots(log, entry, event)
            case "charged":
                _charge(log, entry, event)
                must_shut = not log.anything_fits
            case "shutdown":
                _require(not log.is_shut, "it is shut down already", entry)
                _require(
                    (event["reason"] == "budget") == must_shut, "a shutdown for another reason than it says", entry
                )
                _require(must_shut or (event["signature"] and event["note"]), "nobody ordered it", entry)
                log.is_shut, log.reason, must_shut = True, event["reason"], False
            case "reopened":
                _require(log.is_shut, "it is not shut down", entry)
                _require(log.anything_fits, "reopened while nothing fits", entry)
                _require(event["signature"] and event["note"], "nobody ordered it", entry)
                log.is_shut, log.reason = False, ""
            case "released" | "delivered" | "expired":
                _go_on(log, entry, event)
            case kind:
                _require(False, f"a census log holds no {kind}", entry)
    _require(not must_shut, "the log ends where a shutdown must follow")
    _require(log.charged == sum(price(answer.charge["scale"]) for answer in log.answers.values()), "the sum is wrong")
    _require(log.common <= log.largest_cap, "more was charged than the largest cap that was ever confirmed")
    return log


def _adopt(log: CensusLedger, entry: Json, event: Json) -> None:
    rules = json.loads(event["document"])
    new_cap = cap(rules["max_belief"])
    confirmed = bool(event["confirmation"] and event["note"])
    if log.rules:
        delays = ("forward_delay_ms", "release_tick_ms")
        is_weaker = new_cap > log.cap or any(rules[name] < log.rules[name] for name in delays)
        is_weaker |= (rules["max_answers"] or _ANY) > (log.rules["max_answers"] or _ANY)
        if rules["accounting"] == log.rules["accounting"] or rules["accounting"] == "strict":
            is_weaker |= (log.rules["subject"], rules["subject"]) == ("household", "person")
        else:
            is_weaker = True
        is_weaker |= _serves_otherwise(rules, log.rules)
        _require(confirmed == is_weaker, "a weaker policy is confirmed, and no other", entry)
    _require(log.subject in {"", rules["subject"]}, "budgets are for others than the first charge was to", entry)
    log.rules = rules
    log.policy = hashlib.sha256(event["document"].encode()).hexdigest()
    log.largest_cap = max(log.largest_cap, new_cap)


def _serves_otherwise(rules: Json, before: Json) -> bool:
    """Whether something is kept for another time, or questions may fail that did not before."""
    delays = ("forward_delay_ms", "release_tick_ms")
    asking, asking_before = (
        each["quote_lifetime_ms"] - each["forward_delay_ms"] - each["release_tick_ms"] for each in (rules, before)
    )
    return (
        rules["sample_retention_ms"] != before["sample_retention_ms"]
        or rules["researcher_answers"] != before["researcher_answers"]
        or rules["answer_retention_ms"] < before["answer_retention_ms"]
        or any(rules[name] > max(before[name], 5 * 60_000) for name in delays)
        or (asking < asking_before and asking < 30_000)
    )


def _commit_slots(log: CensusLedger, entry: Json, event: Json) -> None:
    _require(event["first"] == log.committed, "slots are left out or committed to twice", entry)
    _require(event["void_below"] <= event["first"], "slots are void before anybody could have them", entry)
    log.open_slots = {slot: value for slot, value in log.open_slots.items() if slot >= event["void_below"]}
    log.open_slots |= dict(enumerate(event["commitments"], start=event["first"]))
    log.committed += len(event["commitments"])


def _charge(log: CensusLedger, entry: Json, event: Json) -> None:
    _require(log.rules, "there is no policy", entry)
    _require(not log.is_shut, "charged while shut down", entry)
    _require(("researcher", event["researcher"]) in log.known, "the researcher is not registered", entry)
    _require(("health", event["health"]) in log.known, "the health agency is not registered", entry)
    _require(event["load"] == log.load != "", "charged on another load than the one in force", entry)
    newest = log.rosters.get(event["health"], [{}])[-1]
    in_force = (newest.get("number"), newest.get("linkage"))
    _require((event["roster"], log.linkage) == in_force, "for places of another roster than the one in force", entry)
    _require(event["scale"] in log.rules["scales"], "at a scale that the policy does not admit", entry)
    _require(event["units"] == price(event["scale"]), "at another price", entry)
    _require(event["total"] == log.charged + event["units"], "the total is wrong", entry)
    _require(log.everyone + event["units"] <= log.cap, "beyond the cap", entry)
    _require(bool(event["ledger"]) != log.is_strict, "persons' ledgers are named where persons are charged", entry)
    _require(log.anything_fits, "beyond the number of answers", entry)
    _require(event["ticket"] not in log.answers, "one ticket is charged twice", entry)
    _require(event["query"] not in log.queries, "one query has two tickets", entry)
    _require(event["slot"] in log.open_slots, "its slot was never committed to, is void, or has served", entry)
    log.subject = log.rules["subject"]
    answer = log.answers[event["ticket"]] = Answer(event, entry["sequence"], entry["policy"], log.release)
    if log.rules["researcher_answers"] and not log.is_strict:
        answer.counts_until_ms, answer.sample_ms = _ANY, log.rules["sample_retention_ms"]
        counting = [
            each
            for each in log.answers.values()
            if each.charge["researcher"] == event["researcher"] and (each.counts_until_ms or 0) > entry["time_ms"]
        ]
        _require(len(counting) <= log.rules["researcher_answers"], "beyond the researcher's quota", entry)
    log.queries.add(event["query"])
    del log.open_slots[event["slot"]]
    log.charged = event["total"]
    log.common += event["units"] if log.is_strict else 0


def _go_on(log: CensusLedger, entry: Json, event: Json) -> None:
    """Fold the entries after a charge."""
    answer = log.answers.get(event["ticket"])
    if answer is None:
        raise LedgerError(f"entry {entry['sequence']}: an answer without a charge before it")
    if event["type"] == "released":
        _require(not answer.released, "one ticket has two answers", entry)
        note = Note(event["checkpoint"])
        _require(note.origin == log.origin, "released under a checkpoint of another log", entry)
        _require(answer.index < note.size <= entry["sequence"], "released under a checkpoint without its charge", entry)
        answer.released, answer.cosigned = event["answer"], event["checkpoint"]
        answer.kept_until_ms = entry["time_ms"] + log.rules["answer_retention_ms"]
        if answer.counts_until_ms is not None:
            answer.counts_until_ms = entry["time_ms"] + answer.sample_ms
        return
    _require(answer.released, "before the release", entry)
    _require(not answer.delivered and not answer.expired, "delivered or expired before", entry)
    if event["type"] == "delivered":
        answer.delivered = True
    else:
        _require(entry["time_ms"] >= answer.kept_until_ms, "removed before its time", entry)
        answer.expired = True


# --- checkpoints -------------------------------------------------------------------------------------------------------

_KEY_HASH_BYTES, _TIME_BYTES = 4, 8


class Note:
    """A checkpoint and the lines below it, read by hand: C2SP's signed-note, tlog-checkpoint and tlog-cosignature."""

    def __init__(self, text: str) -> None:
        self.body, _, signatures = text.partition("\n\n")
        self.body += "\n"
        self.origin, size, root = self.body.splitlines()
        self.size, self.root = int(size), base64.b64decode(root, validate=True)
        lines = [line.split(" ") for line in signatures.splitlines()]
        _require(all(dash == "\N{EM DASH}" for dash, _, _ in lines), "a note whose lines are no signatures")
        self._lines = [(name, base64.b64decode(blob, validate=True)[_KEY_HASH_BYTES:]) for _, name, blob in lines]

    def is_signed(self, keys: set[bytes]) -> bool:
        """Whether the log itself signed it."""
        blobs = [blob for name, blob in self._lines if name == self.origin]
        return any(_holds(key, blob, self.body) for key in keys for blob in blobs)

    def is_cosigned(self, name: str, keys: set[bytes]) -> bool:
        """Whether a witness of this name cosigned it."""
        blobs = [blob for each, blob in self._lines if each == name]
        return any(
            _holds(key, blob[_TIME_BYTES:], f"cosignature/v1\ntime {int.from_bytes(blob[:_TIME_BYTES])}\n{self.body}")
            for key in keys
            for blob in blobs
        )


def _holds(key: bytes, signature: bytes, text: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
    except InvalidSignature:
        return False
    return True


def root_of(entries: Sequence[bytes]) -> bytes:
    """The root of a log, as RFC 6962 section 2.1 says it."""
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\0" + entries[0]).digest()
    left = 1 << (len(entries) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(entries[:left]) + root_of(entries[left:])).digest()


def verify_release(log: CensusLedger, entries: Sequence[bytes], answer: Answer, witness: str) -> Note:
    """Return the note of a release if the log signed it, its health agency cosigned it, and it is of these entries.

    `witness` is the origin of the health agency's own log, which is the name that it cosigns under.
    """
    note = Note(answer.cosigned)
    _require(note.root == root_of(entries[: note.size]), "released under a checkpoint of other entries")
    _require(note.is_signed(log.keys[log.origin, "log"]), "released under a checkpoint that the log did not sign")
    _require(note.is_cosigned(witness, log.keys[witness, "witness"]), "released before it was cosigned")
    return note


# --- the health log ----------------------------------------------------------------------------------------------------


@dataclass
class Question:
    """One accepted ticket."""

    submission: Json
    manifest: str = ""
    # Number of the roster whose places its sample is of.
    roster: int = 0
    # Where the census log has its charge; -1 until that is proved.
    charged_at: int = -1
    settled: bool = False
    refused: str = ""


@dataclass
class HealthLedger(_Log):
    """Result of a health log."""

    questions: dict[str, Question] = field(default_factory=dict)
    queries: set[str] = field(default_factory=set)


def read_health(entries: Sequence[Json]) -> HealthLedger:
    """Result of the log, if it keeps every rule."""
    log = HealthLedger()
    for number, entry in enumerate(entries):
        event = log.begin(number, entry)
        if log.take_common(entry, event):
            continue
        if event["type"] == "submitted":
            _require(event["ticket"] not in log.questions, "one ticket is accepted twice", entry)
            _require(event["query"] not in log.queries, "one query has two tickets", entry)
            _require(("researcher", event["researcher"]) in log.known, "the researcher is not registered", entry)
            _require(event["load"] == log.load != "", "accepted on another load than the one in force", entry)
            log.questions[event["ticket"]] = Question(event)
            log.queries.add(event["query"])
            continue
        question = log.questions.get(event["ticket"])
        if question is None:
            raise LedgerError(f"entry {number}: of a ticket that was never accepted")
        _require(not question.settled and not question.refused, "after its end", entry)
        match event["type"]:
            case "forwarded":
                _require(not question.manifest, "one ticket has two manifests", entry)
                load = log.roster_loads.get(event["roster"])
                _require(load == question.submission["load"], "a sample of another load than its question's", entry)
                question.manifest, question.roster = event["manifest"], event["roster"]
            case "reported_charge":
                _require(question.manifest, "charged before a sample was forwarded", entry)
                question.charged_at = event["log_index"]
            case "settled":
                _require(question.charged_at >= 0, "settled before it was charged", entry)
                question.settled = True
            case "refused":
                _require(question.charged_at < 0, "refused after it was charged", entry)
                question.refused = event["code"]
            case kind:
                _require(False, f"a health log holds no {kind}", entry)
    return log


def verify_agreement(census: CensusLedger, health: HealthLedger) -> None:
    """Return only if the two logs can be of one history."""
    for health_name, rosters in census.rosters.items():
        sent = health.rosters.get(health_name, [])
        _require(all(each in sent for each in rosters), f"a roster of {health_name} that it never sent")
    for ticket, answer in census.answers.items():
        question = health.questions.get(ticket)
        if question is None:
            raise LedgerError(f"ticket {ticket[:8]} was charged and never submitted")
        charge, submission = answer.charge, question.submission
        for name in ("query", "researcher"):
            _require(charge[name] == submission[name], f"ticket {ticket[:8]}: the logs disagree about the {name}")
        _require(charge["manifest"] == question.manifest, f"ticket {ticket[:8]}: charged for a sample that nobody sent")
        _require(charge["roster"] == question.roster, f"ticket {ticket[:8]}: charged for a sample of another roster")
    for ticket, question in health.questions.items():
        charged = census.answers.get(ticket)
        if question.charged_at >= 0:
            _require(
                charged is not None and charged.index == question.charged_at, f"ticket {ticket[:8]}: no such charge"
            )
        if question.settled:
            _require(charged is not None and charged.released, f"ticket {ticket[:8]}: settled and not out")
        if question.refused:
            _require(charged is None, f"ticket {ticket[:8]}: charged, and refused as {question.refused}")
