"""A census node that lies about a charge or an answer is found out by the health node and by the researcher.

The liar here holds every key of the census agency and writes whatever log it likes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fakes.world import HEALTH, OTHER_RESEARCHER, Order, OrderedSample, World, charge_and_answer
from msgspec import structs
from tripartite.v1 import answer_pb2, sample_pb2

from broker_common.crypto.commitments import hash_bytes
from broker_common.crypto.sealing import SealingKey, UnsealingKey, answer_info
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, PeerUnavailableError
from broker_common.privacy.accounting import price
from broker_common.query.answer import SEALED_ANSWER_BYTES, pad_answer
from broker_common.tlog.entries import Charged, Entry, Event, Expired, Released, encode_entry, parse_entry
from broker_common.tlog.merkle import MerkleTree
from broker_common.tlog.note import NoteSigner
from broker_common.values import NoisyCounts
from health_node.query.forwarding import HandedOver, VerifiedCharge, make_manifest, verify_charged


@dataclass(frozen=True)
class Forgery:
    """A log of the liar's making: the proof of one entry of it."""

    note: str
    index: int
    proof: list[bytes]
    entry: bytes

    @property
    def message(self) -> sample_pb2.Charged:
        return sample_pb2.Charged(
            checkpoint=self.note, log_index=self.index, inclusion_proof=self.proof, entry=self.entry
        )


def forge(world: World, event: Event, *, signer: NoteSigner | None = None, sequence: int = 2) -> Forgery:
    """`event` as the third of five entries, under a checkpoint of the census agency's own key."""
    entry = encode_entry(Entry(sequence=sequence, time_ms=world.clock(), policy=world.policy.hash.hex(), event=event))
    tree = MerkleTree()
    for leaf in (b"0", b"1", entry, b"3", b"4"):
        tree.append(leaf)
    note = (signer or world.census_log).sign_checkpoint(tree.size, tree.root())
    return Forgery(note, 2, tree.inclusion_proof(2), entry)


def charge_of(world: World, order: Order, sample: OrderedSample) -> Charged:
    """The charge that an honest census node logs."""
    world.charge(order, sample)
    return world.charges()[-1]


def believe(world: World, message: sample_pb2.Charged, sample: OrderedSample, manifest: str = "") -> VerifiedCharge:
    """An honest health node's verdict on the message, having sent this manifest, or else the one that was charged."""
    charged = [each.manifest for each in world.charges() if each.ticket == sample.order.hash.hex()]
    handed_over = HandedOver(HEALTH.organisation, manifest or "".join(charged))
    return verify_charged(
        message,
        sample.order.verified,
        make_manifest(sample.sample),
        handed_over=handed_over,
        census_log=world.census_log.verifier,
    )


# --- to the health node: a charge ------------------------------------------------------------------------------------


def test_honest_charge_is_believed(world: World) -> None:
    """The lies below differ from this in one place each."""
    order = world.order()
    sample = world.sample(order)
    proved = charge_and_answer(world.census, world.admit(world.messages(sample)))
    message = sample_pb2.Charged(
        checkpoint=proved.note, log_index=proved.index, inclusion_proof=proved.proof, entry=proved.entry
    )
    assert believe(world, message, sample).log_index == proved.index
    honest = forge(world, world.charges()[-1]).message
    assert believe(world, honest, sample).log_index == 2


OTHER_HASH = "f" * 64
FALSE_CHARGES: dict[str, Callable[[Charged], Event]] = {
    "another ticket": lambda charge: structs.replace(charge, ticket=OTHER_HASH),
    "another sample": lambda charge: structs.replace(charge, submitted=OTHER_HASH),
    "another roster": lambda charge: structs.replace(charge, roster=charge.roster + 1),
    "another scale": lambda charge: structs.replace(charge, scale=charge.scale - 1),
    "another price": lambda charge: structs.replace(charge, units=charge.units - 1),
    "another noise slot": lambda charge: structs.replace(charge, slot=charge.slot + 1),
    "in another agency's name": lambda charge: structs.replace(charge, health="health-x"),
    "another manifest": lambda charge: structs.replace(charge, manifest=OTHER_HASH),
    "no charge at all": lambda charge: Released(ticket=charge.ticket, answer=OTHER_HASH, checkpoint="none"),
}


@pytest.mark.parametrize("what", FALSE_CHARGES)
def test_charge_of_something_else_is_found_out(world: World, what: str) -> None:
    """A charge counts only if it is of this ticket, sample, roster, manifest and noise slot, in our name, at its scale and price."""
    order = world.order()
    sample = world.sample(order)
    forged = forge(world, FALSE_CHARGES[what](charge_of(world, order, sample)))
    with pytest.raises(PeerUnavailableError) as caught:
        believe(world, forged.message, sample)
    assert caught.value.code == "PEER_MISBEHAVED"


