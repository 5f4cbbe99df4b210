"""Targets on a query's way: tickets, samples, manifests, charges and answers.

What is signed or sealed is signed and sealed here, under fixed keys, around whatever the fuzzer made, so that it gets
past the signature. The first letter of an input says which part of an otherwise honest exchange the rest replaces.
"""

from __future__ import annotations

import atexit
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.quotes import Offer
from fakes.randomness import SeededRandomness
from fakes.world import FRENCH, HEALTH, PROJECT, RELEASE, RESEARCHER, make_policy, make_pseudonyms
from fuzz.logs import key_hash
from fuzz.target import Cut, Target, fresh_path, joined, require
from fuzz.texts import QUESTION_CODES
from tripartite.v1 import answer_pb2, census_service_pb2, quote_pb2, roster_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import (
    SALT_BYTES,
    commit_answer,
    commit_criteria,
    commit_roster,
    hash_bytes,
    verify_commitment,
)
from broker_common.crypto.frames import (
    FRAME_BYTES,
    FrameReader,
    FrameSealer,
    verify_ascending,
)
from broker_common.crypto.rosters import PLACES_PER_FRAME, RosterFrames, RosterOpener, RosterPayload, roster_hash
from broker_common.crypto.sample_bits import HEAD_BYTES, PLACES_IN_PART, Bound, SampleBits, SealedSample
from broker_common.crypto.sealing import UnsealingKey, answer_info, roster_info
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError
from broker_common.privacy.accounting import price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.answer import VerifiedAnswer, pad_answer, unseal_answer, verify_receipt
from broker_common.query.messages import parse_message
from broker_common.query.question import parse_question, question_from_wire
from broker_common.query.quote import VerifiedQuote, sign_quote, verify_quote
from broker_common.query.refusal import parse_refusal, refusal_of
from broker_common.query.ticket import Researcher, VerifiedTicket, sign_ticket, verify_ticket
from broker_common.tlog.cosignature import CosignatureVerifier, Cosigner
from broker_common.tlog.entries import Charged, Entry, Slots, encode_entry, parse_entry
from broker_common.tlog.merkle import MerkleTree, root_from_inclusion
from broker_common.tlog.note import NoteSigner, NoteVerifier, parse_note
from broker_common.values import HASH_BYTES, QUERY_ID_BYTES, NoisyCounts
from census_node.ledger.passes import JOINED, CardPlaces
from census_node.query.admission import AdmittedSample, Arrived, Gate, SampleAttempt
from census_node.registry.joining import JoinedRoster
from census_node.registry.reception import AdmittedRoster, RosterGate, admit
from health_node.query.forwarding import HandedOver, VerifiedCharge, sign_manifest, verify_charged, verify_refused
from health_node.roster.sending import sign_roster
from researcher_node.answers.store import Answers, AskedQuestion, CensusKeys
from researcher_node.trust.census_log import CensusLog, verify_slot

NOW_MS: Final = 1_800_000_000_000
POLICY: Final = make_policy()
_SCALE = 30
_draw = SeededRandomness("fuzz")
_TICKET, _MANIFEST, _ANSWER, _LOG = (
    SigningKey.generate(purpose, _draw) for purpose in (Purpose.TICKET, Purpose.MANIFEST, Purpose.ANSWER, Purpose.LOG)
)
_REFUSAL = SigningKey.generate(Purpose.REFUSAL, SeededRandomness("refusal"))
_SAMPLE_KEY, _ANSWER_KEY = UnsealingKey.generate(_draw), UnsealingKey.generate(_draw)
_NOTES = NoteSigner("census.example/fuzz", (_LOG,))
_WITNESS = Cosigner("health.example/fuzz", SigningKey.generate(Purpose.WITNESS, SeededRandomness("witness")))
_RESEARCHERS = {RESEARCHER: Researcher(RESEARCHER, (_TICKET.verify_key,), frozenset({PROJECT}))}
_PEOPLE = make_pseudonyms(20)
_SALT = _draw(SALT_BYTES)
_QUERY = _draw(QUERY_ID_BYTES)
_NONCE = _draw(SALT_BYTES)
_LINKAGE = "0123456789abcdef"

_TICKET_CODES = frozenset(
    {"MALFORMED_MESSAGE", "UNKNOWN_RESEARCHER", "UNKNOWN_KEY", "BAD_SIGNATURE", "UNKNOWN_PROJECT"}
)
_IN_FORCE_CODES = frozenset({"TICKET_EXPIRED", "POLICY_MISMATCH", "RELEASE_MISMATCH"})


def _body() -> ticket_pb2.Ticket:
    return ticket_pb2.Ticket(
        query_id=_QUERY,
        researcher_id=RESEARCHER,
        project_id=PROJECT,
        question=parse_question(FRENCH, CENSUS_DICTIONARY).to_wire(),
        census_release=RELEASE,
        scale=_SCALE,
        fraction_millionths=1_000_000,
        criteria_commitment=commit_criteria(_NONCE, b"criteria"),
        answer_key=_ANSWER_KEY.sealing_key.raw,
        policy_hash=POLICY.hash,
        noise_slot=ticket_pb2.NoiseSlot(number=7),
        expires_ms=NOW_MS + 60_000,
        health_dictionary=HEALTH_DICTIONARY.hash,
        census_dictionary=CENSUS_DICTIONARY.hash,
    )


