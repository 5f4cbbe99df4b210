"""Loading people: what is admitted, what is rejected and why, and that a failed load changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import samples
from fakes.dictionaries import HEALTH_DICTIONARY, health_row
from fakes.disk import limited_files

from broker_common.crypto.id_forms import parse_health_card
from broker_common.crypto.linkage import LinkageChain, LinkageKey
from broker_common.errors import InternalError, InvalidRequestError
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Code, Column, ColumnType, Dictionary
from broker_common.storage.source.plan import PlainPlan
from deploy.synthetic.population import HEALTH_COLUMNS, write_sources
from health_node.people import store as people_store
from health_node.people.loading import LoadReport, load_people
from health_node.people.store import PeopleStore, read_figures
from health_node.people.tables import Declared

KEY = LinkageChain([LinkageKey(bytes(range(32)))])
HEADER = ",".join(HEALTH_COLUMNS)
NOTHING = "," * (len(HEALTH_COLUMNS) - 1)


def card(number: int) -> str:
    """The number's health card, with its check digit."""
    for digit in range(10):
        try:
            return parse_health_card(f"{number:09d}{digit}")
        except ValueError:
            continue
    raise AssertionError("every number has a check digit")


def load(
    directory: Path,
    *rows: str,
    header: str = HEADER,
    max_rejected: int | None = None,
    places: int = DECLARED_STEP,
) -> LoadReport:
    """Load these rows into the directory's store."""
    source = directory / "people.csv"
    source.write_text("\n".join([header, *rows, ""]), "utf-8")
    return load_people(
        PlainPlan(source),
        directory / "store.people",
        KEY,
        dictionary=HEALTH_DICTIONARY,
        declared=Declared(places),
        max_rejected=max_rejected,
    )


def selected(directory: Path, text: str) -> list[bytes]:
    """Whom a condition selects from the directory's store."""
    with PeopleStore(directory / "store.people", HEALTH_DICTIONARY) as store:
        return [row.tobytes() for row in samples.selected(store, parse_condition(text, HEALTH_DICTIONARY))]


def refusal(directory: Path, *rows: str, header: str = HEADER, max_rejected: int | None = None) -> InvalidRequestError:
    """The error that loading these rows ends in."""
    with pytest.raises(InvalidRequestError) as caught:
        load(directory, *rows, header=header, max_rejected=max_rejected)
    assert caught.value.code == "LOAD_REFUSED"
    return caught.value


def test_load_beyond_its_declared_places_is_refused(tmp_path: Path) -> None:
    """As many people as places are loaded; with one more the load before stays, and the operator is told what to declare."""
    rows = [health_row(card(number)) for number in range(1, 5)]
    assert load(tmp_path, *rows[:3], places=3).loaded == 3
    before = (tmp_path / "store.people").read_bytes()
    with pytest.raises(InvalidRequestError) as caught:
        load(tmp_path, *rows, places=3)
    assert caught.value.code == "LOAD_REFUSED"
    assert "4 people" in caught.value.text
    assert "3 places" in caught.value.text
    assert str(DECLARED_STEP) in caught.value.hint
    assert (tmp_path / "store.people").read_bytes() == before
    # A card that is there twice is one person.
    assert load(tmp_path, *rows[:3], rows[0], places=3).loaded == 3


def test_row_is_loaded_with_all_its_values(tmp_path: Path) -> None:
    """Each value of a row can be asked for, and the person comes out as the card's pseudonym."""
    report = load(tmp_path, health_row(card(1)), f"{card(2)}{NOTHING}")
    assert (report.rows, report.loaded, report.without_card, report.rejected.count) == (2, 2, 0, 0)
    first, second = KEY.pseudonym(card(1)), KEY.pseudonym(card(2))
    for text in (
        "birth_year = 1950",
        "age = 61",
        "sex = 'female'",
        "census_division = 'Ottawa'",
        "diagnosis = 'asthma' and diagnosis = 'copd' and diagnosis <> 'stroke'",
        "procedure = 'angioplasty'",
        "last_admission_date = '2010-12-31'",
        "hospital_visits = 2",
        "emergency_visits = 1",
    ):
        assert selected(tmp_path, text) == [first]
        assert selected(tmp_path, f"not ({text})") == [second]


