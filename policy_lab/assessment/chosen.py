"""The policy in force: its settings, what each is for, and what they buy and cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.accounting import answers_left, price
from broker_common.privacy.belief import belief_of_units
from broker_common.privacy.policy import Policy, scales_text
from broker_common.privacy.report import BeliefReport, Typical, make_report
from broker_common.privacy.table_laplace import margin
from broker_common.values import Linkage
from policy_lab.assessment import cited
from policy_lab.assessment.cited import Cited
from policy_lab.assessment.facts import Facts
from policy_lab.assessment.figures import percent, rounded_up
from policy_lab.assessment.promises import earlier
from policy_lab.document.model import Axis, Block, Caution, Cell, Claim, Line, Lines, Paragraph, Section, Table

_DAY_MS = 86_400_000
# The figure `margin` of the lab takes no larger scale.
_LARGEST_EXPLAINED = 200
_MOST_POINTS = 60


def summary(facts: Facts, commands: Cited, verdict: Sequence[Block]) -> Section:
    """The figures that decide, on the first page."""
    policy = facts.policy
    scale = policy.usual_scale
    answers = answers_left(policy.cap, 0, scale)
    return Section(
        "summary",
        phrase("In short"),
        [
            _deployment(facts, commands),
            Claim(
                phrase(
                    "Nobody who begins at even odds can become surer than {limit:g}% of what the census says of one person's language, whatever they ask, also if the health agency and all researchers work together, under the "
                    "conditions of the section on promises.",
                    limit=percent(policy.max_belief),
                ),
                commands.policy,
                (f'"max_belief": "{policy.max_belief}"',),
            ),
            *earlier(facts),
            Claim(
                _budget_words(policy, answers, scale),
                commands.report,
                (f'"count": {answers}, "scale": {scale}',),
            ),
            *_margin(scale),
            *verdict,
        ],
    )


def _budget_words(policy: Policy, answers: int, scale: int) -> str:
    if policy.accounting == "strict":
        return phrase(
            "The one budget that all answers share pays for this many at noise scale {scale}: {answers}. Then the service shuts "
            "down for everybody.",
            answers=answers,
            scale=scale,
        )
    if policy.subject == "household":
        return phrase(
            "The budget of a household pays for this many answers at noise scale {scale} that count one of its people: {answers}. "
            "Where it does not pay for all of them, an answer leaves them out, and nobody outside the census agency is told.",
            answers=answers,
            scale=scale,
        )
    return phrase(
        "The budget of a person pays for this many answers at noise scale {scale}: {answers}. People without budget "
        "left are counted in no further answer, and nobody outside the census agency is told.",
        answers=answers,
        scale=scale,
    )


def _margin(scale: int) -> list[Block]:
    if scale > _LARGEST_EXPLAINED:
        return []
    give_or_take = margin(scale)
    return [
        Claim(
            phrase(
                "At this scale the noise moves a count by at most {margin} people, 19 times out of 20, however large the group is.",
                margin=give_or_take,
            ),
            cited.explain("margin", scale=scale),
            (f"give or take {give_or_take:,}",),
        )
    ]


def _deployment(facts: Facts, commands: Cited) -> Claim:
    """The deployment that the figures describe."""
    if facts.log is None:
        return Claim(
            phrase("No census home was named: the policy is the one that 'tripartite init' sets for a new deployment."),
            f"tripartite init {cited.USUAL}",
            ("researcher, health, census, auditor",),
        )
    size = facts.log.checkpoint.size
    return Claim(
        phrase("All that is said here of the deployment is as its log stood with {size} entries.", size=size),
        commands.past(size),
        (f'"size": {size}',),
    )


def policy(facts: Facts, commands: Cited) -> Section:
    """The settings, the reasons, the beliefs and the answers that they pay for."""
    chosen = facts.policy
    report = make_report(chosen, common={}, sampled={}, units=0, charges=None)
    return Section(
        "policy",
        phrase("The policy, and why"),
        [
            *_signed(facts, commands),
            _settings(chosen),
            *_reasons(facts),
            _beliefs(report),
            Claim(
                phrase(
                    "The table follows from the limit alone: whatever is asked, and however often, no belief leaves its row."
                ),
                commands.report,
                (str(float(report.ceilings[0].limit_up)), str(float(report.ceilings[-1].limit_up))),
            ),
            _course(chosen),
            *_typical(report.typical_limit, commands),
        ],
    )


def _signed(facts: Facts, commands: Cited) -> list[Block]:
    if facts.log is None:
        return []
    return [
        Claim(
            phrase(
                "The policy in force is the one with the hash {hash}, signed by the census agency with the key {key}.",
                hash=facts.log.policy_hash,
                key=facts.log.policy_key,
            ),
            commands.policy,
            (facts.log.policy_hash, facts.log.policy_key),
        )
    ]


_LINKAGE: dict[Linkage, str] = {
    "complementary": phrase("by the same id of a person at both agencies"),
    "nominative": phrase("by names, in a register of the census agency's own"),
    "household": phrase("by address, household with household"),
}


def _settings(chosen: Policy) -> Table:
    is_strict = chosen.accounting == "strict"
    by_household = chosen.subject == "household"
    rows: list[list[Cell]] = [
        [
            phrase("limit on belief (max_belief)"),
            Fraction(chosen.max_belief),
            phrase("The most that somebody who begins at even odds may come to believe of one person's language."),
        ],
        [
            phrase("accounting"),
            phrase("strict") if is_strict else phrase("per person"),
            phrase("Every answer is charged to everybody: simple, and soon over.")
            if is_strict
            else phrase(
                "An answer is charged to the people in its sample alone, so that questions about other people may go on."
            ),
        ],
        [
            phrase("subject of a budget"),
            phrase("household") if by_household else phrase("person"),
            phrase("People of one household often share a language: one budget is for all of them together.")
            if by_household
            else phrase("Each person has a budget. Of people who share a language more can be learned together."),
        ],
        [
            phrase("linkage"),
            _LINKAGE[chosen.linkage],
            phrase("What makes a health record and a census row one person's."),
        ],
        [
            phrase("noise scales"),
            scales_text(chosen.scales),
            phrase("A larger scale costs less and is less exact; the limit holds at any of them."),
        ],
        [
            phrase("answers in all"),
            chosen.max_answers or phrase("no end"),
            phrase("After so many the service shuts down, whatever budgets are left."),
        ],
        [
            phrase("forward delay and tick, in milliseconds"),
            f"{chosen.forward_delay_ms}, {chosen.release_tick_ms}",
            phrase("Samples and answers leave at fixed instants, so that time tells nothing. A tick of 0 voids that."),
        ],
        [
            phrase("samples are kept, in days"),
            chosen.sample_retention_ms // _DAY_MS,
            phrase(
                "So long an auditor on site can prove what single persons were charged. Then one number for each person is left."
            ),
        ],
        [
            phrase("answers of one researcher at a time"),
            chosen.quota or phrase("no end"),
            phrase("Bounds the disk that samples take, and what one researcher can use up."),
        ],
    ]
    return Table("settings", phrase("Settings"), (phrase("Setting"), phrase("Value"), phrase("What it is for")), rows)


def _reasons(facts: Facts) -> list[Block]:
    if not facts.reasons:
        return [
            Caution(
                phrase(
                    "Why this limit and not another one is the census agency's decision, and it has not been written down here: --reasons FILE puts the agency's own words in this place."
                )
            )
        ]
    return [
        Paragraph(phrase("Why this policy was chosen, in the agency's own words:")),
        *(Paragraph(phrase("“{words}”", words=words)) for words in facts.reasons),
    ]


def _beliefs(report: BeliefReport) -> Table:
    return Table(
        "beliefs",
        phrase("What the limit means for somebody who believed something before, in %"),
        (phrase("Believed before"), phrase("At least, at the limit"), phrase("At most, at the limit")),
        [[100 * row.prior, 100 * Fraction(row.limit_down), 100 * Fraction(row.limit_up)] for row in report.ceilings],
        (0, 3, 3),
        phrase("Lower ends are rounded down and upper ends up: no figure understates."),
    )


def _course(chosen: Policy) -> Lines:
    """How high belief may be after so many answers, at the smallest, the usual and the largest scale."""
    scales = sorted({chosen.scales[0], chosen.usual_scale, chosen.scales[-1]} & set(chosen.scales))
    return Lines(
        "course",
        phrase("The highest belief about one person, by the number of answers that count this person"),
        phrase(
            "Each line climbs from 50% and ends where one more answer would pass the limit: after few answers at a small scale, after many at a large one."
        ),
        Axis(phrase("Answers that count this person"), low=0),
        Axis(phrase("Highest belief"), low=0.5, high=1, is_share=True),
        [
            Line(
                phrase("scale {scale}", scale=scale),
                [(n, float(belief_of_units(n * price(scale)))) for n in _steps(answers_left(chosen.cap, 0, scale))],
            )
            for scale in scales
        ],
        [(phrase("Limit"), float(chosen.max_belief))],
    )


def _steps(last: int) -> list[int]:
    return sorted({*range(0, last, max(1, last // _MOST_POINTS)), last})


def _typical(typical: Typical | None, commands: Cited) -> list[Block]:
    if typical is None:
        return []
    return [
        Claim(
            phrase(
                "A limit is what nobody can pass. On average an attacker comes less far: with a whole budget at the usual scale the best guess about one person is "
                "right {right:.1f}% of the time, where a coin is right 50% of the time.",
                right=rounded_up(typical.best_guess_right),
            ),
            commands.report,
            (f'"best_guess_right": {float(typical.best_guess_right)}',),
        )
    ]
