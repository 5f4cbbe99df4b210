"""Forms of ids: each is read strictly, its spellings are one, and what is wrong is said without the id."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_common.crypto.id_forms import ID_FORMS, ONTARIO, parse_health_card, parse_ids
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.postal_addresses import DIRECTIONS, PHRASES, PROVINCES, STREET_TYPES, UNIT_WORDS

ROOT = Path(__file__).parents[3]
VECTORS: dict[str, Any] = json.loads((ROOT / "tests/vectors/id_forms.json").read_text())
KEY = bytes.fromhex(VECTORS["key"])
FORM = b"tripartite/linkage-form/v1\0"


def luhn_digit(nine: str) -> str:
    """The check digit that makes nine digits a card: every second digit from the right counts double."""
    total = 0
    for place, digit in enumerate(reversed(nine)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


@pytest.mark.parametrize("text", ["9876543217", "9876-543-217", "9876 543 217", "9876-543 217", "9876543-217"])
def test_every_usual_spelling_gives_the_same_digits(text: str) -> None:
    """Hyphens and spaces where cards print them do not make another person."""
    assert parse_health_card(text) == "9876543217"


@given(nine=st.text("0123456789", min_size=9, max_size=9))
def test_exactly_one_check_digit_is_valid(nine: str) -> None:
    """One of the ten possible last digits makes a card, and it is the one of the published algorithm."""
    valid = []
    for digit in "0123456789":
        try:
            valid.append(parse_health_card(nine + digit))
        except ValueError as error:
            assert str(error) == "health_card has a wrong check digit"  # noqa: PT017 - nine of ten raise
    assert valid == [nine + luhn_digit(nine)]


@given(nine=st.text("0123456789", min_size=9, max_size=9), place=st.integers(0, 9), by=st.integers(1, 9))
def test_one_mistyped_digit_is_noticed(nine: str, place: int, by: int) -> None:
    """A single wrong digit never turns one person's card into another's."""
    card = nine + luhn_digit(nine)
    wrong = card[:place] + str((int(card[place]) + by) % 10) + card[place + 1 :]
    with pytest.raises(ValueError, match="wrong check digit"):
        parse_health_card(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "987654321",
        "98765432170",
        "9876--543-217",
        "987-6543-217",
        "9876.543.217",
        " 9876543217",
        "9876543217 ",
        "9876543217\n",
        "9876543217ON",
        "987654321x",
        "９８７６５４３２１７",  # noqa: RUF001 - digits of another alphabet
        "\u0669876543217",
        "-987654321",
    ],
)
def test_anything_else_is_refused_without_quoting_it(text: str) -> None:
    """The message names the reason and no digit, because it ends up in load reports."""
    with pytest.raises(ValueError, match=r"^health_card is not ten digits$"):
        parse_health_card(text)


WRITTEN = st.from_regex(r"[0-9]{4}[ -]?[0-9]{3}[ -]?[0-9]{3}", fullmatch=True) | st.sampled_from(
    ["9876543217", "9876-543-217", "0000000000", "", "９８７６５４３２１７", "987654321\0", "98765432:7"]  # noqa: RUF001
)


@given(
    texts=st.lists(WRITTEN | st.text(max_size=12), max_size=20),
    keys=st.sets(st.binary(min_size=32, max_size=32), min_size=1, max_size=2),
)
# The characters beside the digits, in a card that would be valid with the nearest digit.
@example(texts=[":876543217", "/000000000"], keys={bytes(32)})
def test_many_cards_are_read_and_named_as_each_is(texts: list[str], keys: set[bytes]) -> None:
    """Reading a whole column gives the cards, the reasons and the pseudonyms that reading one by one gives."""
    cards, problems = parse_ids(texts, ONTARIO)
    assert [card.decode() for card in cards] == [card for card, _ in map(_read_alone, texts)]
    assert problems == {at: problem for at, (_, problem) in enumerate(map(_read_alone, texts)) if problem}
    chain = LinkageChain([LinkageKey(key) for key in sorted(keys)])
    whole = cards[cards != b""]
    assert [row.tobytes() for row in chain.pseudonyms(whole)] == [chain.pseudonym(card.decode()) for card in whole]


def _read_alone(text: str) -> tuple[str, str]:
    """A card, or what is wrong with the text; neither of an empty one."""
    try:
        return (parse_health_card(text) if text else ""), ""
    except ValueError as error:
        return "", str(error)


def test_every_form_reads_as_recorded() -> None:
    """A recorded text gives the recorded id or problem, alone and in a column of others."""
    for vector in VECTORS["vectors"]:
        ids, problems = parse_ids(["", vector["text"], ""], vector["form"])
        assert ids.tolist() == [b"", vector.get("id", "").encode(), b""]
        assert problems == ({1: vector["problem"]} if "problem" in vector else {})


def test_every_form_has_vectors_of_both_kinds() -> None:
    """No form is without a text that is read, several spellings of one id, and one that is refused."""
    for form in ID_FORMS:
        read = [vector["id"] for vector in VECTORS["vectors"] if vector["form"] == form and "id" in vector]
        assert len(set(read)) < len(read) or form == "digits"
        assert any("problem" in vector for vector in VECTORS["vectors"] if vector["form"] == form)


def test_pseudonyms_and_names_of_chains_bind_the_form() -> None:
    """Python's own hmac and hashlib give the recorded pseudonyms and names; only Ontario's hold no form."""
    for vector in VECTORS["vectors"]:
        if "id" in vector:
            form = b"" if vector["form"] == ONTARIO else FORM + vector["form"].encode() + b"\0"
            expected = hmac.digest(KEY, form + vector["id"].encode(), hashlib.sha256)[:16].hex()
            assert expected == vector["pseudonym"]
            chain = LinkageChain([LinkageKey(KEY)], vector["form"])
            assert chain.pseudonym(vector["id"]).hex() == expected
            assert chain.pseudonyms(np.array([b"x" * 90, vector["id"].encode()]))[1].tobytes().hex() == expected
    names = {form: LinkageChain([LinkageKey(KEY)], form).chain_id for form in ID_FORMS}
    assert names == VECTORS["chains"]
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("form", ID_FORMS)
def test_a_chain_is_found_by_its_name_with_its_form(form: str) -> None:
    """A holder of the keys learns from the name in a log what form the ids have."""
    chain = LinkageChain([LinkageKey(bytes(32)), LinkageKey(KEY)])
    wanted = chain.of_form(form)
    assert chain.beginning(wanted.chain_id) == wanted
    assert wanted.with_key(LinkageKey(b"\1" * 32)).beginning(wanted.chain_id).form == form


@given(text=st.text(max_size=80), form=st.sampled_from(sorted(ID_FORMS)))
def test_no_problem_shows_the_id(text: str, form: str) -> None:
    """Whatever is wrong is one of a few sentences, none made of what was read."""
    _, problems = parse_ids([text], form)
    assert set(problems.values()) <= SENTENCES[form]


def test_an_unknown_form_is_refused() -> None:
    """A form that there is not leads to no pseudonyms at all."""
    with pytest.raises(ValueError, match="no such form"):
        parse_ids(["1"], "passport")
    with pytest.raises(ValueError, match="no such form"):
        LinkageChain([LinkageKey(KEY)], "passport")


ADDRESS = "{number} {name}, Ottawa ON K1A 0B1"
ONE_OF = [(form, spelling) for form, spellings in {**STREET_TYPES, **DIRECTIONS}.items() for spelling in spellings]


def test_every_spelling_of_a_type_or_direction_is_one() -> None:
    """Two spellings of one word in the tables make no two addresses."""
    for form, spelling in ONE_OF:
        written = [
            ADDRESS.format(number=12, name=f"Main {word}") for word in (form, spelling.lower(), f"{spelling.title()}.")
        ]
        ids, problems = parse_ids(written, "postal_address")
        assert not problems
        assert len(set(ids.tolist())) == 1


def test_the_tables_are_consistent() -> None:
    """A spelling stands in one row only, and no form is a spelling of another."""
    spellings = [spelling for table in (STREET_TYPES, DIRECTIONS) for row in table.values() for spelling in row]
    forms = [*STREET_TYPES, *DIRECTIONS]
    assert len(set(spellings)) == len(spellings)
    assert not set(spellings) & set(forms)
    assert len(set(forms)) == len(forms)


def test_the_document_holds_the_tables() -> None:
    """A second implementation is written from docs/ids.md, which lists every word as the program has it."""
    text = (ROOT / "docs/ids.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z ]+)` \| (.+) \|$", text, re.MULTILINE))
    expected = {form: ", ".join(spellings) for form, spellings in {**STREET_TYPES, **DIRECTIONS, **PHRASES}.items()}
    assert rows == expected
    for words in (UNIT_WORDS, PROVINCES):
        assert ", ".join(words) in " ".join(text.split())


SENTENCES = {
    form: {v["problem"] for v in VECTORS["vectors"] if v["form"] == form and "problem" in v} for form in ID_FORMS
}
