"""linking.toml: what is usual, what a mode changes, and what cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY

from broker_common.errors import InvalidRequestError
from census_node.linking.settings import LinkingSettings, read_settings

ROOT = Path(__file__).parents[4]


def test_names_alone_are_compared_under_a_stricter_threshold() -> None:
    """The mode brings its own usual settings, and the file may still say otherwise."""
    usual, strict = read_settings(None, None), read_settings(None, "nominative")
    assert strict.threshold > usual.threshold
    assert set(strict.compared) == {"given_name", "second_name", "surname"}
    assert strict.training == ()


def test_a_file_outranks_what_is_usual_and_the_command_line_the_file(tmp_path: Path) -> None:
    """Settings left out of the file have the mode's usual values."""
    file = tmp_path / "linking.toml"
    file.write_text('mode = "nominative"\nseed = 7\n')
    found = read_settings(file, None)
    assert (found.mode, found.seed, found.threshold) == ("nominative", 7, 0.995)
    assert read_settings(file, "complementary").threshold == LinkingSettings().threshold


def test_the_dictionary_says_how_cards_look_and_what_is_linked(tmp_path: Path) -> None:
    """A table of cards of another form could not be loaded under it; the file of settings may still say otherwise."""
    own = replace(CENSUS_DICTIONARY, id_form="digits", linkage="nominative")
    found = read_settings(None, None, own)
    assert (found.mode, found.id_form, found.threshold) == ("nominative", "digits", 0.995)
    file = tmp_path / "linking.toml"
    file.write_text('id_form = "text"\nmode = "complementary"\n')
    found = read_settings(file, None, own)
    assert (found.mode, found.id_form, found.threshold) == ("complementary", "text", LinkingSettings().threshold)
    by_household = replace(CENSUS_DICTIONARY, id_form="postal_address", linkage="household")
    assert read_settings(None, None, by_household).mode == "complementary"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("treshold = 0.9", "treshold"),
        ("threshold = 1.5", "threshold"),
        ('threshold = "high"', "threshold"),
        ("threshold = 0.4\nreview_from = 0.1", "threshold must be above 0.5"),
        ("review_from = 0.995", "review_from must be below threshold"),
        ('mode = "household"', "mode"),
        ('id_form = "shoe_size"', "id_form is one of"),
        ('blocking = [["shoe_size"]]', "blocking"),
        ("blocking = []", "blocking"),
        ("blocking = [[]]", "blocking"),
        ('compared = ["surname"]', "compared"),
        ('training = [["birth_year"], ["birth_date"]]', "holds birth_date, so nothing is learned of it"),
        ("memory_mib = 1", "memory_mib"),
        ("seed = -1", "seed"),
        ("= 1", "linking.toml"),
        ("a" * 10, "linking.toml"),
    ],
)
def test_settings_that_cannot_be_are_named(tmp_path: Path, text: str, told: str) -> None:
    """Misspelt ones, too: none is silently ignored."""
    file = tmp_path / "linking.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequestError) as caught:
        read_settings(file, None)
    assert caught.value.code == "CONFIG_INVALID"
    assert told in caught.value.text


def test_a_file_of_settings_that_is_not_there_is_said(tmp_path: Path) -> None:
    """It was named, so what is usual will not do."""
    with pytest.raises(InvalidRequestError) as caught:
        read_settings(tmp_path / "nowhere.toml", None)
    assert caught.value.code == "FILE_UNUSABLE"


def test_every_setting_stands_in_the_document() -> None:
    """With what is usual."""
    text = (ROOT / "docs" / "linkage.md").read_text()
    assert set(LinkingSettings.__struct_fields__) <= set(re.findall(r"`(\w+)`", text))
