"""Numbers of a study are those of the estimates package, on the answers that their rows name."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from fakes.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from fakes.world import FRENCH

from broker_common.values import NoisyCounts
from researcher_node.answers.store import AskedQuestion
from researcher_node.estimates.tables import (
    Counts,
    Design,
    Estimate,
    Group,
    difference,
    rate_ratio,
    ratio,
    share,
    standardised_rate,
    trend,
)
from researcher_node.study.design import Study, design
from researcher_node.study.file import parse_study_file
from researcher_node.study.record import Attempt
from researcher_node.study.rehearsal import true_value
from researcher_node.study.results import Results, results
from researcher_node.study.running import Standing

TEXT = f"""\
by:
  age: [18, 40, 65]
count:
  French: {FRENCH}
  English: mother_tongue = 'English'
of: all
fraction: 0.5
estimate:
  - share: French
    of: [French, English]
  - difference: French
    reference: 40-64
  - ratio: [French, English]
    reference: 40-64
  - rate_ratio: French
    event: procedure = 'angioplasty'
    against: English
  - standardised_rate: French
    over: age
    weights: [2, 1, 1]
  - trend: French
    over: age
    scores: [1, 3, 4]
"""
# Every question has another answer, so that none can be taken for another one.
NOISY = [(900 + 31 * number, 7000 - 17 * number, 2000 + 5 * number) for number in range(9)]


def made() -> Study:
    """Nine questions: three groups, and each of them with and without the event."""
    return design(parse_study_file(TEXT, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")


def found(missing: int | None = None) -> Results:
    """The results of these answers; one of them may be missing."""
    study = made()
    standings = [
        Standing(ask, Attempt(1, f"q{place}", reused=False), None if place == missing else answered(place))
        for place, ask in enumerate(study.asks)
    ]
    return results(study, 30, standings)


def answered(place: int) -> AskedQuestion:
    """One question with its answer."""
    noisy = NoisyCounts(NOISY[place])
    question = made().question.text
    return AskedQuestion(f"q{place}", 0, "", question, 30, 500_000, "", b"", b"", b"", b"", noisy=noisy, charged=1)


def counts(place: int) -> Counts:
    """The same for the estimates package."""
    return Counts(NOISY[place], 30, Fraction(1, 2))


@cache
def expected() -> list[Estimate]:
    """Every number, from the groups in the order of the file: 0, 1 and 2, then the event's pairs."""
    french, either = (0,), (0, 1)
    return [
        *(share(Group(counts(place), french, either)) for place in (0, 1, 2)),
        *(difference(Group(counts(place), french), Group(counts(1), french)) for place in (0, 2)),
        *(ratio(Group(counts(place), either), Group(counts(1), either)) for place in (0, 2)),
        *(rate_ratio(counts(place), counts(place + 1), french, (1,)) for place in (3, 5, 7)),
        standardised_rate([Group(counts(place), french) for place in (0, 1, 2)], [2.0, 1.0, 1.0]),
        trend([Group(counts(place), french) for place in (0, 1, 2)], [1.0, 3.0, 4.0]),
    ]


def test_every_kind_is_computed_from_its_own_answers() -> None:
    """Groups, references, events, weights and scores go where they belong."""
    assert [finding.estimate for finding in found().findings] == expected()


def test_counts_stand_for_everybody_who_matches() -> None:
    """Half of them were drawn: counts and margins are doubled."""
    first = found().counted[0]
    assert (first.cell, first.count) == ("French", 1800)
    assert first.margin >= 2 * 90


def test_a_part_that_was_asked_is_weighted() -> None:
    """Counts stand for everybody; intervals with sampling have the design effect that the answer was kept with."""
    text = "where: age >= 45\ncount: home_language = 'French'\nof: all\nestimate:\n  - share: French\n"
    study = design(parse_study_file(text, "s.yaml"), HEALTH_DICTIONARY, CENSUS_DICTIONARY, "usual")
    noisy = NoisyCounts((900, 7000))
    asked = AskedQuestion(
        "q",
        0,
        "",
        study.question.text,
        30,
        1_000_000,
        "",
        b"",
        b"",
        b"",
        b"",
        noisy=noisy,
        charged=1,
        asked_of=study.part,
    )
    found = results(study, 30, [Standing(study.asks[0], Attempt(1, "q", reused=False), asked)])
    assert study.part is not None
    weight, effect = study.part.weight, float(study.part.design_effect)
    assert [each.count for each in found.counted] == [900 * weight, 7000 * weight]
    assert found.counted[0].margin == 114 * weight
    plain, drawn = (Group(Counts((900, 7000), 30, design=each), (0,)) for each in (Design(), Design(weight, effect)))
    assert found.findings[0].estimate == share(drawn) != share(plain)


@pytest.mark.parametrize("missing", [1, 4])
def test_what_takes_a_missing_answer_has_no_value(missing: int) -> None:
    """And everything else has its own."""
    part = found(missing)
    for finding, whole in zip(part.findings, expected(), strict=True):
        assert finding.estimate == (None if missing in finding.row.asks else whole)
    assert [each.ask for each in part.missing] == [part.study.asks[missing]]


def test_the_truth_is_what_is_estimated() -> None:
    """On exact counts, the true value of a row is the value of its estimate."""
    for finding, whole in zip(found().findings, expected(), strict=True):
        assert true_value(finding.row, NOISY) == pytest.approx(whole.value)
