"""Little histories of a whole deployment, with real keys, as its parties would export them; any of them may lie.

A `History` makes both logs and every ticket and receipt step by step, with the product's own formats and without its rules:
what an honest node would refuse to write, a liar writes here. `exports` gives the files, `write` puts them on disk, and
`auditor` makes the home of somebody who trusts the parties' cards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from fakes import logs
from fakes.cards import Party
from fakes.randomness import SeededRandomness
from tripartite.v1 import answer_pb2, quote_pb2, ticket_pb2

from broker_common.audit.audit import Audited, replay_parts
from broker_common.audit.checks.openings import OpenedOnSite
from broker_common.audit.export.documents import OpenedCriteria, ReceiptFile, file_of
from broker_common.audit.export.reading import UnreadableError
from broker_common.audit.export.writing import COSIGNED, WITNESSED
from broker_common.audit.home import AuditorHome
from broker_common.crypto.commitments import SlotSecret, commit_criteria, commit_slot, hash_bytes
from broker_common.crypto.sealing import SealingKey, UnsealingKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.opening import OPENING_SUFFIX, Opening, make_opening, seal_opening
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import margin
from broker_common.query.dictionary_document import dictionary_document
from broker_common.query.question import EVERYONE
from broker_common.query.quote import sign_quote
from broker_common.query.refusal import refusal_of
from broker_common.query.ticket import sign_ticket
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import (
    Adopted,
    Charged,
    Delivered,
    DictionaryAdopted,
    Entry,
    Event,
    Forwarded,
    Refused,
    Released,
    ReportedCharge,
    Settled,
    Slots,
    parse_entry,
)
from broker_common.tlog.merkle import MerkleTree, leaf_hash
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.tiles import CHECKPOINT_PATH, entry_bundles, hash_tiles
from broker_common.values import ExactCounts, base64_text

Exports: TypeAlias = dict[str, dict[str, bytes]]
Lie: TypeAlias = "Mapping[str, Any] | Callable[[History], Mapping[str, Any]]"
START_MS = 1_800_000_000_000
RELEASE = "2021"
# Made once: it costs more than everything else in a ticket.
_ANSWER_KEY = UnsealingKey.generate(SeededRandomness("answer")).sealing_key.raw


def slot_secret(number: int) -> SlotSecret:
    """Secret of a slot's noise."""
    return SlotSecret(hash_bytes(b"%d" % number))


class MemoryPart:
    """A part of what is handed in, without a disk."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def names(self) -> Iterator[tuple[str, bool]]:
        yield from ((name, True) for name in self._files)

    def read(self, name: str, most_bytes: int) -> bytes:
        content = self._files.get(name)
        if content is None:
            raise UnreadableError("FILE_MISSING", name)
        if len(content) > most_bytes:
            raise UnreadableError("FILE_TOO_LARGE", name)
        return content


class SignedLog:
    """One log that its owner can sign at any size, and whose entries nobody checks."""

    def __init__(self, owner: Party) -> None:
        self.owner = owner
        self.entries: list[bytes] = []
        self.tree = MerkleTree()
        self.policy = ""

    @property
    def size(self) -> int:
        return len(self.entries)

    def append(self, event: Event, time_ms: int, /, **changes: Any) -> int:
        """Write an entry, at its place unless `changes` say otherwise; gives its index."""
        fields: dict[str, Any] = {"sequence": self.size, "time_ms": time_ms, "policy": self.policy, "event": event}
        entry = Entry(**fields | changes)
        if isinstance(event, Adopted):
            self.policy = hash_bytes(event.document.encode()).hex()
        return self.append_bytes(msgspec.json.encode(entry, order="sorted"))

    def append_bytes(self, data: bytes) -> int:
        """Write whatever it is as the next entry."""
        self.entries.append(data)
        self.tree.append(data)
        return self.size - 1

    def note(self, size: int | None = None) -> str:
        """The checkpoint of this size, signed with every key that the owner's card has for it."""
        size = self.size if size is None else size
        return self.signer.sign_checkpoint(size, self.tree.root(size))

    @property
    def signer(self) -> NoteSigner:
        return NoteSigner(self.owner.card.card.origin, tuple(self.owner.listed(Purpose.LOG.value, SigningKey)))

    def cosigner(self) -> Cosigner:
        """How the owner cosigns the other agency's log."""
        return Cosigner(self.owner.card.card.origin, self.owner.signing(Purpose.WITNESS))

    def files(self) -> dict[str, bytes]:
        """The log as it is exported."""
        files = dict(entry_bundles(self.entries))
        files.update(hash_tiles(leaf_hash(entry) for entry in self.entries))
        files[CHECKPOINT_PATH] = self.note().encode()
        document = dictionary_document(logs.DICTIONARY)
        if any(isinstance(parse_entry(entry).event, DictionaryAdopted) for entry in self.entries[:_BEGINNING]):
            files[file_of(hash_bytes(document).hex())] = document
        return files


