"""A dictionary that is adopted after the data was loaded: nobody is counted, and nobody is selected, as somebody else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, CHANGES, HEALTH_DICTIONARY, relabelled
from fakes.registries import write_registry
from fakes.world import RELEASE, RESEARCHER, Order, World, make_policy
from protocol.pair import Pair
from tripartite.v1 import health_service_pb2, ticket_pb2

from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy
from broker_common.query.dictionary import Dictionary
from broker_common.query.dictionary_changes import Change as DictionaryChange
from broker_common.query.dictionary_changes import changes
from broker_common.query.dictionary_document import parse_dictionary_document
from broker_common.query.question import Cell, Question
from broker_common.query.ticket import VerifiedTicket
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.health_state import HealthState
from census_node.query.admission import SampleAttempt
from census_node.registry.joining import JoinedRoster
from census_node.registry.registry import OpenRegistries
from health_node.node import HealthNode, LoadReplacedError, Verified

FRENCH = Question("mother_tongue", (Cell(("French",)),))
ENGLISH = Question("mother_tongue", (Cell(("English",)),))
EVERY_CHANGE = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
Change = Callable[[Dictionary], Dictionary]


def next_version(dictionary: Dictionary, change: Change) -> Dictionary:
    """The changed dictionary, as one that may be adopted."""
    return replace(change(dictionary), version=dictionary.version + 1)


def about_french(body: ticket_pb2.Ticket) -> None:
    """The ticket asks for French."""
    body.question.CopyFrom(FRENCH.to_wire())


# --- the census node -------------------------------------------------------------------------------------------------


@EVERY_CHANGE
def test_an_adopted_census_dictionary_changes_nothing_before_a_load(world: World, change: Change) -> None:
    """The load in force keeps its own: it is served, quoted, asked about and counted under that, also after a start."""
    world.adopt_census_dictionary(next_version(CENSUS_DICTIONARY, change))
    for _ in range(2):
        assert world.census.dictionary() == CENSUS_DICTIONARY
        world.answer(world.order(change=about_french))
        assert world.census.quotes.quote(ENGLISH.to_wire(), 30, RESEARCHER) is not None
        world.crash_census()


@EVERY_CHANGE
def test_a_load_under_the_new_census_dictionary_is_served_under_it(world: World, change: Change) -> None:
    """The log says under which dictionary each load stands."""
    before, adopted = world.verify_log(), next_version(CENSUS_DICTIONARY, change)
    world.adopt_census_dictionary(adopted)
    load = world.load_census()
    world.crash_census()
    assert world.census.dictionary() == adopted
    state = world.verify_log()
    assert state.dictionaries[before.load] == CENSUS_DICTIONARY.hash.hex()
    assert state.dictionaries[load] == adopted.hash.hex()


def test_mended_labels_are_published_without_a_load(world: World) -> None:
    """Names of values may be mended under the same version."""
    mended = relabelled(CENSUS_DICTIONARY)
    world.adopt_census_dictionary(mended)
    world.crash_census()
    assert world.census.dictionary() == mended
    world.verify_honest_query()


@pytest.mark.parametrize("accounting", ["strict", "per_person"])
@EVERY_CHANGE
def test_a_charged_answer_is_counted_under_its_own_dictionary(
    tmp_path_factory: pytest.TempPathFactory, change: Change, accounting: str
) -> None:
    """Charged, not answered, and started again after a load under another dictionary: the same number as without it."""
    world = World(tmp_path_factory.mktemp("world"), make_policy(accounting=accounting))
    order = world.order(change=about_french)
    sample = world.sample(order)
    admitted, census = world.admit(world.messages(sample)), world.census
    census.charging.charge(admitted, census.keeping.keep(admitted), at_ms=world.clock())
    charged = world.census_folder
    world.adopt_census_dictionary(next_version(CENSUS_DICTIONARY, change))
    world.load_census()
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


def test_a_registry_of_another_dictionary_than_the_log_says_is_not_counted(world: World) -> None:
    """A node with both in force is stopped when it is read."""
    loads, journal = LoadFolder(world.census_folder / "registries", ".npz"), world.census.journal
    with loads.loading(os.urandom) as load:
        write_registry(
            replace(world.make_registry(load), dictionary=CHANGES["reordered"](CENSUS_DICTIONARY)), loads.file(load)
        )
        loads.put_in_force(journal, load, RELEASE, world.linkage, os.urandom, dictionary=CENSUS_DICTIONARY)
    with pytest.raises(InternalError, match="of another dictionary"):
        OpenRegistries(journal, loads).registry(load)


def published(node: HealthNode) -> Dictionary:
    """A health node's dictionary for researchers."""
    _, document = node.dictionary_to_publish(b"")
    return parse_dictionary_document(document)


