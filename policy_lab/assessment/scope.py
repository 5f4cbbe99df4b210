"""The scope: what is assessed, who takes part, and who learns what."""

from __future__ import annotations

from importlib.metadata import version

from broker_common.cli import instant
from broker_common.language import phrase
from policy_lab.assessment import cited
from policy_lab.assessment.cited import Cited
from policy_lab.assessment.facts import Facts, Log
from policy_lab.document.model import Block, Cell, Claim, Paragraph, Section, Table

_CANARIES = cited.tested("privacy/test_canaries.py")


def scope(facts: Facts, commands: Cited) -> Section:
    """The scope of the assessment."""
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
            *_placeholder(facts.log),
        ],
    )


def _of_home(log: Log | None, commands: Cited) -> list[Block]:
    if log is None:
        return []
    state = phrase("has been shut down") if log.is_shut_down else phrase("is serving")
    return [
        Claim(
            phrase(
                "By the first {size} entries of the census agency's log the service {state}. Answers charged so far: {answers}.",
                size=log.checkpoint.size,
                state=state,
                answers=log.answers,
            ),
            commands.past(log.checkpoint.size),
            (f'"answers": {log.answers}, "state": "{"shutdown" if log.is_shut_down else "serving"}"',),
        )
    ]


def _placeholder(log: Log | None) -> list[Block]:
    if log is None:
        return []
    return [
        Paragraph(
            phrase(
                "CENSUS_HOME stands for the folder of the census agency's home: put its path there. What such a command shows of the policy, of the limit and of the parties is "
                "what is in force when it is run; if that was changed since, the log says when."
            )
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
