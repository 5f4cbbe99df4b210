"""What a question counts of a load's people."""

from __future__ import annotations

import numpy as np

from broker_common.query.question import REST, Question
from census_node.ledger.passes import NO_CELL, Counted
from census_node.ledger.people import People
from census_node.registry.dictionary import CENSUS_DICTIONARY

__all__ = ["counted"]


def counted(people: People, question: Question) -> Counted:
    """For `Passes.count`: a variable of everybody, and the cell of each of its values."""
    if question.variable is None:
        # In one cell whatever they speak.
        return Counted(people.values[CENSUS_DICTIONARY.names[0]], np.zeros(256, np.uint8), 1)
    positions = CENSUS_DICTIONARY.column(question.variable).positions
    rest = question.cells.index(REST) if REST in question.cells else NO_CELL
    cell_of_value = np.full(256, rest, np.uint8)
    for number, cell in enumerate(question.cells):
        cell_of_value[[positions[value] for value in cell.values]] = number
    return Counted(people.values[question.variable], cell_of_value, len(question.cells))
