"""The promises, and their limits: sentences of SECURITY.md and ARGUMENT.md."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.belief import posterior
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import PRIORS, make_report
from census_node.operator.policy_commands import number
from policy_lab.assessment import cited
from policy_lab.assessment.cited import Cited
from policy_lab.assessment.facts import Facts
from policy_lab.assessment.figures import percent, rounded_up
from policy_lab.document.model import Block, Caution, Cell, Claim, Section, Table

_EVEN = Fraction(1, 2)
_DAY_MS = 86_400_000
_GAMES = cited.tested("privacy/test_small_worlds.py", "test_no_game_passes_the_bound_and_the_best_reaches_it")


def promises(facts: Facts, commands: Cited) -> Section:
    """The promise against each adversary, and its conditions."""
    policy = facts.policy
    param = number(policy.param)
    whom = phrase("a household") if policy.subject == "household" else phrase("one person")
    return Section(
        "promises",
        phrase("What is promised, against whom"),
        [
            _adversaries(policy),
            Claim(
                phrase(
                    "These are the adversaries of SECURITY.md, which says of each what it knows and what it can do."
                ),
                cited.security("| **HR** |"),
                ("health agency and researchers, colluding",),
            ),
            Claim(
                phrase(
                    "The health agency and all researchers together know every health record, choose every sample and see every answer. Even so, the odds that "
                    "they give to any statement of the census about the language of {whom} move by a factor of at most {param}, either way, over the whole life of "
                    "the service.",
                    whom=whom,
                    param=param,
                ),
                commands.policy,
                (f'"max_belief": "{policy.max_belief}"', f'"param": {param}'),
            ),
            Claim(
                phrase(
                    "The proof stands in ARGUMENT.md. Its cases are also played as games in small worlds: none passes the bound that is claimed for it, and "
                    "the best one reaches it."
                ),
                _GAMES,
            ),
            *earlier(facts),
            _conditions(policy),
            *_researchers_alone(policy),
            Claim(
                phrase(
                    "The factor is that of the highest limit that was ever in force. To raise it takes an order that the census operator signs, with a reason, in the log."
                ),
                cited.tested(
                    "unit/tlog/test_census_state.py", "test_a_higher_cap_may_be_adopted_when_the_operator_confirms_it"
                ),
            ),
            Claim(
                phrase("Census staff never see the criteria: they go to the health agency alone, in one message."),
                cited.tested("privacy/test_wire.py", "test_criteria_have_a_place_in_one_message_only"),
            ),
            Claim(
                phrase(
                    "On the network all calls are encrypted between parties that know each other's certificates; calls without a known certificate are refused."
                ),
                cited.tested("integration/test_transport_attacks.py", "test_client_without_certificate_is_refused"),
            ),
            Claim(
                phrase(
                    "Rosters, samples and answers are sealed once more inside, against an adversary who records all bytes for decades."
                ),
                cited.security("sealed again inside with a post-quantum hybrid"),
                ("post-quantum",),
            ),
            Claim(
                phrase(
                    "A thief who copies the census agency's home finds past answers sealed to their researchers, and secrets of noise overwritten once they were used."
                ),
                cited.tested(
                    "privacy/test_canaries.py",
                    "test_noise_secrets_are_overwritten_when_they_are_used_and_when_they_never_will_be",
                ),
            ),
            Claim(
                phrase(
                    "An older copy of the census agency's home, which would forget charges, does not serve if the witness store was not put back with it."
                ),
                cited.tested("process/test_rollback.py", "test_yesterdays_census_home_does_not_serve"),
            ),
        ],
    )


def _adversaries(policy: Policy) -> Table:
    """SECURITY's table, in short."""
    param = number(policy.param)
    squared = number(policy.param**2)
    rows: list[list[Cell]] = [
        [
            phrase("health agency and researchers, together (HR)"),
            phrase("what the census says of one person's language"),
            phrase("The odds move by a factor of at most {param}, either way.", param=param),
        ],
        [
            phrase("researchers, with an honest health agency (R-only)"),
            phrase("the same, and health records"),
            phrase("The same factor for whatever record there is, at either agency.")
            if policy.accounting == "strict"
            else phrase(
                "The same factor between records and none; {squared} between two different ones.", squared=squared
            ),
        ],
        [
            phrase("census staff (C-curious)"),
            phrase("who is in a group of the health agency's"),
            phrase("The criteria stay hidden. Membership does not, from those who hold the linkage key."),
        ],
        [
            phrase("anyone on the network"),
            phrase("contents, and who is linked"),
            phrase(
                "All is encrypted, what matters twice. How many people are declared, and when something is sent, shows."
            ),
        ],
        [
            phrase("a thief of copied files"),
            phrase("past answers, and the noise"),
            phrase("Answers are sealed and noise secrets overwritten.")
            if policy.accounting == "strict"
            else phrase(
                "Answers are sealed and noise secrets overwritten. Who was in a sample is in the census agency's home for {days} days, as pseudonyms.",
                days=policy.sample_retention_ms // _DAY_MS,
            ),
        ],
        [
            phrase("a census agency with a researcher (C+R)"),
            phrase("anything"),
            phrase("Nothing is promised: this is outside the model."),
        ],
    ]
    return Table(
        "adversaries",
        phrase("Promises by adversary"),
        (phrase("Adversary"), phrase("What they are after"), phrase("What is promised")),
        rows,
    )


