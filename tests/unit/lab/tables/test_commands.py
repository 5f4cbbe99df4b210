"""`lab table` as people call it: published figures, corrected ones, files for their owner only, and good errors."""

from __future__ import annotations

import csv
import json
import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from fakes.invoking import invoke
from unit.lab.farms import LARGEST, WITHIN, write_farms
from unit.lab.tables.lab_data import EXPENDITURE, rice_farms

from broker_common.cli import main
from broker_common.errors import BrokerError
from policy_lab.assessment.alternatives import alternatives
from policy_lab.assessment.facts import Facts, usual_policy
from policy_lab.cli import lab
from policy_lab.document import as_json
from policy_lab.document.model import Block, Claim
from policy_lab.document.stored import read

# Cells in the order of the published table: Mixed, Owner, Share by High, Both, Trad.
SENSITIVITIES = [8766, 2600, 3020, 17528, 11800, 8058, 14336, 305, 1900]
MAXIMA = [9000, 3400, 3200, 17610, 12000, 8100, 14520, 705, 2000]
RATIOS = [15.39, 23.24, 1.59, 4.21, 15.34, 1.84, 24.44, 27.60, 7.53]
GAINS = [2.009, 6.773, 5.831, 1.005, 1.492, 2.185, 1.228, 57.738, 9.268]
UNIFORM = "0.287577520124614"
FARMS = ["--rows", "status", "--columns", "kind", "--value", "rice", "--statistic", "total", "--epsilon", "1"]
RICE = ["--rows", "status", "--columns", "varieties", "--value", "noutput", "--statistic", "total", "--epsilon", "1"]
PUBLISHED = ["--rule", "bootstrap", "--as-published", "--samples", "20000"]


@pytest.fixture
def farms(tmp_path: Path) -> Path:
    """The file of our own farms."""
    return write_farms(tmp_path / "farms.csv")


def run(file: Path, *words: str) -> Result:
    """The command on a file."""
    return invoke(lab, ["table", str(file), *words])


def told(file: Path, *words: str) -> dict[str, Any]:
    """Its output for programs."""
    outcome = run(file, *words, "--json")
    assert outcome.exception is None, outcome.exception
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def table(document: dict[str, Any], key: str) -> dict[str, list[Any]]:
    """One table of the document, by its columns."""
    blocks = [block for section in document["sections"] for block in section["blocks"]]
    (found,) = [block for block in blocks if block.get("key") == key]
    return {head: [plain(row[at]) for row in found["rows"]] for at, head in enumerate(found["heads"])}


def plain(cell: Any) -> Any:
    """A fraction as a number."""
    return cell["value"] if isinstance(cell, dict) else cell


def refusal(file: Path, *words: str) -> str:
    """Sentence and hint of an error that the caller can mend."""
    outcome = run(file, *words)
    assert isinstance(outcome.exception, BrokerError), outcome.output
    assert outcome.exception.exit_code == 3
    return f"{outcome.exception.text} {outcome.exception.hint}"


# --- as published ------------------------------------------------------------------------------------------------------


def test_the_rice_farms_as_published_and_corrected() -> None:
    """Every figure of the published table, and what is wrong with it beside."""
    document = told(rice_farms(), *RICE, *PUBLISHED)
    figures = table(document, "published")
    assert figures["As published"] == SENSITIVITIES
    assert [round(each, 2) for each in figures["Published / total (%)"]] == RATIOS
    assert [round(each, 3) for each in figures["17,610 / published"]] == GAINS
    assert figures["Corrected"] == MAXIMA
    real = table(document, "published-epsilons")["Epsilon, real"]
    assert [round(each, 2) for each in real] == [2.31, 1.83, 0.40, 3.62, 1.0]
    words = json.dumps(document)
    assert "32,130 = 17,610 + 14,520" in words
    assert "holds only if cell membership is public" in words
    assert "17,610 is the largest value in the data, not a public bound" in words
    assert "epsilon / 9. One row changes two cells at most, so epsilon / 2 a cell is enough" in words


def test_the_corrected_table_of_rice_farms() -> None:
    """One scale of 32,130 for all cells, or twice each cell's maximum."""
    one = table(told(rice_farms(), *RICE, "--rule", "bootstrap"), "sensitivities-total")
    assert set(one["Scale of the noise"]) == {32_130}
    split = table(told(rice_farms(), *RICE, "--rule", "bootstrap", "--method", "split"), "sensitivities-total")
    assert split["Scale of the noise"] == [2 * each for each in MAXIMA]


