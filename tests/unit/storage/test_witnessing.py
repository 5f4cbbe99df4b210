"""Witnessing: what is kept of our own log is ours and cosigned; what we cosign grows, and is durable before it is said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.connections import break_statements
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
from broker_common.errors import BrokerError
from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes, Witnessing, verify_own_log
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.cosignature import MOST_SKEW_MS, Cosigner
from broker_common.tlog.merkle import MerkleTree
from broker_common.tlog.note import NoteSigner, parse_note

OWN = Cosigner(ORIGIN, SigningKey(Purpose.WITNESS, bytes(range(9, 41))))
PEER = NoteSigner(HEALTH_ORIGIN, (SigningKey(Purpose.LOG, bytes(range(8, 40))),))
OTHER_KEY = SigningKey(Purpose.LOG, bytes(32))
OTHER_WITNESS = Cosigner("other-health.test/log", SigningKey(Purpose.WITNESS, bytes(32)))
ROTATED = Cosigner(HEALTH_ORIGIN, SigningKey(Purpose.WITNESS, bytes(range(7, 39))))
SIZE = 7
NOW_S = 1_700_000_000


def opened(path: Path, make: Callable[..., Journal[CensusState]] = Journal) -> Journal[CensusState]:
    """The journal of a census node."""
    return make(
        path,
        fresh_state=census_state,
        signer=lambda _: SIGNER,
        clock=FakeClock(),
        tables=CosignedNotes.create_tables,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal of seven entries."""
    journal = opened(tmp_path / "journal.db", Journal.create)
    for event in (*beginning()[1:], adopted(), loaded(), slots()):
        with journal.transaction() as transaction:
            transaction.append(event)
    journal.close()
    return tmp_path / "journal.db"


@pytest.fixture
def journal(file: Path) -> Iterator[Journal[CensusState]]:
    """The same, open."""
    made = opened(file)
    yield made
    made.close()


@pytest.fixture
def witnessing(journal: Journal[CensusState]) -> Witnessing:
    """A census node's dealings with its peers' logs."""
    return Witnessing(journal, cosigner=lambda: OWN, clock=FakeClock(NOW_S * 1000))


def code_of(action: Callable[[], object]) -> tuple[str, bool]:
    """The code of the error that the action raises, and whether it stops the node."""
    with pytest.raises(BrokerError) as caught:
        action()
    return caught.value.code, caught.value.stops_node


def stored(path: Path) -> set[tuple[str, str, int, str]]:
    """Rows of the file, read by a separate connection."""
    connection = sqlite3.connect(path)
    rows = connection.execute("select log, witness, size, note from cosigned").fetchall()
    connection.close()
    return set(rows)


def row(cosigned: CosignedNote) -> tuple[str, str, int, str]:
    """The same as a row."""
    return cosigned.log, cosigned.witness, cosigned.size, cosigned.note


# --- our own log -----------------------------------------------------------------------------------------------------


def shown(journal: Journal[CensusState], size: int, witness: Cosigner = WITNESS) -> str:
    """A peer's claim of what it has cosigned of our log."""
    return witness.cosign(journal.checkpoint(size), NOW_S)


def take(witnessing: Witnessing, note: str, witness: Cosigner = WITNESS) -> int:
    """Taken in; gives its size."""
    return witnessing.take(note, SIGNER.verifier, witness.verifier).size


def test_what_a_peer_has_cosigned_of_our_log_is_kept(
    file: Path, journal: Journal[CensusState], witnessing: Witnessing
) -> None:
    """Durably, the newest alone, and one for each witness; an older one changes nothing."""
    assert take(witnessing, shown(journal, 3)) == 3
    newest = CosignedNote(ORIGIN, HEALTH_ORIGIN, SIZE, shown(journal, SIZE))
    assert take(witnessing, newest.note) == SIZE
    assert take(witnessing, shown(journal, 5)) == 5
    other = CosignedNote(ORIGIN, OTHER_WITNESS.name, 4, shown(journal, 4, OTHER_WITNESS))
    assert take(witnessing, other.note, OTHER_WITNESS) == 4
    assert stored(file) == {row(newest), row(other)}
    with journal.reading():
        notes = CosignedNotes(journal.db)
        assert notes.of(ORIGIN) == [newest, other]
        assert notes.newest(ORIGIN, HEALTH_ORIGIN) == newest
        assert notes.newest(ORIGIN, "nobody") is None
        assert notes.of(HEALTH_ORIGIN) == []