# --- the health node -------------------------------------------------------------------------------------------------


@EVERY_CHANGE
def test_a_sample_is_drawn_under_the_dictionary_of_its_load(world: World, change: Change) -> None:
    """A question that was taken before the next dictionary came into force selects whom it would have selected."""
    node, taken = world.open_health(), world.order(where="sex = 'female' or age >= 50")
    accepted = node.accept(taken.submission, node.verify(taken.submission, RESEARCHER, world.policy))
    before = node.sample(accepted)
    world.adopt_health_dictionary(node, next_version(HEALTH_DICTIONARY, change))
    assert published(node) == HEALTH_DICTIONARY
    world.load_health(len(world.people))
    assert published(node) == world.health_dictionary
    after = node.sample(accepted)
    assert (after.bits.commitment(after.bound), after.size) == (before.bits.commitment(before.bound), before.size)
    assert before.size > 0


def test_mended_labels_do_not_stop_the_health_node(world: World) -> None:
    """Nor do they change who is selected."""
    node, order = world.open_health(), world.order()
    world.adopt_health_dictionary(node, relabelled(HEALTH_DICTIONARY))
    accepted = node.accept(order.submission, node.verify(order.submission, RESEARCHER, world.policy))
    assert node.sample(accepted).size > 0


# --- a ticket of the dictionary before -------------------------------------------------------------------------------


@EVERY_CHANGE
@pytest.mark.parametrize("role", ["census", "health"])
def test_a_question_of_the_dictionary_before_is_refused_with_what_changed(
    world: World, change: Change, role: str
) -> None:
    """Its ticket is at its end, uncharged; the next one is good."""
    node, order = world.open_health(), world.order()
    if role == "census":
        world.adopt_census_dictionary(next_version(CENSUS_DICTIONARY, change))
        world.load_census()
    else:
        world.adopt_health_dictionary(node, next_version(HEALTH_DICTIONARY, change))
        world.load_health(len(world.people))

    def hand_in() -> None:
        if role == "census":
            world.admit(world.messages(world.sample(order)))
        else:
            node.verify(order.submission, RESEARCHER, world.policy)

    with pytest.raises(RefusedError) as caught:
        hand_in()
    error = caught.value
    assert (error.code, error.ends_ticket, error.details["role"]) == ("DICTIONARY_CHANGED", True, role)
    assert "'mother_tongue'" in error.hint if role == "census" else "'sex'" in error.hint
    assert len(world.charges()) == 0
    node.verify(world.order().submission, RESEARCHER, world.policy)


def admitted_in_spite_of(world: World, order: Order, change: Change) -> SampleAttempt:
    """A sample whose question is read before a load under another dictionary, and whose roster is joined with that load."""
    messages, census = world.messages(world.sample(order)), world.census
    usable = census.rosters.usable

    def after_a_load(health: str, number: int) -> JoinedRoster:
        world.adopt_census_dictionary(next_version(CENSUS_DICTIONARY, change))
        world.load_census()
        return usable(health, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census.rosters, "usable", after_a_load)
        return world.admit(messages)


@EVERY_CHANGE
def test_a_question_read_under_the_dictionary_before_is_not_charged(world: World, change: Change) -> None:
    """Nothing else than the dictionary tells that it is of the load before."""
    admitted, census = admitted_in_spite_of(world, world.order(change=about_french), change), world.census
    with pytest.raises(RefusedError) as caught:
        census.charging.charge(admitted, census.keeping.keep(admitted), at_ms=world.clock())
    assert (caught.value.code, caught.value.ends_ticket) == ("DICTIONARY_CHANGED", True)
    assert "'mother_tongue'" in caught.value.hint
    assert len(world.charges()) == 0


