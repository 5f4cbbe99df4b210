"""Changing the linkage key of a store: in this order, all or nothing, and with nobody lost or confused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from fakes.clock import FakeClock
from fakes.logs import DICTIONARY, HEALTH, HEALTH_SIGNER, begin, root
from fakes.randomness import SeededRandomness
from hypothesis import given
from hypothesis import strategies as st

from broker_common.agency import linkage
from broker_common.agency.linkage import LinkageKeys, NextKey, RelinkReport, rekey, relink
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import BrokerError, InternalError, InvalidRequestError, RefusedError
from broker_common.storage.durable import replacing
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.tlog.health_state import HealthState

A, B, C = (LinkageKey(bytes([number]) * 32) for number in range(3))
FIRST = LinkageChain([A])
RELEASE = "2021"


# --- pseudonyms ------------------------------------------------------------------------------------------------------

people = st.sets(st.binary(min_size=16, max_size=16), max_size=40).map(sorted)


@given(before=people, keys=st.sampled_from([(B,), (B, C), (C, B)]), rows=st.integers(1, 7))
def test_everybody_is_where_their_new_pseudonym_belongs(
    before: list[bytes], keys: tuple[LinkageKey, ...], rows: int
) -> None:
    """Ascending, everybody once, and each beside the row that was theirs, however the work is cut."""
    halves = np.frombuffer(b"".join(before), ">u8").reshape(-1, 2)
    done: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linkage, "_ROWS_PER_STEP", rows)
        after = rekey(halves[:, 0], halves[:, 1], keys, lambda *progress: done.append(progress))
    assert after.high.dtype == after.low.dtype == np.dtype(np.uint64)
    pseudonyms = [
        int(high).to_bytes(8, "big") + int(low).to_bytes(8, "big")
        for high, low in zip(after.high, after.low, strict=True)
    ]

    def stepped(pseudonym: bytes) -> bytes:
        for key in keys:
            pseudonym = key.next_pseudonym(pseudonym)
        return pseudonym

    assert pseudonyms == sorted(pseudonyms)
    assert pseudonyms == [stepped(before[row]) for row in after.rows]
    assert sorted(after.rows) == list(range(len(before)))
    assert [step[0] for step in done] == [min(at + rows, len(before)) for at in range(0, len(before), rows)]


# --- stores ----------------------------------------------------------------------------------------------------------


class PowerCutError(Exception):
    """Raised where the power goes."""


def cut(*_: object, **__: object) -> NoReturn:
    """The end of everything in memory."""
    raise PowerCutError


@dataclass
class Agency:
    """A home whose store is text: a line for each change of the key. Nobody needs a load but the one in force."""

    path: Path
    journal: Journal[HealthState]
    loads: LoadFolder
    keys: LinkageKeys
    written: list[Sequence[LinkageKey]] = field(default_factory=list)

    def load(self, content: str = "people\n", chain: LinkageChain = FIRST, seed: str = "load") -> str:
        """Load a store."""
        randomness = SeededRandomness(seed)
        with self.loads.loading(randomness) as load:
            self.loads.file(load).write_text(content)
            self.loads.put_in_force(self.journal, load, RELEASE, chain.chain_id, randomness, dictionary=DICTIONARY)
        return load

    def relink(self, source: NextKey | None = None, seed: str = "relink") -> RelinkReport:
        """Change the key."""
        return relink(
            self.journal,
            self.loads,
            self.keys,
            NextKey(new=True) if source is None else source,
            write_store=self.write_store,
            forget_old_loads=self.forget,
            randomness=SeededRandomness(seed),
        )

    def write_store(self, replaced: str, load: str, added: Sequence[LinkageKey]) -> int:
        """Another line for every key."""
        self.written.append(added)
        text = self.loads.file(replaced).read_text()
        with replacing(self.loads.file(load)) as temporary:
            temporary.write_text(text + "".join(f"{key.key_id}\n" for key in added))
        return len(text)

    def forget(self) -> None:
        """Keep the load in force."""
        self.loads.forget_except({self.state.load})

    @property
    def state(self) -> HealthState:
        with self.journal.reading() as state:
            return state

    @property
    def content(self) -> str:
        """The store in force, which is the one that the log commits to."""
        self.loads.verify(self.journal, self.state.load, self.state.commitments)
        return self.loads.file(self.state.load).read_text()

    @property
    def held(self) -> LinkageChain:
        """Keys in the key file."""
        return LinkageChain.parse_text((self.path / "keys" / "linkage.key").read_text())

    @property
    def files(self) -> set[str]:
        """Files in the folder of loads."""
        return {path.name for path in self.loads.path.iterdir()}


def empty_journal(path: Path) -> Journal[HealthState]:
    """A journal with a table for loads."""
    return Journal.create(
        path,
        fresh_state=lambda: HealthState(root(HEALTH)),
        signer=lambda _: HEALTH_SIGNER,
        clock=FakeClock(),
        tables=LoadFolder.create_tables,
    )


@pytest.fixture
def agency(tmp_path: Path) -> Iterator[Agency]:
    """An agency with one store in force."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "linkage.key").write_text(FIRST.to_text())
    journal = empty_journal(tmp_path / "journal.db")
    begin(journal, "health")
    keys = LinkageKeys(Home(tmp_path, "health"), "file:keys/linkage.key")
    made = Agency(tmp_path, journal, LoadFolder(tmp_path / "people", ".txt"), keys)
    made.load()
    yield made
    journal.close()