def test_farms_of_our_own_as_published_and_corrected(farms: Path) -> None:
    """The same table on other numbers, worked out by hand; the distinguisher passes the nominal epsilon where it is broken."""
    document = told(farms, *FARMS, *PUBLISHED)
    figures = table(document, "published")
    assert (figures["As published"], figures["Corrected"]) == (WITHIN, LARGEST)
    published, corrected = table(document, "published-epsilons"), table(document, "corrected-epsilons")
    assert published["Epsilon, real"] == pytest.approx([8, 16 / 9, 2.5, 10, 1])
    for real, below in zip(published["Epsilon, real"], published["Measured from below"], strict=True):
        assert below <= real
    assert all(below > 1 for below in published["Measured from below"][:4])
    assert corrected["Epsilon, real"] == [1, 1, 1]
    assert all(0.5 < below <= 1 for below in corrected["Measured from below"])


@pytest.mark.parametrize(("epsilon", "answer"), [("0.1", 45), ("1", 50)])
def test_the_published_count_of_rural_units(epsilon: str, answer: int) -> None:
    """51 units; the uniform number that the example printed gives the count that it printed."""
    document = told(EXPENDITURE, "--where", "UrbanRural=2", "--epsilon", epsilon, "--uniform", UNIFORM)
    assert table(document, "sensitivities-count")["Exact"] == [51]
    assert table(document, "answers")["count"] == [answer]
    assert "Anybody who knows that number takes the noise away." in json.dumps(document)


@pytest.mark.parametrize(("epsilon", "answer"), [("0.1", 62_028.67), ("1", 67_036.76)])
def test_the_published_mean_income(epsilon: str, answer: float) -> None:
    """67,593 over 994 units; the sensitivity is 1,000,000 / 994, from bounds that are not in the data."""
    words = ["--statistic", "average", "--value", "Income", "--bounds", "0:1000000", "--epsilon", epsilon]
    document = told(EXPENDITURE, *words, "--uniform", UNIFORM)
    assert round(table(document, "replicated")["Exact"][0]) == 67_593
    assert table(document, "sensitivities-total")["Sensitivity of the average"] == [pytest.approx(1_000_000 / 994)]
    assert table(document, "answers")["average"] == [answer]


@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
def test_a_contingency_table_says_that_its_sensitivity_is_two(farms: Path, rule: str) -> None:
    """A row that moves leaves one count and enters another; the bootstrap rule has no gain there."""
    document = told(farms, "--rows", "status", "--columns", "kind", "--epsilon", "0.5", "--rule", rule)
    figures = table(document, "sensitivities-count")
    assert (set(figures["Sensitivity of the cell"]), set(figures["Scale of the noise"])) == ({1}, {4})
    words = json.dumps(document)
    assert "The whole table has sensitivity 2: a row that moves leaves one count and enters another." in words
    assert ("has no gain for counts" in words) is (rule == "bootstrap")


# --- what every output says ------------------------------------------------------------------------------------------


def promise(document: dict[str, Any]) -> str:
    """The words of the promise."""
    (section,) = [section for section in document["sections"] if section["key"] == "promise"]
    return " ".join(block["words"] for block in section["blocks"])


@pytest.mark.parametrize("method", ["one-sensitivity", "split", "public-membership"])
@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("rule", ["laplace", "bootstrap"])
def test_every_output_names_neighbours_promise_and_who_has_none(
    farms: Path, rule: str, method: str, release: bool
) -> None:
    """And a bootstrap promise says that it is no differential privacy, to people outside, outliers and readers of the scale."""
    bounds = ["--bounds", "0:2000"] if rule == "laplace" else []
    words = [*FARMS, "--rule", rule, "--method", method, *bounds, *(["--release"] if release else [])]
    said = promise(told(farms, *words))
    assert "Neighbours: two files" in said
    assert "The promise: whatever somebody knows" in said
    assert "It protects a row, not a person." in said
    assert ("It is for evaluation, never for release." in said) is not release
    assert ("It does not apply to cell membership" in said) is (method == "public-membership")
    for sentence in (
        "This is not differential privacy.",
        "It does not apply to people outside the data",
        "outliers who join",
        "once the mechanism is published",
    ):
        assert (sentence in said) is (rule == "bootstrap")