def test_charge_is_held_against_the_manifest_in_our_log(world: World) -> None:
    """One ticket has one manifest: a charge for another one is found out, no matter who signed that."""
    order = world.order()
    sample = world.sample(order)
    charge = charge_of(world, order, sample)
    forged = forge(world, structs.replace(charge, manifest=OTHER_HASH))
    assert believe(world, forged.message, sample, OTHER_HASH).log_index == 2
    with pytest.raises(PeerUnavailableError, match="PEER_MISBEHAVED"):
        believe(world, forged.message, sample, charge.manifest)


def test_of_a_charge_the_census_logs_own_lines_are_kept(world: World) -> None:
    """Whatever else the census node writes below it would stand in our log, and be ours to explain."""
    order = world.order()
    sample = world.sample(order)
    message = forge(world, charge_of(world, order, sample)).message
    honest = message.checkpoint
    line = honest.splitlines(keepends=True)[-1]
    message.checkpoint = f"{honest}{line}\u2014 {world.census_log.name} AAAAAA==\n\u2014 health.example/x AAAAAAAA\n"
    assert believe(world, message, sample).checkpoint == honest


def _other_key(world: World) -> NoteSigner:
    return NoteSigner(world.census_log.name, (SigningKey.generate(Purpose.LOG, os.urandom),))


def _other_log(world: World) -> NoteSigner:
    return NoteSigner("another.example/log", (world.secrets.log,))


@pytest.mark.parametrize("signer", [_other_key, _other_log])
def test_checkpoint_of_another_key_or_log_is_found_out(world: World, signer: Callable[[World], NoteSigner]) -> None:
    """Only the census agency's log, signed by its key under its name, proves a charge."""
    order = world.order()
    sample = world.sample(order)
    forged = forge(world, charge_of(world, order, sample), signer=signer(world))
    with pytest.raises(PeerUnavailableError) as caught:
        believe(world, forged.message, sample)
    assert caught.value.code == "PEER_MISBEHAVED"


FALSE_PROOFS: dict[str, Callable[[sample_pb2.Charged], object]] = {
    "the proof of another entry": lambda message: setattr(message, "log_index", 1),
    "an index outside the log": lambda message: setattr(message, "log_index", 5),
    "the largest index there is": lambda message: setattr(message, "log_index", 2**64 - 1),
    "no proof": lambda message: message.ClearField("inclusion_proof"),
    "a proof too long": lambda message: message.inclusion_proof.append(bytes(32)),
    "a proof of short hashes": lambda message: message.inclusion_proof.__setitem__(0, bytes(31)),
    "one bit of the proof": lambda message: message.inclusion_proof.__setitem__(0, bytes(32)),
    "one bit of the entry": lambda message: setattr(
        message, "entry", message.entry.replace(b'"scale":30', b'"scale":31')
    ),
    "an entry that is no entry": lambda message: setattr(message, "entry", b"{}"),
    "an entry in another spelling": lambda message: setattr(message, "entry", message.entry + b" "),
    "no entry": lambda message: message.ClearField("entry"),
    "a checkpoint with another size": lambda message: setattr(
        message, "checkpoint", message.checkpoint.replace("\n5\n", "\n6\n")
    ),
    "no checkpoint": lambda message: message.ClearField("checkpoint"),
    "a checkpoint without signature": lambda message: setattr(
        message, "checkpoint", message.checkpoint.partition("\n\n")[0] + "\n"
    ),
    "a checkpoint in controls": lambda message: setattr(message, "checkpoint", "\x01" * 16_000),
    "everything missing": lambda message: message.Clear(),
}


@pytest.mark.parametrize("what", FALSE_PROOFS)
def test_charge_without_a_whole_proof_is_found_out(world: World, what: str) -> None:
    """A charge is believed only with an entry, a path and a checkpoint that fit together to the last bit."""
    order = world.order()
    sample = world.sample(order)
    message = forge(world, charge_of(world, order, sample)).message
    FALSE_PROOFS[what](message)
    with pytest.raises(PeerUnavailableError) as caught:
        believe(world, message, sample)
    assert caught.value.code == "PEER_MISBEHAVED"


def test_entry_that_names_another_place_is_found_out(world: World) -> None:
    """An entry says where it stands; one that stands elsewhere breaks the log."""
    order = world.order()
    sample = world.sample(order)
    forged = forge(world, charge_of(world, order, sample), sequence=7)
    with pytest.raises(PeerUnavailableError):
        believe(world, forged.message, sample)


# --- to the researcher: an answer ------------------------------------------------------------------------------------


