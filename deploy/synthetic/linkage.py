"""Who appears in which file, with which card: the imperfect overlap of the two sources, both ways.

One world of people, a little larger than the health data. One person in 199 has a second card, a replacement; one second
card in four has been used, so that the health data hold two records of one person and know it as little as a real
agency does. A keyed permutation ranks people and used second cards; those ranked below `population` are in the health data, at
the row of their rank. So the health file has exactly `population` rows, in an order unrelated to the census file's, and
either order can be walked without keeping the other.

                               | census row with the card | census row, card empty | no census row
    in the health data         | 95 %                     | 3 %                    | 2 %
    not in the health data     | 2 % of census rows       | 3 % of census rows     | never

The table speaks of first cards. A second card has a census row of its own, equal but for the card, if the first has one.
The numbers are invented (the sizes asked of this test data), and independent of everything else about a person.
A card is a keyed permutation of its index within the synthetic block, so cards are unique over both files: the index of a
first card is its person's, those of second cards follow after all people, the used ones first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from deploy.synthetic.arrays import Booleans, Digits, Integers
from deploy.synthetic.cards import BLOCK_SIZE, card_digits
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.permutation import Permutation

__all__ = [
    "CENSUS_ROWS_WITHOUT_CARD",
    "CENSUS_ROWS_WITH_STRANGE_CARD",
    "HEALTH_PEOPLE_WITHOUT_LINK",
    "PEOPLE_PER_SECOND_CARD",
    "SECOND_CARDS_PER_USED_ONE",
    "Linkage",
]

HEALTH_PEOPLE_WITHOUT_LINK: Final = 0.05
CENSUS_ROWS_WITHOUT_CARD: Final = 0.06
CENSUS_ROWS_WITH_STRANGE_CARD: Final = 0.02
# A prime: second cards fall on every kind of household alike, whose pattern repeats (`households`).
PEOPLE_PER_SECOND_CARD: Final = 199
SECOND_CARDS_PER_USED_ONE: Final = 4

_HEALTH_PEOPLE_WITHOUT_CENSUS_ROW: Final = 0.02
_LINKED: Final = 1.0 - HEALTH_PEOPLE_WITHOUT_LINK
# Of all census rows, what is neither without card nor with a strange one is linked; hence rows per health person:
_CENSUS_ROWS: Final = _LINKED / (1.0 - CENSUS_ROWS_WITHOUT_CARD - CENSUS_ROWS_WITH_STRANGE_CARD)
_OTHER_PEOPLE: Final = _CENSUS_ROWS - (1.0 - _HEALTH_PEOPLE_WITHOUT_CENSUS_ROW)
_CARD_AMONG_OTHERS: Final = _CENSUS_ROWS * CENSUS_ROWS_WITH_STRANGE_CARD / _OTHER_PEOPLE


class Linkage:
    """Files, rows and cards of the world with `population` people in the health data."""

    def __init__(self, population: int, seed: int, dice: Dice) -> None:
        self.world_size: Final = population + round(population * _OTHER_PEOPLE)
        self.second_cards: Final = self.world_size // PEOPLE_PER_SECOND_CARD
        used = self.second_cards // SECOND_CARDS_PER_USED_ONE
        if population < 1 or self.world_size + self.second_cards > BLOCK_SIZE:
            raise ValueError(f"a population must be at least 1 and fit the {BLOCK_SIZE} synthetic cards: {population}")
        self._population = population
        self._dice = dice
        self._ranks = Permutation(self.world_size + used, seed, Stream.HEALTH_ORDER)
        self._cards = Permutation(BLOCK_SIZE, seed, Stream.CARD_NUMBER)

    def health_cards(self, rows: Integers) -> Integers:
        """Whose card, as its index, stands at these rows of the health file."""
        return self._ranks.backward(rows)

    def people(self, cards: Integers) -> Integers:
        """Who holds the card at each index."""
        return np.where(cards < self.world_size, cards, self.holders(cards - self.world_size))

    def holders(self, second_cards: Integers) -> Integers:
        """Who holds each second card, from number 0 on."""
        return second_cards * PEOPLE_PER_SECOND_CARD + PEOPLE_PER_SECOND_CARD // 2

    def census_rows(self, people: Integers) -> tuple[Booleans, Booleans]:
        """Whether each person has a census row, and whether that row carries the card."""
        in_health = self._ranks.forward(people) < self._population
        luck = self._dice.roll(Stream.LINKAGE, people)
        has_row = ~in_health | (luck < 1.0 - _HEALTH_PEOPLE_WITHOUT_CENSUS_ROW)
        return has_row, luck < np.where(in_health, _LINKED, _CARD_AMONG_OTHERS)

    def digits(self, cards: Integers) -> Digits:
        """The ten digits of the card at each index."""
        return card_digits(self._cards.forward(cards))