def test_order_of_columns_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    """A file as spreadsheets save it loads like any other."""
    names = HEADER.split(",")
    fields = health_row(card(1)).split(",")
    load(tmp_path, ",".join(fields[::-1]) + "\r", header="\ufeff" + ",".join(names[::-1]) + "\r")
    assert selected(tmp_path, "age = 61") == [KEY.pseudonym(card(1))]


def test_quoted_value_with_a_comma_is_one_value(tmp_path: Path) -> None:
    """Census divisions have commas in their names."""
    load(tmp_path, health_row(card(1), census_division="Stormont, Dundas and Glengarry"))
    assert len(selected(tmp_path, "census_division = 'Stormont, Dundas and Glengarry'")) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (health_row("123456789"), "health_card is not ten digits"),
        (health_row("12345678901"), "health_card is not ten digits"),
        (health_row("  "), "health_card is not ten digits"),
        (health_row("\u0661234567897"), "health_card is not ten digits"),
        (health_row("1234567890"), "health_card has a wrong check digit"),
        (health_row(card(1), age="131"), "age is not between 0 and 130"),
        (health_row(card(1), age="-1"), "age is not between 0 and 130"),
        (health_row(card(1), age="61.5"), "age is not a whole number"),
        (health_row(card(1), age=" 61"), "age is not a whole number"),
        (health_row(card(1), age="\u0666\u0661"), "age is not a whole number"),
        (health_row(card(1), age="9" * 5000), "age is not a whole number"),
        (health_row(card(1), birth_year="1879"), "birth_year is not between 1880 and 2030"),
        (health_row(card(1), sex="Female"), "sex holds a code that is not published"),
        (health_row(card(1), census_division="Atlantis"), "census_division holds a code that is not published"),
        (health_row(card(1), diagnosis="asthma;"), "diagnosis holds a code that is not published"),
        (health_row(card(1), diagnosis="asthma;gout"), "diagnosis holds a code that is not published"),
        (health_row(card(1), diagnosis="asthma;asthma"), "diagnosis holds a code twice"),
        (health_row(card(1), last_admission_date="2010-02-30"), "last_admission_date is not a date written YYYY-MM-DD"),
        (health_row(card(1), last_admission_date="31/12/2010"), "last_admission_date is not a date written YYYY-MM-DD"),
        (health_row(card(1), hospital_visits="100001"), "hospital_visits is not between 0 and 100000"),
        (health_row(card(1), sex="fem\x07ale"), "sex holds a code that is not published"),
        (f"{card(1)},1950,61,female", f"has 4 fields instead of {len(HEALTH_COLUMNS)}"),
        (health_row(card(1), sex='"female'), "has a quote in the wrong place or one that is not closed"),
    ],
)
def test_wrong_row_is_left_out_with_line_and_reason(tmp_path: Path, row: str, reason: str) -> None:
    """The reason names column and problem; neither the card nor a value of the person is repeated."""
    report = load(tmp_path, health_row(card(2)), row, health_row(card(3)))
    assert (report.rows, report.loaded, report.without_card) == (3, 2, 0)
    assert report.rejected.first == ((3, reason),)
    assert len(selected(tmp_path, "age = 61")) == 2


def test_repeated_card_is_rejected_and_the_first_stays(tmp_path: Path) -> None:
    """Two rows of one person do not become two people, however the card is written; a rejected row repeats nothing."""
    written = card(1)
    report = load(
        tmp_path,
        health_row(written, age="200"),
        health_row(written),
        health_row(card(2), sex="male"),
        health_row(f"{written[:4]}-{written[4:7]}-{written[7:]}", age="62"),
        health_row(f"{written[:4]} {written[4:7]} {written[7:]}", age="63"),
    )
    assert report.rejected.first == (
        (2, "age is not between 0 and 130"),
        (5, "repeats the health_card of line 3"),
        (6, "repeats the health_card of line 3"),
    )
    assert selected(tmp_path, "sex = 'female'") == selected(tmp_path, "age = 61 and sex = 'female'")
    assert len(selected(tmp_path, "age = 61")) == 2


