"""Documents and samples quote the code as it is; a reader who copies from them gets something that works."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import tomli_w
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY

from broker_common.audit.codes import CODES, ON_SITE
from broker_common.crypto.cards import PURPOSES
from broker_common.errors import REASONS
from broker_common.privacy.accounting import USUAL_SCALE, answers_left
from broker_common.privacy.delays import (
    DECLARED_STEP,
    least_forward_delay_ms,
    least_tick_ms,
    usual_forward_delay_ms,
    usual_tick_ms,
)
from broker_common.privacy.table_laplace import margin
from broker_common.storage.home import Home
from broker_common.tlog.rules import RULES
from census_node.config import CensusConfig
from deploy.local import Plan, lay_out
from health_node.config import HealthConfig
from policy_lab.figures.margin import chance_of_wrong_order
from researcher_node.config import ResearcherConfig
from researcher_node.study.design import design
from researcher_node.study.file import parse_study_file

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker_common", "census_node", "deploy", "health_node", "policy_lab", "researcher_node")
SAMPLES = ROOT / "deploy" / "samples"
CONFIGS: dict[str, type[msgspec.Struct]] = {
    "census": CensusConfig,
    "health": HealthConfig,
    "researcher": ResearcherConfig,
}


@pytest.mark.parametrize("name", ["docs/decisions-archive.md", "SECURITY.md"])
def test_numbered_items_have_a_number_and_a_title_of_their_own(name: str) -> None:
    """Others refer to them by number; a merge of two lists must not leave a number or an item in twice."""
    text = (ROOT / name).read_text()
    items = re.findall(r"(?m)^(\d+)\. (?:\*\*(.+?)\*\*)?", text.replace("\n   ", " "))
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    titles = [title for _, title in items if title]
    assert len(set(titles)) == len(titles) > len(items) / 2
    assert {int(number) for number in re.findall(r"\((\d+)\)", text)} <= set(range(1, len(items) + 1))


def test_decisions_in_force_are_short_and_lead_to_the_archive() -> None:
    """A reader gets through them in a quarter of an hour, and finds the reasons of each."""
    text = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    assert len(text.encode()) < 25_000
    archive = (ROOT / "docs" / "decisions-archive.md").read_text(encoding="utf-8")
    replaced = {int(each) for each in re.findall(r"(?m)^(\d+)\. \*\(superseded by \d+\)\*", archive)}
    known = {int(each) for each in re.findall(r"(?m)^(\d+)\. ", archive)}
    decisions = re.findall(r"(?m)^- (.*(?:\n  .*)*)", text)
    named = [
        [int(each) for each in re.findall(r"\d+", " ".join(re.findall(r"\((\d[^)]*)\)", one)))] for one in decisions
    ]
    assert len(decisions) > 80
    assert all(named)
    assert {number for numbers in named for number in numbers} <= known - replaced


def test_the_log_format_names_the_keys_of_every_card() -> None:
    """Authors of another reader refuse cards whose keys are not those."""
    text = " ".join((ROOT / "broker_common" / "tlog" / "FORMAT.md").read_text().split())
    for role, purposes in PURPOSES.items():
        assert f"{role}: {' '.join(purposes)}" in text


def test_every_code_of_an_audit_is_explained_exactly() -> None:
    """Another verifier is written from FORMAT and AUDIT alone: a rule has its place in an order, any other code its own words."""
    rules = (ROOT / "broker_common" / "tlog" / "FORMAT.md").read_text()
    _, _, rules = rules.partition("### The rules and their codes\n")
    rules, _, _ = rules.partition("### Policies, prices and the cap\n")
    assert set(RULES) <= set(re.findall(r"`([A-Z_]+)`", rules))
    audit = (ROOT / "broker_common" / "audit" / "AUDIT.md").read_text()
    words = {}
    for title in ("On site", "Each code, exactly"):
        _, _, section = audit.partition(f"## {title}\n")
        section, _, _ = section.partition("\n## ")
        words[title] = set(re.findall(r"`([A-Z_]+)`", section))
    assert set(ON_SITE) <= words["On site"]
    assert set(CODES) - set(RULES) - set(ON_SITE) <= words["Each code, exactly"]


def test_documents_are_in_step_with_the_code() -> None:
    """Help texts, settings, callers, errors and samples are made from the code; `make docs` refreshes them."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.documents", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == ""


def test_there_is_a_sample_of_every_configuration() -> None:
    """One for each kind of home that is served, and no other file that nobody would load."""
    assert {path.name for path in SAMPLES.iterdir()} == {f"{role}.toml" for role in CONFIGS}


