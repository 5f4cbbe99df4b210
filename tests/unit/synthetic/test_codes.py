"""The code lists and the figures they rest on."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from deploy.synthetic import codes, published
from deploy.synthetic.codes import Codes, bare_codes

MOST_MEDICAL_CODES = 30
ONTARIO_2011 = 12_851_821

ALL_LISTS = [
    codes.SEXES,
    codes.CENSUS_DIVISIONS,
    codes.DIAGNOSES,
    codes.PROCEDURES,
]


@pytest.mark.parametrize("code_list", ALL_LISTS)
def test_codes_are_distinct_labelled_and_never_hold_a_separator(code_list: Codes) -> None:
    """No code repeats, is empty, lacks a one-line label, or contains the separator of multi-valued columns."""
    bare = bare_codes(code_list)
    assert len(set(bare)) == len(bare)
    for code, label in code_list:
        assert code.strip() == code != ""
        assert ";" not in code
        assert label
        assert "\n" not in label


@pytest.mark.parametrize("code_list", [codes.DIAGNOSES, codes.PROCEDURES])
def test_medical_codes_are_few_and_in_snake_case(code_list: Codes) -> None:
    """Medical codes can be typed without quoting doubts, and lists stay short enough to read."""
    assert len(code_list) <= MOST_MEDICAL_CODES
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", code) for code in bare_codes(code_list))


def test_division_populations_add_up_to_the_province() -> None:
    """The remembered populations of the divisions agree with the remembered total."""
    assert published.divisions().population.sum() == ONTARIO_2011


def test_every_figure_file_has_its_source_written_down() -> None:
    """No figure enters without a row in SOURCES.md."""
    folder = files("deploy.synthetic") / "figures"
    sources = (folder / "SOURCES.md").read_text(encoding="utf-8")
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".csv")]
    assert names
    assert all(f"`{name}`" in sources for name in names)
