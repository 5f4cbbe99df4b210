"""The profile as-published: its figures are the report's, its errors name rows and never values."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from policy_lab.document.model import Caution, Document, Paragraph, Table
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.standing import Standing
from policy_lab.survey import comparison, pipeline, promises, published, respondents, simulated
from policy_lab.survey.comparison import Figure
from policy_lab.survey.profile import PublishedRun, evaluate_as_published
from policy_lab.survey.respondents import Respondents

ROOT = Path(__file__).parents[4]
STANDIN = ROOT / "policy_lab/examples/cchs_standin.parquet"
WHOLE_STANDIN = "shared/data/lab/cchs/cchs_standin.csv.gz"
EPSILONS = (0.6, 1.0, 5.99)


class Refused(Exception):  # noqa: N818 - stands for the run file's error
    """Text of the run file's own error."""


def refuse(problem: str, remedy: str) -> InvalidRequestError:
    """Stands for the run file's error."""
    raise Refused(f"{problem} {remedy}")


def silent(*_: int) -> None:
    """Nobody looks at the progress."""


@cache
def people() -> Respondents:
    """The respondents that come with the product."""
    return respondents.read(STANDIN, refuse)


@cache
def figures(runs: int = 5, seed: int = 1) -> dict[tuple[str, str, float, str], Figure]:
    """Every figure by its question, method, epsilon and province."""
    errors = simulated.errors(people(), EPSILONS, runs, seed, silent)
    found = comparison.figures(people(), EPSILONS, runs, errors)
    return {(each.question, each.method, each.epsilon, each.province): each for each in found}


@pytest.mark.parametrize(
    ("epsilon", "shift", "deviation", "as_published"),
    [(0.6, 493_551, 13_100, 477_313), (1.0, 374_597, 11_700, 395_896), (5.99, 3_479, 1_200, 3_409)],
)
def test_daily_smokers_in_ontario(epsilon: float, shift: float, deviation: float, as_published: float) -> None:
    """Expected to the person; weights rounded to hundredths move it by less than one."""
    figure = figures()["smokers", "local", epsilon, "ON"]
    assert figure.error.shift == pytest.approx(shift, abs=1)
    assert figure.deviation == pytest.approx(deviation, rel=0.011)
    assert figure.published == pytest.approx(as_published, abs=0.5)


@pytest.mark.parametrize(("epsilon", "error"), [(0.6, 12.63), (1.0, 6.94), (5.99, 0.43)])
def test_mean_height_in_ontario(epsilon: float, error: float) -> None:
    """12.63, 6.94 and 0.43 m, within what five runs scatter."""
    figure = figures()["height", "local", epsilon, "ON"]
    assert figure.error.absolute == pytest.approx(error, abs=0.011)
    assert abs((figure.published or 0) - error) < 0.02


def test_shuffled_heights_are_as_wrong_at_every_epsilon() -> None:
    """3.16 to 3.33 in Ontario, 2.6 to 3.6 over provinces, as published, expected and simulated."""
    for epsilon in EPSILONS:
        own = figures()["height", "shuffled", epsilon, "ON"]
        for value in (own.published or 0, own.error.absolute):
            assert 3.16 <= value <= 3.33
        for province in people().provinces:
            figure = figures()["height", "shuffled", epsilon, province]
            for value in (figure.published or 0, figure.error.absolute):
                assert 2.6 <= value <= 3.6


def test_the_global_error_of_height_is_the_observed_range() -> None:
    """Times epsilon, times all rows of the file."""
    for epsilon in EPSILONS:
        figure = figures()["height", "global", epsilon, "ON"]
        assert figure.error.absolute * epsilon * 113_290 == pytest.approx(8.729, abs=1e-3)


def test_the_published_errors_are_those_that_are_expected() -> None:
    """About 95 of 100 of 234 are within two standard deviations; fewer than 200 happen once in 10^8 sets or more rarely."""
    compared, near = comparison.compared(list(figures().values()))
    assert compared == 3 * 2 * 3 * 13
    assert near >= 200


def test_runs_follow_the_seed() -> None:
    """The same seed gives the same errors, another one others."""
    one, again, other = figures(runs=2, seed=3), figures.__wrapped__(runs=2, seed=3), figures(runs=2, seed=4)
    assert one == again
    assert all(one[key].simulated != other[key].simulated for key in one)


def test_shuffled_runs_are_one_run() -> None:
    """They had one seed: the mean over five is the first."""
    first, five = figures(runs=1, seed=9), figures(runs=5, seed=9)
    for key, figure in five.items():
        assert (figure.simulated == pytest.approx(first[key].simulated)) == (figure.method == "shuffled")


