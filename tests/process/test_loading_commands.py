"""`health load` and `census load`: wrong rows are reported and left out, wrong files refused, serving nodes follow."""

from __future__ import annotations

import gzip
import os
import random  # noqa: TID251 - seeded nonsense for a file, no secret
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.deployment import FRENCH, Deployment, make, persons, run_here
from fakes.homes import declare
from fakes.parquet import HEALTH_TYPES, parquet_from_csv, write_parquet

from deploy.synthetic.population import CENSUS_COLUMNS, HEALTH_COLUMNS

pytestmark = pytest.mark.process

MAX_BELIEF = "0." + "9" * 26
POPULATION = 400
# Farther out than noise at scale 1 goes but once in some 10**17 draws.
FAR = 40


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Serving, with the budget for many precise answers."""
    deployment = make(
        tmp_path_factory.mktemp("loading") / "deployment", "--max-belief", MAX_BELIEF, population=POPULATION
    )
    with deployment.node("census"), deployment.node("health"):
        yield deployment


def load(deployment: Deployment, role: str, source: Path, *words: str) -> Any:
    """The outcome of a load."""
    return run_here(role, "load", "--home", deployment.home(role), "--json", *words, source)


def lines_of(deployment: Deployment, role: str) -> list[str]:
    """The source that `init` wrote, header first."""
    return (deployment.home(role) / "people.csv").read_text(encoding="utf-8").splitlines()


def write(path: Path, lines: list[str]) -> Path:
    """A source file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def field(line: str, place: int, value: str) -> str:
    """The line with another value in one field."""
    fields = line.split(",")
    return ",".join([*fields[:place], value, *fields[place + 1 :]])


def wrong_digit(line: str) -> str:
    """A card whose check digit does not hold."""
    return field(line, 0, line[:9] + str((int(line[9]) + 1) % 10))


def everyone(deployment: Deployment) -> int:
    """How many people are linked, as an answer at scale 1 tells it."""
    (answer,) = deployment.ask_all([("age >= 0", "all")], scale=1)
    count = getattr(answer, "noisy_count", None)
    assert isinstance(count, int), answer
    return count


HEALTH_FAULTS: list[tuple[Callable[[list[str]], str], str]] = [
    (lambda lines: wrong_digit(lines[10]), "health_card"),
    (lambda lines: field(lines[11], 0, "12345"), "health_card"),
    (lambda lines: field(lines[12], 3, "martian"), "sex holds a code that is not published"),
    (lambda lines: field(lines[13], 2, "old"), "age is not a whole number"),
    (lambda lines: field(lines[14], 2, "131"), "age is not between 0 and 130"),
    (lambda lines: field(lines[15], 7, "31.03.2011"), "last_admission_date is not a date written YYYY-MM-DD"),
    (lambda lines: field(lines[16], 5, "asthma;asthma"), "diagnosis holds a code twice"),
    (lambda lines: lines[17] + ",more", f"has {len(HEALTH_COLUMNS) + 1} fields instead of {len(HEALTH_COLUMNS)}"),
    (
        lambda lines: lines[18].rpartition(",")[0],
        f"has {len(HEALTH_COLUMNS) - 1} fields instead of {len(HEALTH_COLUMNS)}",
    ),
    (lambda lines: lines[1], "repeats the health_card of line 2"),
    (lambda lines: field(lines[20], 4, '"Ottawa'), "has a quote in the wrong place or one that is not closed"),
]
CENSUS_FAULTS: list[tuple[Callable[[list[str]], str], str]] = [
    (lambda lines: wrong_digit(lines[10]), "health_card"),
    (lambda lines: field(lines[11], 3, "Klingon"), "mother_tongue holds a code that is not published"),
    (lambda lines: field(lines[12], 1, ""), "person_id is empty"),
    (lambda lines: field(lines[13], 1, "P00000001"), "contradicts an earlier row of its person_id"),
    (lambda lines: lines[14] + ",more", f"has {len(CENSUS_COLUMNS) + 1} fields instead of {len(CENSUS_COLUMNS)}"),
    (lambda lines: field(field(lines[15], 0, ""), 1, "P00000001"), "repeats the person_id"),
]