def refusal(agency: Agency, source: NextKey | None = None) -> BrokerError:
    """How a change is refused; nothing of it may be left but what the key file held."""
    before = agency.state.size, agency.content, agency.files
    with pytest.raises(BrokerError) as caught:
        agency.relink(source)
    assert (agency.state.size, agency.content, agency.files) == before
    return caught.value


def test_the_key_is_changed(agency: Agency) -> None:
    """The report says what the log says; the file of the old store is gone."""
    old = agency.state.load
    report = agency.relink()
    assert report == RelinkReport(agency.held.chain_id, FIRST.chain_id, agency.state.load, len("people\n"))
    assert agency.state.linkages == {old: report.previous, report.load: report.linkage}
    assert (agency.state.linkage, agency.state.release) == (report.linkage, RELEASE)
    assert agency.content == f"people\n{agency.held.keys[1].key_id}\n"
    assert agency.files == {f"{report.load}.txt"}


def test_the_key_is_changed_again_and_again(agency: Agency) -> None:
    """Each change goes on from the one before, and what is loaded in between comes under the chain in force."""
    agency.relink(seed="one")
    agency.load("more people\n", agency.keys.chain(agency.state.linkage), seed="between")
    agency.relink(seed="two")
    assert len(agency.held.keys) == 3
    assert agency.content == f"more people\n{agency.held.keys[2].key_id}\n"
    assert [len(added) for added in agency.written] == [1, 1]


def test_changes_that_were_missed_are_made_up_for_at_once(agency: Agency) -> None:
    """The other agency is two keys ahead: both steps, one store, one entry."""
    (agency.path / "stick").write_text(LinkageChain([A, B, C]).to_text())
    size = agency.state.size
    agency.relink(NextKey(file=agency.path / "stick"))
    assert agency.content == f"people\n{B.key_id}\n{C.key_id}\n"
    assert agency.state.size == size + 1
    assert agency.state.linkage == LinkageChain([A, B, C]).chain_id


@pytest.fixture
def unloaded(tmp_path: Path, agency: Agency) -> Iterator[Agency]:
    """The same agency before its first load."""
    journal, agency.journal = agency.journal, empty_journal(tmp_path / "empty.db")
    size = agency.state.size
    yield agency
    assert agency.state.size == size
    agency.journal.close()
    agency.journal = journal


@pytest.mark.parametrize("chain", [LinkageChain([B]), LinkageChain([B, C]), LinkageChain([A, C]), FIRST])
def test_before_the_first_load_any_chain_may_be_the_first(unloaded: Agency, chain: LinkageChain) -> None:
    """Nobody has a pseudonym yet, so that there is nothing to go on from; nothing is logged."""
    (unloaded.path / "stick").write_text(f"{chain.to_text()}\n")
    assert unloaded.relink(NextKey(file=unloaded.path / "stick")) == RelinkReport("", "", "", 0)
    assert unloaded.held == chain


def test_a_home_without_a_linkage_key_makes_its_own_or_takes_the_others(unloaded: Agency) -> None:
    """With --new-key once; a second one would be another chain than the one that was handed over."""
    key = unloaded.path / "keys" / "linkage.key"
    key.unlink()
    with pytest.raises(InvalidRequestError, match="RELINK_REFUSED"):
        unloaded.relink(NextKey())
    assert not key.exists()
    unloaded.relink(NextKey(new=True))
    made = unloaded.held
    assert len(made.keys) == 1
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidRequestError, match="RELINK_REFUSED"):
        unloaded.relink(NextKey(new=True))
    assert unloaded.held == made


@pytest.mark.parametrize("content", [b"", b"rubbish", b"secret tls AAAA", None])
def test_what_is_no_linkage_key_begins_nothing(unloaded: Agency, content: bytes | None) -> None:
    """The key that is there stays."""
    stick = unloaded.path / "stick"
    if content is not None:
        stick.write_bytes(content)
    with pytest.raises(InvalidRequestError, match="RELINK_REFUSED"):
        unloaded.relink(NextKey(file=stick))
    assert unloaded.held == FIRST


def test_what_forbids_another_chain_is_asked_where_it_is_logged(agency: Agency) -> None:
    """A node may charge something while the source is read again: the log as it is then decides, and stays as it is."""
    load, size, randomness = agency.state.load, agency.state.size, SeededRandomness("other")

    def forbid(state: HealthState) -> None:
        assert state.load == load
        raise InvalidRequestError("RELINK_REFUSED", problem="something was charged", remedy="Give way.")

    with agency.loads.loading(randomness) as other:
        agency.loads.file(other).write_text("people\n")
        with pytest.raises(InvalidRequestError, match="RELINK_REFUSED"):
            agency.loads.put_relinked_in_force(
                agency.journal, other, replaced=load, linkage="0" * 16, randomness=randomness, only_if=forbid
            )
    assert (agency.state.load, agency.state.size) == (load, size)