@pytest.mark.parametrize("noise", [["--seed", "7"], ["--uniform", "0.3"]])
def test_two_versions_of_a_file_under_one_seed_differ_exactly_and_every_evaluation_says_so(
    farms: Path, tmp_path: Path, noise: Sequence[str]
) -> None:
    """Somebody who joins is read off the difference of two noisy answers."""
    words = ["--value", "rice", "--statistic", "total", "--epsilon", "1", "--bounds", "0:2000", *noise]
    joined = tmp_path / "joined.csv"
    joined.write_text(farms.read_text() + "99,owner,high,321\n")
    before, after = (told(file, *words) for file in (farms, joined))
    means = [table(each, "replicated")["Mean"][0] for each in (before, after)]
    assert means[1] - means[0] == pytest.approx(321)
    assert "their answers differ by exactly what changed" in promise(before)


def test_an_output_is_internal_unless_its_data_are_declared(farms: Path) -> None:
    """The mark stands first."""
    assert run(farms, "--epsilon", "1", "--rows", "kind").stdout.startswith("INTERNAL.")
    release = run(farms, "--epsilon", "1", "--rows", "kind", "--release").stdout
    assert release.startswith("INTERNAL until its holder decides. A table for release")
    assert "an error beside a noisy answer" not in release
    assert run(farms, "--epsilon", "1", "--standing", "synthetic").stdout.startswith(
        "Computed from data that its holder declares synthetic"
    )


def test_files_are_for_their_owner_only(farms: Path, tmp_path: Path) -> None:
    """Under any umask: report, tables, plots and replicates."""
    before = os.umask(0)
    try:
        files = told(farms, *FARMS, "--rule", "bootstrap", "--out", str(tmp_path / "out"))["files"]
    finally:
        os.umask(before)
    names = {Path(file).name for file in files}
    assert {"report.html", "document.json", "replicates.csv", "replicates-plot.png", "relative-noise.png"} <= names
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    lines = (tmp_path / "out" / "replicates.csv").read_text().splitlines()
    assert lines[0].startswith("# INTERNAL.")
    assert [len(row) for row in csv.reader(lines[1:])] == [4] * 101


def test_the_printed_command_makes_the_same_document(farms: Path) -> None:
    """Seed, filter and all; where it was written to is no part of it."""
    words = [*FARMS, "--rule", "bootstrap", "--where", "kind=high", "--seed", "9", "--replicates", "7"]
    first = told(farms, *words)
    again = invoke(lab, [*split(first["command"])[2:], "--json"])
    assert json.loads(again.stdout) == first


def split(command: str) -> Sequence[str]:
    """A command line as words."""
    return shlex.split(command)


def test_parquet_gives_what_csv_gives(farms: Path, tmp_path: Path) -> None:
    """The same rows, the same document but for the file's name."""
    other = tmp_path / "farms.parquet"
    pq.write_table(pyarrow.csv.read_csv(farms), other)
    first, second = (told(file, *FARMS, "--rule", "bootstrap") for file in (farms, other))
    assert first["sections"] == second["sections"]


def test_a_release_is_never_twice_the_same(farms: Path) -> None:
    """Eight answers of scale 4000 and more agree with probability below 1e-7."""
    words = [*FARMS, "--bounds", "0:2000", "--release"]
    first, second = (table(told(farms, *words), "answers") for _ in range(2))
    assert first != second
    assert first["trad"][1] == second["trad"][1] == "refused"


@pytest.mark.parametrize("words", [FARMS[:-2], []])
def test_a_release_does_not_say_with_certainty_that_nobody_is_left(farms: Path, words: Sequence[str]) -> None:
    """A filter that leaves no row has noisy answers, under the labels of the whole file; an evaluation says what is wrong."""
    counted = [*words[:4], "--epsilon", "1", "--where", "status=nobody"]
    released = told(farms, *counted, "--release")
    if words:
        assert list(table(released, "answers")) == ["status", "high", "trad"]
        assert table(released, "answers")["status"] == ["owner", "share"]
    assert "refused" not in json.dumps(table(released, "answers") if words else released["sections"][2])
    others = [told(farms, *counted, "--release")["sections"][2] for _ in range(60)]
    assert any(other != released["sections"][2] for other in others)
    assert "no row that the filter leaves" in refusal(farms, *counted)