@pytest.mark.parametrize(("role", "faults"), [("health", HEALTH_FAULTS), ("census", CENSUS_FAULTS)])
def test_wrong_rows_are_reported_with_line_and_reason_and_the_rest_is_loaded(
    deployment: Deployment, tmp_path: Path, role: str, faults: list[tuple[Callable[[list[str]], str], str]]
) -> None:
    """The JSON names each wrong row and why, never a value of the person; the arithmetic of the report adds up."""
    lines = lines_of(deployment, role)
    for offset, (spoil, _) in enumerate(faults):
        lines[10 + offset] = spoil(lines)
    outcome = load(deployment, role, write(tmp_path / "people.csv", lines), "--release", "2012")
    report = outcome.result
    loaded = "loaded" if role == "health" else "linked"
    of_declared = (
        ["places", "places_taken", "values", "events", "least_forward_delay_ms", "policy"] if role == "health" else []
    )
    of_reading = ["rejections_file", "changed", "check"]
    assert list(report) == [
        "release",
        "rows",
        loaded,
        "without_card",
        "rejected",
        "rejections",
        *of_declared,
        *of_reading,
    ]
    assert report["release"] == "2012"
    assert report["rows"] == len(lines) - 1 == report[loaded] + report["without_card"] + report["rejected"]
    assert report["rejected"] == len(faults)
    # Lines are counted as an editor does: the header is line 1.
    assert [each["line"] for each in report["rejections"]] == list(range(11, 11 + len(faults)))
    for each, (_, reason) in zip(report["rejections"], faults, strict=True):
        assert reason in each["reason"]
        assert not any(value in each["reason"] for value in ("martian", "Klingon", "12345", lines[10][:10]))


@pytest.mark.parametrize("role", ["health", "census"])
def test_a_check_reads_everything_and_loads_nothing(deployment: Deployment, tmp_path: Path, role: str) -> None:
    """It says what a load would say, wrong rows and changes included, and leaves the log, the loads and the figures as they are."""
    lines = lines_of(deployment, role)
    assert load(deployment, role, write(tmp_path / "all.csv", lines)).code == 0
    again = load(deployment, role, tmp_path / "all.csv").result["changed"]
    assert again == {"same": True, "much": 0, "figures": [], "codes": []}
    home = deployment.home(role)
    deployment.wait_until_still()
    before = {path: path.read_bytes() for path in (home / "load-figures.json", home / "load-report.json")}
    status, stores = deployment.json(role, "status"), folder(home, role)
    few = write(tmp_path / "few.csv", [lines[0], wrong_digit(lines[10]), *lines[11:]])
    report = load(deployment, role, few, "--check").result
    assert report["check"]
    assert report["rejected"] == 1
    assert not report["changed"]["same"]
    assert {each["what"] for each in report["changed"]["figures"]} >= {"rows", "people", "rejected_percent"}
    (row,) = Path(report["rejections_file"]).read_text("utf-8").splitlines()[1:]
    assert row.startswith("people,,line,2,")
    assert (deployment.json(role, "status"), folder(home, role)) == (status, stores)
    assert {path: path.read_bytes() for path in before} == before


OWN = """\
[people]
files = ["own.csv"]
delimiter = ";"
id = "Carte"
id_form = "{form}"
person = "Individu"
household = "Ménage"
[people.columns]
mother_tongue = "Langue maternelle"
"""


