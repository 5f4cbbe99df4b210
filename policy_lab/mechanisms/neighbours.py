"""Neighbour relations: between which two tables a promise holds. An epsilon says nothing without one."""

from __future__ import annotations

from enum import Enum

from broker_common.language import phrase


class Neighbours(Enum):
    """The difference between two tables that the answers hardly tell apart."""

    ADDED = "added"
    REPLACED = "replaced"
    REPLACED_WITHIN = "replaced_within"
    # The relation of local and shuffled noise.
    ANSWERS_REPLACED = "answers_replaced"

    @property
    def words(self) -> str:
        """The relation as a sentence for documents."""
        return _WORDS[self]


_WORDS = {
    Neighbours.ADDED: phrase("One respondent's row is added or removed."),
    Neighbours.REPLACED: phrase(
        "One respondent's row is replaced by any other row, also by one of another stratum. The number of rows is public."
    ),
    Neighbours.REPLACED_WITHIN: phrase(
        "One respondent's row is replaced by another row of the same stratum. Who is in which stratum is not protected."
    ),
    Neighbours.ANSWERS_REPLACED: phrase(
        "One respondent's noised answers are replaced by others. The rest of the row is not protected: stratum, weight, columns "
        "without noise, and whether an answer was given."
    ),
}