def test_person_without_a_card_is_counted_apart(tmp_path: Path) -> None:
    """Nothing is wrong with such a row, but nobody can link it."""
    report = load(tmp_path, health_row(card(1)), health_row(""), health_row("", age="200", sex="nonsense"))
    assert (report.rows, report.loaded, report.without_card, report.rejected.count) == (3, 1, 2, 0)


def test_source_without_anyone_to_link_is_refused(tmp_path: Path) -> None:
    """An empty population is never what the operator meant."""
    error = refusal(tmp_path, health_row(""))
    assert error.text.endswith("none of its rows can be linked.")
    assert "Rows need the id" in error.hint


def test_source_whose_rows_are_all_wrong_is_told_why(tmp_path: Path) -> None:
    """Each of the first reasons once, without a value: the id is not what is missing."""
    rows = [health_row(card(1)).replace("female", "martian"), "nonsense", "nonsense", f"martian{NOTHING}"]
    error = refusal(tmp_path, *rows)
    assert "none of its rows can be linked; 4 rows are wrong; line 2: " in error.text
    assert error.text.count("fields instead of") == 1
    assert "line 5: health_card is not ten digits" in error.text
    assert "martian" not in error.text + error.hint
    assert "Rows need" not in error.hint


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (HEADER + ",language", "not published: language"),
        (HEADER.replace(",age", ",ages"), "lacks columns: age"),
        (HEADER + ",age", "twice: age"),
        (HEADER.replace(",", ";"), "one column only"),
    ],
)
def test_file_with_other_columns_is_refused(tmp_path: Path, header: str, said: str) -> None:
    """A column that is not published, such as language, must not be in the file at all."""
    assert said in refusal(tmp_path, health_row(card(1)), header=header).text


def test_file_with_many_wrong_rows_is_refused(tmp_path: Path) -> None:
    """It is likely the wrong file, and --max-rejected says otherwise."""
    good, wrong = health_row(card(1)), ["nonsense"] * 101
    assert "101 of its 102 rows" in refusal(tmp_path, good, *wrong).text
    assert not (tmp_path / "store.people").exists()
    assert load(tmp_path, good, *wrong, max_rejected=101).rejected.count == 101
    assert "1 of its 2 rows" in refusal(tmp_path, good, "nonsense", max_rejected=0).text


def test_refused_load_leaves_the_old_store(tmp_path: Path) -> None:
    """The previous load is still in force, and nothing else lies about."""
    load(tmp_path, health_row(card(1)))
    refusal(tmp_path, "nonsense")
    assert selected(tmp_path, "age = 61") == [KEY.pseudonym(card(1))]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["people.csv", "store.people"]


def test_disk_that_takes_no_more_leaves_the_old_store(tmp_path: Path) -> None:
    """Writes fail, at the first byte or later; the load is lost, the old store answers."""
    load(tmp_path, health_row(card(1)))
    for most in (0, 40, 64, 200):
        with limited_files(most), pytest.raises(InternalError) as caught:
            load_people(
                PlainPlan(tmp_path / "people.csv"),
                tmp_path / "store.people",
                KEY,
                dictionary=HEALTH_DICTIONARY,
                declared=Declared(DECLARED_STEP),
            )
        assert caught.value.code == "STORE_FAILED"
        assert selected(tmp_path, "age = 61") == [KEY.pseudonym(card(1))]
        assert sorted(file.name for file in tmp_path.iterdir()) == ["people.csv", "store.people"]


