"""Attacks on a live deployment, and their verdicts: made now, or read from what `tripartite attack --json` printed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from broker_common.errors import InvalidRequestError
from broker_common.language import joined, phrase, translated
from broker_common.query.dictionary import nearest
from deploy.attacks.arena import Accounting, Say, Wish
from deploy.attacks.catalogue import ATTACKS
from deploy.attacks.findings import FALSE_ALARM
from deploy.attacks.running import run, run_all
from policy_lab.document.model import Block, Caution, Claim, Paragraph, Section, Table

# More than all attacks print.
_MOST_BYTES = 1 << 22

# Settings of the attacked deployments.
_POPULATION, _SEED = 5000, 1


class _Finding(msgspec.Struct, frozen=True):
    """One comparison, of which only these are shown."""

    held: bool
    p_value: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the verdict follows from the chance, where chance has a part; figures are rounded to three digits."""
        if self.p_value is None:
            return True
        return self.p_value >= FALSE_ALARM if self.held else self.p_value <= FALSE_ALARM


class _Attack(msgspec.Struct, frozen=True):
    """One attack, as its command prints it."""

    attack: str
    held: bool
    answers: Annotated[int, msgspec.Meta(ge=0)]
    findings: Annotated[list[_Finding], msgspec.Meta(min_length=1)]

    @property
    def is_sound(self) -> bool:
        """Whether it was answered at all, and its verdict is that of its findings."""
        verdict = all(each.held for each in self.findings)
        return self.answers > 0 and self.held == verdict and all(each.is_sound for each in self.findings)


class _Made(msgspec.Struct, frozen=True):
    """How the attacks of a file were made; a deployment that was there before has its own people and accounting."""

    held: bool
    seed: Annotated[int, msgspec.Meta(ge=0)]
    false_alarm: float
    deployment: str | None
    population: int | None
    accounting: Accounting | None
    rounds: Annotated[int, msgspec.Meta(ge=1)] | None


@dataclass(frozen=True, slots=True)
class Attacked:
    """Which attacks were made, with what became of them; the commands make them again."""

    attacks: tuple[_Attack, ...]
    commands: tuple[str, ...]
    accounting: Accounting
    # Rounds of each attack; None: the usual number.
    rounds: int | None
    # Where they were read; empty if they were made now.
    file: str = ""

    @property
    def held(self) -> int:
        return sum(attack.held for attack in self.attacks)

    @property
    def names(self) -> set[str]:
        return {attack.attack for attack in self.attacks}


def read_attacks(file: Path, accounting: Accounting) -> Attacked:
    """Read the output of an earlier `tripartite attack NAME --json`, from deployments with the policy's accounting.

    Raises:
        InvalidRequestError: INVALID_VALUE, the file holds something else, or contradicts itself or the policy.
    """
    with file.open("rb") as content:
        printed = content.read(_MOST_BYTES)
    try:
        found = msgspec.json.decode(printed, type=dict[str, Any])
        attacks = tuple(msgspec.convert(found.get("attacks", [found]), list[_Attack]))
        made = msgspec.convert(found, _Made)
    except ValueError as error:
        raise _unfit(file, phrase(_NOT_PRINTED), accounting) from error
    if not attacks or made.false_alarm != FALSE_ALARM or any(attack.attack not in _SAID for attack in attacks):
        raise _unfit(file, phrase(_NOT_PRINTED), accounting)
    if made.held != all(attack.held for attack in attacks) or not all(attack.is_sound for attack in attacks):
        raise _unfit(file, phrase(_CONTRADICTS), accounting)
    if made.deployment is not None or made.population is None or made.accounting is None:
        raise _unfit(file, phrase(_NOT_NEW), accounting)
    if made.accounting != accounting:
        problem = phrase(_OTHER_ACCOUNTING, found=made.accounting, wanted=accounting)
        raise _unfit(file, problem, accounting)
    commands = tuple(
        _command(attack.attack, Wish(None, made.population, made.seed, accounting), made.rounds) for attack in attacks
    )
    return Attacked(attacks, commands, accounting, made.rounds, file.name)