def test_census_loads_its_own_file_under_its_own_names(deployment: Deployment, tmp_path: Path) -> None:
    """The files of source.toml are loaded without naming one; a form of ids that is not the dictionary's is told before that."""
    lines = lines_of(deployment, "census")
    plain = load(deployment, "census", write(tmp_path / "plain.csv", lines)).result
    names = {
        "health_card": "Carte",
        "person_id": "Individu",
        "household_id": "Ménage",
        "mother_tongue": "Langue maternelle",
    }
    header = ",".join(names.get(name, name) for name in lines[0].split(","))
    home = deployment.home("census")
    own = write(home / "own.csv", [line.replace(",", ";") for line in [header, *lines[1:]]])
    settings = home / "source.toml"
    try:
        settings.write_text(OWN.format(form="digits"), "utf-8")
        settings.chmod(0o600)
        refused = run_here("census", "load", "--home", home, "--json", "--check")
        assert refused.error["code"] == "LOAD_REFUSED"
        assert "source.toml, line 5, column 1: it says that ids are of the form digits" in refused.error["text"]
        settings.write_text(OWN.format(form="ontario_health_card"), "utf-8")
        report = run_here("census", "load", "--home", home, "--json").result
    finally:
        settings.unlink()
        own.unlink()
    assert report.pop("changed")["figures"] == []
    plain.pop("changed")
    assert report == plain


def folder(home: Path, role: str) -> set[str]:
    """The loads that a home holds."""
    return {path.name for path in (home / {"health": "people", "census": "registries"}[role]).iterdir()}


BROKEN: list[tuple[bytes, str]] = [
    (b"", "it is empty"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b"\x00" * 5000, "NUL bytes"),
    (gzip.compress(b"health_card,age\n1,2\n"), "compressed"),
    (random.Random(7).randbytes(5000), "UTF-8"),
    (b"PAR1" + random.Random(8).randbytes(5000), "without its end"),
    (b"PAR1" + random.Random(9).randbytes(5000) + b"PAR1", "damaged"),
    (b"health_card;age\n", "commas"),
    (b"health_card,age\n1,2\n", "lacks columns"),
    (b"%PDF-1.4 not a table at all\n", "one column only"),
]


@pytest.mark.parametrize("role", ["health", "census"])
def test_a_broken_file_is_refused_and_what_was_loaded_before_still_serves(
    deployment: Deployment, tmp_path: Path, role: str
) -> None:
    """Exit 3 with the reason; nothing of the load in force is touched, and questions are answered on it all the time."""
    people = everyone(deployment)
    deployment.wait_until_still()
    before = deployment.json(role, "status")
    header, *rows = lines_of(deployment, role)
    sources = [(tmp_path / f"{number}.csv", problem) for number, (_, problem) in enumerate(BROKEN)]
    for (path, _), (content, _) in zip(sources, BROKEN, strict=True):
        path.write_bytes(content)
    sources += [
        (tmp_path / "none.csv", "cannot be read"),
        (write(tmp_path / "header.csv", [header]), "has no rows"),
        (write(tmp_path / "extra.csv", [f"{header},name", *(f"{row},x" for row in rows)]), "not published"),
        (write(tmp_path / "wrong.csv", [header, *map(wrong_digit, rows)]), "rows are wrong"),
        (tmp_path, "cannot be read"),
        *half_written(deployment, role, tmp_path),
    ]
    for source, problem in sources:
        outcome = load(deployment, role, source)
        assert (outcome.code, outcome.error["code"]) == (3, "LOAD_REFUSED"), source
        assert problem in outcome.error["text"] + outcome.error["hint"], source
        assert "still in force" in outcome.error["hint"]
    assert deployment.json(role, "status") == before
    assert abs(everyone(deployment) - people) <= 2 * FAR