def test_a_filter_that_leaves_few_shows_the_same_cells_as_one_that_leaves_many(farms: Path) -> None:
    """Which labels are shown depends on no filter."""
    words = ["--rows", "kind", "--columns", "status", "--epsilon", "1", "--release"]
    shapes = [table(told(farms, *words, *where), "answers") for where in ([], ["--where", "id=0"])]
    assert [list(shape) for shape in shapes] == 2 * [list(shapes[0])]
    assert [shape["kind"] for shape in shapes] == 2 * [["high", "trad"]]


def test_a_release_promises_nothing_about_refusals(farms: Path) -> None:
    """Whether a cell is refused is decided without noise: an answer may be impossible under a neighbour."""
    for rule, bounds in (("laplace", ["--bounds", "0:2000"]), ("bootstrap", [])):
        said = promise(told(farms, *FARMS, "--rule", rule, *bounds, "--release"))
        assert "no number that is printed is more than 2.718 times as likely" in said
        assert "if the same cells are refused under both" in said
        assert "Epsilon does not hold for whether a cell is refused: no noise decides that." in said
        assert "no answer is more than" not in said


def test_values_beyond_the_bounds_are_cut_and_counted(farms: Path) -> None:
    """On standard error, and in the question of an evaluation."""
    outcome = run(farms, *FARMS, "--bounds", "60:500", "--json")
    assert "3 values lie beyond the bounds and were cut to them." in outcome.stderr
    document = json.loads(outcome.stdout)
    asked = dict(zip(*table(document, "question").values(), strict=True))
    assert asked["Values cut to the bounds"] == 3
    assert table(document, "sensitivities-total")["Exact"] == [1000, 500, 1150, 150]


@pytest.mark.parametrize("statistic", ["average", "total"])
def test_a_release_says_nothing_exact_anywhere(farms: Path, statistic: str) -> None:
    """Not on standard error either: two files of which different numbers of values are cut differ in their answers alone."""

    def heard() -> tuple[dict[str, Any], str]:
        outcome = run(farms, *FARMS, "--statistic", statistic, "--bounds", "60:500", "--release", "--json")
        document = json.loads(outcome.stdout)
        assert table(document, "answers")
        for section in document["sections"]:
            section["blocks"] = [block for block in section["blocks"] if block.get("key") != "answers"]
        return document, outcome.stderr

    first = heard()
    farms.write_text(farms.read_text().replace(",1000", ",400").replace(",80", ",81"))
    assert heard() == first
    assert first[1] == ""


def assessed(folder: Path) -> Sequence[Block]:
    """Text of an assessment that includes the folder."""
    return alternatives(Facts(usual_policy(), 0, None, ()), [read(folder)]).blocks


def test_a_released_label_is_told_where_it_stands(farms: Path) -> None:
    """Right above the table; a single figure has no label."""
    (answers,) = [
        each for each in told(farms, *FARMS, "--bounds", "0:2000", "--release")["sections"] if each["key"] == "answers"
    ]
    caution, shown, *_ = answers["blocks"]
    assert "One beside a refused cell tells that somebody has it." in caution["words"]
    assert "refused" in json.dumps(shown)
    assert "Every label below" not in json.dumps(told(farms, "--epsilon", "1", "--release"))


