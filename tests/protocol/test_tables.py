"""Tables: one charge, one draw, and counts that the auditor can compute the answer from, under every way of accounting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.world import World, make_policy
from tripartite.v1 import ticket_pb2

from broker_common.crypto.commitments import noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.privacy.accounting import price
from broker_common.privacy.opening import make_opening
from broker_common.privacy.policy import Policy
from broker_common.privacy.table_laplace import draw
from broker_common.query.answer import unseal_answer
from broker_common.query.question import Question, parse_question
from broker_common.values import ExactCounts
from census_node.ledger.steps import LedgerSteps
from census_node.release.slot_secrets import SlotSecrets

POLICIES = {
    "strict": make_policy(),
    "person": make_policy(accounting="per_person"),
    "household": make_policy(accounting="per_person", subject="household"),
}
VALUES = CENSUS_DICTIONARY.column("mother_tongue").values
TABLES = {
    "a share": "mother_tongue by 'French', rest",
    "a histogram": f"mother_tongue by {', '.join(f'{value!r}' for value in VALUES[:16])}",
    "other order": "mother_tongue by rest, 'English', 'French'",
}


@pytest.fixture(params=POLICIES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Three parties, under one of the policies."""
    made = World(tmp_path, POLICIES[request.param])
    yield made
    made.close()


def put(question: Question, body: ticket_pb2.Ticket) -> None:
    """Ask this."""
    body.question.CopyFrom(question.to_wire())


def true_counts(world: World, text: str) -> tuple[int, ...]:
    """How many of everybody in the census are in each cell, by plain counting."""
    question, column = parse_question(text, CENSUS_DICTIONARY), CENSUS_DICTIONARY.column("mother_tongue")
    spoken = [column.values[number % len(column.values)] for number in range(len(world.in_census))]
    named = {value for cell in question.cells for value in cell.values}
    return tuple(
        sum(value in cell.values if cell.values else value not in named for value in spoken) for cell in question.cells
    )


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_a_table_is_charged_once_and_answered_with_one_draw(world: World, text: str) -> None:
    """Its price is that of a count; its numbers are the counts of its cells with the noise that the charge fixed."""
    question = parse_question(text, CENSUS_DICTIONARY)

    order = world.order(change=partial(put, question))
    slot = order.body.noise_slot
    secret = SlotSecrets(world.census_folder / "slots").read(slot.number, slot.commitment)
    verified = unseal_answer(
        world.answer(order),
        unsealing_key=order.unsealing_key,
        ticket_hash=order.hash,
        cells=len(question.cells),
        census_keys=[world.secrets.answer.verify_key],
    )
    (charge,) = world.charges()
    assert (charge.units, charge.question) == (price(30), text)
    exact = true_counts(world, text)
    seed = noise_seed(
        secret,
        ticket_hash=order.hash,
        set_commitment=bytes.fromhex(charge.submitted),
        scale=30,
        cells=len(question.cells),
    )
    noise = draw(len(question.cells), 30, NoiseStream(seed))
    assert verified.noisy.values == tuple(map(sum, zip(exact, noise, strict=True)))
    opening = make_opening(ExactCounts(exact), secret, ticket=order.hash.hex(), slot=slot.number, load=charge.load)
    assert opening.answer_hash(30, charge.submitted) == verified.receipt.body.answer_hash.hex()
    world.verify_log()


@pytest.mark.parametrize("policy", [POLICIES["person"], POLICIES["household"]], ids=["person", "household"])
def test_tables_and_counts_come_from_one_budget(tmp_path: Path, policy: Policy) -> None:
    """A table charges everybody in its sample what a count does, whatever cell they are in, or none."""
    charged = {}
    for text in ("mother_tongue = 'French'", "mother_tongue by 'French', 'English'"):
        question = parse_question(text, CENSUS_DICTIONARY)
        world = World(tmp_path / text[14:16].strip(), policy)
        world.answer(world.order(change=partial(put, question)))
        charges = world.census.book.charges()
        assert charges is not None
        charged[len(question.cells)] = charges.subjects.tolist()
        with world.census.journal.reading():
            assert LedgerSteps(world.census.journal.db).of_ticket(world.charges()[0].ticket) is not None
        world.close()
    assert charged[1] == charged[2]
    assert max(charged[1]) >= price(30)
