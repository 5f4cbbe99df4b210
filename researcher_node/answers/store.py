"""Questions and answers: the researcher's own store, one row per question.

The key that opens an answer is made for one question, written before the ticket leaves, and wiped when the answer has
been read or will never come: who copies the disk later cannot open what was recorded earlier. Whatever arrives is
verified before it is kept: sealed to us, with a receipt that the census agency signed for exactly our ticket and this
answer, and charged in its signed log at our scale.

A receipt proves to others what was paid for, and does not tell the answer: it holds a hash of it, and the salt that opens
the hash is kept beside it and never shown (`Answers.receipts`). That the log still holds what a receipt says is for
`checking`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tripartite.v1 import answer_pb2, ticket_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import UnsealingKey
from broker_common.crypto.signing import VerifyKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, PeerUnavailableError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.query.answer import unseal_answer
from broker_common.query.dictionary import AskedOf
from broker_common.query.messages import parse_message
from broker_common.query.question import Cell, read_question
from broker_common.storage.database import Database
from broker_common.storage.journal import store_errors
from broker_common.tlog.entries import Charged, parse_entry
from broker_common.tlog.merkle import root_from_inclusion
from broker_common.tlog.note import Checkpoint, NoteVerifier, parse_note
from broker_common.values import QUERY_ID_BYTES, Clock, NoisyCounts

# How long another process may hold the store before BUSY is said.
_BUSY_TIMEOUT_SECONDS = 30
# How often, and how far apart, another process that is just reading is given the time to finish.
_WIPE_TRIES = 20
_WIPE_PAUSE_SECONDS = 0.02
# The file's format, kept in SQLite's own place for it; it grows when the meaning of a row changes.
_FORMAT = 1
_COLUMNS: dict[str, type] = {
    "query": str,
    "asked_ms": int,
    "where": str,
    "question": str,
    "scale": int,
    "fraction_millionths": int,
    "policy_hash": str,
    "signed_quote": bytes,
    "signed_ticket": bytes,
    "criteria": bytes,
    "criteria_nonce": bytes,
    "opening_key": str,
    "accepted": int,
    "refused": str,
    "noisy_counts": str,
    "charged": int,
    "checkpoint": str,
    "signed_receipt": bytes,
    "answer_salt": bytes,
    "answered_ms": int,
    "expired": int,
    "quoted_again": int,
}


# In tables of their own, which a program that does not know them leaves alone: what a row of the others means is as before.
_LABELS = "create table if not exists labels (query text primary key, label text not null) without rowid"
_PARTS = (
    "create table if not exists parts "
    "(query text primary key, not_asked text not null, one_in int not null, design_effect_hundredths int not null) without rowid"
)
_QUESTIONS = (
    "select questions.*, coalesce(label, '') as label, not_asked, one_in, design_effect_hundredths from questions "
    "left join labels using (query) left join parts using (query)"
)
_LIKE = (
    f"{_QUESTIONS} where criteria = ? and question = ? and scale = ? and fraction_millionths = ? and refused = '' "
    "order by asked_ms desc, questions.rowid desc limit 1"
)
# Columns that are written when the answer comes.
_ANSWERED = frozenset({"noisy_counts", "charged", "signed_receipt", "answer_salt", "answered_ms"})
# Counts that are NULL have not come; none is read.
_RECEIPTS = (
    "select query, refused, signed_quote, signed_ticket, signed_receipt, noisy_counts is not null as answered, expired "
    "from questions order by asked_ms, rowid"
)


_NOT_REFUSED = "select asked_ms, scale from questions where refused = '' order by asked_ms, rowid"
# "where" is a word of SQL as well.
_PUT_COLUMNS = [name for name in _COLUMNS if name not in _ANSWERED]
_PUT = (
    f"insert into questions ({', '.join(f'[{name}]' for name in _PUT_COLUMNS)}) "  # noqa: S608 - names of our own
    f"values ({', '.join(f':{name}' for name in _PUT_COLUMNS)})"
)


@dataclass(frozen=True, slots=True)
class CensusKeys:
    """The keys by which the researcher knows the census agency, read at every use."""

    answer: Callable[[], Sequence[VerifyKey]]
    log: Callable[[], NoteVerifier]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question, and its answer once there is one."""

    query: str
    asked_ms: int
    where: str
    question: str
    scale: int
    fraction_millionths: int
    policy_hash: str
    # As it was quoted, before the ticket was signed.
    signed_quote: bytes
    signed_ticket: bytes
    criteria: bytes
    criteria_nonce: bytes
    # The health node has said that it took the question: it goes on by itself.
    accepted: bool = False
    # Code of the refusal, empty if there was none.
    refused: str = ""
    noisy: NoisyCounts | None = None
    charged: int | None = None
    checkpoint: str = ""
    # When the answer was received here.
    answered_ms: int | None = None
    # The census node had the answer, kept it until its retention ended, and has it no more.
    expired: bool = False
    # Quotes for the same question that the census node refused before this one.
    quoted_again: int = 0
    # The researcher's own word for it; it never leaves this store.
    label: str = ""
    # The part of the people that it counts, as the dictionary said when it was asked; None: everybody.
    asked_of: AskedOf | None = None

    def __repr__(self) -> str:
        return f"AskedQuestion({self.query})"

    @property
    def state(self) -> str:
        """`answered`, `expired`, `refused` or `pending`."""
        return _state(answered=self.noisy is not None, expired=self.expired, refused=self.refused)

    @property
    def noisy_count(self) -> int | None:
        """The answer to a question of one cell; None as long as there is none."""
        if self.noisy is None:
            return None
        (count,) = self.noisy.values
        return count

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order of the answer's numbers."""
        return read_question(self.question).cells

    @property
    def ticket_message(self) -> ticket_pb2.SignedTicket:
        return parse_message(ticket_pb2.SignedTicket, self.signed_ticket)

    @property
    def project(self) -> str:
        return self._ticket.project_id

    @property
    def researcher(self) -> str:
        return self._ticket.researcher_id

    @property
    def ticket_expires_ms(self) -> int:
        """From then on the ticket is charged no more; if it was before, its answer still comes."""
        return self._ticket.expires_ms

    @property
    def slot(self) -> int:
        return self._ticket.noise_slot.number

    @property
    def _ticket(self) -> ticket_pb2.Ticket:
        return parse_message(ticket_pb2.Ticket, self.ticket_message.ticket)