def test_failed_write_leaves_the_old_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails in the middle costs the new load only."""
    load(tmp_path, health_row(card(1)))

    def fail(path: Path, *_: object, places: int) -> None:
        del places
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(people_store, "build_people_store", fail)
    with pytest.raises(InternalError) as caught:
        load(tmp_path, health_row(card(2)))
    assert caught.value.code == "STORE_FAILED"
    assert selected(tmp_path, "age = 61") == [KEY.pseudonym(card(1))]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["people.csv", "store.people"]


def test_new_load_replaces_the_old_one_whole(tmp_path: Path) -> None:
    """Nobody of the old load is left in the new."""
    load(tmp_path, health_row(card(1)))
    load(tmp_path, health_row(card(2)))
    assert selected(tmp_path, "age = 61") == [KEY.pseudonym(card(2))]


def test_card_is_kept_nowhere(tmp_path: Path) -> None:
    """Neither the store nor the report holds a card."""
    report = load(tmp_path, health_row(card(123456789)), health_row(card(123456789)))
    assert card(123456789) not in str(report.rejected.first)
    assert card(123456789).encode() not in (tmp_path / "store.people").read_bytes()


def test_synthetic_source_loads_fully(tmp_path: Path) -> None:
    """The demo's file has no wrong row, and its progress is told to the end."""
    rows = 20_000
    write_sources(tmp_path / "people.csv", tmp_path / "census.csv", population=rows, seed=7)
    reported: list[tuple[int, int]] = []
    report = load_people(
        PlainPlan(tmp_path / "people.csv"),
        tmp_path / "store.people",
        KEY,
        dictionary=HEALTH_DICTIONARY,
        declared=Declared(DECLARED_STEP),
        progress=lambda done, total: reported.append((done, total)),
    )
    assert report.rejected.first == ()
    assert report.loaded + report.without_card == rows
    size = (tmp_path / "people.csv").stat().st_size
    assert reported[-1] == (size, size)
    old = selected(tmp_path, "age >= 65 and procedure = 'angioplasty'")
    assert 0 < len(old) < rows // 10


def procedures(codes: int, *, multi_valued: bool) -> Dictionary:
    """One column of so many codes."""
    listed = tuple(Code(f"p{number}", "A procedure.") for number in range(codes))
    return Dictionary(
        (Column(name="procedure", type=ColumnType.CODE, description="P.", multi_valued=multi_valued, codes=listed),)
    )


@pytest.mark.parametrize(("codes", "multi_valued"), [(64, True), (255, False), (256, False), (20_000, False)])
def test_the_longest_code_lists_that_fit_are_loaded_and_found(tmp_path: Path, codes: int, multi_valued: bool) -> None:
    """The first and the last code are two, whatever type they are stored in."""
    dictionary, last = procedures(codes, multi_valued=multi_valued), codes - 1
    source, store = tmp_path / "people.csv", tmp_path / "store.people"
    source.write_text(f"health_card,procedure\n{card(1)},p0\n{card(2)},p{last}\n{card(3)},\n", encoding="utf-8")
    load_people(PlainPlan(source), store, KEY, dictionary=dictionary, declared=Declared(DECLARED_STEP))
    with PeopleStore(store, dictionary) as opened:
        found = [
            samples.selected(opened, parse_condition(f"procedure = 'p{at}'", dictionary)).tobytes() for at in (0, last)
        ]
    assert found == [KEY.pseudonym(card(1)), KEY.pseudonym(card(2))]


def test_more_codes_than_a_mask_has_bits_are_a_list(tmp_path: Path) -> None:
    """From the 65th on; until there were lists, nothing was loaded then."""
    dictionary = procedures(65, multi_valued=True)
    source, store = tmp_path / "people.csv", tmp_path / "store.people"
    source.write_text(f"health_card,procedure\n{card(1)},p0;p64\n{card(2)},p63\n{card(3)},\n", encoding="utf-8")
    declared = Declared(DECLARED_STEP, {"procedure": DECLARED_STEP})
    load_people(PlainPlan(source), store, KEY, dictionary=dictionary, declared=declared)
    assert read_figures(store, dictionary).tables["procedure"].rows == 3
    with PeopleStore(store, dictionary) as opened:
        found = samples.selected(opened, parse_condition("procedure = 'p0' and procedure = 'p64'", dictionary))
    assert found.tobytes() == KEY.pseudonym(card(1))
