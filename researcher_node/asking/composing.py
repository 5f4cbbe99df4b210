"""From what a researcher wants counted to one question: several `--count`, every value of a variable, and the rest.

    --count "mother_tongue = 'French'" --of all             French, and everybody else
    --count "mother_tongue = 'French'" --count "mother_tongue in ('English', 'Other')"
    --count mother_tongue                                   a cell for each published value
    --count "home_language = 'French'" --of all             French, and everybody else who was asked
    --count all                                             one cell: every linked person

Each `--count` may also be the text form of several cells, `mother_tongue by 'French', rest`. Cells keep the order in which they were
asked for; the rest that `--of all` adds comes last. If only some people were asked for a variable, 'not asked' is counted only where it
is named: all values and the rest are those of people who were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import Column, Dictionary, listed
from broker_common.query.question import EVERYONE, REST, Cell, Question, find_variable, parse_question
from broker_common.query.scanner import MAX_TEXT_CHARACTERS
from broker_common.values import MOST_CELLS
from researcher_node import texts


def compose_question(counts: Sequence[str], of_all: bool, dictionary: Dictionary) -> Question:
    """The one question that these counts ask together; `of_all` adds the rest as its last cell.

    Raises:
        InvalidRequestError: QUESTION_SYNTAX, UNKNOWN_VARIABLE, UNKNOWN_VALUE; TOO_MANY_CELLS; INVALID_VALUE, the counts do not
            go together.
    """
    parts = [_part(text, dictionary) for text in counts]
    if not parts:
        raise _invalid("--count", texts.NOTHING_COUNTED, texts.NOTHING_COUNTED_REMEDY)
    if EVERYONE in parts:
        return _everyone(parts, of_all)
    column = _one_variable(parts, dictionary)
    cells = tuple(cell for part in parts for cell in part.cells)
    _verify_apart(cells)
    return _question(column, with_rest(column, cells) if of_all else _of_asked(column, cells))


def with_rest(column: Column, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The cells and, last, the rest of everybody who was asked: what `--of all` of this variable means."""
    return _of_asked(column, cells if REST in cells else (*cells, REST))


def _of_asked(column: Column, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The cells, with all other values of people who were asked in the place of the rest; without it, where no such value is left."""
    if column.asked_of is None or REST not in cells:
        return cells
    named = {value for cell in cells for value in cell.values}
    others = tuple(sorted(value for value in column.asked if value not in named))
    at = cells.index(REST)
    return (*cells[:at], *((Cell(others),) if others else ()), *cells[at + 1 :])


def _part(text: str, dictionary: Dictionary) -> Question:
    """The cells of one `--count`: the name of a variable alone is a cell for each value that people answered."""
    name = text.strip().lower()
    if name.isidentifier() and name != EVERYONE.text:
        return _every_value(find_variable(name, dictionary))
    return parse_question(text, dictionary)


def _every_value(column: Column) -> Question:
    if len(column.asked) > MOST_CELLS:
        problem = phrase(texts.TOO_MANY_VALUES, variable=column.name, values=len(column.asked), most=MOST_CELLS)
        groups = _groups_text(column)
        remedy = phrase(texts.TOO_MANY_VALUES_REMEDY, groups=groups)
        raise _invalid("--count", problem, remedy if len(groups) <= MAX_TEXT_CHARACTERS else texts.FEWER_VALUES)
    return _question(column, tuple(Cell((value,)) for value in column.asked))


def _groups_text(column: Column) -> str:
    """Every value of the variable in as many cells as a question has, neighbours in the published list together."""
    size = -(-len(column.asked) // MOST_CELLS)
    groups = [column.asked[start : start + size] for start in range(0, len(column.asked), size)]
    return f"{column.name} by {', '.join(Cell(tuple(sorted(group))).text for group in groups)}"


def _everyone(parts: Sequence[Question], of_all: bool) -> Question:
    if len(parts) > 1:
        raise _invalid("--count all", texts.ALL_AMONG_OTHERS, texts.ALL_AMONG_OTHERS_REMEDY)
    if of_all:
        raise _invalid("--of all", texts.REST_OF_ALL, texts.REST_OF_ALL_REMEDY)
    return EVERYONE


def _one_variable(parts: Sequence[Question], dictionary: Dictionary) -> Column:
    names = list(dict.fromkeys(part.variable or "" for part in parts))
    if len(names) > 1:
        problem = phrase(texts.SEVERAL_VARIABLES, variables=listed(names))
        raise _invalid("--count", problem, texts.SEVERAL_VARIABLES_REMEDY)
    return find_variable(names[0], dictionary)


def _verify_apart(cells: Sequence[Cell]) -> None:
    """Return only if nobody would be counted in two cells."""
    if cells.count(REST) > 1:
        raise _invalid("--count", texts.REST_TWICE, texts.TWICE_REMEDY)
    counted = Counter(value for cell in cells for value in cell.values)
    twice = [value for value, times in counted.items() if times > 1]
    if twice:
        raise _invalid("--count", phrase(texts.VALUE_TWICE, values=listed(twice, quote=True)), texts.TWICE_REMEDY)


def _question(column: Column, cells: tuple[Cell, ...]) -> Question:
    if len(cells) > MOST_CELLS:
        raise InvalidRequestError("TOO_MANY_CELLS", cells=len(cells), served=MOST_CELLS)
    try:
        return Question(column.name, cells)
    except ValueError:
        # Cells that go together make a question, unless its text is too long.
        problem = phrase(texts.QUESTION_TOO_LONG, most=MAX_TEXT_CHARACTERS)
        raise _invalid("--count", problem, texts.FEWER_VALUES) from None


def _invalid(name: str, problem: str, remedy: str) -> InvalidRequestError:
    return InvalidRequestError("INVALID_VALUE", name=name, problem=problem, remedy=remedy)
