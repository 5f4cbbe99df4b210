"""Scope, parties, who learns what, what is promised against whom, and what is not: sentences of SECURITY.md and ARGUMENT.md."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from importlib.metadata import version

from broker_common.cli import instant
from broker_common.language import phrase
from broker_common.privacy.belief import posterior
from broker_common.privacy.policy import Policy
from broker_common.privacy.report import PRIORS, make_report
from census_node.operator.policy_commands import number
from policy_lab.assessment import cited
from policy_lab.assessment.cited import Cited
from policy_lab.assessment.facts import Facts, Log
from policy_lab.assessment.figures import percent, rounded_up
from policy_lab.document.model import Block, Caution, Cell, Claim, Paragraph, Section, Table

_EVEN = Fraction(1, 2)
_CANARIES = cited.tested("privacy/test_canaries.py")
_GAMES = cited.tested("privacy/test_small_worlds.py", "test_no_game_passes_the_bound_and_the_best_reaches_it")


def scope(facts: Facts, commands: Cited) -> Section:
    """What is assessed, and what is not."""
    release = version("tripartite")
    return Section(
        "scope",
        phrase("Scope"),
        [
            Paragraph(phrase("Made on {day} (UTC).", day=instant(facts.made_ms).partition("T")[0])),
            Claim(
                phrase(
                    "This assessment is of one service: two agencies, which may never merge their data, answer count queries with the "
                    "program tripartite, version {number}.",
                    number=release,
                ),
                "tripartite --version",
                (release,),
            ),
            *_of_home(facts.log, commands),
            Claim(
                phrase(
                    "A researcher asks how many people of a group, which is chosen by criteria on health records, have a value of a "
                    "language variable of the census, or asks for a table of such counts."
                ),
                "tripartite researcher ask --help",
                ("--where", "--count"),
            ),
            Claim(
                phrase(
                    "What the researcher gets is a count with random noise, sealed so that nobody else can read it on its way."
                ),
                _CANARIES,
            ),
            Paragraph(
                phrase(
                    "Three things are outside the scope, and those who sign judge them: whether the law permits the agencies to do this, "
                    "whether the records and the links between them are right, and what the health agency does with its own records."
                )
            ),
            Paragraph(
                phrase(
                    "Each sentence with a bar beside it names the command that reproduces it. Commands that begin with 'pytest' or 'grep' are "
                    "run in the folder of this version's source, the others where the program is installed; EXPORTS is a new folder."
                )
            ),
        ],
    )


def _of_home(log: Log | None, commands: Cited) -> list[Block]:
    if log is None:
        return []
    state = phrase("has been shut down") if log.is_shut_down else phrase("is serving")
    return [
        Claim(
            phrase(
                "By the census agency's log the service {state}. Answers charged so far: {answers}.",
                state=state,
                answers=log.answers,
            ),
            commands.status,
            (f'"state": "{"shutdown" if log.is_shut_down else "serving"}"', f'"answers": {log.answers}'),
        )
    ]


def parties(facts: Facts, commands: Cited) -> Section:
    """Who takes part, with the fingerprints of their cards."""
    rows: list[list[Cell]] = [
        [phrase("researcher"), phrase("asks, and alone can read the answers")],
        [
            phrase("health agency"),
            phrase("holds the health records, and chooses whom a question is about by the researcher's criteria"),
        ],
        [
            phrase("census agency"),
            phrase("holds languages, counts, adds noise, charges budgets, and stops before a limit is passed"),
        ],
        [
            phrase("auditor"),
            phrase("checks both agencies' logs, offline, and the census agency's private files on site"),
        ],
    ]
    blocks: list[Block] = [
        Table("parties", phrase("The parties, and what each does"), (phrase("Party"), phrase("What it does")), rows),
    ]
    if facts.log is not None:
        known = facts.log.parties
        blocks += [
            Claim(
                phrase(
                    "The census agency's log names these parties by the cards that their owners printed; two people compare a fingerprint "
                    "before a party is registered."
                ),
                commands.keys,
                [party.fingerprint for party in known],
            ),
            Table(
                "cards",
                phrase("Registered parties"),
                (phrase("Role"), phrase("Name"), phrase("Fingerprint of the card")),
                [[phrase(_ROLES[party.role]), party.name, party.fingerprint] for party in known],
            ),
        ]
    return Section("parties", phrase("Parties"), blocks)


_ROLES = {"researcher": "researcher", "health": "health agency", "census": "census agency"}


def learns() -> Section:
    """README's table."""
    never, on_site = phrase("never"), phrase("on site, as pseudonyms")
    own, yes = phrase("own"), phrase("yes")
    rows: list[list[Cell]] = [
        [
            phrase("the health criteria"),
            own,
            yes,
            phrase("never; a commitment that hides them"),
            phrase("opened by the health agency on site"),
        ],
        [phrase("who is in the health agency's data at all"), never, yes, phrase("yes, as pseudonyms"), on_site],
        [
            phrase("who is in the sample of a question"),
            never,
            yes,
            phrase("yes, as places in the list of pseudonyms"),
            on_site,
        ],
        [phrase("anyone's language"), never, never, phrase("own data"), phrase("no")],
        [
            phrase("the exact count"),
            never,
            never,
            phrase("in memory only; on disk sealed to an oversight key, if there is one"),
            phrase("with the oversight key only"),
        ],
        [phrase("the noisy answer"), yes, phrase("never"), yes, phrase("charge and scale, not the answer")],
        [phrase("the exact size of the sample"), never, yes, yes, phrase("on site only")],
    ]
    return Section(
        "learns",
        phrase("Who learns what"),
        [
            Table(
                "learns",
                phrase("What each party learns"),
                (
                    phrase("What"),
                    phrase("Researcher"),
                    phrase("Health agency"),
                    phrase("Census agency"),
                    phrase("Auditor"),
                ),
                rows,
            ),
            Claim(
                phrase(
                    "The table is tested: each kind of secret is looked for, in every form, in all that the nodes of a recorded deployment store, "
                    "print, log and send; it must be found where the table says so, and nowhere else."
                ),
                _CANARIES,
            ),
            Claim(
                phrase(
                    "Census staff who hold the linkage key can tell who stands behind the pseudonyms of a sample: membership is not hidden from them."
                ),
                cited.security("**membership is not hidden**"),
                ("membership is not hidden",),
            ),
        ],
    )


def promises(facts: Facts, commands: Cited) -> Section:
    """What holds against each adversary, and under which conditions."""
    policy = facts.policy
    param = number(policy.param)
    whom = phrase("a household") if policy.subject == "household" else phrase("one person")
    return Section(
        "promises",
        phrase("What is promised, against whom"),
        [
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
                    "On the network all calls are encrypted between parties that know each other's certificates; whoever has none is not heard."
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
    """What nobody may read into the promise."""
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
