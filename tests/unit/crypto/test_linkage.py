"""Linkage: both agencies turn one card into one pseudonym, for ever."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_common.crypto.id_forms import parse_health_card
from broker_common.crypto.linkage import LinkageChain, LinkageKey

VECTORS = Path(__file__).parents[2] / "vectors" / "linkage.json"


def test_pseudonyms_are_the_recorded_ones() -> None:
    """Recorded keys and cards give the recorded pseudonyms; Python's own hmac is the witness."""
    vectors = json.loads(VECTORS.read_text())["vectors"]
    assert len(vectors) >= 10
    for vector in vectors:
        key, card = bytes.fromhex(vector["key"]), vector["card"]
        assert parse_health_card(card) == card
        assert LinkageKey(key).pseudonym(card).hex() == vector["pseudonym"]
        assert hmac.digest(key, card.encode(), hashlib.sha256)[:16].hex() == vector["pseudonym"]


@given(key=st.binary(min_size=32, max_size=32), cards=st.lists(st.text("0123456789", min_size=10), max_size=4))
def test_one_key_serves_many_cards(key: bytes, cards: list[str]) -> None:
    """Computing one pseudonym leaves nothing behind in the next."""
    linkage = LinkageKey(key)
    assert [linkage.pseudonym(card) for card in cards] == [LinkageKey(key).pseudonym(card) for card in cards]
    assert all(len(linkage.pseudonym(card)) == 16 for card in cards)


def test_another_key_gives_another_pseudonym() -> None:
    """Without the key nobody can try cards."""
    assert LinkageKey(bytes(32)).pseudonym("9876543217") != LinkageKey(b"\1" * 32).pseudonym("9876543217")


# --- chains ----------------------------------------------------------------------------------------------------------

raw_keys = st.binary(min_size=32, max_size=32)
chains = st.lists(raw_keys, min_size=1, max_size=4, unique=True).map(lambda keys: chain_of(*keys))
cards = st.text("0123456789", min_size=10, max_size=10)


def chain_of(*keys: bytes) -> LinkageChain:
    """A chain of these keys, oldest first."""
    return LinkageChain([LinkageKey(key) for key in keys])