@dataclass
class Draft:
    """An answer that can still be changed, and how it is signed and sealed."""

    receipt: answer_pb2.Receipt
    noisy_count: int
    salt: bytes
    key: SigningKey
    key_id: str
    sealing_key: SealingKey
    info: bytes
    query_id: bytes

    def sealed(self) -> answer_pb2.SealedAnswer:
        body = self.receipt.SerializeToString(deterministic=True)
        signed = answer_pb2.SignedReceipt(receipt=body, signature=self.key.sign(body), key_id=self.key_id)
        numbers = NoisyCounts((self.noisy_count,)).padded
        answer = answer_pb2.SignedAnswer(receipt=signed, noisy_counts=numbers, answer_salt=self.salt)
        return answer_pb2.SealedAnswer(
            query_id=self.query_id, sealed=self.sealing_key.seal(pad_answer(answer), self.info)
        )


def draft(world: World, order: Order) -> Draft:
    """The honest answer to `order`, taken apart."""
    answer = world.open(order, world.answer(order))
    return Draft(
        receipt=answer.receipt,
        noisy_count=answer.noisy_count,
        salt=answer.salt,
        key=world.secrets.answer,
        key_id=world.secrets.answer.key_id,
        sealing_key=order.unsealing_key.sealing_key,
        info=answer_info(order.hash),
        query_id=answer.query_id,
    )


def put_charge(world: World, change: Callable[[Charged], Event], *, sequence: int = 2) -> Callable[[Draft], None]:
    """Replace the receipt's charge by another one, properly logged and proved."""

    def lie(made: Draft) -> None:
        event = parse_entry(made.receipt.entry).event
        assert isinstance(event, Charged)
        forged = forge(world, change(event), sequence=sequence)
        made.receipt.checkpoint, made.receipt.log_index, made.receipt.entry = forged.note, forged.index, forged.entry
        made.receipt.inclusion_proof[:] = forged.proof

    return lie


def everything_at(scale: int) -> Callable[[World], Callable[[Draft], None]]:
    """Another scale and its own price, in the receipt as in the log: only the ticket says otherwise."""

    def for_world(world: World) -> Callable[[Draft], None]:
        def lie(made: Draft) -> None:
            put_charge(world, lambda charge: structs.replace(charge, scale=scale, units=price(scale)))(made)
            made.receipt.scale, made.receipt.charged = scale, price(scale)

        return lie

    return for_world


def charge_outside_the_log(_: World) -> Callable[[Draft], None]:
    """A charge in every respect like ours, under an honest checkpoint whose log does not hold it."""

    def lie(made: Draft) -> None:
        entry = parse_entry(made.receipt.entry)
        assert isinstance(entry.event, Charged)
        made.receipt.entry = encode_entry(
            structs.replace(entry, event=structs.replace(entry.event, manifest=OTHER_HASH))
        )

    return lie


def other_path(_: World) -> Callable[[Draft], None]:
    """A path that leads to another root."""

    def lie(made: Draft) -> None:
        made.receipt.inclusion_proof[0] = bytes(32)

    return lie


Lie = Callable[[World], Callable[[Draft], object]]


def setting(**fields: object) -> Lie:
    """Set plain fields of the receipt."""

    def lie(made: Draft) -> None:
        for name, value in fields.items():
            setattr(made.receipt, name, value)

    return lambda _: lie


def borrowing(**fields: object) -> Lie:
    """Set the answer, or how its receipt is signed or the whole sealed."""

    def lie(made: Draft) -> None:
        for name, value in fields.items():
            setattr(made, name, value)

    return lambda _: lie


FALSE_ANSWERS: dict[str, Lie] = {
    "another ticket": setting(ticket_hash=bytes(32)),
    "another scale": setting(scale=29),
    "another scale at its own price": setting(scale=29, charged=price(29)),
    "another scale in the receipt as in the log": everything_at(29),
    "a charge that is not in the log": charge_outside_the_log,
    "another path": other_path,
    "another price": setting(charged=price(30) - 1),
    "no scale": setting(scale=0),
    "no price": setting(charged=0),
    "no proof": setting(entry=b""),
    "no checkpoint": setting(checkpoint=""),
    "another index": setting(log_index=2**63),
    "another signer": borrowing(key=SigningKey.generate(Purpose.ANSWER, os.urandom)),
    "another key id": borrowing(key_id="0" * 16),
    "sealed to somebody else": borrowing(sealing_key=UnsealingKey.generate(os.urandom).sealing_key),
    "sealed for another ticket": borrowing(info=answer_info(bytes(32))),
    "the manifest key": lambda world: (
        lambda made: setattr(made, "key", SigningKey(Purpose.MANIFEST, world.secrets.answer.expose()))
    ),
    "the charge of another ticket": lambda world: put_charge(
        world, lambda charge: structs.replace(charge, ticket=OTHER_HASH)
    ),
    "a charge at another scale": lambda world: put_charge(world, lambda charge: structs.replace(charge, scale=29)),
    "a charge of another price": lambda world: put_charge(world, lambda charge: structs.replace(charge, units=1)),
    "a charge that stands elsewhere": lambda world: put_charge(world, lambda charge: charge, sequence=7),
    "a charge for another slot": lambda world: put_charge(
        world, lambda charge: structs.replace(charge, slot=charge.slot + 1)
    ),
    "no charge": lambda world: put_charge(world, lambda charge: Expired(ticket=charge.ticket)),
    "another count than the receipt's": lambda _: lambda made: setattr(made, "noisy_count", made.noisy_count + 1),
    "another salt than the receipt's": borrowing(salt=bytes(32)),
    "no salt": borrowing(salt=b""),
    "a hash of nothing": setting(answer_hash=b""),
    "another hash": setting(answer_hash=bytes(32)),
    "an unknown field": lambda _: lambda made: made.receipt.MergeFromString(b"\xf8\x07\x01"),
}


