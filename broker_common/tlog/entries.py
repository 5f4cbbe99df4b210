"""Every event that a node's log can hold: one type per event, canonical JSON, strings and integers only.

An entry's bytes are JSON with sorted keys and no white space; `parse_entry` refuses any other spelling, so that a hash
names an event and not a way of writing it. No size, criterion, pseudonym, count or answer ever enters a log: what has to
be fixed about them is a salted commitment.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from broker_common.crypto.cards import SignedCard
from broker_common.privacy.policy import MAX_POLICY_BYTES
from broker_common.tlog.note import MAX_NOTE_BYTES

# An entry holds a card, or a policy with every scale, with room. A bundle cannot state a greater length.
MAX_ENTRY_BYTES = 2**16 - 1
# An operator's reason.
MAX_NOTE_CHARACTERS = 4096
# Any other text that has no limit of its own.
MAX_TEXT_CHARACTERS = 4096
# Limits for one researcher.
MAX_PROJECTS = 100
MAX_PROJECT_CHARACTERS = 64
MAX_INBOX_CHARACTERS = 256
# Committed by one entry.
MAX_SLOTS = 256
# JSON numbers are exact everywhere only below 2^53.
_Count = Annotated[int, Meta(ge=0, lt=2**53)]
_Number = Annotated[int, Meta(ge=1, lt=2**53)]
_Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_HashOrNone = Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
_Linkage = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
_Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARACTERS)]
_TextOrNone = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]
_Project = Annotated[str, Meta(min_length=1, max_length=MAX_PROJECT_CHARACTERS)]
_Note = Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)]


class Opened(Struct, tag="opened", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first entry: which log this is and which format its entries have."""

    origin: _Text
    role: _Text
    format: _Count


class Announced(Struct, tag="announced", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: the node's own card, with the keys that it signs with from now on."""

    card: SignedCard


class Registered(Struct, tag="registered", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: a peer is known by this card. `projects` and `inbox` are a researcher's; the inbox only the census node's.

    `note` says why a known peer's card is replaced by one that does not follow it; empty otherwise.
    """

    card: SignedCard
    note: _Note
    projects: Annotated[tuple[_Project, ...], Meta(max_length=MAX_PROJECTS)]
    inbox: Annotated[str, Meta(max_length=MAX_INBOX_CHARACTERS)]


class Revoked(Struct, tag="revoked", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: a peer is not known any more."""

    role: Annotated[str, Meta(pattern=r"\A(researcher|health|census)\Z")]
    name: _Text
    note: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_CHARACTERS)]