def as_array(pseudonyms: list[bytes]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Pseudonyms as the stores hold them."""
    return np.frombuffer(b"".join(pseudonyms), np.uint8).reshape(-1, 16)


def stepped(key: bytes, pseudonym: bytes) -> bytes:
    """One change of the key, by Python's own hmac."""
    return hmac.digest(key, b"tripartite/linkage-step/v1\0" + pseudonym, hashlib.sha256)[:16]


def test_pseudonyms_of_chains_are_the_recorded_ones() -> None:
    """Recorded chains give the recorded names and pseudonyms, in both ways of coming to them: from cards, and in steps."""
    vectors = json.loads(VECTORS.read_text())["chains"]
    assert {len(vector["keys"]) for vector in vectors} == {1, 2, 3, 4}
    for vector in vectors:
        keys = [bytes.fromhex(key) for key in vector["keys"]]
        chain = chain_of(*keys)
        assert chain.chain_id == vector["chain"]
        for card, pseudonym in vector["pseudonyms"].items():
            assert chain.pseudonym(card).hex() == pseudonym
            walked = as_array([LinkageKey(keys[0]).pseudonym(card)])
            for key in keys[1:]:
                walked = LinkageKey(key).step(walked)
            assert walked.tobytes().hex() == pseudonym


def test_a_chain_of_one_is_the_key() -> None:
    """Agencies that never change the key have the pseudonyms that they always had."""
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        assert chain_of(bytes.fromhex(vector["key"])).pseudonym(vector["card"]).hex() == vector["pseudonym"]


@given(chain=chains, key=raw_keys, people=st.lists(cards, max_size=6))
def test_stepping_a_store_and_loading_it_anew_give_the_same_pseudonyms(
    chain: LinkageChain, key: bytes, people: list[str]
) -> None:
    """Nobody is lost by a change of the key: a store that was stepped and one that is loaded afterwards agree on everyone."""
    if LinkageKey(key) in chain.keys:
        return
    before = [chain.pseudonym(card) for card in people]
    after = [chain.with_key(LinkageKey(key)).pseudonym(card) for card in people]
    assert LinkageKey(key).step(as_array(before)).tobytes() == b"".join(after)
    assert after == [stepped(key, pseudonym) for pseudonym in before] == [*map(LinkageKey(key).next_pseudonym, before)]


@given(key=raw_keys, pseudonyms=st.lists(st.binary(min_size=16, max_size=16), max_size=6))
def test_a_step_is_the_same_for_whoever_nobody_knows(key: bytes, pseudonyms: list[bytes]) -> None:
    """A step depends on the pseudonym alone: both agencies, and a ledger of people unknown to the census, step alike."""
    whole = LinkageKey(key).step(as_array(pseudonyms)).tobytes()
    assert whole == b"".join(LinkageKey(key).step(as_array([pseudonym])).tobytes() for pseudonym in pseudonyms)
    assert whole == b"".join(stepped(key, pseudonym) for pseudonym in pseudonyms)


def test_a_step_reads_any_layout_of_an_array() -> None:
    """Columns that lie apart in memory are the same pseudonyms."""
    people = np.random.default_rng(1).integers(0, 256, (50, 16), np.uint8)
    key = LinkageKey(bytes(32))
    assert np.array_equal(key.step(np.asfortranarray(people)), key.step(people))
    assert np.array_equal(key.step(people[::-2]), key.step(people)[::-2])
    assert key.step(people[:0]).shape == (0, 16)


@given(key=raw_keys, card=cards, pseudonym=st.binary(min_size=16, max_size=16))
def test_cards_and_pseudonyms_never_stand_for_each_other(key: bytes, card: str, pseudonym: bytes) -> None:
    """No pseudonym becomes what a card becomes under a key: a first and a later key hash different kinds of things."""
    first, later = LinkageKey(key).pseudonym(card), LinkageKey(key).next_pseudonym(pseudonym)
    assert first == hmac.digest(key, card.encode(), hashlib.sha256)[:16]
    assert later != hmac.digest(key, pseudonym, hashlib.sha256)[:16]
    assert LinkageKey(key).next_pseudonym(card.encode()) != first


def test_every_key_and_its_place_count() -> None:
    """A chain with a key less, with another one, or in another order is another chain with other pseudonyms."""
    a, b, c = bytes(32), b"\1" * 32, b"\2" * 32
    made = [chain_of(*keys) for keys in ((a,), (b,), (a, b), (b, a), (a, c), (a, b, c), (a, c, b))]
    assert len({chain.chain_id for chain in made}) == len({chain.pseudonym("9876543217") for chain in made}) == 7
    assert len(set(made)) == 7
    assert chain_of(a, b) == chain_of(a, b)
    assert chain_of(a, b) != (LinkageKey(a), LinkageKey(b))


@pytest.mark.parametrize("keys", [[], [bytes(32)] * 2, [bytes(32), b"\1" * 32, bytes(32)]])
def test_a_chain_holds_every_key_once(keys: list[bytes]) -> None:
    """A key that came back would lead old and new pseudonyms into one."""
    with pytest.raises(ValueError, match="each of them once"):
        chain_of(*keys)


@given(chain=chains)
def test_a_chain_is_found_at_the_beginning_of_a_longer_one(chain: LinkageChain) -> None:
    """Whatever a key file holds beyond the chain that a log names, that chain is what is used."""
    for length in range(1, len(chain.keys) + 1):
        beginning = LinkageChain(chain.keys[:length])
        assert chain.beginning(beginning.chain_id) == beginning
    with pytest.raises(ValueError, match="does not begin"):
        chain.beginning("0123456789abcdef")
    with pytest.raises(ValueError, match="does not begin"):
        chain.beginning("")
    if len(chain.keys) > 1:
        with pytest.raises(ValueError, match="does not begin"):
            chain.beginning(LinkageChain(chain.keys[1:]).chain_id)


@given(chain=chains)
def test_a_chain_survives_its_text_form(chain: LinkageChain) -> None:
    """One line a key, oldest first; a key file of one line is a chain of one."""
    text = chain.to_text()
    assert len(text.splitlines()) == len(chain.keys)
    assert LinkageChain.parse_text(text + "\n") == chain
    assert LinkageChain.parse_text(text.splitlines()[0]) == LinkageChain(chain.keys[:1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "secret linkage AAAA",
        "{0}\n\n{1}",
        "{0}\n{0}",
        "{0}\n{1}\nsecret sampling {1}",
        "{0} {1}",
        "{0}\n# old\n{1}",
    ],
)
def test_a_malformed_chain_is_refused_without_quoting_it(text: str) -> None:
    """Half a file, a key twice, or something else than a linkage key: nothing of it is used, and nothing is shown."""
    lines = chain_of(bytes(32), b"\1" * 32).to_text().splitlines()
    with pytest.raises(ValueError, match=r".") as caught:
        LinkageChain.parse_text(text.format(*lines))
    assert not any(line.split()[-1] in str(caught.value) for line in lines)
