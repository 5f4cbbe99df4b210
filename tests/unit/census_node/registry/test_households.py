"""A registry that links by address: everybody of one address is one household, found and charged together."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from fakes.desk_arrays import cards_by_person
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.randomness import SeededRandomness
from fakes.registries import made_names
from hypothesis import given
from hypothesis import strategies as st

from broker_common.audit.on_site.accounts import NOBODY, as_names
from broker_common.audit.on_site.files import DamagedError, Load, read_load
from broker_common.crypto.commitments import commit_load
from broker_common.crypto.id_forms import parse_ids
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.storage.durable import replace_file
from broker_common.storage.source.plan import PlainPlan
from census_node.ledger.subjects import Carry, Known, Names
from census_node.registry import Registry
from census_node.registry.joining import JoinedRoster, join
from census_node.registry.loading import LoadReport, id_columns, read_registry
from census_node.registry.rosters import KeptRoster

DICTIONARY = replace(CENSUS_DICTIONARY, id_form="postal_address", linkage="household")
LINKAGE = LinkageChain([LinkageKey(bytes(range(32)))], "postal_address")
STREETS = [f"{number} Elm Street, Bath ON K0H 1G0" for number in range(1, 9)]
ANOTHER_SPELLING = {street: street.replace("Elm Street", "ELM ST.").replace("ON ", "") for street in STREETS}


class Row(NamedTuple):
    """One line of a source."""

    address: str
    person: str
    tongue: str = "French"


def load(
    folder: Path, rows: Sequence[Row], name: str = "load", names: Names | None = None
) -> tuple[Registry, Names, LoadReport]:
    """Load these rows; without `names` as the first load ever."""
    path = folder / "people.csv"
    unsaid = "," * (len(CENSUS_DICTIONARY.names) - 1)
    lines = [f'"{row.address}",{row.person},{row.tongue}{unsaid}' for row in rows]
    header = ",".join(["health_card", "person_id", *CENSUS_DICTIONARY.names])
    replace_file(path, "\n".join([header, *lines, ""]).encode())
    names = made_names(0, 0) if names is None else names
    plan = PlainPlan(path, id_columns(DICTIONARY))
    return read_registry(plan, name, LINKAGE, names, dictionary=DICTIONARY, max_rejected=len(rows))


def pseudonyms(addresses: Sequence[str]) -> list[bytes]:
    """Pseudonyms that the agencies make of them."""
    return [row.tobytes() for row in LINKAGE.pseudonyms(parse_ids(addresses, "postal_address")[0])]


def numbers(names: Names, rows: Sequence[Row]) -> dict[str, int]:
    """Permanent number of each person, by person_id."""
    known = names.persons.tolist()
    return {row.person: known.index(names.of_persons([row.person])) for row in rows}


def joined(registry: Registry, addresses: Sequence[str], piece: int = 3) -> JoinedRoster:
    """A roster of these addresses joined, piece by piece."""
    roster = np.frombuffer(b"".join(sorted(pseudonyms(addresses))), np.uint8).reshape(-1, 16)
    kept = KeptRoster("health-on", 1, "", "", "", "00", 16, len(roster), "", 0)
    pieces = [roster[start : start + piece] for start in range(0, len(roster), piece)]
    return join(kept, pieces, registry, SeededRandomness("roster"))


written = st.lists(
    st.builds(
        Row,
        st.sampled_from(["", *STREETS[:4], *(ANOTHER_SPELLING[street] for street in STREETS[:3]), "12 Elm St Bath"]),
        st.sampled_from("pqrstuv"),
        st.sampled_from(["French", "French", "English", ""]),
    ),
    max_size=16,
)


@given(rows=written)
def test_every_row_is_judged_like_by_a_plain_loop(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A row with the address of an earlier one stays; one person has one address, and is listed under it once."""
    rows = [Row(STREETS[7], "always"), *rows]
    one_spelling = {another: street for street, another in ANOTHER_SPELLING.items()}
    first: dict[str, Row] = {}
    reasons: list[str] = []
    for row in rows:
        address = one_spelling.get(row.address, row.address)
        if address == "12 Elm St Bath":
            reasons.append("the address does")
        elif row.person not in first:
            first[row.person] = row._replace(address=address)
        elif address and (address, row.tongue) != (first[row.person].address, first[row.person].tongue):
            reasons.append("contradicts an earlier")
        else:
            reasons.append("repeats the person_id")
    linked = {person: row for person, row in first.items() if row.address}
    registry, names, report = load(tmp_path_factory.mktemp("load"), rows)
    told = Counter(" ".join(reason.split()[:3]) for _, reason in report.rejected.first)
    assert told == Counter(reasons)
    assert (report.linked, report.without_card) == (len(linked), len(first) - len(linked))
    homes = dict(zip(registry.cards.persons.tolist(), registry.cards.households.tolist(), strict=True))
    number = numbers(names, list(linked.values()))
    by_address = defaultdict(set)
    for person, row in linked.items():
        by_address[row.address].add(homes[number[person]])
    assert all(len(households) == 1 for households in by_address.values())
    assert len(set(homes.values())) == len(by_address) == registry.household_count