@pytest.mark.parametrize("what", FALSE_ANSWERS)
def test_answer_that_does_not_hold_is_refused_and_not_kept(world: World, what: str) -> None:
    """The researcher keeps an answer only if it is signed, for their ticket, at its scale and price, and in the log."""
    answers, order = world.open_answers(), world.order()
    query = world.remember(answers, order)
    made = draft(world, order)
    honest, noisy_count = made.sealed(), made.noisy_count
    FALSE_ANSWERS[what](world)(made)
    with pytest.raises(PeerUnavailableError) as caught:
        answers.receive(made.sealed())
    assert caught.value.code == "PEER_MISBEHAVED"
    kept = answers.get(query)
    assert (kept.state, kept.noisy_count, kept.charged, kept.checkpoint) == ("pending", None, None, "")
    assert answers.receive(honest).noisy_count == noisy_count


def test_sealed_answer_changed_anywhere_is_refused(world: World) -> None:
    """The carrier of a sealed answer can neither read nor change it."""
    answers, order = world.open_answers(), world.order()
    query, sealed = world.remember(answers, order), world.answer(order)
    assert len(sealed) == SEALED_ANSWER_BYTES
    for forged in (b"", sealed[:-1], sealed + b"\0", *(_flipped(sealed, at) for at in range(0, len(sealed), 997))):
        with pytest.raises(PeerUnavailableError) as caught:
            answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=forged))
        assert caught.value.code == "PEER_MISBEHAVED"
    assert answers.get(query).state == "pending"


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_answer_to_another_of_ones_own_questions_is_refused(world: World) -> None:
    """Answers cannot be exchanged between two questions of one researcher."""
    answers, first, second = world.open_answers(), world.order(), world.order()
    world.remember(answers, first)
    query = world.remember(answers, second)
    with pytest.raises(PeerUnavailableError):
        answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=world.answer(first)))
    assert answers.get(query).state == "pending"


def test_answer_to_nobodys_question_is_refused(world: World) -> None:
    """An inbox takes answers to questions that were asked, and nothing else."""
    answers, order = world.open_answers(), world.order(OTHER_RESEARCHER)
    with pytest.raises(BrokerError) as caught:
        answers.receive(answer_pb2.SealedAnswer(query_id=order.body.query_id, sealed=world.answer(order)))
    assert caught.value.code == "UNKNOWN_QUERY"
    assert answers.all() == []


def test_answer_received_twice_is_one_answer(world: World) -> None:
    """The inbox and a collection may both bring the answer; the second changes nothing, whatever it holds."""
    answers, order = world.open_answers(), world.order()
    world.remember(answers, order)
    made = draft(world, order)
    first = answers.receive(made.sealed())
    assert answers.receive(made.sealed()) == first
    made.noisy_count += 1
    assert answers.receive(made.sealed()) == first
    assert answers.all() == [first]


def test_answer_is_kept_with_its_receipt(world: World) -> None:
    """The researcher keeps the signed figures of the census agency: count, price and checkpoint."""
    answers, order = world.open_answers(), world.order()
    query, sealed = world.remember(answers, order), world.answer(order)
    answer = world.open(order, sealed)
    kept = answers.receive(answer_pb2.SealedAnswer(query_id=bytes.fromhex(query), sealed=sealed))
    assert (kept.noisy_count, kept.charged) == (answer.noisy_count, price(30))
    assert world.census_log.verifier.verify_checkpoint(kept.checkpoint).size > answer.log_index
    assert hash_bytes(answer.ticket_hash) != answer.ticket_hash == order.hash
