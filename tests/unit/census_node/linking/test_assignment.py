"""Who is linked when several could be, on pairs whose weights are written by hand."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from broker_common.errors import InvalidRequestError
from census_node.linking.assignment import assign
from census_node.linking.decisions import Decision, read_decisions
from census_node.linking.settings import read_settings

SURE, LIKELY, UNLIKELY = 20.0, 3.0, -5.0
Pair = tuple[int, int, float, bool]
CARDS = {11: "A", 12: "B", 13: "C", 14: "D"}


def linked(
    *pairs: Pair, clients: dict[int, str] | None = None, decisions: list[Decision] | None = None
) -> tuple[set[tuple[int, str]], dict[tuple[int, str], str]]:
    """The links of people 1 to 4 and the register's rows 11 to 14 (one card each), and why other pairs are for review."""
    database = duckdb.connect()
    database.execute("create table census as select range as row, 'P' || range as person_id from range(1, 5)")
    database.execute("create table register (row bigint, health_card varchar, client_id varchar)")
    for row, card in CARDS.items():
        database.execute("insert into register values (?, ?, ?)", [row, card, (clients or {}).get(row, card)])
    database.execute("create table pairs (person bigint, client_row bigint, weight double, differs boolean)")
    for pair in pairs:
        database.execute("insert into pairs values (?, ?, ?, ?)", list(pair))
    assign(database, read_settings(None, None), decisions or [], None)
    found = database.execute("select person, card from links").fetchall()
    review = database.execute(
        "select person, health_card, why from review join register on register.row = client_row where not is_linked"
    ).fetchall()
    return set(found), {(person, card): why for person, card, why in review}


def test_a_pair_without_a_rival_is_linked() -> None:
    """And one that is too unlikely is not, nor for review."""
    assert linked((1, 11, SURE, False), (2, 12, UNLIKELY, False)) == ({(1, "A")}, {})


def test_a_pair_below_the_threshold_is_for_review() -> None:
    """Between both thresholds a person decides."""
    assert linked((1, 11, LIKELY, False)) == (set(), {(1, "A"): "band"})


def test_two_cards_that_are_equally_likely_are_both_left_to_people() -> None:
    """One of them is wrong, and no coin is tossed; the same for two persons of one card."""
    assert linked((1, 11, SURE, False), (1, 12, SURE, False)) == (set(), {(1, "A"): "tie", (1, "B"): "tie"})
    assert linked((1, 11, SURE, False), (2, 11, SURE, False)) == (set(), {(1, "A"): "tie", (2, "A"): "tie"})


def test_a_rival_that_is_much_less_likely_changes_nothing() -> None:
    """Twins who are both in both files: each own pair outweighs the crossed ones, which are no pairs for review."""
    crossed = ((1, 12, LIKELY, True), (2, 11, LIKELY, True))
    assert linked((1, 11, SURE, False), (2, 12, SURE, False), *crossed) == ({(1, "A"), (2, "B")}, {})


def test_another_given_name_or_birth_date_is_never_linked_by_itself() -> None:
    """A twin who is missing from one file, a son who bears his father's name: however much else agrees."""
    assert linked((1, 11, SURE, True)) == (set(), {(1, "A"): "differs"})


def test_a_person_has_several_cards_only_if_the_register_says_so() -> None:
    """One client with two cards; a card of theirs that nothing says is this person's stays out."""
    pairs = ((1, 11, SURE, False), (1, 12, SURE, False))
    assert linked(*pairs, clients={11: "X", 12: "X"}) == ({(1, "A"), (1, "B")}, {})
    pairs = ((1, 11, SURE, False), (1, 12, LIKELY, False))
    assert linked(*pairs, clients={11: "X", 12: "X"})[0] == {(1, "A")}


def test_decisions_change_their_own_pairs_alone() -> None:
    """A rival that is refused still is a rival: only what was decided is otherwise than before."""
    pairs = ((1, 11, SURE, False), (1, 12, SURE, False), (2, 13, SURE, False), (3, 14, LIKELY, False))
    before, _ = linked(*pairs)
    assert before == {(2, "C")}
    told = [Decision(2, "A", "P1", "no"), Decision(3, "D", "P3", "link")]
    assert linked(*pairs, decisions=told)[0] == before | {(3, "D")}
    told = [Decision(2, "C", "P2", "no"), Decision(3, "B", "P1", "link")]
    assert linked(*pairs, decisions=told)[0] == {(1, "B")}


def test_a_clerk_outranks_the_model() -> None:
    """A link made without them makes way for the card that they found right."""
    pairs = ((1, 11, SURE, False), (1, 12, LIKELY, True))
    assert linked(*pairs)[0] == {(1, "A")}
    assert linked(*pairs, decisions=[Decision(2, "B", "P1", "link")])[0] == {(1, "B")}


def test_a_decision_about_no_pair_links_nobody() -> None:
    """The decision is about a card or a person who is not here, or was never compared."""
    told = [Decision(2, "A", "P9", "link"), Decision(3, "Z", "P1", "link"), Decision(4, "D", "P4", "link")]
    assert linked((1, 11, SURE, False), decisions=told)[0] == {(1, "A")}


@pytest.mark.parametrize("other", [(1, 12, SURE, False), (2, 11, SURE, False)])
def test_two_links_for_one_are_refused(other: Pair) -> None:
    """The error names the lines of the file, before anything is written."""
    told = [Decision(2, "A", "P1", "link"), Decision(7, CARDS[other[1]], f"P{other[0]}", "link")]
    with pytest.raises(InvalidRequestError) as caught:
        linked((1, 11, SURE, False), other, decisions=told)
    assert caught.value.code == "LINKING_REFUSED"
    assert "lines 2 and 7 contradict each other" in caught.value.text


# --- the file of decisions ---------------------------------------------------------------------------------------------


def test_decisions_are_read_whatever_a_spreadsheet_added(tmp_path: Path) -> None:
    """A byte-order mark, other columns, blanks and capitals; rows without a decision are none."""
    file = tmp_path / "review.csv"
    file.write_text("\ufeffdecision,note,health_card,person_id\nLINK ,x,A,P1\n,,B,P2\nno,,C,P3\nno,,C,P3\n")
    assert read_decisions(file) == [Decision(2, "A", "P1", "link"), Decision(4, "C", "P3", "no")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it lacks columns: decision, health_card, person_id"),
        ("decision,person_id\n", "it lacks columns: health_card"),
        ("decision,health_card,person_id\nyes,A,P1\n", "the decision in line 2 is neither"),
        ("decision,health_card,person_id\nlink,A,P1\nno,A,P1\n", "lines 2 and 3 contradict each other"),
        ('decision,health_card,person_id\nlink,"A"x,P1\n', "it is no CSV"),
    ],
)
def test_decisions_that_cannot_be_read_are_refused(tmp_path: Path, text: str, told: str) -> None:
    """None of them is guessed."""
    file = tmp_path / "review.csv"
    file.write_text(text)
    with pytest.raises(InvalidRequestError) as caught:
        read_decisions(file)
    assert caught.value.code == "LINKING_REFUSED"
    assert told in caught.value.text
