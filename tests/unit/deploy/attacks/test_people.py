"""Whom attackers know: singled out by criteria, never given twice, and with even odds about what is to be guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_common.errors import InvalidRequestError
from deploy.attacks.people import FRENCH_CODE, People, among
from deploy.attacks.records import give_second_cards, share_households
from deploy.synthetic.population import write_sources


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Both sources of 3,000 made-up people, few of them French."""
    for role in ("health", "census"):
        (tmp_path / role).mkdir()
    files = (tmp_path / role / "people.csv" for role in ("health", "census"))
    write_sources(*files, population=3000, seed=3)
    return tmp_path


def test_nobody_is_given_twice_and_criteria_single_everybody_out(directory: Path) -> None:
    """Linked or not, French or not, as asked for; criteria of several are those of each."""
    people = People(directory, 1, "test")
    given = [*people.take(50, french=True), *people.take(50, linked=False), *people.toss(40), *people.take(10)]
    assert len({person.card for person in given}) == len({person.where for person in given}) == 150
    assert all(person.is_french for person in given[:50])
    assert not any(person.is_linked or person.is_french for person in given[50:100])
    assert among(given[:2]) == f"({given[0].where}) or ({given[1].where})"
    with pytest.raises(InvalidRequestError, match="too few people"):
        people.take(3000)


def test_each_attack_and_each_seed_begins_with_other_people(directory: Path) -> None:
    """The same seed and attack with the same."""
    first = [People(directory, seed, name).take(1)[0].card for seed, name in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))]
    assert first[0] == first[1]
    assert len(set(first)) == 3


@pytest.mark.parametrize("join", [share_households, give_second_cards])
def test_pairs_are_french_by_a_coin_although_few_people_are(directory: Path, join: object) -> None:
    """Attackers who guess "not French" of everybody are right in half of the cases. Error rate: below 1e-9, fixed seed."""
    assert callable(join)
    join(directory, 3)
    column = "person_id" if join is give_second_cards else "household_id"
    pairs = People(directory, 3, "test").toss_pairs(300, column)
    french = sum(one.is_french for one, _ in pairs)
    assert 100 < french < 200
    for one, other in pairs:
        assert one.census is not None
        assert other.census is not None
        assert one.card != other.card
        assert (one.census[column], one.is_french) == (other.census[column], other.is_french)
        assert (one.census["mother_tongue"] == FRENCH_CODE) == one.is_french
