"""`lab explain`: the figures on a terminal, as JSON and in a folder, and what it says of a wrong command line."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from fakes.deployment import run_here, run_words

from broker_common.errors import InvalidRequestError
from broker_common.storage.durable import SHARED_FILE
from policy_lab.document import stored
from policy_lab.explain.report import Wish, make_report, parse_settings
from policy_lab.figures.figure import FIGURES
from policy_lab.standing import Standing

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("figure", FIGURES)
def test_figure_is_printed_for_both_readers(figure: str) -> None:
    """Its tables too, and where it comes from; the mark says that no data file was read."""
    done = run_here("lab", "explain", figure)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(Standing.NO_DATA.mark)
    for part in ("[For everybody]", "[For specialists]", "Source: ", f"tripartite lab explain {figure}"):
        assert part in done.stdout
    assert FIGURES[figure].title in done.stdout


def test_setting_moves_the_figure_and_stands_in_the_command_that_makes_it_again() -> None:
    """The last of several for one key counts."""
    done = run_here("lab", "explain", "tradeoff", "--set", "scale=30", "--set", "scale=50", "--set", "cap=90")
    assert "At noise scale 50 a count is within 150" in done.stdout
    assert "pays for 109 answers" in done.stdout
    assert "tripartite lab explain tradeoff --set cap=90 --set scale=50\n" in done.stdout


def test_json_is_one_object_with_the_numbers_and_the_settings() -> None:
    """Texts are English there, whatever the language; exact numbers are exact."""
    result = run_here("lab", "explain", "tradeoff", "--set", "answers=50", "--json").result
    assert result["standing"] == "no data"
    assert result["settings"] == {"tradeoff": {"cap": "80", "scale": "30", "answers": "50", "prior": "50"}}
    assert result["files"] == []
    (section,) = result["sections"]
    table = next(block for block in section["blocks"] if block["type"] == "table")
    row = next(row for row in table["rows"] if row[0] == 30)
    assert row[:4] == [30, 90, 559_241, 41]
    assert row[4] == {"exact": "15937/200", "value": 79.685}
    assert {block["type"] for block in section["specialist"]} >= {"paragraph", "formula", "source"}


def test_all_figures_come_without_a_name_and_a_setting_moves_all_that_have_it() -> None:
    """Each with the usual values otherwise."""
    result = run_here("lab", "explain", "--set", "cap=90", "--json").result
    assert [section["key"] for section in result["sections"]] == list(FIGURES)
    moved = {key for key, values in result["settings"].items() if values.get("cap") == "90"}
    assert moved == {key for key, figure in FIGURES.items() if any(each.key == "cap" for each in figure.settings)}
    assert result["command"] == "tripartite lab explain --set cap=90"


def test_folder_holds_page_plots_and_tables_that_may_be_handed_on(tmp_path: Path) -> None:
    """They are made of the policy alone: as open as the user's own files, and readable as a document again."""
    out = tmp_path / "new" / "figures"
    result = run_here("lab", "explain", "--out", out, "--json").result
    written = {path for path in out.rglob("*") if path.is_file()}
    assert {str(path) for path in written} == set(result["files"])
    plots = [path for path in written if path.suffix == ".png"]
    assert len(plots) >= len(FIGURES)
    assert all(path.read_bytes().startswith(PNG) and path.stat().st_size > 5_000 for path in plots)
    assert {path.stat().st_mode & 0o777 for path in written} == {SHARED_FILE}
    assert {path.stat().st_mode & 0o777 for path in (out, out / "plots", out / "tables")} == {
        out.parent.stat().st_mode & 0o777
    }
    rows = list(csv.reader((out / "tables" / "tradeoff-table.csv").read_text().splitlines()))
    assert rows[0] == [f"# {Standing.NO_DATA.mark}"]
    assert ["30", "90", "559241", "41"] in [row[:4] for row in rows]
    again = stored.read(out)
    assert again.standing is Standing.NO_DATA
    assert [section.key for section in again.sections] == list(FIGURES)


