"""Strict against per-person accounting on a made-up stream of questions, by the product's own prices and cap."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from broker_common.language import phrase
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from policy_lab.document.model import Axis, Block, Caution, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.policy import CAP, SCALE, Limit, limit_of, so_many_answers
from policy_lab.figures.setting import Values, choice, whole, whole_of
from policy_lab.figures.workloads import PEOPLE, WORKLOADS, Workload

WORKLOAD = choice(
    "workload", phrase("Stream of questions"), tuple((each.key, each.label) for each in WORKLOADS.values())
)
QUESTIONS = whole("questions", phrase("Questions"), 10, 2000, 400, step=10)
SEED = whole("seed", phrase("Which made-up people and groups"), 1, 1000, 1)
SETTINGS = (WORKLOAD, QUESTIONS, CAP, SCALE, SEED)
TITLE = phrase("Who pays for an answer: everybody, or the people in it")

_MARKS = (10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000)
_MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class Course:
    """People under per-person accounting, question by question; arrays by question, from 0 questions on."""

    # People who have no room for one more answer at the scale.
    exhausted: tuple[int, ...]
    # People that all questions so far were about, each as often as asked about, and how many of these were left out.
    asked: tuple[int, ...]
    dropped: tuple[int, ...]

    def left_out(self, before: int, after: int) -> float:
        """The share of those asked about who were left out, between two numbers of questions."""
        asked = self.asked[after] - self.asked[before]
        return (self.dropped[after] - self.dropped[before]) / asked if asked else 0.0


def course_of(workload: Workload, limit: Limit, scale: int, questions: int, seed: int) -> Course:
    """The rule of the product: everybody in the group who still fits is charged the price and counted; the others are left out, silently."""
    charges, each = np.zeros(PEOPLE, np.int64), price(scale)
    exhausted, asked, dropped = [int(np.count_nonzero(charges > limit.units - each))], [0], [0]
    for group in islice(workload.groups(np.random.default_rng(seed)), questions):
        counted = group & (charges <= limit.units - each)
        charges[counted] += each
        size = int(np.count_nonzero(group))
        exhausted.append(int(np.count_nonzero(charges > limit.units - each)))
        asked.append(asked[-1] + size)
        dropped.append(dropped[-1] + size - int(np.count_nonzero(counted)))
    return Course(tuple(exhausted), tuple(asked), tuple(dropped))


def draw(values: Values) -> Section:
    """How long either way of accounting goes on, and at whose cost."""
    limit, scale, questions = limit_of(values), whole_of(values, SCALE.key), whole_of(values, QUESTIONS.key)
    workload = WORKLOADS[str(values[WORKLOAD.key])]
    course = course_of(workload, limit, scale, questions, whole_of(values, SEED.key))
    strict = limit.answers(scale)
    blocks = (
        *_verdict(workload, course, strict, questions, scale),
        _plot(course, strict, questions),
        _table(course, strict, questions),
    )
    return Section("accounting", TITLE, blocks, _citizen(strict), _SPECIALIST)


def _marks(questions: int) -> list[int]:
    step = max(1, questions // _MOST_POINTS)
    return sorted({*range(0, questions, step), questions})


def _verdict(workload: Workload, course: Course, strict: int, questions: int, scale: int) -> tuple[Block, ...]:
    last = max(0, questions - max(1, questions // 10))
    return (
        Paragraph(
            phrase(
                "The stream: {label}. {words} There are {people:,} made-up people, and each answer is within {margin:,}, 19 times out of 20.",
                label=workload.label,
                words=workload.words,
                people=PEOPLE,
                margin=margin(scale),
            )
        ),
        Paragraph(
            phrase(
                "Strict: the service gives {answers} in all and shuts down. Per person: it answers all {questions:,} questions; then {exhausted:.1f}% of "
                "the people have nothing left, and of those that the last tenth of the questions was about, {dropped:.1f}% were left out.",
                answers=so_many_answers(min(strict, questions)),
                questions=questions,
                exhausted=100 * course.exhausted[questions] / PEOPLE,
                dropped=100 * course.left_out(last, questions),
            )
        )
        if questions > strict
        else Paragraph(
            phrase(
                "Strict: the service answers all {questions:,} questions; it would shut down after {answers}. Per person it answers them too; then "
                "{exhausted:.1f}% of the people have nothing left.",
                answers=so_many_answers(strict),
                questions=questions,
                exhausted=100 * course.exhausted[questions] / PEOPLE,
            )
        ),
        Caution(
            phrase(
                "Under per-person accounting nobody outside the census agency is told who is left out, or how many: counts of groups that are asked about "
                "often become too small without a sign. The people and the streams are invented."
            )
        ),
    )


def _plot(course: Course, strict: int, questions: int) -> Lines:
    marks = _marks(questions)
    return Lines(
        "accounting-course",
        phrase("What questions use up"),
        phrase(
            "Under per-person accounting, the share of all people who have nothing left, and the share of those asked about who are left out of the "
            "count. Under strict accounting all people are used up at once, when the service shuts down."
        ),
        Axis(phrase("Questions"), low=0.0),
        Axis(phrase("Share of people"), low=0.0, high=1.0, is_share=True),
        [
            Line(phrase("per person: nothing left"), [(n, course.exhausted[n] / PEOPLE) for n in marks]),
            Line(
                phrase("per person: left out of the count"),
                [(after, course.left_out(before, after)) for before, after in pairwise(marks)],
                "dashes",
            ),
            Line(
                phrase("strict: shut down"),
                _shut_down(strict, questions),
            ),
        ],
    )


def _shut_down(strict: int, questions: int) -> list[tuple[float, float]]:
    """0 until the service shuts down, then 1."""
    end = min(strict, questions)
    return [(0, 0.0), (end, 0.0), *([(end, 1.0), (questions, 1.0)] if strict < questions else [])]


def _table(course: Course, strict: int, questions: int) -> Table:
    marks = sorted(
        {*(mark for mark in _MARKS if mark < questions), questions, *([strict] if 0 < strict < questions else [])}
    )
    return Table(
        "accounting-marks",
        phrase("Along the way"),
        (
            phrase("Questions"),
            phrase("Strict: answers given"),
            phrase("Per person: answers given"),
            phrase("Nothing left (% of all)"),
            phrase("Left out since the row above (%)"),
        ),
        [
            (
                after,
                min(after, strict),
                after,
                100 * course.exhausted[after] / PEOPLE,
                100 * course.left_out(before, after),
            )
            for before, after in pairwise([0, *marks])
        ],
        (0, 0, 0, 2, 2),
        phrase(
            "The last column is the share of those people whom questions were about. An answer is given also when everybody in its "
            "group is left out: a refusal would tell."
        ),
    )


def _citizen(strict: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "There are two ways to keep the promise. The strict one treats every answer as if it were about you: after {answers} the service shuts, for "
                "all questions and all researchers. It is simple, and it is soon over.",
                answers=so_many_answers(strict),
            )
        ),
        Paragraph(
            phrase(
                "The other way keeps an account for each person. Only answers about a group that you are in use up yours; when it is empty, you are left "
                "out of counts from then on, and nobody outside learns that. Studies of small, different groups can then go on for years. But if all "
                "ask about the same patients, these are used up as soon as before, and counts of them become too small. Choose a stream of "
                "questions and see."
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "Both rules keep the same limit for each person against adversary HR: charges add up over the answers that counted x, and none is counted beyond "
            "the cap. Under “strict” the sum over all answers is a bound for everybody; under “per_person” an answer is charged to the linked people of "
            "its sample alone. Who is active is a function of samples, price, floor and cap, and of no language (lemma 1)."
        )
    ),
    Formula(
        "active(p) = [floor + L(p) + u <= cap];   L(p) := L(p) + u if active",
        phrase("the rule, for each person of a sample"),
    ),
    Formula(
        "P(T|W)/P(T|W') <= e^(charged to x) <= param",
        phrase("what follows for two worlds that differ in x's language, whatever is asked"),
    ),
    Paragraph(
        phrase(
            "Drawn with a seeded generator. “Nothing left” means no room for one more answer at this scale; a policy that admits larger scales leaves room "
            "for those. Households, which pay for each of their people in a sample, are not shown. With the product's own ledger and made-up people of "
            "Ontario: “make workload”, and the table in docs/budgets.md."
        )
    ),
    sources.PAPER,
    sources.ARGUMENT,
    sources.DESIGN_ACCOUNTING,
)