def test_all_people_of_an_address_have_its_place(tmp_path: Path) -> None:
    """People at an address of a roster stand at its place, in any piece of the roster; nobody else is joined."""
    rows = [Row((STREETS[at % 5]), f"p{at}") for at in range(13)]
    registry, names, _ = load(tmp_path, rows)
    roster = joined(registry, STREETS[1:])
    places = {name: place for place, name in enumerate(sorted(pseudonyms(STREETS[1:])))}
    number = numbers(names, rows)
    expected = {
        number[row.person]: {places[name]}
        for row, name in zip(rows, pseudonyms([row.address for row in rows]), strict=True)
        if name in places
    }
    found = {person: set(at) for person, at in cards_by_person(roster.cards).items() if at}
    assert found == expected
    assert len(expected) == 10


def test_a_household_that_moves_takes_its_charge_along_and_an_address_keeps_its_own(tmp_path: Path) -> None:
    """The pairs of a load: an address is the same household for ever, and takes over from those that its people come from."""
    before, names, _ = load(tmp_path, [Row(STREETS[0], "p"), Row(STREETS[0], "q"), Row(STREETS[1], "r")])
    known = Known(before.cards, Known.none().former, names.homes)
    rows = [Row(STREETS[1], "p"), Row(STREETS[2], "q"), Row(STREETS[0], "new")]
    after, names_after, _ = load(tmp_path, rows, "load2", names)
    carry = Carry.between(known, after.cards, after.person_count, after.household_count)
    home = dict(zip(after.cards.persons.tolist(), after.cards.households.tolist(), strict=True))
    number = numbers(names_after, rows)
    first = {int(before.cards.households[at]) for at in np.flatnonzero(before.cards.persons == number["p"])}.pop()
    pairs = set(zip(carry.household_to.tolist(), carry.household_from.tolist(), strict=True))
    assert pairs == {(home[number["p"]], first), (home[number["q"]], first)}
    assert home[number["new"]] == first
    assert carry.household_count == 3


def stored(folder: Path, registry: Registry, names: Names) -> Load:
    """The load as an auditor on site reads it."""
    path = folder / "load.npz"
    registry.write(path, names, Known.none().former)
    salt = bytes(32)
    content = hashlib.sha256(path.read_bytes()).digest()
    return read_load(path, salt, commit_load(salt, content).hex(), DICTIONARY.hash.hex())


def test_an_auditor_finds_everybody_of_an_address_in_a_sample(tmp_path: Path) -> None:
    """Each of its people, and nobody for an address that the registry does not have."""
    rows = [Row(STREETS[at % 3], f"p{at}") for at in range(7)]
    registry, names, _ = load(tmp_path, rows)
    judged = stored(tmp_path, registry, names)
    wanted = sorted(pseudonyms([STREETS[0], STREETS[2], STREETS[6]]))
    members = judged.members(as_names(np.frombuffer(b"".join(wanted), np.uint8).reshape(-1, 16)))
    number = numbers(names, rows)
    expected = {number[row.person] for row in rows if row.address in {STREETS[0], STREETS[2]}}
    assert set(np.flatnonzero(members.here(judged.person_count)).tolist()) == expected
    assert Counter(members.persons.tolist())[NOBODY] == 1
    assert len(members.names) == len(expected) + 1


def test_an_auditor_refuses_an_address_of_two_households(tmp_path: Path) -> None:
    """A household charged to two budgets is none."""
    registry, names, _ = load(tmp_path, [Row(STREETS[0], "p"), Row(STREETS[0], "q"), Row(STREETS[1], "r")])
    registry.cards.households[:] = [0, 1, 1] if registry.cards.high[0] == registry.cards.high[1] else [1, 0, 1]
    with pytest.raises(DamagedError):
        stored(tmp_path, registry, names)