def test_a_log_that_is_older_than_a_peer_has_seen_was_rolled_back(
    journal: Journal[CensusState], witnessing: Witnessing
) -> None:
    """Nobody but us can have signed a longer one: the node stops, whether or not the peer cosigned it."""
    longer = SIGNER.sign_checkpoint(SIZE + 1, bytes(32))
    for note in (longer, WITNESS.cosign(longer, NOW_S), SIGNER.sign_checkpoint(2**40, bytes(32))):
        assert code_of(lambda note=note: take(witnessing, note)) == ("ROLLED_BACK", True)  # type: ignore[misc]
    with journal.reading():
        assert CosignedNotes(journal.db).of(ORIGIN) == []


@pytest.mark.parametrize("size", [1, 4, SIZE])
def test_a_log_beside_what_a_peer_has_seen_was_rolled_back(witnessing: Witnessing, size: int) -> None:
    """A log of the same length or shorter, with other entries: restored, and gone on differently."""
    note = WITNESS.cosign(SIGNER.sign_checkpoint(size, bytes(32)), NOW_S)
    assert code_of(lambda: take(witnessing, note)) == ("ROLLED_BACK", True)


def test_what_we_did_not_sign_proves_nothing_about_us(witnessing: Witnessing, journal: Journal[CensusState]) -> None:
    """A peer that lies stops nobody: a longer log by another key, of another name, altered, or unsigned, is its own fault."""
    altered = SIGNER.sign_checkpoint(SIZE, bytes(32)).replace("\n7\n", "\n9\n")
    refusals = {
        "another key": NoteSigner(ORIGIN, (OTHER_KEY,)).sign_checkpoint(99, bytes(32)),
        "another log, our key": NoteSigner("x.test/log", (LOG_KEY,)).sign_checkpoint(99, bytes(32)),
        "the peer's own log": PEER.sign_checkpoint(99, bytes(32)),
        "altered": altered,
        "unsigned": altered.rpartition("\n\n")[0] + "\n\n",
        "rubbish": "x",
        "nothing": "",
    }
    codes = {what: code_of(lambda note=note: take(witnessing, note)) for what, note in refusals.items()}  # type: ignore[misc]
    assert {code for code, _ in codes.values()} == {"BAD_SIGNATURE", "MALFORMED_MESSAGE"}
    assert not any(stops for _, stops in codes.values())
    assert take(witnessing, shown(journal, SIZE)) == SIZE


def test_only_the_peers_own_cosignature_is_kept(
    file: Path, journal: Journal[CensusState], witnessing: Witnessing
) -> None:
    """Not a checkpoint of ours that nobody cosigned, nor one that somebody else did, nor one whose cosignature is wrong."""
    bare, whole = journal.checkpoint(SIZE), shown(journal, SIZE)
    other = shown(journal, 4).splitlines(keepends=True)[-1]
    for note in (bare, shown(journal, SIZE, OTHER_WITNESS), shown(journal, SIZE, ROTATED), bare + other):
        assert code_of(lambda note=note: take(witnessing, note)) == ("BAD_SIGNATURE", False)  # type: ignore[misc]
    assert stored(file) == set()
    assert take(witnessing, whole) == SIZE
    # A known note is verified all the same, unless it is the very note that is kept.
    assert code_of(lambda: take(witnessing, shown(journal, 4, OTHER_WITNESS))) == ("BAD_SIGNATURE", False)


