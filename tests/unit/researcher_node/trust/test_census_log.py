"""A quoted noise slot: believed with commitment, proof and both signatures, and refused when any of them lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fakes import logs
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.quotes import Offer
from fakes.world import FRENCH, PROJECT, RESEARCHER, make_policy
from tripartite.v1 import quote_pb2, ticket_pb2
from unit.researcher_node.shown_log import TIME_S, ShownLog

from broker_common.audit.export.documents import ReceiptFile
from broker_common.crypto.commitments import SlotSecret, commit_slot
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import PeerUnavailableError
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import parse_question
from broker_common.query.quote import verify_quote
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.note import NoteSigner
from researcher_node.asking.contact import Party
from researcher_node.asking.kept import KeptDictionaries, Policies
from researcher_node.asking.proposal import Precision, Wanted
from researcher_node.asking.session import Quoted, Session
from researcher_node.trust.cards import Trust
from researcher_node.trust.census_log import verify_slot


@pytest.fixture
def log() -> ShownLog:
    """A log with a batch of four slots amid other entries."""
    made = ShownLog()
    made.commit_slots(4)
    made.grow(5)
    return made


BATCH = 3


def refusal(quote: Offer, log: ShownLog) -> str:
    """The problem that a quote is refused with."""
    with pytest.raises(PeerUnavailableError) as caught:
        verify_slot(quote.noise_slot, quote.shown, log.known)
    assert (caught.value.code, caught.value.details["peer"]) == ("PEER_MISBEHAVED", "census")
    return caught.value.details["problem"]


@pytest.mark.parametrize("slot", range(4))
@pytest.mark.parametrize("size", [BATCH + 1, 6, 9])
def test_slot_that_the_log_commits_to_is_believed(log: ShownLog, slot: int, size: int) -> None:
    """The first and the last of a batch, under the oldest checkpoint that covers it and under the newest."""
    quote = log.quote(BATCH, slot, size=size)
    verify_slot(quote.noise_slot, quote.shown, log.known)


def test_either_key_of_a_change_will_do(log: ShownLog) -> None:
    """While keys are being replaced a checkpoint is signed or cosigned by the old key, the new one, or both."""
    quote = log.quote(BATCH, 1)
    newer = Cosigner(log.witness.name, SigningKey.generate(Purpose.WITNESS, os.urandom))
    log.witness = newer
    both = log.quote(BATCH, 1)
    both.noise_slot.checkpoint = newer.cosign(quote.noise_slot.checkpoint, TIME_S + 1)
    verify_slot(both.noise_slot, both.shown, log.known)


# --- lies ------------------------------------------------------------------------------------------------------------

Lie = Callable[[Offer, ShownLog], object]


def without_cosignature(quote: Offer, log: ShownLog) -> None:
    """The census log's own signature alone."""
    quote.noise_slot.checkpoint = log.note()


def cosigned_alone(quote: Offer, log: ShownLog) -> None:
    """The witness's signature without the log's."""
    lines = log.cosigned().split("\n")
    del lines[4]
    quote.noise_slot.checkpoint = "\n".join(lines)


def cosigned_by(name: str | None, key: SigningKey | None) -> Lie:
    """Cosigned by somebody else, under the witness's name or another one."""

    def lie(quote: Offer, log: ShownLog) -> None:
        stranger = Cosigner(name or log.witness.name, key or log.witness.key)
        quote.noise_slot.checkpoint = stranger.cosign(log.note(), TIME_S)

    return lie


def signed_by(name: str | None, key: SigningKey | None) -> Lie:
    """A checkpoint of another log, cosigned as it is."""

    def lie(quote: Offer, log: ShownLog) -> None:
        other = NoteSigner(name or log.signer.name, (key or log.signer.keys[0],))
        note = other.sign_checkpoint(log.tree.size, log.tree.root())
        quote.noise_slot.checkpoint = log.witness.cosign(note, TIME_S)

    return lie


def borrowed_cosignature(quote: Offer, log: ShownLog) -> None:
    """The cosignature of an older checkpoint under a newer one."""
    older = log.cosigned(BATCH + 1).split("\n")[-2]
    quote.noise_slot.checkpoint = log.note() + older + "\n"


def late_commitment(quote: Offer, log: ShownLog) -> None:
    """A secret that was drawn when the question was known: its commitment is not in the log."""
    del log
    quote.noise_slot.commitment = commit_slot(SlotSecret(os.urandom(32)), quote.noise_slot.number)


def late_entry(quote: Offer, log: ShownLog) -> None:
    """An entry with a late commitment, which nobody has cosigned yet, in the place of the one in the log."""
    cosigned = log.cosigned()
    index = log.commit_slots(4, first=0, void_below=0)
    late = log.quote(index, quote.noise_slot.number)
    late.noise_slot.commitment = log.commitment(4 + quote.noise_slot.number)
    late.noise_slot.checkpoint = cosigned
    quote.become(late)


def forked_entry(quote: Offer, log: ShownLog) -> None:
    """The same place in another history of the log, which its witness never saw."""
    cosigned = log.cosigned()
    log.forget()
    log.grow(BATCH)
    log.commit_slots(4)
    log.grow(5)
    quote.become(log.quote(BATCH, 1))
    quote.noise_slot.checkpoint = cosigned


