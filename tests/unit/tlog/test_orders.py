"""Orders: one document per act and place, the same for signer and replay."""

from __future__ import annotations

import json

import pytest
from fakes.logs import ORIGIN, adopted, beginning, census_state, policy
from hypothesis import given
from hypothesis import strategies as st

from broker_common.tlog.entries import Entry
from broker_common.tlog.orders import Act, Order

orders = st.builds(
    Order,
    act=st.sampled_from(["adopt", "reopen", "shutdown"]),
    log=st.text(st.characters(codec="utf-8"), max_size=20),
    note=st.text(st.characters(codec="utf-8"), max_size=20),
    policy=st.binary(min_size=32, max_size=32).map(bytes.hex) | st.just(""),
    sequence=st.integers(0, 2**53 - 1),
)


def test_the_document_is_fixed() -> None:
    """Byte for byte, so that a signature from years ago can be checked by any other reader."""
    order = Order(act="reopen", log="census.example/log", note="the dr\u00eflle is over", policy="ab" * 32, sequence=7)
    expected = (
        '{"act":"reopen","log":"census.example/log","note":"the dr\u00eflle is over","policy":"'
        + "ab" * 32
        + '","sequence":7}'
    )
    assert order.document == expected.encode()


@given(order=orders)
def test_the_document_is_what_any_canonical_json_writer_makes(order: Order) -> None:
    """Sorted keys, no white space: an auditor needs no library of ours."""
    plain = json.loads(order.document)
    assert json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == order.document


@given(one=orders, other=orders)
def test_different_orders_have_different_documents(one: Order, other: Order) -> None:
    """A signature under one is a signature under nothing else."""
    assert (one.document == other.document) == (one == other)


@pytest.mark.parametrize("act", ["shutdown", "reopen", "adopt"])
def test_a_state_says_what_its_next_entry_would_need(act: Act) -> None:
    """The log's name, the number of the next entry, and the policy in force, or the one that is to be adopted."""
    state = census_state()
    for event in (*beginning(), adopted()):
        state.apply(Entry(sequence=state.size, time_ms=0, policy=state.policy_hash, event=event))
    higher = policy(max_belief="0.9")
    order = state.order(act, "why", adopting=higher if act == "adopt" else None)
    meant = higher if act == "adopt" else policy()
    assert order == Order(act=act, log=ORIGIN, note="why", policy=meant.hash.hex(), sequence=6)