def test_a_cosignature_that_was_kept_outlives_its_key(journal: Journal[CensusState], witnessing: Witnessing) -> None:
    """A peer whose key is replaced while the log stands still goes on saying its last one, and is heard."""
    note = shown(journal, SIZE)
    assert take(witnessing, note) == SIZE
    assert witnessing.take(note, SIGNER.verifier, ROTATED.verifier).size == SIZE


def test_of_a_peers_note_our_lines_and_its_own_are_kept(
    file: Path, journal: Journal[CensusState], witnessing: Witnessing
) -> None:
    """Nothing else goes into our log, wherever it stands, however often; not even a second cosignature by the same key."""
    honest = shown(journal, SIZE)
    text, signatures = honest.split("\n\n")
    ours, theirs = signatures.splitlines(keepends=True)
    stranger = shown(journal, SIZE, OTHER_WITNESS).splitlines(keepends=True)[-1]
    rubbish = f"\u2014 {HEALTH_ORIGIN} AAAAAA==\n\u2014 {ORIGIN} AAAAAAAA\n\u2014 x AAAAAA==\n"
    earlier = WITNESS.cosign(journal.checkpoint(SIZE), 5).splitlines(keepends=True)[-1]
    for lines in (rubbish + ours + theirs, ours + stranger + theirs + rubbish, ours + ours + theirs + earlier + theirs):
        assert take(witnessing, f"{text}\n\n{lines}") == SIZE
        assert stored(file) == {(ORIGIN, HEALTH_ORIGIN, SIZE, honest)}
        with journal.transaction() as transaction:
            transaction.db.execute("delete from cosigned")


