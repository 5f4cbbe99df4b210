"""Who appears in which file, with which card: the imperfect overlap of the two sources, both ways.

One world of people, a little larger than the health data. A keyed permutation ranks them; the people ranked below
`population` are in the health data, at the row of their rank. So the health file has exactly `population` rows, in an
order unrelated to the census file's, and either order can be walked without keeping the other.

                               | census row with the card | census row, card empty | no census row
    in the health data         | 95 %                     | 3 %                    | 2 %
    not in the health data     | 2 % of census rows       | 3 % of census rows     | never

The percentages are invented (the sizes asked of this test data), and independent of everything else about a person.
A card is a keyed permutation of the person's index within the synthetic block, so cards are unique over both files.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from deploy.synthetic.arrays import Booleans, Digits, Integers
from deploy.synthetic.cards import BLOCK_SIZE, card_digits
from deploy.synthetic.dice import Dice, Stream
from deploy.synthetic.permutation import Permutation

HEALTH_PEOPLE_WITHOUT_LINK: Final = 0.05
CENSUS_ROWS_WITHOUT_CARD: Final = 0.06
CENSUS_ROWS_WITH_STRANGE_CARD: Final = 0.02

_HEALTH_PEOPLE_WITHOUT_CENSUS_ROW: Final = 0.02
_LINKED: Final = 1.0 - HEALTH_PEOPLE_WITHOUT_LINK
# Census rows with a card that is not strange are linked; this gives the rows for each health person:
_CENSUS_ROWS: Final = _LINKED / (1.0 - CENSUS_ROWS_WITHOUT_CARD - CENSUS_ROWS_WITH_STRANGE_CARD)
_OTHER_PEOPLE: Final = _CENSUS_ROWS - (1.0 - _HEALTH_PEOPLE_WITHOUT_CENSUS_ROW)
_CARD_AMONG_OTHERS: Final = _CENSUS_ROWS * CENSUS_ROWS_WITH_STRANGE_CARD / _OTHER_PEOPLE


def census_size(population: int) -> int:
    """How many people there are altogether where so many are in the health data: nobody else is in the census file."""
    return population + round(population * _OTHER_PEOPLE)


class Linkage:
    """Files, rows and cards of the world with `population` people in the health data."""

    def __init__(self, population: int, seed: int, dice: Dice) -> None:
        self.world_size: Final = census_size(population)
        if population < 1 or self.world_size > BLOCK_SIZE:
            raise ValueError(f"a population must be at least 1 and fit the {BLOCK_SIZE} synthetic cards: {population}")
        self._population = population
        self._dice = dice
        self._ranks = Permutation(self.world_size, seed, Stream.HEALTH_ORDER)
        self._cards = Permutation(BLOCK_SIZE, seed, Stream.CARD_NUMBER)

    def health_people(self, rows: Integers) -> Integers:
        """Who stands at these rows of the health file."""
        return self._ranks.backward(rows)

    def census_rows(self, people: Integers) -> tuple[Booleans, Booleans]:
        """Whether each person has a census row, and whether that row carries the card."""
        in_health = self._ranks.forward(people) < self._population
        luck = self._dice.roll(Stream.LINKAGE, people)
        has_row = ~in_health | (luck < 1.0 - _HEALTH_PEOPLE_WITHOUT_CENSUS_ROW)
        return has_row, luck < np.where(in_health, _LINKED, _CARD_AMONG_OTHERS)

    def cards(self, people: Integers) -> Digits:
        """The ten digits of each person's card."""
        return card_digits(self._cards.forward(people))