def test_the_whole_standin_gives_the_same() -> None:
    """The file that comes with the product has four of its columns, sorted, and weights rounded to hundredths."""
    found = next((folder / WHOLE_STANDIN for folder in ROOT.parents if (folder / WHOLE_STANDIN).is_file()), None)
    if found is None:
        pytest.skip(f"the whole stand-in is not beside the project: ../{WHOLE_STANDIN}")
    whole = respondents.read(found, refuse)
    assert whole.provinces == people().provinces
    assert (np.bincount(whole.smoking) == np.bincount(people().smoking)).all()
    assert np.allclose(whole.people, people().people, rtol=4e-6)
    runs = simulated.errors(whole, EPSILONS, 1, 1, silent)
    for figure in comparison.figures(whole, EPSILONS, 5, runs):
        own = figures()[figure.question, figure.method, figure.epsilon, figure.province]
        assert figure.error.absolute == pytest.approx(own.error.absolute, rel=1e-3, abs=1e-9)


def test_the_page_quotes_these_figures() -> None:
    """Ontario's rows of the page, and how many published errors are near."""
    page = (ROOT / "docs/lab/as-published.md").read_text("utf-8")
    for question, method in (("smokers", "local"), ("height", "local"), ("height", "shuffled")):
        for epsilon in EPSILONS:
            own = figures()[question, method, epsilon, "ON"]
            digits = 0 if question == "smokers" else 3 if own.error.absolute < 1 else 2
            cells = [f"{value:,.{digits}f}" for value in (own.error.shift, own.deviation, own.published or 0)]
            assert f"| {epsilon:g} | {' | '.join(cells)} |" in page
    compared, near = comparison.compared(list(figures().values()))
    assert f"Of {compared} published errors" in page
    assert f" {near} lie within two" in page


# --- the pipeline itself ---------------------------------------------------------------------------------------------


def test_a_category_is_kept_as_published_and_replaced_evenly() -> None:
    """Counted over 400,000 draws; each count is within 6 standard deviations of its exact mean."""
    random, draws = np.random.default_rng(11), 400_000
    for code in range(5):
        counts = np.bincount(pipeline.local_category(np.full(draws, code), 5, 0.6, random), minlength=5)
        keep = pipeline.keep_probability(0.6)
        chances = np.where(np.arange(5) == code, keep, (1 - keep) / 4)
        assert (np.abs(counts - draws * chances) < 6 * np.sqrt(draws * chances * (1 - chances))).all()


def test_nobody_is_given_the_last_category() -> None:
    """Counted over 200,000 draws; each count is within 6 standard deviations."""
    random, draws = np.random.default_rng(12), 200_000
    reported = pipeline.shuffled_category(np.full(draws, 1), 5, 0.01, random)
    counts = np.bincount(reported, minlength=5)
    chances = np.array([0.99 / 4, 0.01 + 0.99 / 4, 0.99 / 4, 0.99 / 4, 0])
    assert counts[4] == 0
    assert (np.abs(counts - draws * chances) <= 6 * np.sqrt(draws * chances * (1 - chances))).all()


def test_shuffled_numbers_lie_between_one_and_the_largest() -> None:
    """And so many are kept as the pipeline keeps."""
    values = pipeline.shuffled_number(np.full(100_000, 0.5), 9.999, 0.2, np.random.default_rng(13))
    made_up = values[values != 0.5]
    assert 1 <= made_up.min() <= 1.01
    assert 9.98 <= made_up.max() < 9.999
    assert abs(len(made_up) - 80_000) < 6 * np.sqrt(16_000)


def test_local_numbers_are_folded() -> None:
    """None is below 0, and the mean is the exact one of folded noise."""
    values = pipeline.local_number(np.full(100_000, 1.7), 8.729, 0.6, np.random.default_rng(14))
    scale = 8.729 / 0.6
    assert values.min() >= 0
    exact = 1.7 + scale * np.exp(-1.7 / scale)
    deviation = np.sqrt(1.7**2 + 2 * scale**2 - exact**2)
    assert abs(values.mean() - exact) < 6 * deviation / np.sqrt(100_000)


@pytest.mark.parametrize(("epsilon", "keep"), [(0.6, 0.0043694), (1.0, 0.0384503), (5.99, 0.0064191)])
def test_gamma_by_hand(epsilon: float, keep: float) -> None:
    """27 * 11 / (113289 * 0.6); 36 * 11 * 11 / 113289; the same / 5.99."""
    assert pipeline.shuffled_keep(epsilon, 113_290) == pytest.approx(keep, rel=1e-4)


def test_the_formula_ends_below_six() -> None:
    """As it was published."""
    with pytest.raises(ValueError, match="below 6"):
        pipeline.shuffled_keep(6, 113_290)