@cache
def _honest_ticket() -> ticket_pb2.SignedTicket:
    return sign_ticket(_body(), _TICKET)


def _signed_ticket(data: bytes) -> ticket_pb2.SignedTicket:
    """These bytes as a ticket, signed by their researcher."""
    return ticket_pb2.SignedTicket(ticket=data, signature=_TICKET.sign(data), key_id=_TICKET.key_id)


# --- tickets ---------------------------------------------------------------------------------------------------------


def _parse_ticket(data: bytes) -> VerifiedTicket:
    signed = _signed_ticket(data[1:]) if data[:1] == b"t" else parse_message(ticket_pb2.SignedTicket, data[1:])
    ticket = verify_ticket(signed, researchers=_RESEARCHERS, caller=RESEARCHER)
    ticket.verify_fresh(NOW_MS)
    ticket.verify_policy(POLICY.hash)
    ticket.verify_release(RELEASE)
    return ticket


def _check_ticket(ticket: VerifiedTicket, data: bytes) -> None:
    del data
    again = sign_ticket(ticket.body, _TICKET)
    read = verify_ticket(again, researchers=_RESEARCHERS, caller=None)
    require(read.body == ticket.body, "a ticket is read back")
    require(ticket.hash == hash_bytes(ticket.signed_bytes), "a ticket is known by its exact bytes")


def _ticket_seeds() -> dict[str, bytes]:
    stale = _body()
    stale.expires_ms = NOW_MS - 1
    return {
        "body": b"t" + _body().SerializeToString(),
        "signed": b"s" + _honest_ticket().SerializeToString(),
        "bad stale": b"t" + stale.SerializeToString(),
    }


# --- samples of bits -------------------------------------------------------------------------------------------------

_BOUND = Bound(b"t" * 32, b"r" * 32)
_OTHER_SALT, _CUT_OFF = 1, 2


