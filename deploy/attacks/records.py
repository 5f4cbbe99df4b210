"""`cards` and `household`: two records that say the same of somebody, each with a budget of its own unless they are joined.

Adversary HR. The attack makes its people: pairs of records in the census file with one language, which a coin has tossed. Two cards
of one person share a person id; two members of a household share a household id, under a policy whose subject is the household. The
attackers spend a whole budget on the first record and another on the second, then put both into one sample. The second must
teach them nothing, and only the census agency knows why.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from broker_common.privacy.accounting import price
from broker_common.privacy.belief import log_likelihood_ratio
from deploy.attacks.arena import Arena, Ask
from deploy.attacks.chances import magnitude_law
from deploy.attacks.findings import Curve, Finding, Guesses, Report, Within
from deploy.attacks.neighbour import guessed_right, log_odds, noise_findings
from deploy.attacks.people import FRENCH, FRENCH_CODE, People, Person, among
from deploy.attacks.spending import best_guess, boldly

Pair = tuple[Person, Person]

_ALL = "all"
_MOST_PAIRS = 400
_OTHER_CODE = "English"
_PERSON, _HOUSEHOLD, _LANGUAGE = "person_id", "household_id", "mother_tongue"


def give_second_cards(directory: Path, seed: int) -> None:
    """Rewrite DIR/census/people.csv so that many people have two cards."""
    _join(directory, seed, (_PERSON, _HOUSEHOLD))


def share_households(directory: Path, seed: int) -> None:
    """Rewrite DIR/census/people.csv so that many people live in twos."""
    _join(directory, seed, (_HOUSEHOLD,))


def _join(directory: Path, seed: int, shared: Sequence[str]) -> None:
    people = People(directory, seed, "records")
    linked = people.take_linked(2 * _MOST_PAIRS)
    coins = people.dice.integers(0, 2, len(linked) // 2)
    file = directory / "census" / "people.csv"
    with file.open(encoding="utf-8", newline="") as source:
        rows = list(csv.DictReader(source))
    by_card = {row["health_card"]: row for row in rows if row["health_card"]}
    for number, coin in enumerate(coins):
        first, second = (by_card[person.card] for person in linked[2 * number : 2 * number + 2])
        first[_LANGUAGE] = FRENCH_CODE if coin else _OTHER_CODE
        first[_HOUSEHOLD] = f"X{number:08d}"
        joined = {**first, "health_card": second["health_card"]}
        second.update(joined if _PERSON in shared else joined | {_PERSON: second[_PERSON]})
    with file.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


async def attack_cards(arena: Arena, rounds: int) -> Report:
    """Spend one budget on each of two cards, and ask about both at once."""
    return await _attack(arena, "cards", _PERSON, rounds)


async def attack_household(arena: Arena, rounds: int) -> Report:
    """Spend one budget on each of two members of a household, and ask about both at once."""
    return await _attack(arena, "household", _HOUSEHOLD, rounds)


async def _attack(arena: Arena, name: Literal["cards", "household"], shared: str, rounds: int) -> Report:
    precise = arena.policy.scales[0]
    # The least second budget: one answer, if two of them cost more than one budget.
    budget = (precise,) if _is_dear(arena) else boldly(arena.policy.cap, arena.policy.scales)
    pairs = arena.people.toss_pairs(2 * rounds, shared)
    apart, at_once = pairs[:rounds], pairs[rounds:]
    answers = await arena.answers_in_turn(
        [[Ask(person.where, scale) for person in pair for scale in budget] for pair in apart]
    )
    what = _ALL if name == "cards" else FRENCH
    joint = await arena.answers_in_turn([[Ask(among(pair), precise, what)] for pair in at_once])
    truths = [pair[0].is_french for pair in apart]
    findings = (*apart_findings(budget, truths, answers), *_joint_findings(arena, name, at_once, joint))
    counted = arena.counted_units([{person.where for person in pair} for pair in apart])
    if counted is not None:
        findings = (*findings, Within("counted_units", counted, arena.policy.cap))
    return Report(
        name,
        findings,
        len(arena.asked),
        curves=_curves(budget, truths, answers),
        axes=("answers about the pair", "share of right guesses"),
    )


def apart_findings(
    bold: Sequence[int], truths: Sequence[bool], answers: Sequence[Sequence[int]]
) -> tuple[Finding, ...]:
    """Findings from a whole budget spent on the first record, and from one spent on the second afterwards."""
    each, pairs = len(bold), len(truths)
    first = [log_odds(bold, of[:each]) for of in answers]
    second = [log_odds(bold, of[each:]) for of in answers]
    both = [one + other for one, other in zip(first, second, strict=True)]
    errors = [(bold, [answer - truth for answer in of[:each]]) for truth, of in zip(truths, answers, strict=True)]
    return (
        Guesses("first_record", _right(truths, first), pairs, best_guess(bold)),
        Guesses("second_record", _right(truths, second), pairs, 0.5),
        Guesses("both_records", _right(truths, both), pairs, best_guess(bold)),
        *noise_findings(errors),
    )


def _joint_findings(arena: Arena, name: str, pairs: Sequence[Pair], joint: Sequence[Sequence[int]]) -> list[Finding]:
    precise = arena.policy.scales[0]
    answers = [answer for (answer,) in joint]
    if name == "cards":
        return [counted_twice(precise, answers)]
    return [together(precise, [pair[0].is_french for pair in pairs], answers)] if _is_dear(arena) else []


def _is_dear(arena: Arena) -> bool:
    """Whether one budget does not pay for two of the most precise answers."""
    return 2 * price(arena.policy.scales[0]) > arena.policy.cap


def counted_twice(scale: int, answers: Sequence[int]) -> Guesses:
    """Two cards of one person in one sample are one person: the answer is above one no more often than noise is above zero."""
    above = (1 - float(magnitude_law(scale)[0])) / 2
    return Guesses("counted_twice", sum(answer > 1 for answer in answers), len(answers), above)


def together(scale: int, truths: Sequence[bool], answers: Sequence[int]) -> Guesses:
    """Two of a household in one sample cost more than the household may be charged: it is dropped whole."""
    odds = [log_likelihood_ratio(scale, answer, 2, 0) for answer in answers]
    return Guesses("together", _right(truths, odds), len(truths), 0.5)


def _right(truths: Sequence[bool], odds: Sequence[Fraction]) -> int:
    return sum(guessed_right(of, truth) for truth, of in zip(truths, odds, strict=True))


def _curves(bold: Sequence[int], truths: Sequence[bool], answers: Sequence[Sequence[int]]) -> tuple[Curve, ...]:
    asked = (*bold, *bold)
    numbers = list(range(len(asked) + 1))
    shares = [
        _right(truths, [log_odds(asked[:count], of[:count]) for of in answers]) / len(truths) for count in numbers
    ]
    # Questions about the second record are worth nothing.
    allowed = [best_guess(bold[: min(count, len(bold))]) for count in numbers]
    trials = len(truths)
    return (
        Curve("typical", numbers, allowed, limit=True, trials=trials),
        Curve("attackers", numbers, shares, trials=trials),
    )
