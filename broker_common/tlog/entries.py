"""Every event that a node's log can hold: one type per event, canonical JSON, strings and integers only.

An entry's bytes are JSON with sorted keys and no white space; `parse_entry` refuses any other spelling, so that a hash
names an event and not a way of writing it. No size, criterion, pseudonym, count or answer ever enters a log: what has to
be fixed about them is a salted commitment.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

__all__ = [
    "MAX_ENTRY_BYTES",
    "MAX_NOTE_CHARACTERS",
    "Adopted",
    "Charged",
    "Delivered",
    "Entry",
    "Event",
    "Forwarded",
    "Loaded",
    "Opened",
    "Refused",
    "Released",
    "ReportedCharge",
    "Settled",
    "Shutdown",
    "Submitted",
    "encode_entry",
    "parse_entry",
]

MAX_ENTRY_BYTES = 64 * 1024
MAX_NOTE_CHARACTERS = 4096
# JSON numbers are exact everywhere only below 2^53.
_Count = Annotated[int, Meta(ge=0, lt=2**53)]
_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_HashOrNone = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
_Text = Annotated[str, Meta(min_length=1, max_length=4096)]


class Opened(Struct, tag="opened", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first entry: which log this is and which format its entries have."""

    origin: _Text
    role: _Text
    format: _Count


class Adopted(Struct, tag="adopted", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: a policy came into force. Its text is here whole, so replay needs nothing else."""

    document: Annotated[str, Meta(min_length=2, max_length=32_768)]
    signature: _Text
    key_id: _Text


class Loaded(Struct, tag="loaded", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: a store was loaded and replaced the one before. `commitment` fixes its content without telling it."""

    load: _Text
    release: _Text
    commitment: _Hash


class Charged(Struct, tag="charged", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: one answer was paid for. Durable before anything that depends on language is computed."""

    query: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    ticket: _Hash
    slot: _Count
    scale: _Count
    units: _Count
    question: _Text
    researcher: _Text
    health: _Text
    load: _Text
    manifest: _Hash
    submitted: _Hash
    active: _Hash
    total: _Count


class Released(Struct, tag="released", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: the sealed answer may leave. `answer` is the hash of the sealed bytes."""

    ticket: _Hash
    answer: _Hash


class Delivered(Struct, tag="delivered", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: the researcher has the answer, pushed to the inbox or collected."""

    ticket: _Hash
    by: Annotated[str, Meta(pattern=r"\A(inbox|collect)\Z")]


class Shutdown(Struct, tag="shutdown", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: no further charge. `reason` is `budget` or `operator`."""

    reason: Annotated[str, Meta(pattern=r"\A(budget|operator)\Z")]
    note: Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)]


class Submitted(Struct, tag="submitted", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: a ticket was accepted; from now on it stands for these criteria and this sample alone."""

    query: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    ticket: _Hash
    criteria: _Hash
    researcher: _Text
    load: _Text


class Forwarded(Struct, tag="forwarded", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: an attempt to hand the sample over; its manifest names ciphertexts and set commitment."""

    ticket: _Hash
    manifest: _Hash


class ReportedCharge(Struct, tag="reported_charge", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the census node proved that it charged the ticket, under this signed checkpoint."""

    ticket: _Hash
    log_index: _Count
    checkpoint: Annotated[str, Meta(min_length=1, max_length=16_384)]


class Refused(Struct, tag="refused", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the census node refused the ticket with this code."""

    ticket: _Hash
    code: _Text


class Settled(Struct, tag="settled", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the census node says that the answer is out."""

    ticket: _Hash


Event: TypeAlias = (
    Opened
    | Adopted
    | Loaded
    | Charged
    | Released
    | Delivered
    | Shutdown
    | Submitted
    | Forwarded
    | ReportedCharge
    | Refused
    | Settled
)


class Entry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the log: its place, its time, the policy in force (empty before the first one), and the event."""

    sequence: _Count
    time_ms: _Count
    policy: _HashOrNone
    event: Event


_DECODER = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """The canonical bytes of an entry, which `parse_entry` reads back.

    Raises:
        ValueError: a field is outside its limits; written to a log, such an entry would close it for good.
    """
    data = _canonical(entry)
    parse_entry(data)
    return data


def parse_entry(data: bytes) -> Entry:
    """The entry that `data` spells canonically.

    Raises:
        ValueError: it is no entry, or not the canonical spelling of one.
    """
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError("the entry is too long")
    try:
        entry = _DECODER.decode(data)
    except RecursionError:
        raise ValueError("the entry is nested too deep") from None
    if _canonical(entry) != data:
        raise ValueError("the entry is not canonical JSON")
    return entry


def _canonical(entry: Entry) -> bytes:
    return msgspec.json.encode(entry, order="sorted")