def test_a_store_that_was_tampered_with_gets_no_new_commitment(agency: Agency) -> None:
    """A change of the key does not launder a changed store."""
    file = agency.loads.file(agency.state.load)
    file.write_text("people, and some more\n")
    with pytest.raises(InternalError) as caught:
        agency.relink()
    assert caught.value.code == "INTEGRITY"
    assert agency.state.linkage == FIRST.chain_id
    file.write_text("people\n")
    agency.relink()


def test_the_dictionary_stays_that_of_the_store_before(agency: Agency) -> None:
    """Its numbers mean what they meant."""
    agency.relink(seed="again")
    assert set(agency.state.dictionaries.values()) == {DICTIONARY.hash.hex()}


def test_one_change_or_load_at_a_time(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a load is under way the key is not changed, and the other way round."""
    with agency.loads.loading(SeededRandomness("other")):
        assert refusal(agency).code == "LOADING"
    assert agency.held == FIRST
    seen = []

    def load_meanwhile(*_: object) -> int:
        with pytest.raises(RefusedError) as caught:
            agency.load(seed="meanwhile")
        seen.append(caught.value.code)
        raise PowerCutError

    monkeypatch.setattr(agency, "write_store", load_meanwhile)
    with pytest.raises(PowerCutError):
        agency.relink()
    assert seen == ["LOADING"]


# --- the order of the steps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["replace_key", "write_store", "put_relinked_in_force"])
def test_death_before_a_step_leaves_the_old_store_and_the_next_attempt_goes_on(
    agency: Agency, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the key is written, before the store is, before the log is: the same store, the same chain, one new key."""
    owner = {"replace_key": Home, "write_store": agency, "put_relinked_in_force": LoadFolder}[step]
    before, old = agency.content, agency.state.load
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, cut)
        with pytest.raises(PowerCutError):
            agency.relink()
    assert (agency.state.load, agency.state.linkage, agency.content) == (old, FIRST.chain_id, before)
    # The key is there before anything that is made with it.
    assert len(agency.held.keys) == (1 if step == "replace_key" else 2)
    new = agency.held.keys[1:]
    # A load in between goes by the log and not by the file.
    assert agency.keys.chain(agency.state.linkage) == FIRST
    agency.relink(seed="again")
    assert agency.held.keys[1:] == (new or agency.held.keys[1:])
    assert len(agency.held.keys) == 2
    assert agency.content == f"{before}{agency.held.keys[1].key_id}\n"
    assert agency.files == {f"{agency.state.load}.txt"}


def test_death_after_the_last_step_leaves_nothing_that_stays(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has it, the old store still lies there: the next command of this kind takes it away, done or refused."""
    with monkeypatch.context() as patch:
        patch.setattr(LoadFolder, "forget_except", cut)
        with pytest.raises(PowerCutError):
            agency.relink()
        # Even before the key: what an earlier death left is looked after first.
        assert agency.state.linkage == FIRST.chain_id
        patch.undo()
        forgetting = iter([False, True])
        patch.setattr(agency, "forget", lambda: next(forgetting) and cut())
        with pytest.raises(PowerCutError):
            agency.relink(seed="again")
    assert agency.state.linkage == agency.held.chain_id
    assert len(agency.files) == 2
    (agency.path / "stick").write_text(agency.held.to_text())
    with pytest.raises(InvalidRequestError, match="in force here already"):
        agency.relink(NextKey(file=agency.path / "stick"))
    assert agency.files == {f"{agency.state.load}.txt"}


def test_a_load_that_a_change_overtook_does_not_slip_in(agency: Agency) -> None:
    """Begun before and ended after, it holds pseudonyms of the old chain: refused, with a hint to load again."""
    other = LoadFolder(agency.loads.path, agency.loads.suffix)
    other.file("0123456789abcdef").write_text("late people\n")
    agency.relink()
    other.file("0123456789abcdef").write_text("late people\n")
    size = agency.state.size
    with pytest.raises(InvalidRequestError) as caught:
        other.put_in_force(
            agency.journal, "0123456789abcdef", RELEASE, FIRST.chain_id, SeededRandomness("late"), dictionary=DICTIONARY
        )
    assert caught.value.code == "LOAD_REFUSED"
    assert "linkage key was changed" in caught.value.text
    assert "again" in caught.value.hint
    assert agency.state.size == size


def test_a_change_that_a_load_overtook_does_not_bring_the_old_people_back(agency: Agency) -> None:
    """Should the lock fail, the log decides: the new load stands."""
    old = agency.state.load
    agency.loads.file("0123456789abcdef").write_text("old people\n")
    new = agency.load("new people\n", seed="new")
    with pytest.raises(RefusedError) as caught:
        agency.loads.put_relinked_in_force(
            agency.journal,
            "0123456789abcdef",
            replaced=old,
            linkage=LinkageChain([A, B]).chain_id,
            randomness=SeededRandomness("late"),
        )
    assert caught.value.code == "LOADING"
    assert (agency.state.load, agency.content) == (new, "new people\n")