def earlier(facts: Facts) -> list[Block]:
    """A limit that was lowered holds for what is asked afterwards."""
    if facts.log is None or Fraction(facts.log.highest_belief) <= Fraction(facts.policy.max_belief):
        return []
    return [
        Caution(
            phrase(
                "Under an earlier policy the limit was {highest:g}%. What was asked under it counts: all that is said here of {limit:g}% holds for what is asked from now "
                "on, and {highest:g}% is the limit on everything together.",
                highest=percent(facts.log.highest_belief),
                limit=percent(facts.policy.max_belief),
            )
        )
    ]


def _conditions(policy: Policy) -> Claim:
    if policy.accounting == "strict":
        words = phrase(
            "The promise is about a person's languages, in any loads of the census; every answer is charged to everybody."
        )
        return Claim(words, cited.argument("`HR, strict`"), ("HR, strict",))
    if policy.subject == "household":
        return Claim(
            phrase(
                "The promise is about the languages, in any loads of the census, of people who are in one and the same household in every load; an "
                "answer costs a household as much as it has people in the sample."
            ),
            cited.argument(
                "the languages, in any loads, of people who are in one and the same household in every load"
            ),
            ("one and the same household",),
        )
    return Claim(
        phrase(
            "The promise is about a person's languages, in any loads of the census; an answer is charged to the people in its sample."
        ),
        cited.argument("`HR, languages`"),
        ("HR, languages",),
    )


def _researchers_alone(policy: Policy) -> Sequence[Claim]:
    if policy.accounting == "strict":
        words = phrase(
            "Researchers who face an honest health agency learn no more than that of any record of a person, at either agency, provided that "
            "no card of this person is somebody else's."
        )
        game = "`R-only, strict`"
    elif policy.subject == "household":
        words = phrase(
            "Researchers who face an honest health agency learn no more than that about whether all people of a household have these health records or none, "
            "provided that no card of theirs is somebody else's and that the household stays whole."
        )
        game = "`R-only, a whole household's records`"
    else:
        words = phrase(
            "Researchers who face an honest health agency learn no more than that about whether a person has these health records or none, provided that no "
            "card of this person is somebody else's."
        )
        game = "`R-only, a record`"
    return (
        Claim(words, cited.argument(game), (game.strip("`"),)),
        Claim(
            phrase(
                "Beside answers, a researcher sees prices, sizes, errors and instants. None of them depends on a record, as long as the machines do "
                "their work within the ticks that the policy sets."
            ),
            cited.tested("statistical/test_release_times.py", "test_two_worlds_are_not_told_apart_by_the_clock"),
        ),
    )


def limits(facts: Facts, commands: Cited) -> Section:
    """Limits of the promise."""
    policy = facts.policy
    surest = PRIORS[-2]
    highest = make_report(policy, common={}, sampled={}, units=0, charges=None).ceilings[-2].limit_up
    blocks: list[Block] = [
        Caution(
            phrase(
                "{limit:g}% is a limit for somebody who begins at even odds. It is no limit for somebody who was surer before: a belief of {prior:g}% may become {highest:.1f}%.",
                limit=percent(policy.max_belief),
                prior=float(100 * surest),
                highest=rounded_up(highest),
            )
        ),
        Claim(
            phrase(
                "The same factor on the odds gives every belief before the first answer a limit of its own; the table in the next section has them."
            ),
            commands.report,
            (f'"prior": {float(surest)}', str(float(highest))),
        ),
        Claim(
            phrase(
                "Two records instead of one move the odds by the square of the factor, so that even odds become at most {belief:.1f}%: two people, or a "
                "person whom the registry takes for two.",
                belief=rounded_up(posterior(policy.param**2, _EVEN)),
            ),
            cited.argument("`HR, two people` (2)"),
            ("HR, two people",),
        ),
        Claim(
            phrase("What relatives' records say about a person is not counted in that person's budget."),
            cited.argument("What relatives' records say of x is theirs"),
            ("theirs",),
        ),
        Claim(
            phrase("A census agency that colludes with a researcher is outside the model: it has the languages."),
            cited.security("a census agency colluding with a researcher, is outside the model"),
            ("outside the model",),
        ),
        Claim(
            phrase(
                "Nobody who is not linked is in any sample, and a share among linked people says nothing about the others."
            ),
            cited.argument("A share that is counted among linked people says nothing of the others"),
            ("says nothing of the others",),
        ),
        Claim(
            phrase(
                "That the service is always available is not promised: a registered researcher may use up budgets, and an agency may stop."
            ),
            cited.security("**Availability** is not promised against registered parties"),
            ("is not promised",),
        ),
    ]
    if policy.subject == "household":
        blocks.insert(
            2,
            Claim(
                phrase("A person who moves to another household can be learned more about than the limit says."),
                cited.tested("privacy/test_small_worlds.py", "test_somebody_who_moves_passes_the_cap_of_80_percent"),
            ),
        )
    return Section("limits", phrase("What is not promised"), blocks)