def test_counts_have_no_bounds_for_anybody_and_french_bounds_have_a_comma(
    farms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence about bounds stands only where there are some."""
    assert "whichever cell it is in" in json.dumps(told(farms, "--rows", "kind", "--epsilon", "1"))
    assert "within the bounds" not in json.dumps(told(farms, "--rows", "kind", "--epsilon", "1"))
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    assert "1 à 2,5" in run(farms, *FARMS, "--bounds", "1:2.5").stdout


def test_a_release_is_not_made_again(farms: Path, tmp_path: Path) -> None:
    """Its command draws new noise and spends epsilon anew: every form says so, and an assessment asks nobody to repeat it."""
    words = [*FARMS, "--bounds", "0:2000", "--standing", "synthetic"]
    shown = {}
    for option in ("--release", "--seed=1"):
        out = tmp_path / option
        assert run(farms, *words, option, "--out", str(out)).exit_code == 0
        shown[option] = [run(farms, *words, option).stdout, (out / "report.html").read_text()]
        commands = [block.command for block in assessed(out) if isinstance(block, Claim)]
        assert any("lab table" in command for command in commands) is (option != "--release")
    for text in shown["--release"]:
        assert "This document was asked for with" in text
        assert "Do not repeat the command" in text
        assert "made again" not in text
    for text in shown["--seed=1"]:
        assert "This document is made again with" in text
        assert "spends epsilon a second time" not in text


def test_a_bootstrap_release_does_not_print_its_own_epsilon(tmp_path: Path) -> None:
    """A whole scale lowers it by a little, and by how much tells the scale, which is a value of the data."""
    farms = write_farms(tmp_path / "farms.csv")
    words = [*FARMS[:-1], "0.7", "--rule", "bootstrap", "--release"]
    said = promise(told(farms, *words))
    assert "the epsilon of this noise is at most 0.7." in said
    assert "the epsilon of this noise is 1." in promise(told(farms, *FARMS, "--bounds", "0:2000", "--release"))


def test_an_average_of_nobody_is_an_empty_cell(tmp_path: Path) -> None:
    """It is no number, and JSON has no word for that."""
    path = tmp_path / "gap.csv"
    path.write_text("a,b,v\nx,p,1\ny,q,2\ny,q,3\n")
    words = ["--rows", "a", "--columns", "b", "--statistic", "average", "--value", "v", "--epsilon", "1"]
    document = told(path, *words, "--rule", "bootstrap", "--method", "public-membership")
    assert table(document, "replicated")["Exact"] == [1, None, None, 2.5]
    assert "Cells published without noise: 1." in json.dumps(document)


def test_an_empty_label_has_a_name(tmp_path: Path) -> None:
    """It is one of the labels, and --where finds it."""
    path = tmp_path / "holes.csv"
    path.write_text("kind,v\na,1\n,2\n,3\n")
    assert table(told(path, "--rows", "kind", "--epsilon", "1"), "sensitivities-count")["Cell"] == ["(empty)", "a"]
    assert table(told(path, "--where", "kind=", "--epsilon", "1"), "sensitivities-count")["Members"] == [2]


def test_a_written_report_is_read_again_as_it_was(farms: Path, tmp_path: Path) -> None:
    """An assessment reads it, and only if its data are declared public or synthetic."""
    words = [*FARMS, "--rule", "bootstrap", "--standing", "synthetic", "--out", str(tmp_path / "out")]
    document = told(farms, *words)
    stored = as_json.value(read(tmp_path / "out"))
    assert stored == {name: value for name, value in document.items() if name != "files"}
    assert read(tmp_path / "out").standing.may_be_assessed


@pytest.mark.parametrize(
    "words",
    [PUBLISHED, ["--rule", "bootstrap"], ["--bounds", "0:2000", "--release"], ["--rule", "bootstrap", "--release"]],
)
def test_it_speaks_french(farms: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]) -> None:
    """Every sentence of an evaluation, a release and a published table is in the catalogue."""
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    shown = run(farms, *FARMS, *words).stdout
    assert "Un tableau de totaux bruités" in shown
    assert ("--as-published" not in words) or ("ne tient que si l\u2019appartenance aux cellules est publique" in shown)
    assert not [word for word in (" the ", "Sensitivity of", "promise:", " noise ") if word in shown]


# --- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e308", "1e-308", "1e99999999", "nan", "inf", "1_0", "x", ""])
def test_an_epsilon_that_is_none_is_refused(farms: Path, epsilon: str) -> None:
    """At once, whatever its exponent."""
    assert "epsilon" in refusal(farms, "--epsilon", epsilon)


@pytest.mark.parametrize("bounds", ["5", "5:", ":5", "5:5", "6:5", "0:inf", "0:1e300", "a:b", "1:2:3"])
def test_bounds_that_are_none_are_refused(farms: Path, bounds: str) -> None:
    """Low first, both finite."""
    assert "bounds" in refusal(farms, *FARMS, "--bounds", bounds)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--rows", "statu", "--columns", "kind"], "has no column 'statu'. Did you mean: status"),
        (["--where", "kind"], "is not COLUMN=VALUE"),
        (["--where", "kind=higher"], "has no row that the filter leaves"),
        (["--rows", "status", "--where", "king=high"], "has no column 'king'. Did you mean: kind"),
        (["--uniform", "1"], "must lie between 0 and 1"),
        (["--uniform", "0"], "must lie between 0 and 1"),
        (
            ["--statistic", "total", "--value", "kind", "--bounds", "0:1"],
            "no number in column 'kind' in 12 of its rows",
        ),
        (["--statistic", "total", "--value", "rice", "--bounds", "0:9", "--release", "--grid", "0"], "is not above 0"),
    ],
)
def test_a_question_that_the_file_cannot_answer_is_refused(farms: Path, words: Sequence[str], problem: str) -> None:
    """With what to write instead."""
    assert problem in refusal(farms, "--epsilon", "1", *words)


def test_a_column_of_identifiers_makes_no_table(tmp_path: Path) -> None:
    """Thousands of cells are somebody's slip."""
    path = tmp_path / "many.csv"
    path.write_text("id\n" + "\n".join(map(str, range(3000))) + "\n")
    assert "makes a table of 3000 cells, more than 2500" in refusal(path, "--rows", "id", "--epsilon", "1")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--statistic", "total"], "needs --value"),
        (["--value", "rice"], "A count has no --value"),
        (["--bounds", "0:1"], "A count has no --bounds"),
        (["--statistic", "total", "--value", "rice"], "needs --bounds"),
        (["--method", "public-membership"], "takes the counts as public"),
        (["--statistic", "total", "--value", "rice", "--bounds", "0:9", "--grid", "1"], "--grid needs --release"),
        (["--grid", "1", "--release"], "A count has no --grid"),
        (["--rows", "kind", "--columns", "kind"], "must name different columns"),
        (["--release", "--seed", "1"], "--release cannot be combined with --seed"),
        (["--release", "--uniform", "0.5"], "--release cannot be combined with --uniform"),
        (["--release", "--replicates", "5"], "--release cannot be combined with --replicates"),
    ],
)
def test_options_that_contradict_each_other_are_a_wrong_command(
    farms: Path, words: Sequence[str], problem: str
) -> None:
    """Before the file is read."""
    outcome = run(farms, "--epsilon", "1", *words)
    assert outcome.exit_code == 2
    assert problem in outcome.output