def older_checkpoint(quote: Offer, log: ShownLog) -> None:
    """A cosigned checkpoint from before the entry."""
    quote.noise_slot.checkpoint = log.cosigned(BATCH)


def other_entry(quote: Offer, log: ShownLog) -> None:
    """Properly proved: an entry that is no batch of slots."""
    index = log.append(logs.loaded(), log.clock())
    other = log.quote(index, quote.noise_slot.number)
    quote.become(other)


def no_entry(quote: Offer, log: ShownLog) -> None:
    """Properly proved: bytes that are no entry."""
    quote.become(log.quote(0, quote.noise_slot.number))


def misplaced_entry(quote: Offer, log: ShownLog) -> None:
    """Properly proved: a batch that says it stands elsewhere."""
    log.append_bytes(log.entries[BATCH])
    quote.become(log.quote(log.tree.size - 1, quote.noise_slot.number))


def void_slot(quote: Offer, log: ShownLog) -> None:
    """Properly proved: a batch that declares its own first slots void."""
    index = log.commit_slots(4, void_below=6)
    quote.become(log.quote(index, 5))


def below_the_batch(quote: Offer, log: ShownLog) -> None:
    """A slot of the batch before."""
    index = log.commit_slots(4)
    quote.become(log.quote(index, 3))


def setting(**fields: object) -> Lie:
    """Set plain fields of the slot."""

    def lie(quote: Offer, log: ShownLog) -> None:
        del log
        for name, value in fields.items():
            setattr(quote.noise_slot, name, value)

    return lie


SIGNED, COSIGNED = "a checkpoint that its log has not signed", "a checkpoint that the health agency has not cosigned"
NOT_IN_LOG = "a noise slot that is not in its log"
OTHER_ROOT = f"{NOT_IN_LOG}: the proof leads to another root"
OTHER_COMMITMENT = "a noise slot with another commitment than the log has"
NOT_COMMITTED = "a noise slot that its entry in the log does not commit to"
LIES: dict[str, tuple[Lie, str]] = {
    "a late commitment": (late_commitment, OTHER_COMMITMENT),
    "a late commitment in an entry that nobody has cosigned": (late_entry, NOT_IN_LOG),
    "a late commitment in another history": (forked_entry, OTHER_ROOT),
    "another slot's commitment": (
        lambda q, log: setattr(q.noise_slot, "commitment", log.commitment(2)),
        OTHER_COMMITMENT,
    ),
    "another slot with this commitment": (setting(number=2), OTHER_COMMITMENT),
    "no commitment": (setting(commitment=b""), OTHER_COMMITMENT),
    "a longer commitment": (
        lambda q, _: setattr(q.noise_slot, "commitment", q.noise_slot.commitment + b"\0"),
        OTHER_COMMITMENT,
    ),
    "a slot after the batch": (setting(number=4), NOT_COMMITTED),
    "a slot before the batch": (below_the_batch, NOT_COMMITTED),
    "the last slot that there can be": (setting(number=2**64 - 1), NOT_COMMITTED),
    "a void slot": (void_slot, "a noise slot that is void from the start"),
    "no checkpoint": (setting(checkpoint=""), "a checkpoint that is none"),
    "a checkpoint in controls": (setting(checkpoint="\x01" * 100), "a checkpoint that is none"),
    "no slot at all": (lambda q, _: q.become(Offer()), "a checkpoint that is none"),
    "a checkpoint that is not cosigned": (without_cosignature, COSIGNED),
    "a checkpoint that is cosigned alone": (cosigned_alone, SIGNED),
    "cosigned by a stranger": (cosigned_by("other.example/log", SigningKey(Purpose.WITNESS, bytes(32))), COSIGNED),
    "cosigned by a stranger in the witness's name": (
        cosigned_by(None, SigningKey(Purpose.WITNESS, bytes(32))),
        COSIGNED,
    ),
    "cosigned by the witness's key in another name": (cosigned_by("other.example/log", None), COSIGNED),
    "the cosignature of another checkpoint": (borrowed_cosignature, COSIGNED),
    "a checkpoint of another log": (signed_by("other.example/log", SigningKey(Purpose.LOG, bytes(32))), SIGNED),
    "a checkpoint of another log in this one's name": (signed_by(None, SigningKey(Purpose.LOG, bytes(32))), SIGNED),
    "a checkpoint of another log by this one's key": (signed_by("other.example/log", None), SIGNED),
    "a checkpoint from before the entry": (older_checkpoint, NOT_IN_LOG),
    "another place": (lambda q, _: setattr(q, "slot_index", BATCH + 1), OTHER_ROOT),
    "a place outside the log": (lambda q, _: setattr(q, "slot_index", 2**64 - 1), NOT_IN_LOG),
    "the proof of another entry": (
        lambda q, log: setattr(q, "slot_proof", log.tree.inclusion_proof(0)),
        OTHER_ROOT,
    ),
    "no proof": (lambda q, _: q.slot_proof.clear(), NOT_IN_LOG),
    "a longer proof": (lambda q, _: q.slot_proof.append(bytes(32)), NOT_IN_LOG),
    "a proof of short hashes": (lambda q, _: q.slot_proof.__setitem__(0, bytes(31)), NOT_IN_LOG),
    "no entry": (lambda q, _: setattr(q, "slot_entry", b""), OTHER_ROOT),
    "an entry in another spelling": (lambda q, _: setattr(q, "slot_entry", q.slot_entry + b" "), OTHER_ROOT),
    "bytes of the log that are no entry": (no_entry, "a noise slot whose entry in the log is none"),
    "an entry that is no batch of slots": (other_entry, "a noise slot whose entry in the log commits to no slots"),
    "an entry that says it stands elsewhere": (
        misplaced_entry,
        "a noise slot whose entry stands at another place than it says",
    ),
}


