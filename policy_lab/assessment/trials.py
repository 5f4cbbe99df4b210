"""Attacks on a live deployment, and their verdicts: made now, or read from what `tripartite attack --json` printed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import nearest
from deploy.attacks.arena import Accounting, Say, Wish
from deploy.attacks.catalogue import ATTACKS
from deploy.attacks.findings import FALSE_ALARM
from deploy.attacks.running import run, run_all
from policy_lab.document.model import Block, Caution, Claim, Paragraph, Section, Table

# More than all attacks print.
_MOST_BYTES = 1 << 22

# Of the deployments that are attacked.
_POPULATION, _SEED = 5000, 1


class _Finding(msgspec.Struct, frozen=True):
    """One comparison, of which only these are shown."""

    held: bool
    p_value: float | None = None


class _Attack(msgspec.Struct, frozen=True):
    """One attack, as its command prints it."""

    attack: str
    held: bool
    answers: int
    findings: list[_Finding]


class _Attacks(msgspec.Struct, frozen=True):
    """What `tripartite attack all --json` prints."""

    attacks: list[_Attack]
    seed: int
    false_alarm: float


class _Single(_Attack, frozen=True):
    """What the command of one attack prints."""

    seed: int
    false_alarm: float


@dataclass(frozen=True, slots=True)
class Attacked:
    """Which attacks were made, with what became of them; the commands make them again."""

    attacks: tuple[_Attack, ...]
    false_alarm: float
    commands: tuple[str, ...]

    @property
    def held(self) -> int:
        return sum(attack.held for attack in self.attacks)


def read_attacks(file: Path) -> Attacked:
    """What an earlier `tripartite attack NAME --json` printed.

    Raises:
        InvalidRequestError: INVALID_VALUE, the file holds something else.
    """
    with file.open("rb") as content:
        printed = content.read(_MOST_BYTES)
    try:
        found = msgspec.json.decode(printed, type=dict[str, Any])
        if "attacks" in found:
            several = msgspec.convert(found, _Attacks)
            attacks, seed, false_alarm = several.attacks, several.seed, several.false_alarm
        else:
            single = msgspec.convert(found, _Single)
            attacks, seed, false_alarm = [single], single.seed, single.false_alarm
    except ValueError as error:
        raise _no_attacks(file) from error
    if not attacks or any(attack.attack not in _SAID for attack in attacks):
        raise _no_attacks(file)
    commands = tuple(f"tripartite attack {attack.attack} --seed {seed} --json" for attack in attacks)
    return Attacked(tuple(attacks), false_alarm, commands)


def _no_attacks(file: Path) -> InvalidRequestError:
    return InvalidRequestError(
        "INVALID_VALUE",
        name=str(file),
        problem=phrase("is not what 'tripartite attack NAME --json' prints"),
        remedy=phrase(
            "Run 'tripartite attack all --json > FILE' and give that file, or leave --attacks out to have the attacks made now."
        ),
    )


def make_attacks(names: Sequence[str], accounting: Accounting, rounds: int | None, say: Say) -> Attacked:
    """The attacks with these names, or all, each on a deployment of its own whose people are made up.

    Raises:
        InvalidRequestError: INVALID_VALUE, there is no such attack.
    """
    for name in names:
        if name not in ATTACKS:
            remedy = phrase("Did you mean: {nearest}?", nearest=nearest(name, tuple(ATTACKS)))
            raise InvalidRequestError(
                "INVALID_VALUE", name="--attack", problem=phrase("is no attack: {name}", name=name[:40]), remedy=remedy
            )
    wish = Wish(None, _POPULATION, _SEED, accounting)
    reports = [asyncio.run(run(name, rounds, wish, say)) for name in names] if names else run_all(rounds, wish, say)
    found = msgspec.convert([report.as_json() for report in reports], list[_Attack])
    tried = "" if rounds is None else f" --rounds {rounds}"
    commands = tuple(
        f"tripartite attack {each.attack} --population {_POPULATION} --accounting {accounting} --seed {_SEED}{tried} --json"
        for each in found
    )
    return Attacked(tuple(found), FALSE_ALARM, commands)


def verdict(attacked: Attacked | None) -> list[Block]:
    """The verdict for the first page."""
    if attacked is None:
        return [Caution(_NONE)]
    tried = len(attacked.attacks)
    if attacked.held < tried:
        return [
            Caution(
                phrase(
                    "Attacks that broke a promise: {broken} of {tried}. The service must not be used before it is known why.",
                    broken=tried - attacked.held,
                    tried=tried,
                )
            )
        ]
    return [
        Paragraph(
            phrase(
                "Attacks made on a live test deployment: {tried}. No promise was broken. Each stands in its section, with its command.",
                tried=tried,
            )
        )
    ]


_NONE = phrase(
    "No attack was made for this assessment. 'tripartite attack all' makes all of them on a test deployment."
)


def attacks(attacked: Attacked | None) -> Section:
    """Each attack, what it tried, and its verdict."""
    title = phrase("Attacks on a live test deployment")
    if attacked is None:
        return Section("attacks", title, [Caution(_NONE)])
    return Section(
        "attacks",
        title,
        [
            Paragraph(
                phrase(
                    "Each attack ran against real nodes with made-up people. A comparison that chance has a part in accuses a deployment that keeps its promises at most "
                    "once in {often} times. Noise is drawn anew at each run: what is reproduced is the verdict, not the figures.",
                    often=round(1 / attacked.false_alarm),
                )
            ),
            Table(
                "attacks",
                phrase("Attacks and verdicts"),
                (
                    phrase("Attack"),
                    phrase("Who"),
                    phrase("What they try"),
                    phrase("Answers"),
                    phrase("Comparisons"),
                    phrase("Least likely by chance"),
                    phrase("Promise"),
                ),
                [
                    (
                        attack.attack,
                        phrase(_SAID[attack.attack][0]),
                        phrase(_SAID[attack.attack][1]),
                        attack.answers,
                        len(attack.findings),
                        min((each.p_value for each in attack.findings if each.p_value is not None), default=None),
                        phrase("kept") if attack.held else phrase("BROKEN"),
                    )
                    for attack in attacked.attacks
                ],
                (None, None, None, 0, 0, None, None),
                phrase(
                    "'Least likely by chance': how often chance alone would do as well as the comparison that came nearest to accusing. Empty where chance has no part."
                ),
            ),
            *(_claim(attack, command) for attack, command in zip(attacked.attacks, attacked.commands, strict=True)),
        ],
    )


def _claim(attack: _Attack, command: str) -> Claim:
    words = (
        phrase("The attack '{name}' was made, and the promise held.", name=attack.attack)
        if attack.held
        else phrase("The attack '{name}' was made, and THE PROMISE DID NOT HOLD.", name=attack.attack)
    )
    return Claim(words, command, (f'"held": {str(attack.held).lower()}',))


_HR = phrase("the health agency and a researcher together")
_RESEARCHERS = phrase("researchers")
_BOTH = phrase("researchers, also together with the health agency")
_ANYBODY = phrase("anybody")
# Who, and what they try, as deploy/README.md says it.
_SAID: Mapping[str, tuple[str, str]] = {
    "neighbour": (
        _HR,
        phrase("to tell one person's language by the best test there is, whole budgets long and beyond"),
    ),
    "average": (_ANYBODY, phrase("to average the noise away by retries, other words for one sample, parts and wholes")),
    "tracker": (_BOTH, phrase("to compute one person's language from groups that differ in this person alone")),
    "reconstruction": (_HR, phrase("to compute everybody's language from answers about random groups")),
    "refusal": (_BOTH, phrase("to see whether a budget that is spent shows")),
    "quote": (_RESEARCHERS, phrase("to see from prices whose budget is spent")),
    "linkage": (_BOTH, phrase("to tell whether somebody is in the census at all")),
    "equality": (_RESEARCHERS, phrase("to tell whether two groups are the same people")),
    "dear": (_RESEARCHERS, phrase("to tell from the time of heavy criteria how many people match")),
    "times": (_BOTH, phrase("to learn from any instant whom a question is about")),
    "cards": (_HR, phrase("to get two budgets of a person who has two cards")),
    "household": (_HR, phrase("to learn more of two people of one household than its one budget admits")),
    "race": (_ANYBODY, phrase("to spend the last of a budget twice, by several questions at once")),
}
