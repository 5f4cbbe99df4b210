"""Publication: nothing is shown before the witness store has it, nothing that was shown is taken back or forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.logs import (
    HEALTH_ORIGIN,
    LOG_KEY,
    ORIGIN,
    SIGNER,
    WITNESS,
    adopted,
    beginning,
    census_state,
    loaded,
    slots,
)

from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import BrokerError, InternalError
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes, WitnessStore
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Event
from broker_common.tlog.note import NoteSigner
from census_node.release.publication import Publication, verify_witnessed

UNSERVED = (*beginning()[1:], adopted(), loaded())
SERVED = (*UNSERVED, slots())
SIZE = 1 + len(SERVED)
OTHER = "other-health.test/log"


def journal_of(path: Path, *events: Event) -> Journal[CensusState]:
    """A new journal with these entries after the first."""
    journal = Journal.create(
        path,
        fresh_state=census_state,
        signer=lambda _: SIGNER,
        clock=FakeClock(),
        tables=CosignedNotes.create_tables,
    )
    with journal.transaction() as transaction:
        for event in events:
            transaction.append(event)
    return journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[CensusState]]:
    """A log that was served: it commits to noise slots."""
    made = journal_of(tmp_path / "journal.db", *SERVED)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> WitnessStore:
    """An empty witness store."""
    (tmp_path / "witness").mkdir()
    return WitnessStore(tmp_path / "witness")


def size_of(note: str | None) -> int:
    """How long the log is that a note is of; verified."""
    return 0 if note is None else SIGNER.verifier.verify_checkpoint(note).size


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_what_is_published_stands_in_the_store_first(journal: Journal[CensusState], store: WitnessStore) -> None:
    """Who hears of it finds it there, in the log as it is, which goes on from what is shown."""
    publication = Publication(journal, store)
    found: list[tuple[int, object]] = []
    publication.on_news(lambda: found.append((size_of(store.read()), publication.newer_than(0))))
    assert publication.newer_than(0) is None
    for size in (3, 5):
        publication.publish(size)
        assert found[-1] == (SIZE, (size, journal.checkpoint(size)))
        assert store.read() == journal.checkpoint()
    assert len(found) == 2


def test_nothing_is_shown_when_the_store_fails(
    journal: Journal[CensusState], store: WitnessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to who asks nor to who waits; with the disk back it is shown."""
    publication = Publication(journal, store)
    publication.publish(3)
    with journal.transaction() as transaction:
        transaction.append(slots(64))
    news: list[str] = []
    publication.on_news(lambda: news.append("news"))

    def fail(_store: WitnessStore, _note: str) -> None:
        raise InternalError("STORE_FAILED")

    with monkeypatch.context() as patch:
        patch.setattr(WitnessStore, "put", fail)
        with pytest.raises(InternalError, match="STORE_FAILED"):
            publication.publish(SIZE + 1)
    assert publication.newer_than(3) is None
    assert publication.newer_than(0) == (3, journal.checkpoint(3))
    assert (news, size_of(store.read())) == ([], SIZE)
    publication.publish(SIZE + 1)
    assert publication.newer_than(3) == (SIZE + 1, journal.checkpoint(SIZE + 1))
    assert news == ["news"]


def test_what_is_shown_never_shrinks(journal: Journal[CensusState], store: WitnessStore) -> None:
    """Two questions are charged and published in either order; neither the store nor anybody sees a shorter log again."""
    publication = Publication(journal, store)
    news: list[int] = []
    publication.on_news(lambda: news.append(size_of(store.read())))
    for size, shown in ((2, 2), (6, 6), (4, 6), (6, 6), (1, 6), (SIZE, SIZE)):
        publication.publish(size)
        assert publication.newer_than(0) == (shown, journal.checkpoint(shown))
        assert size_of(store.read()) == SIZE
    assert news == [SIZE] * 3


def test_no_more_is_shown_than_was_asked_for(journal: Journal[CensusState]) -> None:
    """How long the log is beyond the charge that is published would tell what other questions are doing."""
    publication = Publication(journal, None)
    publication.publish(4)
    assert publication.newer_than(3) == (4, journal.checkpoint(4))
    assert publication.newer_than(4) is None
    assert publication.newer_than(SIZE) is None


def test_what_is_cosigned_covers_the_entry_that_is_asked_for(journal: Journal[CensusState]) -> None:
    """A note by the requested witness, or by any; of this log and no other; the newest."""
    publication = Publication(journal, None)
    assert publication.cosigned() is None
    rows = [
        CosignedNote(ORIGIN, HEALTH_ORIGIN, 4, "by the one"),
        CosignedNote(ORIGIN, OTHER, 6, "by the other"),
        CosignedNote(HEALTH_ORIGIN, ORIGIN, 99, "ours, of another log"),
    ]
    with journal.transaction() as transaction:
        for each in rows:
            CosignedNotes(transaction.db).put(each)
    one, other, _ = rows
    assert publication.cosigned() == other
    assert [publication.cosigned(index) for index in (3, 4, 5, 6)] == [other, other, other, None]
    for index, expected in ((0, one), (3, one), (4, None), (5, None)):
        assert publication.cosigned(index, witness=HEALTH_ORIGIN) == expected
    assert publication.cosigned(5, witness=OTHER) == other
    assert publication.cosigned(0, witness="nobody") is None