@pytest.mark.parametrize("what", LIES)
def test_slot_that_is_not_committed_to_is_refused(log: ShownLog, what: str) -> None:
    """The census node cannot choose an answer's noise after it has seen the question: the quote is refused, precisely."""
    quote = log.quote(BATCH, 1)
    lie, problem = LIES[what]
    lie(quote, log)
    assert refusal(quote, log).startswith(problem)


# --- before a ticket is signed ---------------------------------------------------------------------------------------


class Offered(Session):
    """A session whose census node has made this offer, and nothing else is asked of anybody."""

    log: ShownLog
    offer: Offer

    async def _health_dictionary(self) -> Dictionary:
        return HEALTH_DICTIONARY

    async def policy_named(self, policy_hash: bytes) -> Policy:
        del policy_hash
        return make_policy()

    async def quote(self, count: str, precision: Precision) -> Quoted:
        del precision
        self._read_with["census"] = CENSUS_DICTIONARY
        question = parse_question(count, CENSUS_DICTIONARY)
        signed = self.log.signed_quote(self.offer, question)
        keys = [self.log.census.signing(Purpose.ANSWER).verify_key]
        return Quoted(question, verify_quote(signed, census_keys=keys), self.offer.shown)


@pytest.fixture
def session(log: ShownLog, tmp_path: Path) -> Iterator[Offered]:
    """A researcher who knows the cards of both agencies."""
    trust = Trust(tmp_path / "trust", log.clock)
    trust.put(log.census.card)
    trust.put(log.health.card)
    with closing(log.open_answers(tmp_path / "answers.db")) as answers:
        offered = Offered(
            researcher_id=RESEARCHER,
            ticket_key=lambda: log.researcher.signing(Purpose.TICKET),
            health=Party("health", "127.0.0.1:1"),
            census=Party("census", "127.0.0.1:1"),
            own_card=lambda: log.researcher.card,
            trust=trust,
            tls=lambda: log.researcher.tls,
            answers=answers,
            policies=Policies(tmp_path / "policies"),
            dictionaries=KeptDictionaries(tmp_path / "dictionaries"),
            clock=log.clock,
            randomness=os.urandom,
        )
        offered.log = log
        yield offered


WANTED = Wanted("age >= 65", FRENCH, Precision(30), 1_000_000, PROJECT)


async def test_ticket_carries_the_slot_as_it_was_verified(log: ShownLog, session: Offered) -> None:
    """Number, commitment and checkpoint, byte for byte: later readers of the ticket can verify the same."""
    session.offer = log.quote(BATCH, 2)
    asked = await session.prepare(WANTED)
    ticket = ticket_pb2.Ticket.FromString(asked.ticket_message.ticket)
    assert ticket.noise_slot == session.offer.noise_slot
    assert ticket.noise_slot.checkpoint == log.cosigned()


async def test_quote_is_kept_with_the_question_and_shown_to_the_auditor(log: ShownLog, session: Offered) -> None:
    """Byte for byte, from before the ticket leaves: the census agency is held to what it has signed."""
    session.offer = log.quote(BATCH, 2)
    asked = await session.prepare(WANTED)
    (kept,) = session._answers.receipts()
    assert kept.signed_quote == asked.signed_quote
    signed = quote_pb2.SignedQuote.FromString(kept.signed_quote)
    quoted = verify_quote(signed, census_keys=[log.census.signing(Purpose.ANSWER).verify_key])
    assert quoted.differing(ticket_pb2.Ticket.FromString(asked.ticket_message.ticket)) == []
    shown = ReceiptFile.of(kept.query, kept.state, kept.signed_quote, kept.signed_ticket, kept.signed_receipt)
    assert shown.signed_quote == signed


@pytest.mark.parametrize("what", ["a late commitment", "a checkpoint that is not cosigned", "a void slot", "no proof"])
async def test_no_ticket_is_signed_for_a_slot_that_is_not_committed_to(
    log: ShownLog, session: Offered, what: str
) -> None:
    """The lie is found before anything is signed, sent or remembered."""
    session.offer = log.quote(BATCH, 1)
    LIES[what][0](session.offer, log)
    with pytest.raises(PeerUnavailableError) as caught:
        await session.prepare(WANTED)
    assert caught.value.code == "PEER_MISBEHAVED"
    assert session._answers.all() == []
