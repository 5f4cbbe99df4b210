"""A census home: putting a policy in force, and what must follow from it, is one change of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from fakes.dictionaries import CENSUS_DICTIONARY
from fakes.logs import (
    ALICE,
    CENSUS,
    DICTIONARY,
    HEALTH,
    LOG_KEY,
    OPERATOR_KEY,
    ORIGIN,
    POLICY_KEY,
    charged,
    loaded,
    policy,
    root,
    rostered,
    slots,
)

from broker_common.agency.linkage import NextKey
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import InternalError, InvalidRequestError, RefusedError
from broker_common.privacy.accounting import price
from broker_common.privacy.policy import Policy
from broker_common.storage.dictionary.adopted import adopt_dictionary
from broker_common.storage.journal import Transaction
from broker_common.storage.source.plan import SourcePlan
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import (
    Adopted,
    Announced,
    Charged,
    DictionaryAdopted,
    Entry,
    Event,
    Loaded,
    Opened,
    Registered,
    Rostered,
    Shutdown,
    Slots,
    parse_entry,
)
from census_node.assembly import CensusHome
from census_node.ledger.book import LedgerBook
from census_node.ledger.snapshots import SnapshotFolder
from census_node.ledger.subjects import Cards, Carry, Names
from census_node.operator.proposals import make_proposal
from census_node.registry import Registry
from deploy.synthetic.cards import card_digits

CARDS = ["".join(map(str, digits)) for digits in card_digits(np.arange(2)).tolist()]
# Pays for one answer at scale 30, and not for a second one.
NARROW = policy(max_belief="0.51", scales=(30,))


@pytest.fixture
def home(tmp_path: Path) -> CensusHome:
    """A home with a journal that says no more than whose it is, and whom its node knows."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "log.key").write_text(LOG_KEY.to_text())
    (tmp_path / "keys" / "identity.pub").write_text(root(CENSUS).to_text())
    (tmp_path / "config.toml").write_text(f'role = "census"\norganisation = "census-ca"\norigin = "{ORIGIN}"\n')
    made = CensusHome(tmp_path)
    made.create(CENSUS.card.signed)
    made.register(HEALTH.card)
    made.register(ALICE.card, projects=["study"])
    (tmp_path / "keys" / "identity.key").write_text(CENSUS.signing(Purpose.IDENTITY).to_text())
    with made.journal() as journal:
        # The one that the fakes' loads are under. No census data could be loaded under it.
        adopt_dictionary(journal, made.dictionaries, DICTIONARY, CENSUS.signing(Purpose.IDENTITY))
    return made


def charge(home: CensusHome, answers: int) -> None:
    """Charge so many answers at scale 30, as a serving node would have."""
    journal = home.open_journal()
    with journal.transaction() as transaction:
        transaction.append(loaded())
        transaction.append(rostered())
        transaction.append(slots())
        for number in range(answers):
            transaction.append(charged(number, before=number * price(30)))
    journal.close()


def log_of(home: CensusHome) -> list[Entry]:
    """Every entry, after the journal has opened and agreed with itself."""
    journal = home.open_journal()
    rows = list(journal.db.query("select entry from entries order by sequence"))
    journal.close()
    return [parse_entry(bytes(row["entry"])) for row in rows]


def kinds(home: CensusHome) -> list[type[Event]]:
    """Kinds of the log's entries, after those that say who is who."""
    found = [type(entry.event) for entry in log_of(home)]
    assert found[:5] == [Opened, Announced, Registered, Registered, DictionaryAdopted]
    return found[5:]


def state_of(home: CensusHome) -> CensusState:
    """State of the log."""
    journal = home.open_journal()
    with journal.reading() as state:
        journal.close()
        return state


def test_a_policy_is_put_in_force(home: CensusHome) -> None:
    """Signed, whole, and in force from the next entry on; nothing else follows while something fits."""
    home.adopt(make_proposal(policy(), POLICY_KEY))
    assert kinds(home) == [Adopted]
    assert state_of(home).policy == policy()
    charge(home, 1)
    home.adopt(make_proposal(policy(max_belief="0.7", scales=(2, 30)), POLICY_KEY))
    assert kinds(home) == [Adopted, Loaded, Rostered, Slots, Charged, Adopted]
    assert not state_of(home).shut_down