def test_labels_are_numbered_alphabetically() -> None:
    """Answer by answer; SMK_020 by labels that are not its own."""
    for column in published.categorical():
        codes = published.codes(column)
        assert [each.number for each in codes] == list(range(len(codes)))
        if column != "SMK_020":
            labels = [each.label for each in codes]
            assert labels == sorted(labels)


# --- the document ----------------------------------------------------------------------------------------------------


def run_of(data: Path, **changes: object) -> PublishedRun:
    """A run of this file."""
    values = {
        "data": data,
        "standing": Standing.SYNTHETIC,
        "epsilons": EPSILONS,
        "repetitions": 2,
        "seed": 1,
        "command": "tripartite lab evaluate as-published.yaml",
        "refuse": refuse,
    }
    return PublishedRun(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def document() -> Document:
    """The whole document, made once."""
    return evaluate_as_published(run_of(STANDIN, epsilons=(0.6, 1.0), repetitions=1), silent)


def tables(document: Document) -> dict[str, Table]:
    """Its tables by their keys."""
    return {block.key: block for section in document.sections for block in section.blocks if isinstance(block, Table)}


def test_every_figure_has_what_is_wrong_beside_it(document: Document) -> None:
    """In the last column of every row."""
    for question in published.QUESTIONS:
        for method in published.METHODS:
            table = tables(document)[f"{question}-{method}"]
            assert table.heads[-1] == "What is wrong"
            assert len(table.rows) == 2
            assert all("epsilon" in str(row[-1]).lower() for row in table.rows)


def test_who_is_alone_with_a_weight(document: Document) -> None:
    """As a slow count of pairs has it."""
    pairs = list(zip(people().province.tolist(), people().weights.tolist(), strict=True))
    often = Counter(pairs)
    alone = sum(often[pair] == 1 for pair in pairs) / len(pairs)
    (steps,) = [section for section in document.sections if section.key == "steps"]
    assert any(
        f" {100 * alone:.0f}% of the respondents are alone" in block.words
        for block in steps.blocks
        if isinstance(block, Paragraph)
    )
    assert f"{100 * alone:.0f} % of the respondents are alone" in (ROOT / "docs/lab/as-published.md").read_text("utf-8")


def test_the_real_epsilon_of_a_category(document: Document) -> None:
    """Epsilon + ln 4."""
    local = [row for row in tables(document)["promises"].rows if row[0] == "Local, a category"]
    assert [row[2] for row in local] == [pytest.approx(float(row[1]) + 1.3862944) for row in local]  # type: ignore[arg-type]


def test_what_depends_on_the_observed_range_has_no_finite_epsilon(document: Document) -> None:
    """A province's mean too; and a number that stands there is said to need public lists and weights."""
    real = {row[0]: row[2] for row in tables(document)["promises"].rows}
    unbounded = {name for name, value in real.items() if value == "none is finite"}
    assert unbounded == {"Local, a number", "Shuffled", "Global, a province's mean"}
    (section,) = [section for section in document.sections if section.key == "promises"]
    (caution,) = [block.words for block in section.blocks if isinstance(block, Caution)]
    assert "Both come from the data here, so that none is finite without that." in caution
    assert "at least 1,399 times the claim" in caution
    wrong = str(tables(document)["height-global"].rows[0][-1])
    assert wrong.startswith(
        "No finite epsilon: the noise is as wide as the observed range. Even if the range were public"
    )


def test_the_page_quotes_what_was_measured() -> None:
    """As the example's seed gives it, rounded down: more would not be shown."""
    run = read_run_file(ROOT / "policy_lab/examples/as-published.yaml")
    found = {
        each.name: each.measured for each in promises.promises(people(), run.epsilons[:1], run.seed, lambda _: None)
    }
    least = {name: f"{math.floor(measured * 10) / 10:.1f}" for name, measured in found.items()}
    assert least["global count"] == least["global mean"]
    sentence = (
        f"at least {least['local category']} for a local category, {least['local number']} for a local number, "
        f"and {least['global count']} for the two global ones"
    )
    page = " ".join((ROOT / "docs/lab/as-published.md").read_text("utf-8").split())
    assert sentence in page


def test_everything_is_said_in_french(document: Document) -> None:
    """Every phrase of the document, also the ones with figures in them."""
    t = language("fr")
    for table in tables(document).values():
        for words in (table.caption, *table.heads):
            assert t(words) != words or words in {"Province", "Epsilon"}
    for section in document.sections:
        assert t(section.title) != section.title or section.title == "Sources"
    assert t(tables(document)["smokers-local"].rows[0][-1]) != tables(document)["smokers-local"].rows[0][-1]  # type: ignore[arg-type]


def test_the_example_is_read_and_names_the_file_beside_it() -> None:
    """As `tripartite lab evaluate` reads it."""
    run = read_run_file(ROOT / "policy_lab/examples/as-published.yaml")
    assert (run.profile, run.data, run.standing) == ("as-published", STANDIN, Standing.SYNTHETIC)
    assert (run.epsilons, run.repetitions) == (EPSILONS, published.RUNS)


def test_progress_ends_at_its_end() -> None:
    """Two runs and five measurements."""
    said: list[tuple[int, int]] = []
    evaluate_as_published(run_of(STANDIN, epsilons=(1.0,)), lambda done, of: said.append((done, of)))
    assert said == [(done, 7) for done in range(1, 8)]


def test_what_may_never_end_is_not_read() -> None:
    """A device would fill the memory."""
    with pytest.raises(InvalidRequestError, match="FILE_UNUSABLE"):
        respondents.read(Path("/dev/zero"), refuse)


# --- bad input -------------------------------------------------------------------------------------------------------

HEADING = "GEO_PRV,SMK_005,HWTDGHTM,WTS_M"
GOOD = ("35,1,1.702,100.5", "24,3,1.6,20", "24,8,9.996,7")


def written(path: Path, *rows: str, heading: str = HEADING) -> Path:
    """A CSV file with these rows."""
    path.write_text("\n".join([heading, *rows, ""]), "utf-8")
    return path


def test_a_small_file_will_do(tmp_path: Path) -> None:
    """Gzip, other columns, another order; a province with one row. It is not the survey: nothing published is shown."""
    file = tmp_path / "others.csv.gz"
    with gzip.open(file, "wt") as target:
        target.write("WTS_M,ID,HWTDGHTM,SMK_005,GEO_PRV\n100.5,1,1.702,1,35\n20,2,1.6,3,24\n7,3,9.996,8,24\n")
    found = tables(evaluate_as_published(run_of(file, epsilons=(1.0,)), silent))
    assert [row[0] for row in found["provinces-height-local"].rows] == ["ON", "QC"]
    assert all(row[5] is None for row in found["smokers-local"].rows)


@pytest.mark.parametrize(
    ("rows", "heading", "said"),
    [
        (("35,1,1.7",), "GEO_PRV,SMK_005,HWTDGHTM", "no column 'WTS_M'"),
        ((), HEADING, "has no row"),
        ((*GOOD, "35,1,1.7,0"), HEADING, "above 0 in 'WTS_M'. Look at row 4"),
        ((*GOOD, "35,1,1.7,-5"), HEADING, "above 0 in 'WTS_M'. Look at row 4"),
        ((*GOOD, "35,1,1.7,"), HEADING, "no number in 'WTS_M'. Look at row 4"),
        ((*GOOD, "35,1,tall4711,5"), HEADING, "no number in 'HWTDGHTM'. Look at row 4"),
        (
            (*GOOD, "35,4711,1.7,5"),
            HEADING,
            "code in 'SMK_005' that the survey does not have. It has 1, 2, 3, 7, 8. Look at row 4",
        ),
        (("4711,1,1.7,5", *GOOD), HEADING, "code in 'GEO_PRV'"),
        (("35,1,1.7,5", "35,3,1.7,5"), HEADING, "all heights are the same"),
        (("35,3,1.7,5", "35,2,1.8,5"), HEADING, "nobody smokes daily"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, rows: tuple[str, ...], heading: str, said: str) -> None:
    """Errors name the row, and never what stands in it."""
    file = written(tmp_path / "data.csv", *rows, heading=heading)
    with pytest.raises(Refused) as raised:
        respondents.read(file, refuse)
    assert said in str(raised.value)
    assert "4711" not in str(raised.value)


def not_a_table(path: Path) -> Path:
    """A file of another kind."""
    path.write_bytes(b"\x00\xff\xfePAR1 4711" * 40)
    return path


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("none.csv", lambda path: path, "no data file 'none.csv'"),
        ("bad.parquet", not_a_table, "cannot be read as a table"),
        ("bad.csv.gz", not_a_table, "cannot be read as a table"),
        ("bad.csv", not_a_table, "cannot be read as a table"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, name: str, make: Callable[[Path], Path], said: str) -> None:
    """The library's error is not shown."""
    with pytest.raises(Refused) as raised:
        respondents.read(make(tmp_path / name), refuse)
    assert said in str(raised.value)
    assert "4711" not in str(raised.value)


@pytest.mark.parametrize("epsilon", [6.0, 1e308])
def test_an_epsilon_without_a_formula(epsilon: float) -> None:
    """The report has none from 6 on."""
    with pytest.raises(Refused, match="ends below 6"):
        evaluate_as_published(run_of(STANDIN, epsilons=(epsilon,)), silent)


def test_decimals_of_a_parquet_file_are_numbers() -> None:
    """Its weights are exact hundredths."""
    assert people().rows == 113_290
    assert all(Decimal(str(weight)).as_tuple().exponent >= -2 for weight in people().weights[:50])  # type: ignore[operator]