# --- the store at start ----------------------------------------------------------------------------------------------


def verify(journal: Journal[CensusState], store: WitnessStore) -> None:
    """As a start does."""
    verify_witnessed(journal, store)


def refusal(action: Callable[[], object]) -> BrokerError:
    """Error that keeps the node from serving."""
    with pytest.raises(BrokerError) as caught:
        action()
    return caught.value


@pytest.mark.parametrize("size", range(1, SIZE + 1))
def test_a_log_that_goes_on_from_what_was_seen_is_served(
    journal: Journal[CensusState], store: WitnessStore, size: int
) -> None:
    """The store may be behind, after a crash or an operator's command, as far as it likes."""
    store.put(journal.checkpoint(size))
    verify(journal, store)


def test_a_log_that_nobody_was_ever_shown_needs_no_store(tmp_path: Path, store: WitnessStore) -> None:
    """The first start finds an empty store, also after cards, policy and load were put in force."""
    journal = journal_of(tmp_path / "new.db", *UNSERVED)
    verify(journal, store)
    assert size_of(store.read()) == SIZE - 1
    verify(journal, store)
    journal.close()


def test_a_first_start_that_dies_before_it_has_shown_anything_is_repeated(tmp_path: Path, store: WitnessStore) -> None:
    """Its noise slots are in the log and in no store: the next start is not taken for one on a restored backup."""
    journal = journal_of(tmp_path / "new.db", *UNSERVED)
    verify(journal, store)
    with journal.transaction() as transaction:
        transaction.append(slots())
    verify(journal, store)
    journal.close()


def test_an_empty_store_has_forgotten_a_log_that_was_shown(journal: Journal[CensusState], store: WitnessStore) -> None:
    """Another disk at the same place, or one that was restored with the home: nobody could tell how long the log was."""
    error = refusal(lambda: verify(journal, store))
    assert (error.code, error.stops_node, error.details["witness"]) == (
        "ROLLED_BACK",
        True,
        f"the witness store {store.folder}",
    )
    assert "empty" in error.details["problem"]


def test_an_older_log_is_not_served(tmp_path: Path, journal: Journal[CensusState], store: WitnessStore) -> None:
    """A journal that was restored from a backup, while the store remembers."""
    store.put(journal.checkpoint())
    older = journal_of(tmp_path / "older.db", *UNSERVED)
    error = refusal(lambda: verify(older, store))
    assert (error.code, error.details["problem"]) == ("ROLLED_BACK", f"it has {SIZE - 1} entries and had {SIZE}")
    older.close()


@pytest.mark.parametrize("length", ["the same", "longer"])
def test_a_log_beside_is_not_served(
    tmp_path: Path, journal: Journal[CensusState], store: WitnessStore, length: str
) -> None:
    """Restored, and gone on differently: as long as what was seen, or longer by now."""
    store.put(journal.checkpoint())
    more = (loaded("load3"),) if length == "longer" else ()
    beside = journal_of(tmp_path / "beside.db", *UNSERVED, loaded("load2"), *more)
    error = refusal(lambda: verify(beside, store))
    assert (error.code, error.details["problem"]) == (
        "ROLLED_BACK",
        f"its first {SIZE} entries are not those that were seen",
    )
    beside.close()


FOREIGN = {
    "another key": NoteSigner(ORIGIN, (SigningKey(Purpose.LOG, bytes(32)),)).sign_checkpoint(3, bytes(32)),
    "another log": NoteSigner("census.test/other", (LOG_KEY,)).sign_checkpoint(3, bytes(32)),
    "a cosignature alone": WITNESS.cosign(SIGNER.sign_checkpoint(3, bytes(32)), 0).replace(
        SIGNER.sign_checkpoint(3, bytes(32)).splitlines(keepends=True)[-1], ""
    ),
    "altered": SIGNER.sign_checkpoint(3, bytes(32)).replace("\n3\n", "\n2\n"),
    "rubbish": "rubbish",
    "emptied": "",
}


@pytest.mark.parametrize("note", FOREIGN.values(), ids=list(FOREIGN))
def test_what_is_no_checkpoint_of_this_log_is_not_our_store(
    journal: Journal[CensusState], store: WitnessStore, note: str
) -> None:
    """The store of another log, or one that somebody wrote into: it cannot say that the log is whole."""
    store.put(note)
    error = refusal(lambda: verify(journal, store))
    assert (error.code, error.stops_node) == ("ROLLED_BACK", True)
    assert error.details["problem"].endswith(("is no checkpoint", "is of another log", "are not those that were seen"))


def test_a_store_that_is_not_there_keeps_the_node_from_serving(journal: Journal[CensusState], tmp_path: Path) -> None:
    """A disk that is not mounted: the operator mounts it, and nothing was decided."""
    error = refusal(lambda: verify(journal, WitnessStore(tmp_path / "missing")))
    assert (error.code, error.stops_node) == ("FILE_UNUSABLE", False)


def test_what_was_published_is_found_again(tmp_path: Path, journal: Journal[CensusState], store: WitnessStore) -> None:
    """The store that publishing writes is the one that a start reads: a log without its last entry is found out."""
    Publication(journal, store).publish(SIZE)
    verify(journal, store)
    older = journal_of(tmp_path / "older.db", *UNSERVED)
    assert refusal(lambda: verify(older, store)).code == "ROLLED_BACK"
    older.close()