@EVERY_CHANGE
def test_a_charge_that_is_not_of_its_loads_dictionary_is_never_counted(
    world: World, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it came about, it is lost, for the operator to see; the node starts and answers others."""
    order = world.order(change=about_french)
    admitted, census = admitted_in_spite_of(world, order, change), world.census
    with monkeypatch.context() as patch:
        patch.setattr(VerifiedTicket, "verify_dictionary", lambda *_: None)
        charge = census.charging.charge(admitted, census.keeping.keep(admitted), at_ms=world.clock())
    with pytest.raises(InternalError, match="not of its load's dictionary") as caught:
        census.answers.make(charge, census.journal.prove(charge.index))
    assert caught.value.stops_node
    world.crash_census()
    assert world.census.recover() == []
    assert world.census.answers.lost == {order.hash.hex()}
    world.verify_honest_query()


# --- a load between a check and what follows from it -----------------------------------------------------------------


@EVERY_CHANGE
async def test_a_question_is_not_accepted_on_a_load_that_it_was_not_verified_on(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """Its criteria would mean something else, or nothing: it is verified again, and refused with nothing in the log."""
    pair, order = Pair(world), world.order()
    node, verify, loads = pair.node, pair.node.verify, list[str]()

    def loading_behind(request: health_service_pb2.SubmitRequest, caller: str, policy: Policy) -> Verified:
        verified = verify(request, caller, policy)
        assert not loads, "verified twice under a dictionary that it was not written with"
        world.adopt_health_dictionary(node, next_version(HEALTH_DICTIONARY, change))
        loads.append(world.load_health(len(world.people)))
        return verified

    monkeypatch.setattr(node, "verify", loading_behind)
    assert await pair.submit(order) == "DICTIONARY_CHANGED"
    assert loads
    assert not world.verify_health_log().tickets


def test_a_load_of_the_same_dictionary_is_verified_against_as_well(world: World) -> None:
    """Its declaration may differ; the question then belongs to the load that was checked last."""
    node, order = world.open_health(), world.order()
    verified = node.verify(order.submission, RESEARCHER, world.policy)
    load = world.load_health(len(world.people))
    with pytest.raises(LoadReplacedError):
        node.accept(order.submission, verified)
    again = node.verify(order.submission, RESEARCHER, world.policy)
    assert node.accept(order.submission, again).load == again.load == load


def test_before_the_first_load_every_question_is_told_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it speaks of: nothing is declared for any table yet."""
    node, order = world.open_health(), world.order()
    with node.journal.reading() as state:
        monkeypatch.setattr(state, "load", "")
    with pytest.raises(RefusedError, match="No health data has been loaded"):
        node.verify(order.submission, RESEARCHER, world.policy)


# --- the journal is not held meanwhile -------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["census", "health"])
def test_documents_are_read_and_compared_while_others_use_the_journal(
    world: World, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """A long list takes a while: nobody waits for who fetches it, or asks with the one before. Each pair is compared once."""
    health, order = world.open_health(), world.order()
    if role == "census":
        world.adopt_census_dictionary(next_version(CENSUS_DICTIONARY, CHANGES["renamed"]))
        world.load_census()
    else:
        world.adopt_health_dictionary(health, next_version(HEALTH_DICTIONARY, CHANGES["renamed"]))
        world.load_health(len(world.people))
    node = world.census if role == "census" else health
    done: list[str] = []

    def from_another_thread(what: str) -> None:
        """Fails if the journal is held."""
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(lambda: _acquired(node.journal)).result(), f"the journal is held: {what}"
        done.append(what)

    document = Dictionaries.document

    def reading(dictionaries: Dictionaries, name: str) -> bytes:
        from_another_thread("document")
        return document(dictionaries, name)

    def comparing(old: Dictionary, new: Dictionary) -> Sequence[DictionaryChange]:
        from_another_thread("changes")
        return changes(old, new)

    monkeypatch.setattr(Dictionaries, "document", reading)
    monkeypatch.setattr("broker_common.storage.dictionary.adopted.changes", comparing)
    node.dictionary_to_publish(b"")
    assert done == ["document"]

    def hand_in() -> None:
        if role == "census":
            world.census._verify_dictionary(order.verified)
        else:
            health.verify(order.submission, RESEARCHER, world.policy)

    for _ in range(3):
        with pytest.raises(RefusedError, match="DICTIONARY_CHANGED"):
            hand_in()
    assert done.count("changes") == 1


def _acquired(journal: Journal[CensusState] | Journal[HealthState]) -> bool:
    """Whether this thread may have the journal at once."""
    is_free = journal._lock.acquire(blocking=False)
    if is_free:
        journal._lock.release()
    return is_free


# --- what may be adopted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_meant_something_else_is_not_adopted(world: World, version: int) -> None:
    """Neither the newest one's, nor an older one."""
    world.adopt_census_dictionary(replace(CENSUS_DICTIONARY, version=2))
    log = world.verify_log().size
    with pytest.raises(InvalidRequestError, match="DICTIONARY_OLD"):
        world.adopt_census_dictionary(replace(CHANGES["renamed"](CENSUS_DICTIONARY), version=version))
    assert world.verify_log().size == log


def test_the_same_again_changes_nothing(world: World) -> None:
    """An operator may give the command twice."""
    log = world.verify_log().size
    world.adopt_census_dictionary(CENSUS_DICTIONARY)
    assert world.verify_log().size == log


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_document_that_was_lost_or_changed_is_not_read(world: World, damage: str) -> None:
    """Its name is its hash."""
    dictionaries, state = Dictionaries(world.census_folder), world.verify_log()
    assert state.newest_dictionary is not None
    path = dictionaries.path(state.newest_dictionary.document)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"French", b"Gaelic"))
    with pytest.raises(InternalError, match="INTEGRITY"):
        dictionaries.newest(state)