def half_written(deployment: Deployment, role: str, folder: Path) -> list[tuple[Path, str]]:
    """Files as a writer leaves them that was stopped, and a pipe that nobody writes to; with what is said of each."""
    csv = deployment.home(role) / "people.csv"
    content = csv.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    parquet = parquet_from_csv(csv, folder / "whole.parquet").read_bytes()
    footer = int.from_bytes(parquet[-8:-4], "little") + 8
    files = {
        "in_a_card": (content[: last + 5], "ends in the middle of a row"),
        "in_the_last_field": (content[:-3] + b"?", "ends in the middle of a row"),
        "hole": (content[:last] + b"\0" * 4096, "NUL bytes"),
        "no_footer": (parquet[:-footer], "without its end"),
        "no_pages": (parquet[:4] + parquet[-footer:], "damaged"),
        "blank_pages": (parquet[:4] + bytes(len(parquet) - footer - 4) + parquet[-footer:], "damaged"),
        "no_rows": (
            write_parquet(folder / "none", f"from read_parquet('{folder}/whole.parquet') limit 0").read_bytes(),
            "has no rows",
        ),
    }
    for name, (half, _) in files.items():
        (folder / name).write_bytes(half)
    os.mkfifo(folder / "pipe")
    return [*((folder / name, problem) for name, (_, problem) in files.items()), (folder / "pipe", "regular file")]


@pytest.mark.parametrize("role", ["health", "census"])
def test_parquet_is_loaded_like_csv_and_its_rows_are_named_by_number(
    deployment: Deployment, tmp_path: Path, role: str
) -> None:
    """Under any name; the serving node answers on it, and a wrong row has the number it has in the table."""
    csv = deployment.home(role) / "people.csv"
    people = everyone(deployment)
    types = HEALTH_TYPES if role == "health" else None
    source = parquet_from_csv(csv, tmp_path / "extract.csv", types)
    report, of_csv = load(deployment, role, source).result, load(deployment, role, csv).result
    # The load before the two is another test's.
    report.pop("changed")
    assert of_csv.pop("changed")["figures"] == []
    assert report == of_csv
    lines = lines_of(deployment, role)
    lines[7] = wrong_digit(lines[7])
    source = parquet_from_csv(write(tmp_path / "wrong.csv", lines), tmp_path / "wrong.parquet", types)
    assert load(deployment, role, source).result["rejections"] == [
        {"line": 7, "reason": "health_card has a wrong check digit"}
    ]
    assert "row 7: health_card has" in run_here(role, "load", "--home", deployment.home(role), source).stdout
    assert abs(everyone(deployment) - people) <= 2 * FAR
    load(deployment, role, csv)


def test_max_rejected_0_refuses_a_single_wrong_row(deployment: Deployment, tmp_path: Path) -> None:
    """An operator who tolerates no wrong row gets none; the first one is named."""
    lines = lines_of(deployment, "health")
    lines[6] = wrong_digit(lines[6])
    source = write(tmp_path / "people.csv", lines)
    outcome = load(deployment, "health", source, "--max-rejected", "0")
    assert (outcome.code, outcome.error["code"]) == (3, "LOAD_REFUSED")
    assert "line 7" in outcome.error["text"]
    assert load(deployment, "health", source, "--max-rejected", "1").result["rejected"] == 1