@pytest.mark.parametrize("role", CONFIGS)
def test_sample_configuration_is_loaded_as_a_node_does(tmp_path: Path, role: str) -> None:
    """TOML, no unknown setting, every value of its type; what is left out has a default."""
    (tmp_path / "config.toml").write_bytes((SAMPLES / f"{role}.toml").read_bytes())
    config = Home(tmp_path, role).load_config(CONFIGS[role])
    said = msgspec.toml.decode((SAMPLES / f"{role}.toml").read_bytes())
    assert (
        msgspec.to_builtins(config).items()
        >= {name: value for name, value in said.items() if not isinstance(value, dict)}.items()
    )


STUDIES = ROOT / "docs" / "studies.md"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "studies").iterdir()), ids=lambda path: path.name)
def test_sample_of_a_study_is_one(path: Path) -> None:
    """Both dictionaries admit it, its expectations are of its groups, and the page shows it."""
    text = path.read_text()
    study = design(parse_study_file(text, path.name), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")
    assert study.rows
    assert study.file.expect is not None
    assert text in STUDIES.read_text()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes as `init` makes them, for ten people."""
    directory = tmp_path_factory.mktemp("deployment")
    lay_out(
        directory,
        Plan(population=10, seed=1, accounting="strict", max_belief="0.8", release_tick_ms=0),
        lambda _: lambda *_: None,
    )
    return directory


def references(value: object) -> Iterator[str]:
    """Every `file:` and `env:` reference of a configuration, defaults included."""
    if isinstance(value, dict):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, str) and value.startswith(("file:", "env:")):
        yield value


@pytest.mark.parametrize("role", CONFIGS)
def test_sample_configuration_leads_to_the_files_of_a_home(deployment: Path, role: str) -> None:
    """Put into a home that `init` made it finds every key: names in samples, defaults and homes are the same."""
    config = msgspec.toml.decode((SAMPLES / f"{role}.toml").read_bytes(), type=CONFIGS[role])
    found = list(references(msgspec.to_builtins(config)))
    assert found
    for reference in found:
        assert Home(deployment / role, role).read(reference), reference


@pytest.mark.parametrize("role", CONFIGS)
def test_sample_configuration_says_what_init_writes(deployment: Path, role: str) -> None:
    """But for the ports, which `init` picks."""

    def without_ports(text: str) -> str:
        return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", text)

    sample, written = (SAMPLES / f"{role}.toml").read_text(), (deployment / role / "config.toml").read_text()
    assert without_ports(tomli_w.dumps(msgspec.toml.decode(sample))) == without_ports(
        tomli_w.dumps(msgspec.toml.decode(written))
    )


DOCUMENTS = sorted(path for path in ROOT.glob("**/*.md") if not {".venv", "build"} & set(path.parts))
# Words in capitals that look like a code and are not one.
NOT_CODES = {
    *("STAGE_ACCEPTED", "STAGE_FORWARDED", "STAGE_CHARGED", "STAGE_RELEASED"),
    # Reasons of the TLS library.
    *("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED"),
    # The history of changes names it: policies had a limit of samples before format 5.
    "SAMPLE_LIMIT_LOWERED",
}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_error_codes_in_documents_exist(path: Path) -> None:
    """A removed or renamed code in a document would be looked for in vain."""
    removed = {"SAMPLE_TOO_LARGE"}
    said = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", path.read_text()))
    assert not said & removed
    beginnings = {code.partition("_")[0] for code in REASONS}
    unknown = {code for code in said - set(REASONS) - set(CODES) - NOT_CODES if code.partition("_")[0] in beginnings}
    assert unknown == set()


# --- length, links and figures -----------------------------------------------------------------------------------------

MOST_WORDS, MOST_WORDS_OF_README = 1500, 1800
LONG = {
    "docs/decisions-archive.md": "a record that is looked up by number",
    "docs/mistakes.md": "printed by the program, looked up by mistake",
}


def test_documents_are_short() -> None:
    """Each is for one reader, who gets through it in ten minutes."""
    words = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").split())
        for path in DOCUMENTS
        if path.is_relative_to(ROOT / "docs")
    }
    assert len(words) > 20
    assert {name: count for name, count in words.items() if count >= MOST_WORDS and name not in LONG} == {}
    assert all(words[name] >= MOST_WORDS for name in LONG), "an exception that is not needed any more"


def test_the_readme_is_short() -> None:
    """It leads to the others."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < MOST_WORDS_OF_README


def anchors(path: Path) -> set[str]:
    """Titles that links may name in a document, as forges make them."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text(encoding="utf-8"))
    plain = [re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in re.findall(r"(?m)^#+ (.+)$", text)]
    return {title.replace(" ", "-") for title in plain}


def links(path: Path) -> Iterator[str]:
    """Every link and picture that leads into the repository."""
    text = re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]+`", "", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if not target.startswith(("https:", "http:", "mailto:")):
            yield target


def lost(path: Path, target: str) -> bool:
    """Whether a link of this document leads nowhere."""
    name, _, anchor = target.partition("#")
    file = path.parent / name if name else path
    return not file.exists() or (bool(anchor) and (file.suffix != ".md" or anchor not in anchors(file)))


def test_links_lead_somewhere() -> None:
    """To a file of the repository, and to a title in it."""
    assert [(path.name, target) for path in DOCUMENTS for target in links(path) if lost(path, target)] == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    """The test above can fail, and finds links."""
    readme = ROOT / "README.md"
    assert len(list(links(readme))) > 20
    assert lost(readme, "docs/no-such-page.md")
    assert lost(readme, "docs/recover.md#no-such-title")
    assert not lost(readme, "docs/recover.md#when-the-clock-was-wrong")


NAMED_TITLE = re.compile(r"'([A-Z][\w ]+)' in ((?:docs|deploy|protos)/[\w/-]+\.md)")


def test_titles_that_errors_and_remedies_name_exist() -> None:
    """A hint leads its reader to a page and a title on it."""
    named = set()
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        # Sentences go over several literals.
        text = re.sub(r'"\s*f?"', "", path.read_text(encoding="utf-8"))
        named |= set(NAMED_TITLE.findall(re.sub(r"\s+", " ", text)))
    assert len(named) >= 6
    for title, page in named:
        assert re.search(rf"(?m)^#+ {re.escape(title)}$", (ROOT / page).read_text(encoding="utf-8")), (title, page)


def test_pages_that_the_code_names_exist() -> None:
    """In texts, help and comments."""
    named = {
        page
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for page in re.findall(r"\b(?:docs|deploy|protos)/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []


def test_the_readme_says_which_groups_are_worth_asking_about() -> None:
    """Its figures are the product's: noise at the usual scale, and how often it turns a difference of a tenth round."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([\d,]+) \| ±([\d.]+) % \| ([\d.]+) % \|", text)
    assert [row[0] for row in rows] == ["100", "300", "1,000", "3,000", "10,000"]
    for people, relative, wrong in rows:
        size = int(people.replace(",", ""))
        assert relative == f"{100 * margin(USUAL_SCALE) / size:.1f}".removesuffix(".0")
        assert (
            wrong
            == f"{100 * chance_of_wrong_order(USUAL_SCALE, size // 10):.{2 if size > 1000 else 1}f}".removesuffix(".00")
        )
    assert f"±{margin(USUAL_SCALE)} people, 19 times out of 20, at the usual scale of {USUAL_SCALE}" in text
    assert f"±{margin(USUAL_SCALE, 2)} for two cells, ±{margin(USUAL_SCALE, 16)} for sixteen" in text
    assert (
        answers_left(Plan(population=10, seed=1, accounting="strict", max_belief="0.8").policy().cap, 0, USUAL_SCALE)
        == 41
    )
    assert text.count("41 answers") == 2
    asking = (ROOT / "docs" / "asking.md").read_text(encoding="utf-8")
    one, two, most = (margin(USUAL_SCALE, cells) for cells in (1, 2, 16))
    assert f"±{one} for one at scale {USUAL_SCALE}, ±{two} for each of two, ±{most} for each of 16" in asking


def test_the_times_that_sizes_need_are_those_of_the_product() -> None:
    """An agency plans with them before it has a node to ask."""
    text = (ROOT / "docs" / "capacity.md").read_text(encoding="utf-8")
    assert "35 ms for each million places, and not less than 20 ms; 8 ms more for each million declared rows" in text
    assert [least_forward_delay_ms(10_000_000, rows) for rows in (0, 10_000_000)] == [350, 350 + 80]
    assert [least_forward_delay_ms(DECLARED_STEP, rows) for rows in (0, 10_000_000)] == [20, 20 + 80]
    assert "20 ms, plus 10 ms for each million people (30 ms where households are charged)" in text
    assert [least_tick_ms(10_000_000, "person"), least_tick_ms(10_000_000, "household")] == [20 + 100, 20 + 300]
    assert "75 ms more, and at least 100 ms" in text
    assert [usual_forward_delay_ms(places) for places in (DECLARED_STEP, 10_000_000)] == [100, 350 + 75]
    assert "250 ms, or what is needed, rounded up to 50 ms" in text
    assert [usual_tick_ms(people, "person") for people in (1_000_000, 25_000_000)] == [250, 300]


def test_a_row_of_contributing_stands_once() -> None:
    """Two changes of one row are merged into both: the older one would send a newcomer to a place that is gone."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = [cell for cell in re.findall(r"(?m)^\| (.+?) \|", text) if cell.strip("- ")]
    assert len(named) > 50
    assert [cell for cell in set(named) if named.count(cell) > 1] == []