# Entries with which every log begins; what a liar writes later is no dictionary.
_BEGINNING = 5


@dataclass
class Asked:
    """One question on its way; a liar changes what the next step writes."""

    number: int
    ticket: ticket_pb2.Ticket
    signed: ticket_pb2.SignedTicket
    # Serialised SignedQuote.
    quote: bytes
    charge: Charged | None = None
    index: int = -1
    receipt: bytes = b""
    state: str = "pending"
    criteria: bytes = b""
    nonce: bytes = b""
    # Secret of its answer's noise.
    opening: Opening | None = None

    @property
    def hash(self) -> str:
        return hash_bytes(self.signed.ticket).hex()

    @property
    def query(self) -> str:
        return self.ticket.query_id.hex()


_OF_A_QUESTION = frozenset(
    ["submit", "forward", "charge", "report_charge", "refuse", "release", "deliver", "settle", "receive"]
)


@dataclass
class History:
    """Two agencies and a researcher. Every step takes `changes` to the event that it writes."""

    rules: Policy = field(default_factory=logs.policy)
    slots_at_once: int = 4
    census_party: Party = field(default_factory=logs.CENSUS.copy)
    health_party: Party = field(default_factory=logs.HEALTH.copy)
    researcher: Party = field(default_factory=logs.ALICE.copy)

    def __post_init__(self) -> None:
        self.now_ms = START_MS
        self.census, self.health = SignedLog(self.census_party), SignedLog(self.health_party)
        self.total = 0
        # Number of answers that are out.
        self.out_units = self.out = 0
        self.next_slot = 0
        self.roster_in_force = 0
        self.asked: list[Asked] = []
        # Last checkpoint that each agency has cosigned.
        self.cosigned: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._commitments: dict[int, bytes] = {}

    # --- steps -----------------------------------------------------------------------------------------------------

    def pass_time(self, ms: int = 250) -> None:
        self.now_ms += ms

    def begin(self, otherwise: Mapping[int, Event] | None = None) -> History:
        """Both logs up to the first commitment to noise slots, cosigned; a liar's census log has some events otherwise."""
        for number, event in enumerate(logs.beginning("census")):
            self.write_census((otherwise or {}).get(number, event))
        for event in logs.beginning("health"):
            self.write_health(event)
        self.write_census(logs.adopted(self.rules))
        self.write_census(logs.loaded(release=RELEASE))
        self.write_health(logs.loaded(release=RELEASE))
        self.roster(1)
        self.commit_slots(starting=True)
        self.cosign()
        return self

    def take(self, steps: str, **lies: Lie) -> None:
        """These steps by name, those of a question with the one that was ordered last; a lie is what a step is given besides."""
        for step in steps.split():
            lie = lies.get(step, {})
            about = (self.asked[-1],) if step in _OF_A_QUESTION else ()
            getattr(self, step)(*about, **(lie(self) if callable(lie) else lie))

    def ask(self, steps: str, **lies: Lie) -> Asked:
        """A new question that goes so far."""
        self.take(f"order {steps}", **lies)
        return self.asked[-1]

    def write_census(self, event: Event, **changes: Any) -> int:
        self.pass_time()
        return self.census.append(event, self.now_ms, **changes)

    def write_health(self, event: Event, **changes: Any) -> int:
        self.pass_time()
        return self.health.append(event, self.now_ms, **changes)

    def roster(self, number: int = 2, **changes: Any) -> int:
        """A roster that is sent and comes into force; a liar's census log says something else of it. Gives its entry there."""
        self.roster_in_force = number
        self.write_health(logs.rostered(number))
        return self.write_census(logs.rostered(number, **changes))

    def commit_slots(self, *, starting: bool = False, first: int | None = None) -> int:
        """Commit to the next noise slots, as a start of the node does or in the middle."""
        first = self.next_slot if first is None else first
        numbers = range(first, first + self.slots_at_once)
        self._commitments |= {number: commit_slot(slot_secret(number), number) for number in numbers}
        self.next_slot = numbers.stop
        commitments = tuple(self._commitments[number].hex() for number in numbers)
        return self.write_census(Slots(first=first, void_below=first if starting else 0, commitments=commitments))

    def cosign(self, *, time_s: int | None = None) -> str:
        """Each agency cosigns the other's newest checkpoint; gives the census log's."""
        self.pass_time()
        time_s = self.now_ms // 1000 if time_s is None else time_s
        self.cosigned["census"] = self.health.cosigner().cosign(self.census.note(), time_s)
        self.cosigned["health"] = self.census.cosigner().cosign(self.health.note(), time_s)
        return self.cosigned["census"]

    def census_state(self) -> CensusState:
        """The state that the operator's next order to the census node refers to."""
        state = logs.census_state()
        state.origin, state.size, state.policy_hash = logs.ORIGIN, self.census.size, self.census.policy
        return state

    def adopt(self, rules: Policy, *, confirmed: bool = False) -> int:
        """Other rules from here on, with the operator's confirmation or without."""
        state = self.census_state()
        self.rules = rules
        return self.write_census(logs.confirmed(state, rules) if confirmed else logs.adopted(rules))

    def order(self, **changes: Any) -> Asked:
        """A ticket for the next noise slot, under the newest cosigned checkpoint."""
        number = next(self._numbers)
        slot = changes.pop("slot", number - 1)
        criteria, nonce = b"criteria %d" % number, hash_bytes(b"nonce %d" % number)
        fields: dict[str, Any] = {
            "query_id": number.to_bytes(16, "big"),
            "researcher_id": "alice",
            "project_id": "study",
            "question": EVERYONE.to_wire(),
            "census_release": RELEASE,
            "scale": 30,
            "fraction_millionths": 1_000_000,
            "criteria_commitment": commit_criteria(nonce, criteria),
            "answer_key": _ANSWER_KEY,
            "policy_hash": bytes.fromhex(self.census.policy),
            "noise_slot": ticket_pb2.NoiseSlot(
                number=slot,
                commitment=changes.pop("commitment", self._commitments.get(slot, bytes(32))),
                checkpoint=changes.pop("checkpoint", self.cosigned["census"]),
            ),
            "expires_ms": self.now_ms + self.rules.quote_lifetime_ms,
            "health_dictionary": logs.DICTIONARY.hash,
            "census_dictionary": logs.DICTIONARY.hash,
        }
        quoted = changes.pop("quoted", {})
        body = ticket_pb2.Ticket(**fields | changes)
        signed = sign_ticket(body, self.researcher.signing(Purpose.TICKET))
        asked = Asked(number, body, signed, self.quote(body, **quoted).SerializeToString(deterministic=True))
        asked.criteria, asked.nonce = criteria, nonce
        self.asked.append(asked)
        return asked

    def quote(self, ticket: ticket_pb2.Ticket, **changes: Any) -> quote_pb2.SignedQuote:
        """The census agency's quote for a ticket that is made now."""
        rules, scale = self.rules, ticket.scale
        left = answers_left(rules.cap, self.out_units, scale)
        if rules.max_answers:
            left = min(left, rules.max_answers - self.out)
        fields: dict[str, Any] = {
            "researcher_id": ticket.researcher_id,
            "question": ticket.question,
            "census_release": ticket.census_release,
            "scale": scale,
            "charged": price(scale),
            "margin_95": margin(scale, max(1, len(ticket.question.cells))),
            "remaining": max(1, left) if rules.accounting == "strict" else None,
            "quota": rules.quota or None,
            "quota_left": rules.quota or None,
            "policy_hash": ticket.policy_hash,
            "noise_slot": ticket.noise_slot,
            "told_ms": self.now_ms,
            "expires_ms": ticket.expires_ms,
        }
        return sign_quote(quote_pb2.Quote(**fields | changes), self.census_party.signing(Purpose.ANSWER))

    def submit(self, asked: Asked, **changes: Any) -> int:
        criteria = asked.ticket.criteria_commitment.hex()
        fields = {"query": asked.query, "ticket": asked.hash, "criteria": criteria}
        return self.write_health(logs.submitted(asked.number, **fields | changes))

    def forward(self, asked: Asked, **changes: Any) -> int:
        manifest = logs.hash_of(asked.number)
        fields: dict[str, Any] = {"ticket": asked.hash, "roster": self.roster_in_force, "manifest": manifest}
        return self.write_health(Forwarded(**fields | changes))

    def charge(self, asked: Asked, *, counts: Sequence[int] = (), **changes: Any) -> int:
        scale = changes.get("scale", asked.ticket.scale)
        units = changes.get("units", price(scale))
        self.total += units
        slot = asked.ticket.noise_slot.number
        asked.opening = make_opening(
            ExactCounts(counts or [40 + asked.number]),
            slot_secret(slot),
            ticket=asked.hash,
            slot=slot,
            load=changes.get("load", "load1"),
        )
        fields: dict[str, Any] = {
            "query": asked.query,
            "ticket": asked.hash,
            "slot": slot,
            "scale": scale,
            "units": units,
            "roster": self.roster_in_force,
            "manifest": logs.hash_of(asked.number),
            "submitted": hash_bytes(b"submitted %d" % asked.number).hex(),
            "active": hash_bytes(b"active %d" % asked.number).hex(),
            "ledger": "" if self.rules.accounting == "strict" else hash_bytes(b"ledger %d" % asked.number).hex(),
            "total": self.total,
        }
        asked.charge = logs.charged(asked.number, **fields | changes)
        asked.index = self.write_census(asked.charge)
        return asked.index

    def report_charge(self, asked: Asked, **changes: Any) -> int:
        checkpoint = self.census.note(asked.index + 1)
        fields: dict[str, Any] = {"ticket": asked.hash, "log_index": asked.index, "checkpoint": checkpoint}
        return self.write_health(ReportedCharge(**fields | changes))

    def refuse(
        self, asked: Asked, code: str, *, key: SigningKey | None = None, key_id: str = "", **changes: Any
    ) -> int:
        """The census agency refuses the sample, as of now and the log as it is, and the health agency logs it."""
        self.pass_time()
        manifest = b"manifest %d" % asked.number
        refusal = refusal_of(
            asked.signed.ticket,
            manifest,
            code=code,
            health="health-on",
            log=logs.ORIGIN,
            roster=self.roster_in_force,
            size=self.census.size,
            time_ms=self.now_ms,
        )
        refusal = msgspec.structs.replace(refusal, **{"manifest": logs.hash_of(asked.number)} | changes)
        key = self.census_party.signing(Purpose.REFUSAL) if key is None else key
        return self.write_health(
            Refused(
                ticket=asked.hash,
                code=code,
                refusal=refusal.document.decode(),
                signature=key.sign_text(refusal.document),
                key_id=key_id or key.key_id,
            )
        )

    def release(self, asked: Asked, *, checkpoint: str | None = None, **changes: Any) -> int:
        self.pass_time()
        self.out, self.out_units = self.out + 1, self.out_units + price(asked.ticket.scale)
        fields = {
            "ticket": asked.hash,
            "answer": hash_bytes(asked.signed.ticket + b"answer").hex(),
            "checkpoint": self.cosigned["census"] if checkpoint is None else checkpoint,
        }
        return self.write_census(Released(**fields | changes))

    def deliver(self, asked: Asked) -> int:
        return self.write_census(Delivered(ticket=asked.hash, by="inbox"))

    def settle(self, asked: Asked) -> int:
        return self.write_health(Settled(ticket=asked.hash))

    def receive(self, asked: Asked, **changes: Any) -> None:
        """The researcher's receipt, signed by the census agency."""
        charge, opening = asked.charge, asked.opening
        assert charge is not None
        assert opening is not None
        size = asked.index + 1
        ticket_hash = bytes.fromhex(asked.hash)
        fields: dict[str, Any] = {
            "query_id": asked.ticket.query_id,
            "ticket_hash": ticket_hash,
            "answer_hash": bytes.fromhex(opening.answer_hash(charge.scale, charge.submitted)),
            "scale": charge.scale,
            "charged": charge.units,
            "policy_hash": bytes.fromhex(self.census.policy),
            "log_index": asked.index,
            "checkpoint": self.census.note(size),
            "inclusion_proof": self.census.tree.inclusion_proof(asked.index, size),
            "entry": self.census.entries[asked.index],
        }
        receipt = answer_pb2.Receipt(**fields | changes).SerializeToString(deterministic=True)
        key = self.census_party.signing(Purpose.ANSWER)
        signed = answer_pb2.SignedReceipt(receipt=receipt, signature=key.sign(receipt), key_id=key.key_id)
        asked.receipt = signed.SerializeToString(deterministic=True)
        asked.state = "answered"

    def answer(self, **order: Any) -> Asked:
        """One question from its ticket to its receipt."""
        if self._slots_left == 0:
            self.commit_slots()
            self.cosign()
        return self.ask("submit forward charge report_charge cosign release deliver settle receive", order=order)

    @property
    def _slots_left(self) -> int:
        return self.next_slot - len(self.asked)

    # --- what is handed in -----------------------------------------------------------------------------------------

    def exports(self, *, criteria: bool = False) -> Exports:
        """Every file that the parties hand in."""
        census, health = self.census.files(), self.health.files()
        if "census" in self.cosigned:
            census[COSIGNED] = health[WITNESSED] = self.cosigned["census"].encode()
            health[COSIGNED] = census[WITNESSED] = self.cosigned["health"].encode()
        if criteria:
            for asked in self.asked:
                opened = OpenedCriteria(
                    ticket=asked.hash, criteria=base64_text(asked.criteria), nonce=base64_text(asked.nonce)
                )
                health[opened.name] = opened.to_bytes()
        shown = {}
        for asked in self.asked:
            file = ReceiptFile.of(
                asked.query, asked.state, asked.quote, asked.signed.SerializeToString(), asked.receipt
            )
            shown[file.name] = file.to_bytes()
        return {"census": census, "health": health, "researcher": shown}

    def openings(self, key: SealingKey) -> dict[str, bytes]:
        """The census agency's openings for the holder of the oversight key: one of every charged ticket."""
        charged = [asked.opening for asked in self.asked if asked.opening is not None]
        return {f"{opening.ticket}{OPENING_SUFFIX}": seal_opening(opening, key) for opening in charged}


