"""A dictionary that changed after the data was loaded: nobody is counted, and nobody is selected, as somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes.dictionaries import CHANGES, put_in_place, relabelled
from fakes.links import NO_CONTEXT
from fakes.world import OWNER, RESEARCHER, World, charge_and_answer, make_policy
from structlog.testing import capture_logs
from tripartite.v1 import census_service_pb2, ticket_pb2

from broker_common.errors import RefusedError
from broker_common.query.dictionary import Code, Dictionary
from broker_common.query.question import Cell, Question
from broker_common.rpc.callers import set_caller
from broker_common.rpc.server import StopSignal
from census_node.config import LimitConfig
from census_node.registry.dictionary import CENSUS_DICTIONARY
from census_node.release.outbox import Outbox
from census_node.service import CensusService
from health_node.dictionary import HEALTH_DICTIONARY

FRENCH = Question("mother_tongue", (Cell(("French",)),))
EVERY_CHANGE = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
Change = Callable[[Dictionary], Dictionary]


def redefine_census(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """The census node's program has another dictionary from here on."""
    put_in_place("CENSUS_DICTIONARY", change(CENSUS_DICTIONARY), monkeypatch.setattr)


def redefine_health(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """The health node's program has another dictionary from here on."""
    put_in_place("HEALTH_DICTIONARY", change(HEALTH_DICTIONARY), monkeypatch.setattr)


def about_french(body: ticket_pb2.Ticket) -> None:
    """The ticket asks for French."""
    body.question.CopyFrom(FRENCH.to_wire())


def refusal(attempt: Callable[[], object]) -> RefusedError:
    """How it is refused."""
    with pytest.raises(RefusedError) as caught:
        attempt()
    return caught.value


# --- the census node -------------------------------------------------------------------------------------------------


@EVERY_CHANGE
def test_french_is_not_counted_as_english_under_a_changed_census_dictionary(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """A sample that is good in everything else is refused, uncharged, and again after a start."""
    order = world.order(change=about_french)
    messages = world.messages(world.sample(order))
    with monkeypatch.context() as patch, world.unchanged():
        redefine_census(patch, change)
        error = refusal(lambda: world.admit(messages))
        assert (error.code, error.ends_ticket) == ("DICTIONARY_CHANGED", False)
        assert "tripartite census load" in error.hint
        # Its registry cannot be read either, whoever gets past the checks.
        registries, state = world.crash_census().registries, world.verify_log()
        assert refusal(lambda: registries.store(state.load, state.commitments)).code == "DICTIONARY_CHANGED"
    world.crash_census()
    world.verify_honest_query()


@EVERY_CHANGE
async def test_nothing_is_quoted_under_a_changed_census_dictionary(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """The researcher hears it before a slot is reserved or a sample drawn, about any question."""
    service = CensusService(world.census, LimitConfig(), StopSignal(), people=world.places)
    redefine_census(monkeypatch, change)
    set_caller(OWNER)
    for question in (Question(), FRENCH):
        with pytest.raises(RefusedError) as caught:
            await service.Quote(census_service_pb2.QuoteRequest(question=question.to_wire(), scale=30), NO_CONTEXT)
        assert caught.value.code == "DICTIONARY_CHANGED"


def test_changed_labels_do_not_stop_the_census_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What values are called may be mended without a load."""
    redefine_census(monkeypatch, relabelled)
    world.crash_census()
    world.verify_honest_query()


def test_a_load_under_the_new_dictionary_is_served_under_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out that the refusal names; the log says under which dictionary each load stands."""
    before = world.verify_log()
    redefine_census(monkeypatch, CHANGES["reordered"])
    load = world.load_census()
    world.crash_census()
    world.verify_honest_query()
    state = world.verify_log()
    assert state.dictionaries[before.load] == CENSUS_DICTIONARY.hash.hex()
    assert state.dictionaries[load] == CHANGES["reordered"](CENSUS_DICTIONARY).hash.hex()


@pytest.mark.parametrize("accounting", ["strict", "per_person"])
@EVERY_CHANGE
def test_a_charged_answer_is_counted_under_its_own_dictionary_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, change: Change, accounting: str
) -> None:
    """Charged, not answered, and started again with another dictionary: it waits, is told as lost, and is right later."""
    world = World(tmp_path_factory.mktemp("world"), make_policy(accounting=accounting))
    order = world.order(change=about_french)
    sample = world.sample(order)
    admitted, census = world.admit(world.messages(sample)), world.census
    census.charging.charge(admitted, census.keeping.keep(admitted), at_ms=world.clock())
    charged = world.census_folder
    with monkeypatch.context() as patch, capture_logs() as said:
        redefine_census(patch, change)
        # Both before and after the operator has loaded the registry again.
        for reload in (lambda: None, world.load_census):
            reload()
            world.crash_census()
            assert world.census.recover() == []
            assert world.census.answers.lost == {order.hash.hex()}
            assert Outbox(world.census.journal.db).answer(order.body.query_id.hex()) is None
        told = [line for line in said if line["event"] == "a charged answer cannot be made"]
        assert [line["ticket"] for line in told] == [order.hash.hex()] * 2
        assert all("another dictionary" in line["problem"] for line in told)
    left = world.census_folder
    answers = []
    for folder in (charged, left):
        world.census_folder = folder
        world.crash_census()
        assert [each.verify_claim().ticket_hash for each in world.census.recover()] == [order.hash.hex()]
        world.cosign()
        world.release(order)
        answers.append(world.open(order, world.sealed(order)).noisy_count)
    # The noise is fixed by the charge: the same number is the same count.
    assert answers[0] == answers[1]
    world.close()


def test_a_charged_ticket_is_not_told_that_its_value_is_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The health agency would log that its ticket was never charged, and the two logs would accuse each other."""
    order = world.order(change=about_french)
    sample = world.sample(order)
    charge_and_answer(world.census, world.admit(world.messages(sample)))
    french = Code("French", "French")

    def without_french(dictionary: Dictionary) -> Dictionary:
        codes = [tuple(code for code in column.codes if code.value != french.value) for column in dictionary.columns]
        pairs = zip(dictionary.columns, codes, strict=True)
        return Dictionary(tuple(replace(column, codes=left) for column, left in pairs))

    redefine_census(monkeypatch, without_french)
    assert world.open(order, world.answer(order, sample)).scale == 30
    assert len(world.charges()) == 1


# --- the health node -------------------------------------------------------------------------------------------------


@EVERY_CHANGE
def test_no_other_people_are_selected_under_a_changed_health_dictionary(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """No question is taken, and none that was taken before is drawn a sample for; both again under the old dictionary."""
    node, taken, new = world.open_health(), world.order(), world.order()
    accepted = node.accept(taken.submission, node.verify(taken.submission, RESEARCHER, world.policy))
    with monkeypatch.context() as patch:
        redefine_health(patch, change)
        for order in (new, taken):
            error = refusal(lambda order=order: node.verify(order.submission, RESEARCHER, world.policy))  # type: ignore[misc]
            assert (error.code, error.ends_ticket) == ("DICTIONARY_CHANGED", False)
            assert "tripartite health load" in error.hint
        assert refusal(lambda: node.sample(accepted)).code == "DICTIONARY_CHANGED"
    assert node.sample(accepted).size > 0
    node.verify(new.submission, RESEARCHER, world.policy)


def test_changed_labels_do_not_stop_the_health_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they change who is selected."""
    node, order = world.open_health(), world.order()
    redefine_health(monkeypatch, relabelled)
    accepted = node.accept(order.submission, node.verify(order.submission, RESEARCHER, world.policy))
    assert node.sample(accepted).size > 0