class Adopted(Struct, tag="adopted", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: a policy came into force. Its text is here whole, so replay needs nothing else.

    `confirmation`, its key and the `note` are the operator's order to adopt a weaker policy than the one before it;
    empty for every other policy.
    """

    document: Annotated[str, Meta(min_length=2, max_length=MAX_POLICY_BYTES)]
    signature: _Text
    key_id: _Text
    note: _Note = ""
    confirmation: _TextOrNone = ""
    confirmation_key_id: _TextOrNone = ""


class DictionaryAdopted(Struct, tag="dictionary_adopted", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: data is loaded under this dictionary from here on. Earlier loads keep their own.

    `dictionary` is the hash of its meaning, `document` that of its text with all labels; an identity key of the agency has
    signed both, and the version. `format` is that of the entries from here on.
    """

    format: _Count
    version: _Number
    dictionary: _Hash
    document: _Hash
    signature: _Text
    key_id: _Text


class Loaded(Struct, tag="loaded", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: a store was loaded and replaced the one before. `commitment` fixes its content without telling it.

    `linkage` names the chain of linkage keys that its pseudonyms come from, `dictionary` is the hash of the dictionary that
    gives its values their meaning.
    """

    load: _Text
    release: _Text
    linkage: _Linkage
    dictionary: _Hash
    commitment: _Hash


class Relinked(Struct, tag="relinked", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both: the linkage key was changed, and a store of the same people and release replaced the one before.

    Its pseudonyms come from chain `linkage`, those of the store before from chain `previous`. Its dictionary is that of the
    store before.
    """

    load: _Text
    previous: _Linkage
    linkage: _Linkage
    commitment: _Hash


class Rostered(Struct, tag="rostered", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: a roster of the load in force is about to be sent. Census: that roster of an agency came into force.

    `linkage` names the chain that its pseudonyms come from, `commitment` fixes pseudonyms and declared places, `manifest` is
    the hash of the signed manifest. No size of a roster enters a log.
    """

    health: _Text
    number: _Number
    linkage: _Linkage
    commitment: _Hash
    manifest: _Hash


class Slots(Struct, tag="slots", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: commitments to the secrets of the noise slots `first`, `first` + 1, and so on, before anybody asks for one.

    Slots below `void_below` serve nobody any more.
    """

    first: _Count
    void_below: _Count
    commitments: Annotated[tuple[_Hash, ...], Meta(min_length=1, max_length=MAX_SLOTS)]


class Charged(Struct, tag="charged", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: one answer was paid for. Durable before anything that depends on language is computed.

    `ledger` is the digest of the ledger of persons after it, which is salted at every charge; empty under strict accounting,
    where `total` says it all.
    """

    query: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    ticket: _Hash
    slot: _Count
    scale: _Count
    units: _Count
    question: _Text
    researcher: _Text
    project: _Project
    health: _Text
    load: _Text
    # Number of the health agency's roster whose places the sample's bits are.
    roster: _Number
    manifest: _Hash
    submitted: _Hash
    active: _Hash
    ledger: _HashOrNone
    total: _Count


class Released(Struct, tag="released", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: the sealed answer may leave. `answer` is the hash of the sealed bytes.

    `checkpoint` covers the charge and carries the cosignature of the health agency whose sample it was.
    """

    ticket: _Hash
    answer: _Hash
    checkpoint: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_BYTES)]


class Delivered(Struct, tag="delivered", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: the researcher has the answer, pushed to the inbox or collected."""

    ticket: _Hash
    by: Annotated[str, Meta(pattern=r"\A(inbox|collect)\Z")]


class Expired(Struct, tag="expired", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: an answer that nobody fetched was removed after its retention."""

    ticket: _Hash


class Shutdown(Struct, tag="shutdown", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: no further charge. `reason` is `budget` or `operator`; an operator's is a signed order, a budget's is not."""

    reason: Annotated[str, Meta(pattern=r"\A(budget|operator)\Z")]
    note: _Note
    signature: _TextOrNone = ""
    key_id: _TextOrNone = ""


class Reopened(Struct, tag="reopened", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Census: charges are taken again, by the operator's signed order; what was charged before goes on counting."""

    note: _Note
    signature: _Text
    key_id: _Text


class Submitted(Struct, tag="submitted", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: a ticket was accepted; from now on it stands for these criteria and this sample alone."""

    query: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    ticket: _Hash
    criteria: _Hash
    researcher: _Text
    project: _Project
    load: _Text


class Forwarded(Struct, tag="forwarded", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: a sample is about to be handed over, for the first time; the manifest of every attempt commits to its bits."""

    ticket: _Hash
    # Number of the roster whose places the bits are.
    roster: _Number
    manifest: _Hash


class ReportedCharge(Struct, tag="reported_charge", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the census node proved that it charged the ticket, under this signed checkpoint."""

    ticket: _Hash
    log_index: _Count
    checkpoint: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_BYTES)]


class Refused(Struct, tag="refused", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the ticket is refused with this code, by the census node or, as long as nothing was handed over, by us.

    `refusal` is what the census agency signed when it refused the sample; empty if none was handed over.
    """

    ticket: _Hash
    code: _Text
    refusal: _TextOrNone = ""
    signature: _TextOrNone = ""
    key_id: _TextOrNone = ""


class Settled(Struct, tag="settled", frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Health: the census node says that the answer is out."""

    ticket: _Hash


Event: TypeAlias = (
    Opened
    | Announced
    | Registered
    | Revoked
    | Adopted
    | DictionaryAdopted
    | Loaded
    | Relinked
    | Rostered
    | Slots
    | Charged
    | Released
    | Delivered
    | Expired
    | Shutdown
    | Reopened
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
