"""The dictionaries that come with the product: whole, in two languages, and Ontario's what they always were."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from broker_common.query.dictionary import Column, Dictionary
from broker_common.storage.dictionary.file import FILE_NAME, read_dictionary

EXAMPLES = Path(str(files("deploy"))) / "examples"
WHOLE = sorted(EXAMPLES.rglob(FILE_NAME))
# Loads, logs and tickets of every deployment before dictionaries were files name these.
ONTARIO = {
    "health": "006510a13491f8a9616dbb59083ec26aeaccd66f18d3683533533aa09bcf738e",
    "census": "f68df7b5b83ec2aea0696fac8a515600e64bd130b2451f2304cc03b77954ada6",
}


@pytest.mark.parametrize("role", ONTARIO)
def test_ontarios_dictionaries_mean_what_they_always_meant(role: str) -> None:
    """A home of an earlier version goes on with its loads."""
    now = read_dictionary(EXAMPLES / "ontario" / role / FILE_NAME).hash.hex()
    assert now == ONTARIO[role], "keep the former pair: CONTRIBUTING says where, in the rows about made-up columns"


def all_columns(dictionary: Dictionary) -> Iterator[Column]:
    """Those of people and those of events."""
    yield from dictionary.columns
    for table in dictionary.events:
        yield from table.columns


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: str(path.parent.relative_to(EXAMPLES)))
def test_every_text_of_an_example_has_its_french(path: Path) -> None:
    """A French researcher reads French, whichever column is shown."""
    dictionary = read_dictionary(path)
    columns = list(all_columns(dictionary))
    described = [(column.name, column.description_fr) for column in columns]
    described += [(table.name, table.description_fr) for table in dictionary.events]
    labelled = [(f"{column.name} {code.value}", code.label_fr) for column in columns for code in column.codes]
    assert [what for what, french in described + labelled if not french] == []
    assert dictionary.agency