@dataclass(frozen=True, slots=True)
class KeptReceipt:
    """The auditable part of a question: signed quote and ticket, and the signed receipt once there is an answer.

    The ticket commits to the criteria and does not tell them; the receipt commits to the noisy count, and what opens it, the
    salt, stays here.
    """

    query: str
    # `answered`, `expired`, `refused` or `pending`.
    state: str
    # Serialised SignedQuote, SignedTicket and SignedReceipt, as they were signed; no receipt is empty.
    signed_quote: bytes
    signed_ticket: bytes
    signed_receipt: bytes

    @property
    def promised(self) -> Checkpoint:
        """The checkpoint of the census log that the receipt says is part of it for ever; there must be a receipt."""
        signed = parse_message(answer_pb2.SignedReceipt, self.signed_receipt)
        return parse_note(parse_message(answer_pb2.Receipt, signed.receipt).checkpoint)[0]


class Charge(NamedTuple):
    """The charge of one of our questions, or its possible charge; asked when."""

    asked_ms: int
    units: int


class Answers:
    """One researcher's store. Several processes and threads may use it at once: `ask` and the inbox do.

    A file of another version is refused when it is opened, InternalError FORMAT_UNKNOWN. Every method raises STORE_FAILED when the disk fails, INTEGRITY when the file is damaged, and RefusedError
    BUSY when another process does not let go of the store.
    """

    def __init__(self, path: Path, keys: CensusKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        with _store_errors():
            # SECURITY: before SQLite makes it, and the log and index beside it, which take over its mode.
            _make_private(path)
            connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_SECONDS
            )
            self._db = Database(connection)
            for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                self._db.execute(f"PRAGMA {setting}")
            self._make_table(path.parent)

    def _make_table(self, home: Path) -> None:
        if not self._db.has_table("questions"):
            # One process at a time: the next one finds what this one has made.
            self._db.execute("BEGIN IMMEDIATE")
            self._db.make_table("questions", _COLUMNS, key="query")
            self._db.execute(f"PRAGMA user_version={_FORMAT}")
            self._db.execute("COMMIT")
        ((found,),) = self._db.execute("PRAGMA user_version")
        if found != _FORMAT:
            self._db.close()
            raise InternalError("FORMAT_UNKNOWN", home=str(home), found=found, known=_FORMAT)
        self._db.execute(_LABELS)
        self._db.execute(_PARTS)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def put(self, asked: AskedQuestion, unsealing_key: UnsealingKey) -> None:
        """Remember a question before its ticket leaves."""
        row = {
            "query": asked.query,
            "asked_ms": asked.asked_ms,
            "where": asked.where,
            "question": asked.question,
            "scale": asked.scale,
            "fraction_millionths": asked.fraction_millionths,
            "policy_hash": asked.policy_hash,
            "signed_quote": asked.signed_quote,
            "signed_ticket": asked.signed_ticket,
            "criteria": asked.criteria,
            "criteria_nonce": asked.criteria_nonce,
            "opening_key": unsealing_key.to_text(),
            "accepted": 0,
            "refused": "",
            "checkpoint": "",
            "expired": 0,
            "quoted_again": asked.quoted_again,
        }
        with self._lock, _store_errors():
            part = asked.asked_of
            if part is not None:
                values = [asked.query, part.not_asked, part.one_in, part.design_effect_hundredths]
                self._db.execute("insert into parts values (?, ?, ?, ?)", values)
            self._db.execute(_PUT, row)
        if asked.label:
            self.label(asked.query, asked.label)

    def label(self, query: str, label: str) -> None:
        """Give one of our questions a label, in the place of the one that it may have."""
        with self._lock, _store_errors():
            self._db.execute("insert or replace into labels values (?, ?)", [query, label])

    def accept(self, query: str) -> None:
        """Remember that the health node has taken a question."""
        self._settle(query, {"accepted": 1})

    def refuse(self, query: str, code: str) -> None:
        """Remember that a question was refused."""
        self._settle(query, {"refused": code})

    def expire(self, query: str) -> None:
        """Remember that the answer can be had no more."""
        self._settle(query, {"expired": 1, "opening_key": ""})
        self._wipe()

    def _settle(self, query: str, changes: dict[str, Any]) -> None:
        """Write what became of a question, unless another process has its answer."""
        names = ", ".join(f"{name} = :{name}" for name in changes)
        with self._lock, _store_errors():
            self._db.execute(
                f"update questions set {names} where query = :query and noisy_counts is null",  # noqa: S608 - own names
                {**changes, "query": query},
            )

    def _wipe(self) -> None:
        """Start the write-ahead log over: it holds keys that their rows have lost.

        SECURITY: without waiting inside SQLite, which would keep others from writing meanwhile. If somebody reads for
        longer than we try, the next answer, or the last process to close the store, does it.
        """
        for _ in range(_WIPE_TRIES):
            with self._lock, _store_errors():
                self._db.execute("PRAGMA busy_timeout=0")
                try:
                    ((busy, *_),) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._db.execute(f"PRAGMA busy_timeout={1000 * _BUSY_TIMEOUT_SECONDS}")
            if not busy:
                return
            time.sleep(_WIPE_PAUSE_SECONDS)

    def get(self, query: str) -> AskedQuestion:
        """One question of ours.

        Raises:
            InvalidRequestError: UNKNOWN_QUERY.
        """
        return _asked(self._row(query))

    def all(self) -> list[AskedQuestion]:
        """Every question, oldest first."""
        with self._lock, _store_errors():
            rows = list(self._db.query(f"{_QUESTIONS} order by asked_ms, questions.rowid"))
        return [_asked(row) for row in rows]

    def receipts(self) -> list[KeptReceipt]:
        """The auditable part of every question, oldest first; no count, no salt and no criteria are read."""
        with self._lock, _store_errors():
            rows = list(self._db.query(_RECEIPTS))
        return [
            KeptReceipt(
                query=row["query"],
                state=_state(answered=bool(row["answered"]), expired=bool(row["expired"]), refused=row["refused"]),
                signed_quote=row["signed_quote"],
                signed_ticket=row["signed_ticket"],
                signed_receipt=row["signed_receipt"] or b"",
            )
            for row in rows
        ]

    def newest_like(self, criteria: bytes, question: str, scale: int, fraction_millionths: int) -> AskedQuestion | None:
        """The last question of exactly this that was not refused; None if there is none."""
        values = [criteria, question, scale, fraction_millionths]
        with self._lock, _store_errors():
            rows = list(self._db.query(_LIKE, values))
        return _asked(rows[0]) if rows else None

    def charges(self) -> list[Charge]:
        """The price of every question that was not refused, oldest first: what is still open may have been charged."""
        with self._lock, _store_errors():
            rows = self._db.execute(_NOT_REFUSED).fetchall()
        return [Charge(asked_ms, price(scale)) for asked_ms, scale in rows]

    def receive(self, sealed: answer_pb2.SealedAnswer) -> AskedQuestion:
        """Verify and keep an answer; receiving it again changes nothing.

        1. it is sealed to the key of this question, 2. with a receipt that the census agency signed for this ticket and
        this answer, 3. at the ticket's scale and price, 4. under a signed checkpoint, 5. which holds the charge of this
        ticket, at the same scale and price, for the ticket's noise slot.

        Raises:
            InvalidRequestError: UNKNOWN_QUERY.
            PeerUnavailableError: PEER_MISBEHAVED, naming what does not hold; nothing is kept.
        """
        query = sealed.query_id.hex()
        row = self._row(query)
        asked = _asked(row)
        if asked.state == "answered":
            return asked
        try:
            verified = unseal_answer(  # 1, 2
                sealed.sealed,
                unsealing_key=UnsealingKey.parse_text(row["opening_key"]),
                ticket_hash=hash_bytes(asked.ticket_message.ticket),
                cells=len(asked.cells),
                census_keys=self._keys.answer(),
            )
            receipt = verified.receipt.body
            self._verify_charge(receipt, asked)
        except (BrokerError, ValueError) as error:
            raise PeerUnavailableError(
                "PEER_MISBEHAVED", peer="census", problem="an answer that does not hold"
            ) from error
        self._settle(
            query,
            {
                "noisy_counts": json.dumps(verified.noisy.values),
                "charged": receipt.charged,
                "checkpoint": receipt.checkpoint,
                "signed_receipt": verified.receipt.signed.SerializeToString(deterministic=True),
                "answer_salt": verified.salt,
                "answered_ms": self._clock(),
                "opening_key": "",
                "refused": "",
            },
        )
        self._wipe()
        return self.get(query)

    def _verify_charge(self, receipt: answer_pb2.Receipt, asked: AskedQuestion) -> None:
        # 3
        if receipt.scale != asked.scale or receipt.charged != price(asked.scale, cells=len(asked.cells)):
            raise ValueError("the scale or the price is not the ticket's")
        if receipt.policy_hash.hex() != asked.policy_hash or receipt.query_id.hex() != asked.query:
            raise ValueError("the policy or the query is not the ticket's")
        # 4
        checkpoint = self._keys.log().verify_checkpoint(receipt.checkpoint)
        # 5
        entry = parse_entry(receipt.entry)
        event = entry.event
        root = root_from_inclusion(receipt.entry, receipt.log_index, checkpoint.size, receipt.inclusion_proof)
        if root != checkpoint.root or entry.sequence != receipt.log_index or not isinstance(event, Charged):
            raise ValueError("the entry is no charge in the log")
        if (event.ticket, event.scale, event.units) != (receipt.ticket_hash.hex(), receipt.scale, receipt.charged):
            raise ValueError("the charge in the log is not the receipt's")
        if event.slot != asked.slot:
            raise ValueError("the noise slot is not the ticket's")

    def _row(self, query: str) -> dict[str, Any]:
        with self._lock, _store_errors():
            rows = list(self._db.query(f"{_QUESTIONS} where query = ?", [query]))
        if not rows:
            # The id is a stranger's, and may be as long as a message.
            raise InvalidRequestError("UNKNOWN_QUERY", query=query[: 2 * QUERY_ID_BYTES])
        return rows[0]


