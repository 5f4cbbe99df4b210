"""A sample from criteria to counts: marked, sealed, opened, found and counted as bits, it is what it is person by person."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from fakes.desk_arrays import MOST, members, question_of
from fakes.randomness import SeededRandomness
from fakes.reference_desk import ReferenceDesk, counts_of, people_here
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_common.crypto.sample_bits import PLACES_IN_PART, Bound, SampleBits
from broker_common.crypto.sampling import WHOLE_MILLIONTHS, SamplingKey
from broker_common.crypto.sealing import UnsealingKey
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Column, ColumnType, Dictionary
from census_node.ledger.passes import JOINED, CardPlaces, Passes, PersonCharges
from health_node.people.store import People, PeopleStore, build_people_store
from health_node.query.marks import mark_sample

DICTIONARY = Dictionary((Column(name="age", type=ColumnType.INTEGER, description="Age.", maximum=130),))
SAMPLING, SEALED_TO = SamplingKey(bytes(32)), UnsealingKey.generate(SeededRandomness())
BOUND = Bound(b"t" * 32, b"r" * 32)
CELLS: list[set[int] | None] = [{0}, {1, 2}, None]
PRICE = 7


@given(
    seed=st.integers(0, 2**32),
    insured=st.integers(1, 400),
    people=st.integers(0, 200),
    age=st.sampled_from([0, 40, 90, 131]),
    fraction=st.sampled_from([300_000, WHOLE_MILLIONTHS]),
)
@settings(max_examples=40)
def test_the_answer_is_that_of_the_people_one_by_one(
    seed: int, insured: int, people: int, age: int, fraction: int
) -> None:
    """People who match, are drawn and are known to the census are here, fit or are dropped, are charged and counted; nobody else is."""
    generator = np.random.default_rng(seed)
    high = np.sort(generator.choice(2**40, insured, replace=False)).astype(np.uint64)
    ages = generator.integers(0, 131, insured).astype(np.int32)
    condition = parse_condition(f"age >= {age}", DICTIONARY)
    sent = _sample(People(high, high, {"age": ages}), condition, fraction)
    asked = [
        place for place in range(insured) if ages[place] >= age and _is_drawn(int(high[place]), condition, fraction)
    ]

    places = generator.integers(0, insured, people).astype(np.uint32)
    linked = generator.permutation(insured)[:people]
    places[: len(linked)] = linked.astype(np.uint32) | np.uint32(JOINED)
    cards = {int(place): person for person, place in enumerate(linked.tolist())}
    none = np.empty(0, np.uint32)
    values = generator.integers(0, 5, people).astype(np.uint8)
    charged = generator.choice([0, MOST - PRICE, MOST], people).astype(np.uint32)
    desk = ReferenceDesk(range(people))
    desk.charged.update(dict(enumerate(charged.tolist())))

    opened = SampleBits.unseal(
        sent.seal(SEALED_TO.sealing_key, BOUND),
        [SEALED_TO],
        BOUND,
        sent.commitment(BOUND),
        declared=PLACES_IN_PART,
        people=insured,
    )
    with Passes(people_in_block=64) as passes:
        here, active = passes.bits(people), passes.bits(people)
        passes.find(opened.bits, CardPlaces.of(places, none, none, PLACES_IN_PART), here)
        charges = PersonCharges(passes, charged)
        charges.fit(here, active, price=PRICE, most=MOST)
        charges.charge(active, PRICE)
        counts = passes.count(active, question_of(values, CELLS))
    expected = desk.fitting(people_here(set(asked), cards), PRICE, MOST)
    desk.charge(expected, PRICE)
    assert members(active, people) == expected
    assert counts == counts_of(expected, values.tolist(), CELLS)
    assert charged.tolist() == [desk.charged[person] for person in range(people)]


def _is_drawn(half: int, condition: Condition, fraction: int) -> bool:
    """Whether the person whose pseudonym has these halves is drawn, no matter who else there is."""
    mark = np.ones(1, np.bool_)
    row = np.frombuffer(2 * half.to_bytes(8, "big"), np.uint8).reshape(1, 16)
    SAMPLING.keep_drawn(row, canonical_bytes(condition), fraction, mark)
    return bool(mark[0])


def _sample(people: People, condition: Condition, fraction: int) -> SampleBits:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.people"
        build_people_store(path, people, DICTIONARY, places=PLACES_IN_PART)
        with PeopleStore(path, DICTIONARY) as store:
            return SampleBits(mark_sample(store, condition, fraction, SAMPLING), bytes(32))