def test_epsilon_is_nothing_that_anybody_guesses(farms: Path) -> None:
    """As any option that must be given."""
    outcome = run(farms, "--rows", "kind")
    assert (outcome.exit_code, "Missing option '--epsilon'" in outcome.output) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--epsilon", "1"],
        ["--value", "rice"],
        ["--value", "rice", "--epsilon", "1", "--rule", "laplace", "--bounds", "0:9"],
        ["--value", "rice", "--epsilon", "1", "--statistic", "average"],
        ["--epsilon", "1", "--statistic", "count"],
    ],
)
def test_as_published_says_its_whole_command_at_once(farms: Path, words: Sequence[str]) -> None:
    """Whatever is missing or does not fit, and before anything else."""
    outcome = run(farms, "--as-published", *words)
    assert outcome.exit_code == 2
    whole = "tripartite lab table RiceFarms.csv --as-published --rows status --columns varieties --value noutput --epsilon 1"
    assert whole in outcome.output


def test_as_published_implies_its_rule_and_statistic(farms: Path) -> None:
    """The same document, and its command makes it again."""
    columns = ["--rows", "status", "--columns", "kind", "--value", "rice", "--epsilon", "1", "--samples", "1000"]
    short = told(farms, *columns, "--as-published")
    whole = told(farms, *columns, "--as-published", "--rule", "bootstrap", "--statistic", "total")
    assert short["sections"] == whole["sections"]
    assert "--rule" not in short["command"]
    again = invoke(lab, [*split(short["command"])[2:], "--json"])
    assert json.loads(again.stdout) == short


def test_the_published_method_is_never_released(farms: Path) -> None:
    """Its epsilon is not the one that it names."""
    outcome = run(farms, *FARMS, "--rule", "bootstrap", "--as-published", "--release")
    assert (outcome.exit_code, "--release cannot be combined with --as-published" in outcome.output) == (2, True)


def test_an_error_is_one_object_and_exit_code_three(farms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As all commands do it; there is no traceback."""
    with pytest.raises(SystemExit) as ended:
        main(["lab", "table", str(farms), "--epsilon", "0", "--json"])
    assert ended.value.code == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["code"] == "INVALID_VALUE"
    assert "Traceback" not in shown.err
