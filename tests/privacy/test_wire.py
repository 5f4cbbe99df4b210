"""The visible form of traffic beneath TLS: lengths, forms, and what two attempts have in common.

`test_canaries`, whose evidence holds every byte that passed, searches for values that must not be there in the clear.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from fakes.homes import AGENCIES
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from privacy.canaries import Exhibit, Place
from privacy.evidence import heard, open_rosters, open_samples
from privacy.handshakes import own_cards
from privacy.recorded import KEYS, Recorded
from privacy.wiretap import LINKS, Call, Link, message_form
from tripartite.v1 import (
    census_service_pb2,
    health_service_pb2,
    inbox_service_pb2,
    sample_pb2,
    ticket_pb2,
)

pytestmark = pytest.mark.process

DOCUMENT = Path(__file__).parents[2] / "protos" / "README.md"
# Lengths of fields and whole messages; documented in protos/README.md, "Lengths", line by line.
LENGTHS: dict[str, tuple[int, ...]] = {
    "SampleHead.sealed_head": (1_168,),
    "CountRequest.bits": (65_536,),
    "RosterFrame.ciphertext": (262_160,),
    "SignedManifest.manifest": (70,),
    "SealedAnswer.sealed": (17_520,),
    "Ticket.query_id": (16,),
    "Ticket.criteria_commitment": (32,),
    "Ticket.answer_key": (1_216,),
    "Ticket.policy_hash": (32,),
    "SubmitRequest.criteria_nonce": (32,),
    "SignedQuote.signature": (64,),
    "SignedTicket.signature": (64,),
    "SignedManifest.signature": (64,),
    "SubmitResponse": (2,),
    "Released": (0,),
    "DeliverResponse": (0,),
    "CollectResponse": (0, 17_546),
}
RPCS = {
    Link("researcher", "health"): {"GetDictionary", "Submit", "Exchange", "Check"},
    Link("researcher", "census"): {
        *("GetPolicy", "GetDictionary", "Quote", "Collect", "Exchange", "Check"),
        *("GetCheckpoint", "GetConsistencyProof"),
    },
    Link("health", "census"): {"GetPolicy", "Count", "SendRoster", "Witness", "Exchange"},
    Link("census", "researcher"): {"Deliver"},
    Link("colleague", "health"): {"GetDictionary", "Submit", "Exchange"},
    Link("colleague", "census"): {"GetPolicy", "GetDictionary", "Quote", "Collect", "Exchange"},
}
SUBMISSIONS, COUNTS = Link("researcher", "health"), Link("health", "census")
PART_BYTES, PLACES_IN_PART, PLACES_IN_FRAME = 65_536, 524_288, 16_384
WINDOW = 16
# Asked for one language of nobody, of one person, and of most people of the roster; at once, and at ticks.
ALIKE = (("nobody", "one", "many"), ("nobody at ticks", "many at ticks"))


# --- lengths -----------------------------------------------------------------------------------------------------------


def test_lengths_are_documented() -> None:
    """Every length that the tests below insist on stands in the integrator's document, and no other one does."""
    lines = [
        line.split("|")[1:3] for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    documented = {name.strip().strip("`"): length.strip() for name, length in lines}
    table = {name: " or ".join(map(str, lengths)) for name, lengths in LENGTHS.items()}
    assert {name: documented.get(name) for name in table} == table
    assert {name for name, length in documented.items() if length[:1].isdigit()} == table.keys()


def parts(message: Message) -> Iterator[tuple[str, int]]:
    """The length of a message, of every message and every field of bytes or text in it, and of what was signed inside."""
    yield message.DESCRIPTOR.name, message.ByteSize()
    if isinstance(message, ticket_pb2.SignedTicket):
        yield from parts(ticket_pb2.Ticket.FromString(message.ticket))
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if isinstance(each, Message):
                yield from parts(each)
            elif isinstance(each, bytes | str):
                yield f"{message.DESCRIPTOR.name}.{field.name}", len(each)


def test_every_length_is_the_documented_one(recorded: Recorded) -> None:
    """In a whole life of a deployment, retries and refusals included, each of these has its length and no other."""
    seen: defaultdict[str, set[int]] = defaultdict(set)
    for call in recorded.traffic.calls():
        for message in [*call.requests, *call.responses]:
            for name, length in parts(message):
                seen[name].add(length)
    assert {name: tuple(sorted(seen[name])) for name in LENGTHS} == LENGTHS


def test_the_number_of_parts_is_the_documented_one(recorded: Recorded) -> None:
    """Samples of nobody, of one person and of thousands have the same number of parts: that of the declared places."""
    samples = open_samples(recorded.traffic, recorded.snapshots)
    assert {0, 1, recorded.people.sizes.cohort} < {len(sample.pseudonyms) for sample in samples}
    for sample in samples:
        assert len(sample.call.requests) - 1 == sample.roster.declared // PLACES_IN_PART
    (lengths,) = {tuple(sample.call.form[1][1:]) for sample in samples}
    assert all(length > PART_BYTES for length in lengths)


def test_rosters_of_one_declaration_have_one_form(recorded: Recorded) -> None:
    """Every roster that was sent, of whichever load, has as many frames as its declared places make."""
    rosters = open_rosters(recorded.traffic, recorded.snapshots)
    assert len({roster.manifest.number for roster in rosters}) > 1
    for roster in rosters:
        assert len(roster.call.requests) - 1 == roster.declared // PLACES_IN_FRAME
        assert len(roster.pseudonyms) == recorded.people.sizes.health


def test_every_rpc_was_recorded(recorded: Recorded) -> None:
    """The recording has every RPC that its callers make on every link, and nothing else passes there."""
    assert {link: {call.method for call in recorded.traffic.calls(link) if call.method} for link in LINKS} == RPCS


# --- one form, whatever the cohort ---------------------------------------------------------------------------------------


def calls_of(recorded: Recorded, name: str) -> list[Call]:
    """Every call that belongs to a query, in order on each link. A question is submitted and collected at once."""
    query = recorded.queries[name]
    return [call for link in LINKS for call in recorded.traffic.calls(link) if call.query == query]


def submission_of(recorded: Recorded, name: str) -> health_service_pb2.SubmitRequest:
    """The researcher's messages to the health node."""
    request = next(call.requests[0] for call in calls_of(recorded, name) if call.link == SUBMISSIONS)
    assert isinstance(request, health_service_pb2.SubmitRequest)
    return request


def forms_of(recorded: Recorded, name: str) -> list[tuple[Any, ...]]:
    """Messages of a query, link by link in order."""
    shown = []
    for call in calls_of(recorded, name):
        requests = [message_form(request) for request in call.requests]
        if call.link == SUBMISSIONS:
            # The researcher's own words: their criteria are of different lengths.
            requests = [type(request).__name__ for request in call.requests]
        shown.append((call.link, call.method, requests, [message_form(response) for response in call.responses]))
    return shown


@pytest.mark.parametrize("names", ALIKE, ids=", ".join)
def test_what_passes_has_one_form_whatever_the_cohort(names: tuple[str, ...], recorded: Recorded) -> None:
    """Calls, order, fields and lengths are the same for nobody, for one person and for thousands."""
    shown = [forms_of(recorded, name) for name in names]
    assert [(link, method) for link, method, *_ in shown[0]] == [
        (SUBMISSIONS, "Submit"),
        (Link("researcher", "census"), "Collect"),
        (COUNTS, "Count"),
    ]
    assert all(each == shown[0] for each in shown)


def test_progress_is_four_stages_in_order(recorded: Recorded) -> None:
    """Every question that was answered at its first try went through the same stages, once each, without a size."""
    stages = Counter(
        tuple(response.stage for response in call.responses)  # type: ignore[attr-defined]
        for name in (*ALIKE[0], *ALIKE[1], "part", "cut", "marked")
        for call in calls_of(recorded, name)
        if call.link == SUBMISSIONS
    )
    assert set(stages) == {(1, 2, 3, 4)}


def test_criteria_have_a_place_in_one_message_only() -> None:
    """No RPC but Submit has a field that criteria could travel in, nor has any answer to it."""

    def holds_condition(message: Descriptor, seen: set[str]) -> bool:
        if message.full_name in seen:
            return False
        seen.add(message.full_name)
        inner = [field.message_type for field in message.fields if field.message_type is not None]
        return message.name == "Condition" or any(holds_condition(each, seen) for each in inner)

    services = [
        service
        for file in (census_service_pb2, health_service_pb2, inbox_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
    ]
    methods = [method for service in services for method in service.methods]
    assert [method.name for method in methods if holds_condition(method.input_type, set())] == ["Submit"]
    assert not [method.name for method in methods if holds_condition(method.output_type, set())]


# --- cards -------------------------------------------------------------------------------------------------------------
#
# Read by hand: what a card may say is written down here a second time.

CARD_FIELDS = {"format": int, "serial": int, "role": str, "organisation": str, "name": str, "origin": str, "keys": list}
NAME = r"[a-z0-9][a-z0-9-]*"
SIGNED_FOR = ("identity", "log", "witness", "answer", "refusal", "policy", "operator", "manifest", "ticket")
SIGNING = {purpose: (rf"ed25519-public {purpose} ([A-Za-z0-9+/=]{{44}})", 32) for purpose in SIGNED_FOR}
KEY_FORMS = {
    **SIGNING,
    "sample": (r"mlkem768-x25519-public ([A-Za-z0-9+/=]{1624})", 1_216),
    # Not a key: the public name of one that nobody else needs.
    "sampling": (r"secret ([0-9a-f]{16})", 12),
}


def cards_in(exhibit: Exhibit) -> list[dict[str, Any]]:
    """Every card that stands in something: in a file of its own, an entry of a log, a message, a command's output."""
    found = []
    for match in re.finditer(rb'\{"document":', exhibit.data):
        text = exhibit.data[match.start() :].decode("utf-8", "replace")
        found.append(json.JSONDecoder().raw_decode(text)[0])
    # Proposals of policies begin alike.
    return [each for each in found if '"keys":' in each["document"]]


@pytest.fixture(scope="module")
def cards(recorded: Recorded) -> dict[Place, list[dict[str, Any]]]:
    """Every card that anybody had or was told, by where it was."""
    found: defaultdict[Place, list[dict[str, Any]]] = defaultdict(list)
    for exhibit in recorded.evidence():
        is_page = exhibit.name.startswith(("journal.db", "connection")) and ": entries.entry" not in exhibit.name
        if not is_page:
            found[exhibit.place] += cards_in(exhibit)
    return found


def test_cards_hold_public_keys_only(cards: dict[Place, list[dict[str, Any]]]) -> None:
    """Names, times, and for each purpose a public key of its kind and length: no card has room for anything else."""
    seen = set()
    for card in {json.dumps(card, sort_keys=True): card for each in cards.values() for card in each}.values():
        assert card.keys() == {"document", "signatures"}
        for signature in card["signatures"]:
            assert re.fullmatch(r"[0-9a-f]{16}", signature["key_id"])
            assert len(base64.b64decode(signature["signature"], validate=True)) == 64
            assert signature.keys() == {"key_id", "signature"}
        document = json.loads(card["document"])
        assert {name: type(value) for name, value in document.items()} == CARD_FIELDS
        for name in ("role", "organisation", "name"):
            assert re.fullmatch(NAME, document[name])
        assert document["origin"] in {"", f"{document['role']}.example/tripartite"}
        for key in document["keys"]:
            assert key.keys() == {"purpose", "key", "from_ms", "until_ms"}
            assert {type(key["from_ms"]), type(key["until_ms"])} == {int}
            seen.add((document["role"], key["purpose"]))
            verify_public(key["purpose"], key["key"])
    assert seen == {(role, purpose) for role, purposes in KEYS.items() for purpose in purposes}


def verify_public(purpose: str, key: str) -> None:
    """Return only if the text is a public key for this purpose and nothing more."""
    if purpose == "tls":
        certificate = x509.load_pem_x509_certificate(key.encode())
        assert certificate.public_bytes(serialization.Encoding.PEM).decode() == key
        assert {extension.oid._name for extension in certificate.extensions} == {
            *("subjectAltName", "basicConstraints", "extendedKeyUsage")
        }
        return
    pattern, length = KEY_FORMS[purpose]
    match = re.fullmatch(pattern, key)
    assert match is not None, (purpose, key)
    assert len(base64.b64decode(match[1], validate=True)) == length


def test_cards_reach_everybody_who_must_know_them(cards: dict[Place, list[dict[str, Any]]]) -> None:
    """Cards were where they are expected: the test above has read them in homes, in logs, in messages and in outputs."""
    expected = {
        *(Place(party, "output") for party in (*KEYS, "colleague")),
        *(Place(party, "config") for party in ("researcher", "colleague", "auditor")),
        *(Place(agency, "store") for agency in ("health", "census")),
        *(heard(link, by_client=side) for link in LINKS if link.server != "researcher" for side in (True, False)),
    }
    assert {place for place, found in cards.items() if found} == expected


def test_an_exchange_says_nothing_but_a_card_that_its_party_has_announced(
    recorded: Recorded, cards: dict[Place, list[dict[str, Any]]]
) -> None:
    """Both messages are, byte for byte, a card that stands in the party's own home or log: their length is the card's."""
    announced = {party: {json.dumps(card) for card in own_cards(recorded.directory / party)} for party in AGENCIES}
    for party in ("researcher", "colleague"):
        place = Place(party, "config")
        announced[party] = {json.dumps(card) for card in cards[place] if '"role":"researcher"' in card["document"]}
    passed: Counter[str] = Counter()
    for call in recorded.traffic.calls():
        if call.method == "Exchange":
            said = ((call.link.client, call.client.messages), (call.link.server, call.server.messages))
            for party, messages in said:
                for part in messages:
                    (card,) = cards_in(Exhibit(Place("", ""), "", part.data))
                    compact = json.dumps(card, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
                    assert json.dumps(card) in announced[party], party
                    # A tag, a length of two bytes, and the card.
                    assert part.data[3:] == compact
                    passed[party] += 1
    assert passed.keys() == announced.keys()


# --- what attempts have in common ----------------------------------------------------------------------------------------

# Two independent streams of 66,704 bytes have 4.5e9 pairs of 16-byte windows; two of them are equal by chance with
# probability below 4.5e9 * 2^-128 < 1e-28. A shared window therefore means a shared key, nonce, block or value.


class Attempt:
    """One attempt to hand a sample over, split into what documents say is common to attempts of a ticket, and the rest."""

    def __init__(self, call: Call) -> None:
        parts = [part for part in call.requests if isinstance(part, census_service_pb2.CountRequest)]
        head, bits = parts[0].head, [part.bits for part in parts[1:]]
        self.ticket, self.manifest = head.ticket, head.manifest
        self.set_commitment = sample_pb2.Manifest.FromString(head.manifest.manifest).set_commitment
        self.own = [head.sealed_head, *bits]
        # The truncated part begins with the envelopes of gRPC and of the message, which are common to all parts.
        self.own.append(call.unfinished[2 * WINDOW :])
        self.is_whole = bool(bits)

    def windows(self) -> set[bytes]:
        """Every 16 bytes that the attempt does not share with others of its ticket."""
        return windows(self.own)


def windows(pieces: list[bytes]) -> set[bytes]:
    """Every 16 bytes that stand together in one of the pieces."""
    return {piece[at : at + WINDOW] for piece in pieces for at in range(len(piece) - WINDOW + 1)}


@pytest.fixture(scope="module")
def attempts(recorded: Recorded) -> dict[bytes, list[Attempt]]:
    """All attempts, by ticket."""
    found: defaultdict[bytes, list[Attempt]] = defaultdict(list)
    for call in recorded.traffic.calls(COUNTS):
        if call.method == "Count" and call.requests:
            attempt = Attempt(call)
            found[attempt.ticket.ticket].append(attempt)
    return found


@pytest.mark.parametrize("name", ["cut", "killed", "rotated"])
def test_two_attempts_of_a_ticket_have_nothing_in_common_but_the_ticket(
    name: str, recorded: Recorded, attempts: dict[bytes, list[Attempt]]
) -> None:
    """A connection cut within a part, a node killed after its charge, and every key replaced: the second is sealed anew.

    Encapsulation and every block of ciphertext differ; ticket and manifest are the same, and nothing else is. The manifest is
    signed once for each ticket, also where its key is replaced meanwhile.
    """
    (first, second) = attempts[submission_of(recorded, name).ticket.ticket]
    assert sum(map(len, first.own)) > PART_BYTES // 4
    assert first.is_whole == (name != "cut")
    assert first.windows() & second.windows() == set()
    assert (first.ticket, first.manifest) == (second.ticket, second.manifest)


def test_the_same_criteria_twice_have_nothing_in_common(
    recorded: Recorded, attempts: dict[bytes, list[Attempt]]
) -> None:
    """Two tickets for one cohort: nothing on the wire says that their samples are the same people."""
    pieces = []
    for name in ("many", "many, again"):
        submission = submission_of(recorded, name)
        (attempt,) = attempts[submission.ticket.ticket]
        ticket = ticket_pb2.Ticket.FromString(submission.ticket.ticket)
        pieces.append(
            windows(
                [
                    *(*attempt.own, attempt.set_commitment, submission.ticket.signature, submission.criteria_nonce),
                    *(ticket.query_id, ticket.criteria_commitment, ticket.answer_key),
                ]
            )
        )
    samples = [sample.pseudonyms for sample in open_samples(recorded.traffic, recorded.snapshots)]
    assert samples.count(max(samples, key=len)) == len(pieces)
    assert pieces[0] & pieces[1] == set()


def test_sealed_answers_have_nothing_in_common(recorded: Recorded) -> None:
    """No two sealed answers share a block, also not those to the same criteria and the same question."""
    sealed: dict[str, bytes] = {}
    for call in recorded.traffic.calls(Link("researcher", "census"), Link("census", "researcher")):
        for message in [*call.requests, *call.responses]:
            if isinstance(message, census_service_pb2.CollectResponse | inbox_service_pb2.DeliverRequest):
                answer = message.answer
                assert sealed.setdefault(answer.query_id.hex(), answer.sealed) == answer.sealed, (
                    "two answers to one query"
                )
    sealed.pop("", None)
    assert len(sealed) >= len(recorded.outcomes) - 1
    assert len(windows(list(sealed.values()))) == sum(len(each) - WINDOW + 1 for each in sealed.values())