def _state(*, answered: bool, expired: bool, refused: str) -> str:
    if answered:
        return "answered"
    if expired:
        return "expired"
    return "refused" if refused else "pending"


def _asked(row: dict[str, Any]) -> AskedQuestion:
    return AskedQuestion(
        query=row["query"],
        asked_ms=row["asked_ms"],
        where=row["where"],
        question=row["question"],
        scale=row["scale"],
        fraction_millionths=row["fraction_millionths"],
        policy_hash=row["policy_hash"],
        signed_quote=row["signed_quote"],
        signed_ticket=row["signed_ticket"],
        criteria=row["criteria"],
        criteria_nonce=row["criteria_nonce"],
        accepted=bool(row["accepted"]),
        refused=row["refused"],
        noisy=None if row["noisy_counts"] is None else NoisyCounts(tuple(json.loads(row["noisy_counts"]))),
        charged=row["charged"],
        checkpoint=row["checkpoint"],
        answered_ms=row["answered_ms"],
        expired=bool(row["expired"]),
        quoted_again=row["quoted_again"],
        label=row["label"],
        asked_of=_part(row),
    )


def _part(row: dict[str, Any]) -> AskedOf | None:
    if row["one_in"] is None:
        return None
    return AskedOf(
        not_asked=row["not_asked"],
        one_in=row["one_in"],
        design_effect_hundredths=row["design_effect_hundredths"],
    )


def _make_private(path: Path) -> None:
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise InternalError("STORE_FAILED") from error


@contextlib.contextmanager
def _store_errors() -> Iterator[None]:
    with store_errors():
        try:
            yield
        except sqlite3.Error as error:
            # The low byte is the primary code; there are several ways of being busy.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise RefusedError("BUSY", retry_seconds=_BUSY_TIMEOUT_SECONDS) from error
            raise