def test_a_cosignature_of_a_time_to_come_is_not_kept(
    file: Path, journal: Journal[CensusState], witnessing: Witnessing
) -> None:
    """More than an hour ahead of our clock it would make us a liar: the entry that names it would be older than it."""
    for ahead_s in (MOST_SKEW_MS // 1000 + 1, 10**9, 2**63 - 1 - NOW_S):
        note = WITNESS.cosign(journal.checkpoint(SIZE), NOW_S + ahead_s)
        assert code_of(lambda note=note: take(witnessing, note)) == ("COSIGNED_AHEAD", False)  # type: ignore[misc]
        assert stored(file) == set()
    last = WITNESS.cosign(journal.checkpoint(SIZE), NOW_S + MOST_SKEW_MS // 1000)
    assert take(witnessing, last) == SIZE
    assert stored(file) == {(ORIGIN, HEALTH_ORIGIN, SIZE, last)}


def test_a_clock_behind_our_log_refuses_no_cosignature(journal: Journal[CensusState]) -> None:
    """After a start with the clock set back the log's time goes on, and it is what an auditor compares with."""
    late = Witnessing(journal, cosigner=lambda: OWN, clock=FakeClock(0))
    log_s = journal.state.time_ms // 1000
    assert log_s > MOST_SKEW_MS
    assert take(late, WITNESS.cosign(journal.checkpoint(SIZE), log_s)) == SIZE


@pytest.mark.parametrize("size", range(1, SIZE + 1))
def test_our_log_is_what_was_seen_or_goes_on_from_it(journal: Journal[CensusState], size: int) -> None:
    """Every checkpoint that the log has ever had is one of its own."""
    verify_own_log(journal, SIGNER.verifier.verify_checkpoint(journal.checkpoint(size)), "somebody")


# --- a peer's log ----------------------------------------------------------------------------------------------------


class Log:
    """A peer's log, and one that has other entries from some place on."""

    def __init__(self, size: int = 20, beside_from: int | None = None) -> None:
        self.tree = MerkleTree()
        for number in range(size):
            self.tree.append(f"{'b' if beside_from is not None and number >= beside_from else 'a'}{number}".encode())

    def note(self, size: int) -> str:
        """Its checkpoint, signed by the peer: a party with two histories can sign both."""
        return PEER.sign_checkpoint(size, self.tree.root(size))

    def cosigned(self, witnessing: Witnessing, size: int, since: int = 0) -> str:
        """Answer when it is shown, with the proof from `since` on."""
        proof = self.tree.consistency_proof(since, size) if since else []
        return witnessing.cosign(self.note(size), proof, PEER.verifier)


HONEST = Log()


def test_the_first_checkpoint_of_a_log_is_cosigned_as_it_is(file: Path, witnessing: Witnessing) -> None:
    """There is nothing that it could contradict; what is said is the log's own note with one line more."""
    assert witnessing.seen(HEALTH_ORIGIN) is None
    note = HONEST.cosigned(witnessing, 5)
    assert note.startswith(HONEST.note(5))
    said = OWN.verifier.verify(note)
    assert (said.checkpoint, said.time_s) == (parse_note(HONEST.note(5))[0], NOW_S)
    assert stored(file) == {(HEALTH_ORIGIN, ORIGIN, 5, note)}
    assert witnessing.seen(HEALTH_ORIGIN) == CosignedNote(HEALTH_ORIGIN, ORIGIN, 5, note)


def test_of_a_peers_checkpoint_its_own_lines_are_cosigned(file: Path, witnessing: Witnessing) -> None:
    """Other lines there would be in our export, and nobody could explain them."""
    padded = HONEST.note(5) + f"\u2014 {HEALTH_ORIGIN} AAAAAA==\n\u2014 x AAAAAAAA\n"
    note = witnessing.cosign(padded, [], PEER.verifier)
    assert note == OWN.cosign(HONEST.note(5), NOW_S)
    assert stored(file) == {(HEALTH_ORIGIN, ORIGIN, 5, note)}


def test_a_log_that_has_grown_is_cosigned_again(witnessing: Witnessing) -> None:
    """Step by step, each proved from the one before."""
    since = 0
    for size in (1, 2, 5, 12, 20):
        note = HONEST.cosigned(witnessing, size, since)
        assert OWN.verifier.verify(note).checkpoint.size == size
        since = size


def test_what_is_not_newer_is_answered_with_the_last(witnessing: Witnessing) -> None:
    """The same again, an older one, or a newer one whose peer does not know from where to prove it."""
    last = HONEST.cosigned(witnessing, 12)
    assert HONEST.cosigned(witnessing, 12) == last
    assert HONEST.cosigned(witnessing, 12, 12) == last
    assert HONEST.cosigned(witnessing, 5) == last
    assert HONEST.cosigned(witnessing, 5, 3) == last
    assert HONEST.cosigned(witnessing, 20) == last
    assert HONEST.cosigned(witnessing, 20, 12) != last


def test_a_log_beside_the_last_is_never_cosigned(file: Path, witnessing: Witnessing) -> None:
    """A log of the same length, or longer with a proof from its own past: a witness is there to see two histories."""
    HONEST.cosigned(witnessing, 12)
    before = stored(file)
    beside = Log(beside_from=11)
    for size, since in ((12, 0), (12, 12), (13, 12), (20, 12), (20, 5)):
        refused = code_of(lambda size=size, since=since: beside.cosigned(witnessing, size, since))  # type: ignore[misc]
        assert refused == ("COMMITMENT_MISMATCH", False)
    assert stored(file) == before
    assert OWN.verifier.verify(HONEST.cosigned(witnessing, 20, 12)).checkpoint.size == 20


@pytest.mark.parametrize(
    "proof",
    [
        [bytes(32)],
        HONEST.tree.consistency_proof(11, 20),
        HONEST.tree.consistency_proof(12, 19),
        HONEST.tree.consistency_proof(12, 20)[:-1],
        [*HONEST.tree.consistency_proof(12, 20), bytes(32)],
        HONEST.tree.consistency_proof(12, 20)[::-1],
        [b"", *HONEST.tree.consistency_proof(12, 20)],
    ],
)
def test_a_wrong_proof_is_no_proof(file: Path, witnessing: Witnessing, proof: list[bytes]) -> None:
    """Even of a log that did grow: what was not proved is not cosigned, and can be proved afterwards."""
    HONEST.cosigned(witnessing, 12)
    before = stored(file)
    refused = code_of(lambda: witnessing.cosign(HONEST.note(20), proof, PEER.verifier))
    assert refused == ("COMMITMENT_MISMATCH", False)
    assert stored(file) == before
    assert OWN.verifier.verify(HONEST.cosigned(witnessing, 20, 12)).checkpoint.size == 20


def test_only_the_peers_own_log_is_cosigned(file: Path, witnessing: Witnessing) -> None:
    """Not a note that somebody else signed, and not our own log under a peer's name."""
    root = HONEST.tree.root(5)
    for note in (
        NoteSigner(HEALTH_ORIGIN, (OTHER_KEY,)).sign_checkpoint(5, root),
        NoteSigner("x.test/log", PEER.keys).sign_checkpoint(5, root),
        SIGNER.sign_checkpoint(5, root),
        HONEST.note(5).replace("\n5\n", "\n6\n"),
        "",
    ):
        code, stops = code_of(lambda note=note: witnessing.cosign(note, [], PEER.verifier))  # type: ignore[misc]
        assert code in {"BAD_SIGNATURE", "MALFORMED_MESSAGE"}
        assert not stops
    assert stored(file) == set()


@pytest.mark.parametrize("happens", [False, True], ids=["lost", "stored but reported failed"])
def test_a_cosignature_is_said_when_it_is_durable_and_not_before(file: Path, *, happens: bool) -> None:
    """Whatever became of the commit, nobody hears of it; after a restart the witness contradicts nothing it ever said."""
    journal = opened(file)
    witnessing = Witnessing(journal, cosigner=lambda: OWN, clock=FakeClock(NOW_S * 1000))
    HONEST.cosigned(witnessing, 5)
    break_statements(journal.db, happens=happens)
    assert code_of(lambda: HONEST.cosigned(witnessing, 12, 5)) == ("STATE_UNKNOWN", True)
    assert code_of(lambda: HONEST.cosigned(witnessing, 12, 5)) == ("STATE_UNKNOWN", True)
    journal.close()
    journal = opened(file)
    again = Witnessing(journal, cosigner=lambda: OWN, clock=FakeClock(NOW_S * 1000))
    last = again.seen(HEALTH_ORIGIN)
    assert last is not None
    assert last.size == (12 if happens else 5)
    beside = Log(beside_from=4)
    assert code_of(lambda: beside.cosigned(again, 20, last.size)) == ("COMMITMENT_MISMATCH", False)
    assert OWN.verifier.verify(HONEST.cosigned(again, 20, last.size)).checkpoint.size == 20
    journal.close()


def test_a_witness_remembers_over_a_restart(file: Path) -> None:
    """The last one is answered as it was said, and another history is refused as ever."""
    said = ""
    for _ in range(3):
        journal = opened(file)
        witnessing = Witnessing(journal, cosigner=lambda: OWN, clock=FakeClock())
        said = said or HONEST.cosigned(witnessing, 12)
        assert HONEST.cosigned(witnessing, 12) == said
        assert HONEST.cosigned(witnessing, 5) == said
        assert code_of(lambda: Log(beside_from=3).cosigned(witnessing, 12)) == ("COMMITMENT_MISMATCH", False)  # noqa: B023
        journal.close()


def test_a_smaller_note_never_takes_the_place_of_a_larger(journal: Journal[CensusState], file: Path) -> None:
    """No matter who writes it, the row only grows."""
    for size, kept in ((5, 5), (3, 5), (5, 5), (6, 6)):
        with journal.transaction() as transaction:
            CosignedNotes(transaction.db).put(CosignedNote(ORIGIN, HEALTH_ORIGIN, size, f"note {size}"))
        assert stored(file) == {(ORIGIN, HEALTH_ORIGIN, kept, f"note {kept}")}