def _parse_bits(data: bytes) -> tuple[SampleBits, int]:
    """Declared steps, flags, people of the roster, then the beginning of a payload whose rest is zero; or raw parts."""
    cut = Cut(data)
    declared, flags, people = cut.number() % 3 * PLACES_IN_PART, cut.number(), cut.number(4)
    if not declared:
        sealed = SealedSample(cut.piece(), [cut.piece(), cut.rest()])
        return SampleBits.unseal(
            sealed, [_SAMPLE_KEY], _BOUND, _SALT, declared=2 * PLACES_IN_PART, people=people
        ), people
    payload = cut.rest().ljust(SALT_BYTES + declared // 8, b"\0")
    sample = SampleBits(np.frombuffer(payload[SALT_BYTES:][: declared // 8], np.uint8), payload[:SALT_BYTES])
    committed = SampleBits(sample.bits, _SALT) if flags & _OTHER_SALT else sample
    sealed = sample.seal(_SAMPLE_KEY.sealing_key, _BOUND)
    if flags & _CUT_OFF:
        sealed = SealedSample(sealed.head, sealed.parts[1:])
    opened = SampleBits.unseal(
        sealed, [_SAMPLE_KEY], _BOUND, committed.commitment(_BOUND), declared=declared, people=people
    )
    return opened, people


def _check_bits(opened: tuple[SampleBits, int], data: bytes) -> None:
    sample, people = opened
    payload = sample.salt + sample.bits.tobytes()
    require(payload.startswith(data[6:]), "a sample is opened as it was sealed")
    require(not np.unpackbits(sample.bits)[people:].any(), "there is nobody behind the last person")


def _bits_seeds() -> dict[str, bytes]:
    def written(steps: int, flags: int, people: int, bits: bytes) -> bytes:
        return bytes([steps, flags]) + people.to_bytes(4, "big") + _SALT + bits

    return {
        "nobody": written(1, 0, 0, b""),
        "some": written(1, 0, 20, b"\x81\x0f\xf0"),
        "two parts": written(2, 0, 2 * PLACES_IN_PART, b"\xff" * 100),
        "more people than declared": written(1, 0, 2**32 - 1, b"\x01"),
        "bad behind": written(1, 0, 20, b"\x81\x0f\xf8"),
        "bad committed": written(1, _OTHER_SALT, 20, b"\x81")[:6] + bytes(SALT_BYTES) + b"\x81",
        "bad cut off": written(1, _CUT_OFF, 20, b"\x81"),
        "bad raw": written(0, 0, 20, b"\0\1a\0\1b"),
    }


# --- rosters ---------------------------------------------------------------------------------------------------------

_LAST, _RAW, _FILL = 1, 2, 4
_MOST_FRAMES = 4
_PER_FRAME = FRAME_BYTES // 16


def _parse_roster(data: bytes) -> tuple[list[bytes], npt.NDArray[np.uint8], int]:
    """A payload, whose frame key is known, and frames: plaintexts, people, and places.

    Frames are made of an index, flags and the beginning of a plaintext, whose rest is zero, or people in ascending order.
    """
    cut, sealer = Cut(data), FrameSealer(bytes)
    places, people = cut.number(2) * PLACES_PER_FRAME, cut.number(4)
    raw = RosterPayload(sealer.frame_key, _SALT, places=places, people=people).to_bytes()
    payload = RosterPayload.parse(cut.piece() or raw)
    opener = RosterOpener(payload)
    plaintexts: list[bytes] = []
    found = [np.empty((0, 16), np.uint8)]
    while not cut.is_empty and len(plaintexts) < _MOST_FRAMES:
        index, flags, beginning = cut.number(), cut.number(), cut.piece()
        plaintext = _plaintext(beginning, index, fill=bool(flags & _FILL))
        plaintexts.append(plaintext)
        ciphertext = beginning if flags & _RAW else sealer.seal_frame(index, bool(flags & _LAST), plaintext)
        found.append(opener.unseal_frame(index, bool(flags & _LAST), ciphertext))
    rows = np.concatenate(found)
    require(
        opener.finish() == commit_roster(payload.salt, payload.places, roster_hash(rows)),
        "a roster is committed to",
    )
    return plaintexts, rows, payload.places


def _plaintext(beginning: bytes, index: int, *, fill: bool) -> bytes:
    if not fill:
        return beginning[:FRAME_BYTES].ljust(FRAME_BYTES, b"\0")
    numbers = np.zeros((_PER_FRAME, 4), dtype=">u4")
    numbers[:, 3] = np.arange(_PER_FRAME) + index * _PER_FRAME + 1
    return (beginning + numbers.tobytes()[len(beginning) :])[:FRAME_BYTES]


def _check_roster(opened: tuple[list[bytes], npt.NDArray[np.uint8], int], data: bytes) -> None:
    del data
    plaintexts, rows, places = opened
    frames = RosterFrames(rows, places)
    require([bytes(plaintext) for _, _, plaintext in frames] == plaintexts, "a roster has one layout")


def _frame(index: int, flags: int, beginning: bytes) -> bytes:
    return bytes([index, flags]) + joined(beginning)


def _roster(places: int, people: int, *frames: bytes, payload: bytes = b"") -> bytes:
    return places.to_bytes(2, "big") + people.to_bytes(4, "big") + joined(payload) + b"".join(frames)


def _roster_seeds() -> dict[str, bytes]:
    some = _PEOPLE.tobytes()
    return {
        "one": _roster(1, len(_PEOPLE), _frame(0, _LAST, some)),
        "nobody": _roster(1, 0, _frame(0, _LAST, b"")),
        "two": _roster(2, 2 * _PER_FRAME, _frame(0, _FILL, b""), _frame(1, _LAST | _FILL, b"")),
        "half empty": _roster(2, len(_PEOPLE), _frame(0, 0, some), _frame(1, _LAST, b"")),
        "bad places": _roster(0, 0, _frame(0, _LAST, b"")),
        "bad people": _roster(1, _PER_FRAME + 1, _frame(0, _LAST | _FILL, b"")),
        "bad payload": _roster(1, 0, _frame(0, _LAST, b""), payload=b"tripROS1" + bytes(80)),
        "bad short": _roster(2, len(_PEOPLE), _frame(0, _LAST, some)),
        "bad more": _roster(1, len(_PEOPLE), _frame(0, 0, some), _frame(1, _LAST, b"")),
    }


_ROSTER_GATE = RosterGate(
    manifest_keys={HEALTH.organisation: [_MANIFEST.verify_key]},
    sample_keys=[_SAMPLE_KEY],
    linkage=_LINKAGE,
    kept=[],
    attempts=0,
    policy=make_policy(),
    most_per_hour=1,
    most_places=DECLARED_STEP,
    now_ms=NOW_MS,
)


def _parse_roster_header(data: bytes) -> AdmittedRoster:
    """A header, or what its manifest or its payload says, is `data`."""
    part, rest = data[:1], data[1:]
    manifest = rest if part == b"m" else _roster_manifest()
    payload = RosterPayload(bytes(32), _SALT, places=DECLARED_STEP, people=len(_PEOPLE)).to_bytes()
    header = roster_pb2.RosterHeader(
        manifest=sign_roster(manifest, _MANIFEST),
        sealed_key=_SAMPLE_KEY.sealing_key.seal(rest if part == b"p" else payload, roster_info(hash_bytes(manifest))),
    )
    if part == b"h":
        header = parse_message(roster_pb2.RosterHeader, rest)
    return admit(header, HEALTH, _ROSTER_GATE)


def _roster_manifest(**changes: Any) -> bytes:
    fields: dict[str, Any] = {"number": 1, "linkage": _LINKAGE, "commitment": bytes(32)}
    return roster_pb2.RosterManifest(**fields | changes).SerializeToString(deterministic=True)


def _check_roster_header(admitted: AdmittedRoster, data: bytes) -> None:
    del data
    require(admitted.payload is not None, "a roster that nobody has sent is to be received")
    require(not admitted.places % DECLARED_STEP, "places are declared in steps")
    require(admitted.linkage == _LINKAGE, "only the chain in force is admitted")


# --- admission -------------------------------------------------------------------------------------------------------

_ROSTER = JoinedRoster(
    number=3,
    load="load",
    manifest=bytes(32),
    people=len(_PEOPLE),
    cards=CardPlaces.of(
        np.arange(len(_PEOPLE), dtype=np.uint32) | np.uint32(JOINED),
        np.empty(0, np.uint32),
        np.empty(0, np.uint32),
        PLACES_IN_PART,
    ),
)


def _roster_in_force(agency: str, number: int) -> JoinedRoster:
    if (agency, number) != (HEALTH.organisation, _ROSTER.number):
        raise InvalidRequestError("ROSTER_NOT_IN_FORCE")
    return _ROSTER


_GATE = Gate(
    researchers=_RESEARCHERS,
    manifest_keys={HEALTH.organisation: [_MANIFEST.verify_key]},
    sample_keys=[_SAMPLE_KEY],
    policy=POLICY,
    census_release=RELEASE,
    now_ms=NOW_MS,
    verify_open=lambda: None,
    verify_dictionary=lambda _: CENSUS_DICTIONARY,
    verify_slot=lambda _: None,
    is_charged=lambda _: False,
    roster=_roster_in_force,
    reserve=lambda _: None,
)


def _some_bits() -> SampleBits:
    bits = np.zeros(PLACES_IN_PART // 8, np.uint8)
    bits[:3] = 0x81, 0x0F, 0xF0
    return SampleBits(bits, _SALT)


def _parse_sample(data: bytes) -> AdmittedSample:
    """Head and its only part through admission; one of them, or of what is inside them, is `data`."""
    part, rest = data[:1], data[1:]
    signed = _signed_ticket(rest) if part == b"t" else _honest_ticket()
    bound = Bound(hash_bytes(signed.ticket), _ROSTER.manifest)
    sealed = _some_bits().seal(_SAMPLE_KEY.sealing_key, bound)
    manifest = rest if part == b"m" else _sample_manifest(bound)
    head = sample_pb2.SampleHead(
        ticket=signed,
        manifest=sign_manifest(manifest, _MANIFEST),
        sealed_head=rest if part == b"e" else sealed.head,
    )
    if part == b"n":
        head.manifest.CopyFrom(parse_message(sample_pb2.SignedManifest, rest))
    if part == b"h":
        head = parse_message(sample_pb2.SampleHead, rest)
    parts = [rest] if part == b"b" else sealed.parts
    arrived = Arrived(head.ticket, head.manifest, SealedSample(head.sealed_head, parts))
    attempt = SampleAttempt(HEALTH.organisation, arrived, lambda: _GATE, lambda _: None)
    attempt.verify_claim()
    attempt.verify_sample()
    return attempt.sample


def _sample_manifest(bound: Bound, **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "ticket_hash": bound.ticket_hash,
        "set_commitment": _some_bits().commitment(bound),
        "roster": _ROSTER.number,
    }
    return sample_pb2.Manifest(**fields | changes).SerializeToString(deterministic=True)


def _check_sample(sample: AdmittedSample, data: bytes) -> None:
    del data
    require(sample.bits.bits.tobytes() == _some_bits().bits.tobytes(), "the sample admitted is the one that was sealed")
    require(sample.question.to_wire() == sample.ticket.body.question, "the question admitted is the ticket's")
    bound = Bound(sample.ticket.hash, sample.roster.manifest)
    require(sample.set_commitment == sample.bits.commitment(bound), "the sample is committed to")


def _sample_seeds() -> dict[str, bytes]:
    bound = Bound(hash_bytes(_honest_ticket().ticket), _ROSTER.manifest)
    head = sample_pb2.SampleHead(ticket=_honest_ticket(), sealed_head=b"x")
    return {
        "ticket": b"t" + _body().SerializeToString(),
        "manifest": b"m" + _sample_manifest(bound),
        "honest": b"-",
        "bad head": b"h" + head.SerializeToString(),
        "bad encapsulation": b"e" + bytes(HEAD_BYTES),
        "bad length of a head": b"e" + bytes(HEAD_BYTES - 1),
        "bad length of a part": b"b" + bytes(1000),
        "bad ticket": b"m" + _sample_manifest(bound, ticket_hash=bytes(32)),
        "bad commitment": b"m" + _sample_manifest(bound, set_commitment=bytes(32)),
        "bad roster": b"m" + _sample_manifest(bound, roster=2),
        "bad signature": b"n" + sample_pb2.SignedManifest(manifest=b"x", key_id=_MANIFEST.key_id).SerializeToString(),
    }


# --- charges and answers ---------------------------------------------------------------------------------------------


def _charge(**changes: Any) -> bytes:
    """The log entry that an honest census node writes."""
    fields: dict[str, Any] = {
        "query": _QUERY.hex(),
        "ticket": hash_bytes(_honest_ticket().ticket).hex(),
        "slot": 7,
        "scale": _SCALE,
        "units": price(_SCALE),
        "question": FRENCH,
        "researcher": RESEARCHER,
        "project": PROJECT,
        "health": HEALTH.organisation,
        "load": "load",
        "roster": 3,
        "manifest": bytes(32).hex(),
        "submitted": _set_commitment().hex(),
        "active": bytes(32).hex(),
        "ledger": "",
        "total": price(_SCALE),
    }
    event = Charged(**{**fields, **changes})
    return encode_entry(Entry(sequence=2, time_ms=NOW_MS, policy=POLICY.hash.hex(), event=event))


def _set_commitment() -> bytes:
    bits = np.zeros(PLACES_IN_PART // 8, np.uint8)
    return SampleBits(bits, _SALT).commitment(Bound(hash_bytes(_honest_ticket().ticket), bytes(32)))


def _proved(entry: bytes, note: str | None = None) -> tuple[str, list[bytes]]:
    """A signed checkpoint over three entries, the last of which is `entry`, and the proof that it is."""
    tree = MerkleTree()
    for leaf in (b"one", b"two", entry):
        tree.append(leaf)
    return note or _NOTES.sign_checkpoint(3, tree.root()), tree.inclusion_proof(2)


def _note(text: bytes) -> str:
    """Any text as a note that the census agency signed."""
    raw = text.decode("utf-8", "replace")
    blob = key_hash(_NOTES.name, _LOG.verify_key) + _LOG.sign(raw.encode())
    return f"{raw}\n\u2014 {_NOTES.name} {b64encode(blob).decode('ascii')}\n"


def _parse_charge(data: bytes) -> VerifiedCharge:
    part, rest = data[:1], data[1:]
    entry = rest if part == b"e" else _charge()
    note, proof = _proved(entry)
    charged = sample_pb2.Charged(
        checkpoint=_note(rest) if part == b"k" else note, log_index=2, inclusion_proof=proof, entry=entry
    )
    if part == b"c":
        charged = parse_message(sample_pb2.Charged, rest)
    ticket = VerifiedTicket(_body(), _honest_ticket().ticket)
    handed_over = HandedOver(HEALTH.organisation, bytes(32).hex())
    manifest = sample_pb2.Manifest(ticket_hash=ticket.hash, set_commitment=_set_commitment(), roster=3)
    return verify_charged(charged, ticket, manifest, handed_over=handed_over, census_log=_NOTES.verifier)


def _charge_seeds() -> dict[str, bytes]:
    note, proof = _proved(_charge())
    whole = sample_pb2.Charged(checkpoint=note, log_index=2, inclusion_proof=proof, entry=_charge())
    return {
        "entry": b"e" + _charge(),
        "message": b"c" + whole.SerializeToString(),
        "bad checkpoint": b"k" + note.encode(),
        "bad scale": b"e" + _charge(scale=31),
        "bad agency": b"e" + _charge(health="health-x"),
        "bad roster": b"e" + _charge(roster=4),
        "bad manifest": b"e" + _charge(manifest=bytes(31).hex() + "ff"),
    }


def _refusal(**changes: Any) -> bytes:
    refusal = refusal_of(
        _honest_ticket().ticket,
        _honest_manifest(),
        code="SLOT_UNUSABLE",
        health=HEALTH.organisation,
        log="census.example/fuzz",
        roster=3,
        size=5,
        time_ms=NOW_MS,
    )
    return msgspec.structs.replace(refusal, **changes).document


def _honest_manifest() -> bytes:
    ticket_hash = hash_bytes(_honest_ticket().ticket)
    return sample_pb2.Manifest(ticket_hash=ticket_hash, set_commitment=_set_commitment(), roster=3).SerializeToString(
        deterministic=True
    )


def _parse_refused(data: bytes) -> bytes:
    """`d` and a document that the census agency signs whatever it says, or `s` and a signed one."""
    kind, rest = data[:1], data[1:]
    signed = sample_pb2.SignedRefusal(document=rest, signature=_REFUSAL.sign(rest), key_id=_REFUSAL.key_id)
    error = InvalidRequestError("SLOT_UNUSABLE")
    error.signed_refusal = rest if kind == b"s" else signed.SerializeToString()
    verify_refused(
        error,
        VerifiedTicket(_body(), _honest_ticket().ticket),
        sample_pb2.SignedManifest(manifest=_honest_manifest()),
        organisation=HEALTH.organisation,
        census_log="census.example/fuzz",
        census_keys=[_REFUSAL.verify_key],
    )
    return sample_pb2.SignedRefusal.FromString(error.signed_refusal).document


def _check_refused(document: bytes, data: bytes) -> None:
    del data
    refusal = parse_refusal(document)
    require(refusal.document == document, "a refusal has one spelling")
    require(_refusal(size=refusal.size, time_ms=refusal.time_ms) == document, "it is that of the ticket and the sample")


def _refused_seeds() -> dict[str, bytes]:
    document = _refusal()
    whole = sample_pb2.SignedRefusal(document=document, signature=_REFUSAL.sign(document), key_id=_REFUSAL.key_id)
    return {
        "document": b"d" + document,
        "signed": b"s" + whole.SerializeToString(),
        "bad nothing": b"s",
        "bad code": b"d" + _refusal(code="POLICY_MISMATCH"),
        "bad slot": b"d" + _refusal(slot=9),
        "bad log": b"d" + _refusal(log="census.example/other"),
    }


def _receipt() -> answer_pb2.Receipt:
    note, proof = _proved(_charge())
    ticket_hash = hash_bytes(_honest_ticket().ticket)
    return answer_pb2.Receipt(
        query_id=_QUERY,
        ticket_hash=ticket_hash,
        answer_hash=commit_answer(_SALT, ticket_hash, NoisyCounts((_NOISY_COUNT,))),
        scale=_SCALE,
        charged=price(_SCALE),
        policy_hash=POLICY.hash,
        log_index=2,
        checkpoint=note,
        inclusion_proof=proof,
        entry=_charge(),
    )


def _signed_receipt(data: bytes) -> answer_pb2.SignedReceipt:
    """These bytes as a receipt, signed by the census agency."""
    return answer_pb2.SignedReceipt(receipt=data, signature=_ANSWER.sign(data), key_id=_ANSWER.key_id)


def _answer(receipt: answer_pb2.SignedReceipt) -> answer_pb2.SignedAnswer:
    return answer_pb2.SignedAnswer(receipt=receipt, noisy_counts=NoisyCounts((_NOISY_COUNT,)).padded, answer_salt=_SALT)


def _sealed(data: bytes) -> bytes:
    """The researcher's sealed answer; its content is honest but for the part that `data` names."""
    part, rest = data[:1], data[1:]
    if part == b"r":
        return rest
    receipt = _receipt()
    if part == b"e":
        receipt.entry = rest
        receipt.checkpoint, proof = _proved(rest)
        receipt.inclusion_proof[:] = proof
    if part == b"k":
        receipt.checkpoint = _note(rest)
    if part == b"h":
        receipt.answer_hash = rest
    answer = _answer(_signed_receipt(rest if part == b"a" else receipt.SerializeToString()))
    if part == b"s":
        answer = parse_message(answer_pb2.SignedAnswer, rest)
    padded = rest.ljust(_PADDED_BYTES, b"\0") if part == b"p" else pad_answer(answer)
    return _ANSWER_KEY.sealing_key.seal(padded, answer_info(hash_bytes(_honest_ticket().ticket)))


_NOISY_COUNT = -3
_PADDED_BYTES = 16 * 1024


def _parse_answer(data: bytes) -> VerifiedAnswer:
    return unseal_answer(
        _sealed(data),
        unsealing_key=_ANSWER_KEY,
        ticket_hash=hash_bytes(_honest_ticket().ticket),
        cells=1,
        census_keys=[_ANSWER.verify_key],
    )


def _check_answer(answer: VerifiedAnswer, data: bytes) -> None:
    del data
    body, ticket_hash = answer.receipt.body, hash_bytes(_honest_ticket().ticket)
    require(body.ticket_hash == ticket_hash, "an answer is to one's own ticket")
    require(answer_pb2.Receipt.FromString(answer.receipt.signed.receipt) == body, "what was signed is what is read")
    require(
        body.answer_hash == commit_answer(answer.salt, ticket_hash, answer.noisy),
        "a receipt is the answer's",
    )


def _answer_seeds() -> dict[str, bytes]:
    body = _receipt().SerializeToString()
    answer = _answer(_signed_receipt(body))
    return {
        "body": b"a" + body,
        "entry": b"e" + _charge(),
        "signed": b"s" + answer.SerializeToString(),
        "padded": b"p" + pad_answer(answer).rstrip(b"\0"),
        "bad sealed": b"r" + bytes(1200),
        "bad length": b"p" + b"\xff\xff\xff\xff",
        "bad hash": b"h" + bytes(32),
    }


# --- quotes ----------------------------------------------------------------------------------------------------------


def _slots(**changes: Any) -> bytes:
    """The log entry in which an honest census node commits to noise slots."""
    fields: dict[str, Any] = {"first": 6, "void_below": 6, "commitments": [f"{slot:064x}" for slot in range(6, 9)]}
    event = Slots(**{**fields, **changes})
    return encode_entry(Entry(sequence=2, time_ms=NOW_MS, policy=POLICY.hash.hex(), event=event))


def _offer() -> Offer:
    note, proof = _proved(_slots())
    return Offer(
        noise_slot=ticket_pb2.NoiseSlot(
            number=7, commitment=(7).to_bytes(32, "big"), checkpoint=_WITNESS.cosign(note, NOW_MS // 1000)
        ),
        slot_entry=_slots(),
        slot_index=2,
        slot_proof=proof,
    )


def _parse_slot(data: bytes) -> ticket_pb2.NoiseSlot:
    """The slot of a quote, one part of which is `data`."""
    part, rest = data[:1], data[1:]
    quote = _offer()
    if part == b"e":
        note, proof = _proved(rest)
        quote.slot_entry, quote.slot_proof[:] = rest, proof
        quote.noise_slot.checkpoint = _WITNESS.cosign(note, NOW_MS // 1000)
    if part == b"k":
        quote.noise_slot.checkpoint = rest.decode("utf-8", "replace")
    if part == b"q":
        shown = parse_message(census_service_pb2.QuoteResponse, rest)
        quote = Offer(quote.noise_slot, shown.slot_entry, shown.slot_index, list(shown.slot_proof))
    verify_slot(quote.noise_slot, quote.shown, CensusLog(_NOTES.verifier, _WITNESS.verifier))
    return quote.noise_slot


def _check_slot(slot: ticket_pb2.NoiseSlot, data: bytes) -> None:
    del data
    require(len(slot.commitment) == SALT_BYTES and slot.number < 2**63, "a slot is one of a batch")
    require(parse_note(slot.checkpoint)[0].size == _LEAVES, "its checkpoint is the one that was cosigned")


def _slot_seeds() -> dict[str, bytes]:
    return {
        "quote": b"q" + _offer().shown.SerializeToString(),
        "entry": b"e" + _slots(),
        "bad other slots": b"e" + _slots(first=8, void_below=8),
        "bad void": b"e" + _slots(void_below=8),
        "bad event": b"e" + _charge(),
        "bad checkpoint": b"k" + _proved(_slots())[0].encode(),
    }


def _quote_body(**changes: Any) -> quote_pb2.Quote:
    """An honest census node's quote."""
    fields: dict[str, Any] = {
        "researcher_id": "alice",
        "question": parse_question(FRENCH, CENSUS_DICTIONARY).to_wire(),
        "scale": _SCALE,
        "charged": price(_SCALE),
        "remaining": 41,
        "policy_hash": POLICY.hash,
        "noise_slot": _offer().noise_slot,
        "told_ms": NOW_MS,
        "expires_ms": NOW_MS + 60_000,
    }
    return quote_pb2.Quote(**fields | changes)


def _parse_quote(data: bytes) -> VerifiedQuote:
    """A signed quote, or with `b` in front the body of one that the census agency signs whatever it is."""
    signed = quote_pb2.SignedQuote()
    if data[:1] == b"b":
        signature = _ANSWER.sign(data[1:], purpose=Purpose.QUOTE)
        signed = quote_pb2.SignedQuote(quote=data[1:], signature=signature, key_id=_ANSWER.key_id)
    else:
        signed = parse_message(quote_pb2.SignedQuote, data[1:])
    return verify_quote(signed, census_keys=[_ANSWER.verify_key])


def _check_quote(quote: VerifiedQuote, data: bytes) -> None:
    del data
    body = quote.body
    require(body.scale >= 1 and len(body.policy_hash) == HASH_BYTES, "its figures can be recomputed")
    require(0 <= body.told_ms < body.expires_ms < 253_402_300_800_000, "its instants can be shown")
    ticket = ticket_pb2.Ticket(
        researcher_id=body.researcher_id,
        question=body.question,
        census_release=body.census_release,
        scale=body.scale,
        policy_hash=body.policy_hash,
        noise_slot=body.noise_slot,
        expires_ms=body.expires_ms,
    )
    require(quote.differing(ticket) == [], "a ticket can be what it offers")


def _quote_seeds() -> dict[str, bytes]:
    return {
        "body": b"b" + _quote_body().SerializeToString(),
        "signed": b"s" + sign_quote(_quote_body(), _ANSWER).SerializeToString(),
        "bad instant": b"b" + _quote_body(told_ms=NOW_MS + 60_000).SerializeToString(),
        "bad end": b"b" + _quote_body(expires_ms=2**62).SerializeToString(),
        "bad policy": b"b" + _quote_body(policy_hash=b"").SerializeToString(),
        "bad scale": b"b" + _quote_body(scale=0).SerializeToString(),
        "bad question": b"b" + _quote_body(question=ticket_pb2.Question()).SerializeToString(),
        "bad slot": b"b" + _quote_body(noise_slot=None).SerializeToString(),
        "bad length": b"b" + _quote_body(census_release="x" * 65_536).SerializeToString(),
        "bad key": b"s" + quote_pb2.SignedQuote(quote=b"x", key_id="x").SerializeToString(),
    }


_LEAVES = 3


# --- the researcher's store ------------------------------------------------------------------------------------------


@cache
def _answers() -> Answers:
    store = Answers(
        fresh_path(".db"), CensusKeys(answer=lambda: [_ANSWER.verify_key], log=lambda: _NOTES.verifier), lambda: NOW_MS
    )
    atexit.register(store.close)
    return store


def _receive(data: bytes) -> AskedQuestion:
    answers = _answers()
    answers._db.execute("delete from questions")
    answers.put(
        AskedQuestion(
            query=_QUERY.hex(),
            asked_ms=NOW_MS,
            where="age >= 0",
            question=FRENCH,
            scale=_SCALE,
            fraction_millionths=1_000_000,
            policy_hash=POLICY.hash.hex(),
            signed_quote=b"",
            signed_ticket=_honest_ticket().SerializeToString(deterministic=True),
            criteria=b"",
            criteria_nonce=_NONCE,
        ),
        _ANSWER_KEY,
    )
    if data[:1] == b"m":
        return answers.receive(parse_message(answer_pb2.SealedAnswer, data[1:]))
    return answers.receive(answer_pb2.SealedAnswer(query_id=_QUERY, sealed=_sealed(data)))


def _check_received(asked: AskedQuestion, data: bytes) -> None:
    del data
    require(asked.state == "answered" and asked.charged == price(_SCALE), "what is kept was charged")


TARGETS: Mapping[str, Target[Any]] = {
    "ticket": Target(
        parse=_parse_ticket,
        check=_check_ticket,
        covers=(
            verify_ticket,
            VerifiedTicket.verify_fresh,
            VerifiedTicket.verify_unexpired,
            VerifiedTicket.verify_policy,
            VerifiedTicket.verify_release,
            VerifyKey.verify_signature,
            parse_message,
        ),
        on_the_wire=True,
        seeds=_ticket_seeds,
        codes=_TICKET_CODES | _IN_FORCE_CODES,
    ),
    "sample_bits": Target(
        parse=_parse_bits,
        check=_check_bits,
        covers=(SampleBits.unseal, SealedSample.verify_lengths, verify_commitment),
        on_the_wire=True,
        seeds=_bits_seeds,
        codes=frozenset({"BAD_SAMPLE", "SEALED_WRONGLY", "COMMITMENT_MISMATCH"}),
        mutations=250,
    ),
    "roster": Target(
        parse=_parse_roster,
        check=_check_roster,
        covers=(RosterOpener.unseal_frame, RosterPayload.parse, FrameReader.verify_ended, verify_ascending),
        on_the_wire=True,
        seeds=_roster_seeds,
        codes=frozenset({"BAD_FRAMES", "SEALED_WRONGLY"}),
        mutations=150,
        words=(b"tripROS1", bytes(16), b"\xff" * 16),
    ),
    "roster_header": Target(
        parse=_parse_roster_header,
        check=_check_roster_header,
        covers=(admit,),
        on_the_wire=True,
        seeds=lambda: {
            "manifest": b"m" + _roster_manifest(),
            "honest": b"-",
            "bad number": b"m" + _roster_manifest(number=0),
            "bad linkage": b"m" + _roster_manifest(linkage="0" * 16),
            "bad payload": b"p" + bytes(88),
            "bad header": b"h" + roster_pb2.RosterHeader(sealed_key=b"x").SerializeToString(),
        },
        codes=frozenset(
            {"BAD_FRAMES", "SEALED_WRONGLY", "MALFORMED_MESSAGE", "LINKAGE_MISMATCH", "UNKNOWN_KEY", "BAD_SIGNATURE"}
        ),
        mutations=100,
    ),
    "sample": Target(
        parse=_parse_sample,
        check=_check_sample,
        covers=(
            SampleAttempt.verify_claim,
            SampleAttempt.verify_sample,
            question_from_wire,
            verify_commitment,
            parse_message,
        ),
        on_the_wire=True,
        seeds=_sample_seeds,
        codes=_TICKET_CODES
        | _IN_FORCE_CODES
        | QUESTION_CODES
        | {
            "SCALE_REFUSED",
            "ROSTER_NOT_IN_FORCE",
            "WRONG_ORGANISATION",
            "SEALED_WRONGLY",
            "BAD_SAMPLE",
            "COMMITMENT_MISMATCH",
        },
        mutations=100,
    ),
    "charge": Target(
        parse=_parse_charge,
        covers=(verify_charged, NoteVerifier.verify_checkpoint, parse_entry, root_from_inclusion),
        seeds=_charge_seeds,
        codes=frozenset({"PEER_MISBEHAVED", "MALFORMED_MESSAGE"}),
        words=(b'"type":"charged"', b'{"a":', b"[[[[", b"1e400", b'"\\u0000"', b"9007199254740992"),
        mutations=100,
    ),
    "refused": Target(
        parse=_parse_refused,
        check=_check_refused,
        covers=(verify_refused, parse_refusal),
        seeds=_refused_seeds,
        codes=frozenset({"PEER_MISBEHAVED"}),
        words=(b'"size":', b'"time_ms":', b"[[[[", b"1e400", b'"\\u0000"', b"9007199254740992"),
        mutations=100,
    ),
    "answer": Target(
        parse=_parse_answer,
        check=_check_answer,
        covers=(unseal_answer, verify_receipt),
        seeds=_answer_seeds,
        codes=frozenset({"SEALED_WRONGLY", "MALFORMED_MESSAGE", "UNKNOWN_KEY", "BAD_SIGNATURE", "COMMITMENT_MISMATCH"}),
        mutations=100,
    ),
    "quote": Target(
        parse=_parse_quote,
        check=_check_quote,
        covers=(verify_quote,),
        seeds=_quote_seeds,
        codes=frozenset({"MALFORMED_MESSAGE", "UNKNOWN_KEY", "BAD_SIGNATURE"}),
        mutations=100,
    ),
    "slot": Target(
        parse=_parse_slot,
        check=_check_slot,
        covers=(verify_slot, CensusLog.verify_cosigned, CosignatureVerifier.verify, parse_entry, root_from_inclusion),
        seeds=_slot_seeds,
        codes=frozenset({"PEER_MISBEHAVED", "MALFORMED_MESSAGE"}),
        words=(b'"type":"slots"', b'"first":', b'"void_below":', b"9007199254740992"),
        mutations=100,
    ),
    "inbox": Target(
        parse=_receive,
        check=_check_received,
        covers=(Answers.receive,),
        on_the_wire=True,
        seeds=lambda: {
            **_answer_seeds(),
            "bad query": b"m" + answer_pb2.SealedAnswer(query_id=b"x" * 3000).SerializeToString(),
        },
        codes=frozenset({"UNKNOWN_QUERY", "PEER_MISBEHAVED", "MALFORMED_MESSAGE"}),
        mutations=150,
    ),
}