@pytest.mark.parametrize("role", ["health", "census"])
def test_the_next_question_is_answered_on_the_new_load(deployment: Deployment, tmp_path: Path, role: str) -> None:
    """A serving node follows a load without a restart, and back again; the release's name follows, too."""
    source = deployment.home(role) / "people.csv"
    load(deployment, role, source, "--release", "before")
    records = deployment.people()
    linked = persons(records)
    assert abs(everyone(deployment) - linked) <= FAR
    lines = lines_of(deployment, role)
    cards = {record["health_card"] for record in records[: linked // 2]}
    left = persons(record for record in records if record["health_card"] not in cards)
    fewer = [lines[0], *(line for line in lines[1:] if line.split(",")[0] not in cards)]
    report = deployment.run(role, "load", write(tmp_path / "fewer.csv", fewer), "--release", "2013", "--json").result
    assert report["release"] == "2013"
    assert abs(everyone(deployment) - left) <= FAR
    if role == "census":
        assert deployment.json("researcher", "dictionary")["census_release"] == "2013"
    else:
        assert deployment.json("health", "status")["release"] == "2013"
    # Without a name the release in force is meant, without a file the one in the home.
    assert run_here(role, "load", "--home", deployment.home(role), "--json").result["release"] == "2013"
    assert abs(everyone(deployment) - linked) <= FAR
    deployment.verify_ledger()


def test_a_load_leaves_one_store_behind(deployment: Deployment) -> None:
    """Stores that nobody needs any more are removed, and half-written ones do not stay."""
    deployment.wait_until_closed()
    for role, folder in (("health", "people"), ("census", "registries")):
        load(deployment, role, deployment.home(role) / "people.csv")
        assert len(list((deployment.home(role) / folder).iterdir())) == 1


def test_load_that_needs_longer_delays_does_not_come_into_force(tmp_path: Path) -> None:
    """Delays come from what is declared when something is loaded, not from `init`: an operator who declares more is told what it takes."""
    deployment = make(tmp_path / "deployment", population=100, tick_ms=250)
    health, census = deployment.home("health"), deployment.home("census")
    loads = deployment.json("health", "status")["log_size"]
    with deployment.node("census"):
        declare(health, places=4_194_304)
        refused = run_here("health", "load", "--home", health, "--json")
        assert (refused.code, refused.error["code"]) == (4, "POLICY_TOO_NARROW")
        assert "forward_delay_ms is 100" in refused.error["text"]
        assert "--forward-delay-ms 147" in refused.error["hint"]
        status = deployment.json("health", "status")
        assert (status["log_size"], status["places"], status["policy"]) == (loads, 524_288, "")

        declare(census, people=25_165_824)
        refused = run_here("census", "load", "--home", census, "--json")
        assert (refused.code, refused.error["code"]) == (3, "LOAD_REFUSED")
        assert "release_tick_ms is 250" in refused.error["text"]
        assert "--release-tick-ms 300" in refused.error["hint"]
        proposed = deployment.json("census", "policy", "propose", "--release-tick-ms", "271")
        assert "25165824 people" in str(proposed["warnings"])
        proposed = deployment.json("census", "policy", "propose", "--release-tick-ms", "272")
        assert proposed["warnings"] == []

        deployment.order_policy(forward_delay_ms=147, release_tick_ms=272)
        assert deployment.json("census", "load")["linked"] > 0
        loaded = deployment.json("health", "load")
        assert (loaded["places"], loaded["least_forward_delay_ms"], loaded["policy"]) == (4_194_304, 147, "")

        # Adopted afterwards, and confirmed: the node refuses every question alike, and its operator sees why.
        deployment.order_policy(forward_delay_ms=146)
        assert "--forward-delay-ms 147" in deployment.json("health", "status")["policy"]
        with deployment.node("health"):
            answers = [deployment.ask(where) for where in ("age >= 0", "age > 120")]
            assert [answer.error["code"] for answer in answers] == ["POLICY_TOO_NARROW"] * 2
            assert answers[0].error == answers[1].error
    # Nobody can be asked now: the load says so, and the serving node will look.
    assert "PEER_UNAVAILABLE" in deployment.json("health", "load")["policy"]


def test_french_is_asked_for_in_vain_where_nobody_is_left(deployment: Deployment, tmp_path: Path) -> None:
    """A load without francophones is answered with noise around zero."""
    lines = lines_of(deployment, "census")
    load(deployment, "census", write(tmp_path / "none.csv", [line for line in lines if ",French," not in line]))
    (answer,) = deployment.ask_all([("age >= 0", FRENCH)], scale=1)
    load(deployment, "census", deployment.home("census") / "people.csv")
    assert abs(getattr(answer, "noisy_count", FAR)) < FAR
