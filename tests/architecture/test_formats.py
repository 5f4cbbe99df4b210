"""FORMAT.md lists the number of every format, and they are the numbers of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.inspect import IntType, StructType, type_info

from broker_common.audit.export.documents import OpenedCriteria, ReceiptFile
from broker_common.crypto import rosters
from broker_common.crypto.cards import Card
from broker_common.privacy.opening import Opening
from broker_common.privacy.policy import Policy
from broker_common.tlog.replay import FORMAT_VERSION
from health_node.people import store as people_store
from researcher_node.answers import store as answers
from researcher_node.study import record

ROOT = Path(__file__).parents[2]
FORMAT = (ROOT / "broker_common" / "tlog" / "FORMAT.md").read_text(encoding="utf-8")
TABLE = FORMAT.partition("## Format numbers")[2].partition("## Duties")[0]
NUMBERS: dict[str, str] = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", TABLE, re.MULTILINE))
PACKAGES = ("broker_common", "census_node", "health_node", "researcher_node")
# A domain of a hash or a signature, with its version.
_DOMAIN = re.compile(rb"tripartite/([a-z-]+)/v([0-9]+)\\0")


def number_of(kind: type[Struct]) -> int:
    """The newest `format` that a document may have; of policies alone the one before is read, too."""
    info = type_info(kind)
    assert isinstance(info, StructType)
    (found,) = (field.type for field in info.fields if field.name == "format")
    assert isinstance(found, IntType)
    assert found.le is not None
    assert found.ge == found.le - (kind is Policy)
    return found.le


def row(beginning: str) -> str:
    """The number in the row that begins so."""
    (found,) = (number for what, number in NUMBERS.items() if what.startswith(beginning))
    return found


@pytest.mark.parametrize(
    ("beginning", "number"),
    [
        ("both logs", FORMAT_VERSION),
        ("a policy", number_of(Policy)),
        ("a card", number_of(Card)),
        ("a receipt's file", number_of(ReceiptFile)),
        ("opened criteria", number_of(OpenedCriteria)),
        ("an opening", number_of(Opening)),
        ("a researcher's store", answers._FORMAT),
        ("a researcher's record of studies", record.FORMAT),
    ],
)
def test_table_has_the_numbers_of_the_code(beginning: str, number: int) -> None:
    """A change of one needs a change of the other, and the rules beside the table."""
    assert row(beginning) == str(number)


def test_table_has_what_files_begin_with() -> None:
    """A roster's payload and the health node's loads."""
    assert rosters._MAGIC.decode() in row("a sealed roster")
    assert people_store._MAGIC.decode() in row("the health node's file")


def domains() -> Iterator[tuple[str, str]]:
    """Every domain in the code, with its version."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            yield from ((name.decode(), f"v{version.decode()}") for name, version in _DOMAIN.findall(path.read_bytes()))


@pytest.mark.parametrize(
    ("beginning", "domain"),
    [
        ("a sealed answer", "answer"),
        ("a sealed answer", "opening"),
        ("a sealed sample", "sample"),
        ("a sealed roster", "roster"),
        ("the canonical criteria", "criteria"),
    ],
)
def test_table_has_the_versions_of_what_is_sealed(beginning: str, domain: str) -> None:
    """One version of each is in the code."""
    (version,) = {version for name, version in domains() if name == domain}
    assert row(beginning).startswith(version)


def test_no_hash_has_two_versions() -> None:
    """But those that changed by the rules, which read both."""
    names = {name for name, _ in domains()}
    assert len(names) > 15
    both = {"dictionary": {"v1", "v2"}}
    found = set(domains()) - {(name, version) for name, versions in both.items() for version in versions}
    assert len(names - both.keys()) == len(found)