def honest(answers: int = 1, **rules: Any) -> History:
    """A history in which everybody did what they should."""
    history = History(rules=logs.policy(**rules)).begin()
    history.take("answer " * answers + "cosign")
    return history


def unwatched(_: str) -> Callable[[int, int], None]:
    """Progress that nobody watches."""
    return lambda _done, _total: None


def in_memory(exports: Exports) -> dict[str, MemoryPart]:
    """The hand-in, as parts."""
    return {role: MemoryPart(files) for role, files in exports.items()}


def replayed(exports: Exports, home: AuditorHome, opened: OpenedOnSite | None = None) -> Audited:
    """Result of an audit of exports that lie in memory."""
    return replay_parts(in_memory(exports), home, unwatched, opened)


def write(exports: Exports, directory: Path) -> Path:
    """The same on disk."""
    for role, files in exports.items():
        (directory / role).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = directory / role / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return directory


def auditor(path: Path, parties: tuple[Party, ...] = (logs.CENSUS, logs.HEALTH, logs.ALICE)) -> Path:
    """The home of an auditor who trusts these parties as their cards are now."""
    (path / "trust").mkdir(parents=True)
    (path / "config.toml").write_text('role = "auditor"\n')
    for party in parties:
        (path / "trust" / f"{party.identity.organisation}.card").write_bytes(party.card.signed.to_bytes() + b"\n")
    return path