@pytest.mark.parametrize(("answers", "shut"), [(0, False), (1, True), (2, True), (40, True)])
def test_a_lower_cap_under_which_nothing_fits_shuts_the_service_down(
    home: CensusHome, answers: int, shut: bool
) -> None:
    """At once and by the budget, since the rule of the log admits no other entry; a cap that still pays does not."""
    home.adopt(make_proposal(policy(), POLICY_KEY))
    charge(home, answers)
    home.adopt(make_proposal(NARROW, POLICY_KEY))
    assert kinds(home) == [
        Adopted,
        Loaded,
        Rostered,
        Slots,
        *[Charged] * answers,
        Adopted,
        *([Shutdown] if shut else []),
    ]
    state = state_of(home)
    assert (state.shut_down, state.must_shut_down, state.policy) == (shut, False, NARROW)
    if shut:
        adoption, end = log_of(home)[-2:]
        assert end.event == Shutdown(reason="budget", note="")
        assert (adoption.policy, end.policy) == (policy().hash.hex(), NARROW.hash.hex())
        assert end.time_ms >= adoption.time_ms


def test_policy_and_shutdown_stand_together_or_not_at_all(home: CensusHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instant between them would be a log that no node may write to and none may serve from."""
    home.adopt(make_proposal(policy(), POLICY_KEY))
    charge(home, 1)
    before = log_of(home)
    append = Transaction.append

    def die_before_the_shutdown(self: Transaction[CensusState], event: Event) -> Entry:
        if isinstance(event, Shutdown):
            assert self.state.must_shut_down
            raise KeyboardInterrupt
        return append(self, event)

    monkeypatch.setattr(Transaction, "append", die_before_the_shutdown)
    with pytest.raises(KeyboardInterrupt):
        home.adopt(make_proposal(NARROW, POLICY_KEY))
    monkeypatch.undo()
    assert log_of(home) == before
    assert state_of(home).policy == policy()
    home.adopt(make_proposal(NARROW, POLICY_KEY))
    assert kinds(home)[-2:] == [Adopted, Shutdown]


@pytest.mark.parametrize("rules", [policy(max_belief="0.81"), policy(max_belief="0.9", scales=(30,))])
def test_what_the_log_forbids_leaves_no_trace(home: CensusHome, rules: Policy) -> None:
    """A cap is never raised by the policy key alone, and the policy before stays in force."""
    home.adopt(make_proposal(policy(), POLICY_KEY))
    before = log_of(home)
    with pytest.raises(RefusedError) as caught:
        home.adopt(make_proposal(rules, POLICY_KEY))
    assert caught.value.code == "POLICY_WEAKER"
    assert "raises the cap" in caught.value.text
    assert log_of(home) == before
    assert state_of(home).policy == policy()


@pytest.mark.parametrize("setting", ["policy", "operator"])
def test_a_private_key_that_is_not_here_is_named_with_its_setting(home: CensusHome, setting: str) -> None:
    """Neither is needed to serve: an operator who keeps them elsewhere is told which one to bring."""
    wanted = home.private_policy_key if setting == "policy" else home.private_operator_key
    file = f"keys/{setting}.key"
    with pytest.raises(InvalidRequestError) as caught:
        wanted()
    assert caught.value.code == "KEY_MISSING"
    assert f"file:{file}" in caught.value.text
    assert f"as {setting} under [keys]" in caught.value.hint
    (home.home.path / file).write_text(POLICY_KEY.to_text() if "operator" in file else OPERATOR_KEY.to_text())
    with pytest.raises(InvalidRequestError, match="KEY_MISSING") as caught:
        wanted()
    assert "not a key of the kind expected" in caught.value.text


def test_a_private_key_that_is_not_this_nodes_is_refused(home: CensusHome) -> None:
    """The log would refuse its signatures; this is said before anything is tried, and without showing the key."""
    stranger = SigningKey(Purpose.OPERATOR, bytes(32))
    (home.home.path / "keys" / "operator.key").write_text(stranger.to_text())
    with pytest.raises(InvalidRequestError) as caught:
        home.private_operator_key()
    assert caught.value.code == "KEY_MISSING"
    assert "none of the keys there is the one that is needed" in caught.value.text
    assert stranger.to_text().split(" ")[2][:10] not in f"{caught.value} {caught.value.details}"


# --- loads -----------------------------------------------------------------------------------------------------------


def write_source(home: CensusHome, persons: dict[str, str]) -> Path:
    """A source of these cards, each with its person, who lives alone."""
    header = ",".join(["health_card", "person_id", "household_id", *CENSUS_DICTIONARY.names])
    lines = [
        f"{card},{person},{person}," + "," * (len(CENSUS_DICTIONARY.names) - 1) for card, person in persons.items()
    ]
    path = home.home.path / "people.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path


@pytest.fixture
def loading(home: CensusHome) -> CensusHome:
    """A home that can load."""
    home.adopt_dictionary(replace(CENSUS_DICTIONARY, version=2))
    (home.home.path / "keys" / "linkage.key").write_text(LinkageChain([LinkageKey(bytes(32))]).to_text())
    return home


@dataclass
class Carried:
    """Carry and entry of each load, in the same transaction."""

    carries: list[tuple[Carry, str]] = field(default_factory=list)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        put_load = LedgerBook.put_load

        def watched(book: LedgerBook, carry: Carry) -> Callable[[Transaction[CensusState], Entry], None]:
            put = put_load(book, carry)

            def with_entry(transaction: Transaction[CensusState], entry: Entry) -> None:
                assert isinstance(entry.event, Loaded)
                assert transaction.state.load == entry.event.load
                self.carries.append((carry, entry.event.load))
                put(transaction, entry)

            return with_entry

        monkeypatch.setattr(LedgerBook, "put_load", watched)


def test_a_load_hands_over_what_its_units_inherit(loading: CensusHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the load in force: first nothing, then each card's move, though the first load's file is gone by then."""
    carried = Carried()
    carried.watch(monkeypatch)
    loading.load(write_source(loading, {CARDS[0]: "p", CARDS[1]: "q"}), "2021")
    loading.load(write_source(loading, {CARDS[1]: "q"}), "2022")
    loading.relink(NextKey(new=True))
    loading.load(write_source(loading, {CARDS[0]: "r", CARDS[1]: "q"}), "2023")
    assert [(len(carry.person_to), carry.person_count) for carry, _ in carried.carries] == [(0, 2), (0, 2), (1, 3)]
    carry, load = carried.carries[-1]
    names = Names.read(loading.loads.file(load), load)
    pair = [names.persons[numbers[0]].tobytes() for numbers in (carry.person_to, carry.person_from)]
    assert pair == [names.of_persons(["r"]), names.of_persons(["p"])]
    assert [path.name for path in loading.loads.path.iterdir()] == [f"{load}.npz"]


def test_a_load_whose_carry_cannot_be_put_is_not_in_force(loading: CensusHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry and carry stand together or not at all, and the next attempt inherits from the same load."""
    loading.load(write_source(loading, {CARDS[0]: "p"}), "2021")
    before = log_of(loading)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    source, carried = write_source(loading, {CARDS[0]: "q"}), Carried()
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotFolder, "write_carry", fail)
        with pytest.raises(KeyboardInterrupt):
            loading.load(source, "2022")
    assert log_of(loading) == before
    carried.watch(monkeypatch)
    loading.load(source, "2022")
    assert [len(carry.person_to) for carry, _ in carried.carries] == [1]


@pytest.mark.parametrize("damage", ["missing", "cut", "salt"])
def test_a_load_after_one_that_was_changed_is_refused(loading: CensusHome, damage: str) -> None:
    """A writer who could swap units there, or make them forgotten, could let charges fall on others or on nobody."""
    source = write_source(loading, {CARDS[0]: "p"})
    loading.load(source, "2021")
    before = log_of(loading)
    (file,) = loading.loads.path.iterdir()
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(content[:-1])
    else:
        # A whole file that is right in itself.
        registry, names = Registry.read(file, "load"), Names.read(file, "load")
        registry.write(file, replace(names, salt=bytes(len(names.salt))), Cards.none())
    with pytest.raises(InternalError) as caught:
        loading.load(source, "2022")
    assert caught.value.code == "INTEGRITY"
    assert log_of(loading) == before
    # The file itself, from a backup, is all that is needed.
    file.write_bytes(content)
    loading.load(source, "2022")


# --- by what records are linked --------------------------------------------------------------------------------------

BY_ADDRESS = policy(accounting="per_person", subject="household", linkage="household")


def test_a_policy_of_another_linkage_that_is_adopted_while_a_load_is_read_refuses_the_load(loading: CensusHome) -> None:
    """Whichever is first in the log stands: the policy."""

    def adopt(plan: SourcePlan) -> SourcePlan:
        loading.adopt(make_proposal(BY_ADDRESS, POLICY_KEY))
        return plan

    with pytest.raises(InvalidRequestError) as caught:
        loading.load(write_source(loading, {CARDS[0]: "p"}), "2021", watch=adopt)
    assert caught.value.code == "LOAD_REFUSED"
    assert "linkage complementary, and the policy in force has linkage household" in caught.value.text
    assert kinds(loading)[-1:] == [Adopted]
    assert state_of(loading).load == ""


def test_a_policy_of_another_linkage_than_the_load_is_not_adopted(loading: CensusHome) -> None:
    """Also the first one: the load is in force by its dictionary's linkage."""
    loading.load(write_source(loading, {CARDS[0]: "p"}), "2021")
    before = log_of(loading)
    with pytest.raises(RefusedError, match="LINKAGE_FIXED") as caught:
        loading.adopt(make_proposal(BY_ADDRESS, POLICY_KEY))
    assert "complementary" in caught.value.text
    assert log_of(loading) == before
    loading.adopt(make_proposal(policy(), POLICY_KEY))