def test_list_names_every_figure_setting_and_bound() -> None:
    """As text and as JSON; of one figure alone if it is named."""
    text = run_here("lab", "explain", "--list").stdout
    listed = run_here("lab", "explain", "--list", "--json").result["figures"]
    assert [figure["key"] for figure in listed] == list(FIGURES)
    for figure in listed:
        assert f"{figure['key']}: {figure['title']}" in text
        for setting in figure["settings"]:
            assert setting["key"] in text
            assert ("choices" in setting) != ("low" in setting)
    (only,) = run_here("lab", "explain", "attack", "--list", "--json").result["figures"]
    scale = next(setting for setting in only["settings"] if setting["key"] == "scale")
    assert scale == {
        "key": "scale",
        "label": "Noise scale of an answer",
        "default": 30,
        "low": 1,
        "high": 200,
        "step": 1,
        "unit": "",
    }
    truth = next(setting for setting in only["settings"] if setting["key"] == "truth")
    assert (truth["default"], list(truth["choices"])) == ("french", ["french", "other"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("tradeof",), ("tradeof is no figure.", "Did you mean: tradeoff")),
        (("tradeoff", "--set", "cap=100"), ("cap must be a number from 51 to 99, in steps of 1.", "80")),
        (("tradeoff", "--set", "cap=80.5"), ("cap must be a number from 51 to 99, in steps of 1.", "80")),
        (("attack", "--set", "truth=yes"), ("truth must be one of french, other.", "french")),
        (
            ("tradeoff", "--set", "truth=other"),
            ("truth is no setting of the figure 'tradeoff'.", "Its settings: cap, scale, answers, prior."),
        ),
        (("--set", "kap=80"), ("kap is no setting of any figure.", "Did you mean: cap")),
        (("tradeoff", "--set", "cap"), ("--set cap is not KEY=VALUE.", "--set cap=90")),
        (("tradeoff", "--set", "=5"), ("--set =5 is not KEY=VALUE.", "--set cap=90")),
    ],
)
def test_wrong_words_are_refused_with_what_would_do(words: tuple[str, ...], told: tuple[str, str]) -> None:
    """Exit code 3, a sentence and a hint, and nothing on standard output; under --json one object."""
    done = run_here("lab", "explain", *words)
    assert (done.code, done.stdout) == (3, "")
    assert told[0] in done.stderr
    assert told[1] in done.stderr
    error = run_here("lab", "explain", *words, "--json").error
    assert error["code"] == "INVALID_VALUE"
    assert told[0] in error["text"]


def test_nothing_is_written_when_a_setting_is_refused(tmp_path: Path) -> None:
    """No folder is left behind."""
    out = tmp_path / "out"
    assert run_here("lab", "explain", "--set", "cap=0", "--out", out).code == 3
    assert not out.exists()


def test_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """And the file stays what it was."""
    file = tmp_path / "file"
    file.write_text("mine")
    assert run_here("lab", "explain", "prior", "--out", file).code == 2
    assert file.read_text() == "mine"


def test_list_with_a_setting_or_a_folder_is_refused(tmp_path: Path) -> None:
    """Neither would have an effect."""
    assert run_here("lab", "explain", "--list", "--set", "cap=90").code == 2
    done = run_here("lab", "explain", "--list", "--out", tmp_path / "out")
    assert (done.code, done.stdout) == (2, "")
    assert "--list goes with neither --set nor --out." in done.stderr
    assert not (tmp_path / "out").exists()


def test_terminal_speaks_french(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences, tables, the list of settings and errors."""
    monkeypatch.setenv("TRIPARTITE_LANG", "fr")
    shown = run_here("lab", "explain", "margin").stdout
    assert "[Pour tout le monde]" in shown
    assert "Ordre inversé (%)" in shown
    assert "réglage" in run_here("lab", "explain", "--list").stdout
    assert "doit être un nombre de 51 à 99, par pas de 1" in run_here("lab", "explain", "--set", "cap=3").stderr
    assert run_here("lab", "explain", "margin", "--json").result["title"] == FIGURES["margin"].title


def test_a_long_word_is_not_repeated_at_length() -> None:
    """An error is a sentence, whatever was typed."""
    with pytest.raises(InvalidRequestError) as refused:
        make_report(Wish("x" * 10_000, {}))
    assert len(refused.value.text) < 100
    with pytest.raises(InvalidRequestError) as refused:
        parse_settings(["y" * 10_000])
    assert len(refused.value.text) < 100


_WITHOUT_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "pyarrow", "scipy", "typst"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
try:
    import scipy
except ModuleNotFoundError:
    pass
else:
    sys.exit("the library is still found")
from broker_common.cli import main
main(sys.argv[1:])
"""


def test_figures_and_pages_need_nothing_of_the_extra(tmp_path: Path) -> None:
    """As docs/lab.md says: the libraries that read data files and make PDF are not asked for. Every figure is computed, one is drawn."""
    script = tmp_path / "without.py"
    script.write_text(_WITHOUT_EXTRA, encoding="utf-8")
    for words, shown in (
        (("explain",), "sections"),
        (("explain", "tradeoff", "--out", tmp_path / "figures"), "files"),
        (("serve", "--save", tmp_path / "page"), "files"),
    ):
        done = run_words(sys.executable, script, "lab", *words, "--json")
        assert done.result[shown], done.stderr