_NOT_PRINTED = phrase("is not what 'tripartite attack NAME --json' prints")
_CONTRADICTS = phrase("contradicts itself: a verdict does not follow from what stands beside it")
_NOT_NEW = phrase("reports attacks on a deployment that was there before; an assessment reports those on new ones")
_OTHER_ACCOUNTING = phrase("reports attacks on a deployment with the accounting {found}, and the policy has {wanted}")


def _unfit(file: Path, problem: str, accounting: Accounting) -> InvalidRequestError:
    remedy = phrase(
        "Run 'tripartite attack all --accounting {accounting} --json > FILE' and give that file, or leave --attacks out to have "
        "the attacks made now.",
        accounting=accounting,
    )
    return InvalidRequestError("INVALID_VALUE", name=str(file), problem=problem, remedy=remedy)


def _command(name: str, wish: Wish, rounds: int | None) -> str:
    tried = "" if rounds is None else f" --rounds {rounds}"
    made = f"--population {wish.population} --accounting {wish.accounting} --seed {wish.seed}"
    return f"tripartite attack {name} {made}{tried} --json"


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
    commands = tuple(_command(each.attack, wish, rounds) for each in found)
    return Attacked(tuple(found), commands, accounting, rounds)


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
            ),
            *_read(attacked),
            *_left_out(attacked),
        ]
    return [
        *_left_out(attacked),
        Paragraph(
            phrase(
                "Attacks made on a live test deployment: {tried} of {all}. None of these broke a promise. Each stands in its section, with its command.",
                tried=len(attacked.names),
                all=len(ATTACKS),
            )
        ),
        *_read(attacked),
    ]


def _read(attacked: Attacked) -> list[Block]:
    """Where the verdicts come from, if they are a file's."""
    if not attacked.file:
        return []
    return [
        Caution(
            phrase(
                "The verdicts were read from {file}; no attack was made now, and nothing proves that the file is as the attacks printed it.",
                file=attacked.file,
            )
        )
    ]


def _left_out(attacked: Attacked) -> list[Block]:
    """Which attacks were not made, and which less often than usual."""
    made = attacked.names
    missing = [name for name in ATTACKS if name not in made]
    idle = [name for name in missing if ATTACKS[name].per_person and attacked.accounting == "strict"]
    chosen = [name for name in missing if name not in idle]
    shorter = [name for name in ATTACKS if name in made and (attacked.rounds or math.inf) < ATTACKS[name].rounds]
    blocks: list[Block] = []
    if chosen:
        words = phrase(
            "Only some of the attacks were made, as somebody chose: {tried} of {all}. Not made: {names}. 'tripartite attack all' makes all of them.",
            tried=len(made),
            all=len(ATTACKS),
            names=joined(", ", [_typed(name) for name in chosen]),
        )
        blocks.append(Caution(words))
    if shorter:
        usual = [
            phrase("{name} (otherwise {usual})", name=_typed(name), usual=ATTACKS[name].rounds) for name in shorter
        ]
        words = phrase(
            "Attacks were made in fewer rounds than usual, and find less in them. Rounds: {rounds}. Attacks: {names}.",
            rounds=attacked.rounds,
            names=joined(", ", usual),
        )
        blocks.append(Caution(words))
    if idle:
        words = phrase(
            "Not made, because nobody has a budget of their own under strict accounting: {names}.",
            names=joined(", ", [_typed(name) for name in idle]),
        )
        blocks.append(Paragraph(words))
    return blocks


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
                    "once in {often:,} times. Noise is drawn anew at each run: what is reproduced is the verdict, not the figures.",
                    often=round(1 / FALSE_ALARM),
                )
            ),
            *_read(attacked),
            *_left_out(attacked),
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
                        _typed(attack.attack),
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


def _typed(name: str) -> str:
    """The name of a command, which no language translates."""
    return translated(name, {})


def _claim(attack: _Attack, command: str) -> Claim:
    name = _typed(attack.attack)
    words = (
        phrase("The attack '{name}' was made, and the promise held.", name=name)
        if attack.held
        else phrase("The attack '{name}' was made, and THE PROMISE DID NOT HOLD.", name=name)
    )
    return Claim(words, command, (f'"held": {str(attack.held).lower()}',))


_HR = phrase("the health agency and a researcher together")
_RESEARCHERS = phrase("researchers")
_BOTH = phrase("researchers, also together with the health agency")
_ANYBODY = phrase("anybody")
# Who, and what they try, as docs/attacks.md says it.
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
