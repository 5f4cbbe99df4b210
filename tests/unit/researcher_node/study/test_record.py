"""The record of studies: what it remembers, for whom it can be read, and which files it does not touch."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.world import make_policy

from broker_common.errors import InternalError
from researcher_node.study import record as module
from researcher_node.study.record import Attempt, Published, Record, Round


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    """A record in a fresh home."""
    with closing(Record(tmp_path)) as made:
        yield made


def test_the_last_attempt_counts_and_all_are_kept(record: Record) -> None:
    """In each round by itself, also after the file was closed."""
    first = record.begin("study", "A study", 30, 5)
    assert record.latest("study") == first == Round("study", 1, 30)
    assert record.attempts(first, "question") == []
    assert record.assign(first, "question", "q1") == Attempt(1, "q1", reused=False)
    assert record.assign(first, "question", "q2", reused=True) == Attempt(2, "q2", reused=True)
    second = record.begin("study", "A study", 20, 6)
    assert (second.number, record.latest("study"), record.latest("another")) == (2, second, None)
    assert record.attempts(second, "question") == []
    assert [attempt.query for attempt in record.attempts(first, "question")] == ["q1", "q2"]


def test_equal_questions_are_found_newest_first(record: Record) -> None:
    """Questions of every study and round, each query once."""
    one, other = record.begin("one", "", 30, 0), record.begin("other", "", 30, 0)
    record.assign(one, "question", "q1")
    record.assign(other, "question", "q2")
    record.assign(other, "another question", "q3")
    record.assign(record.begin("third", "", 30, 0), "question", "q1", reused=True)
    assert record.equal("question") == ["q1", "q2"]
    assert record.equal("no question") == []


def test_what_is_published_is_read_back(record: Record) -> None:
    """Dictionaries with their descriptions, and the policy; the newest ones."""
    assert record.published() is None
    published = Published(HEALTH_DICTIONARY, CENSUS_DICTIONARY, make_policy())
    record.keep_published(published)
    assert record.published() == published
    newer = Published(HEALTH_DICTIONARY, CENSUS_DICTIONARY, make_policy(accounting="per_person"))
    record.keep_published(newer)
    assert record.published() == newer


def test_nobody_else_can_read_it(record: Record, tmp_path: Path) -> None:
    """Titles of studies are the researcher's own."""
    record.begin("study", "A study", 30, 5)
    files = list(tmp_path.glob("studies.db*"))
    assert len(files) >= 2
    assert {stat.S_IMODE(file.stat().st_mode) & 0o077 for file in files} == {0}


def test_one_process_runs_at_a_time(record: Record, tmp_path: Path) -> None:
    """The lock ends with its holder."""
    with closing(Record(tmp_path)) as other:
        with record.running() as first, other.running() as second:
            assert (first, second) == (True, False)
        with other.running() as again:
            assert again


def test_a_record_of_another_version_is_left_alone(tmp_path: Path) -> None:
    """It says so, and nothing in the file is changed."""
    Record(tmp_path).close()
    file = tmp_path / "studies.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version={module.FORMAT + 1}")
        db.execute("drop table rounds")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.read_bytes()
    with pytest.raises(InternalError, match="FORMAT_UNKNOWN"):
        Record(tmp_path)
    assert file.read_bytes() == before


def test_a_damaged_record_is_no_empty_one(tmp_path: Path) -> None:
    """Or everything would be asked, and charged, once more."""
    (tmp_path / "studies.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(InternalError, match="INTEGRITY"):
        Record(tmp_path)
