"""One table against many counts: a whole breakdown for the price of one count, and what other ways would cost."""

from __future__ import annotations

from fractions import Fraction

from broker_common.language import phrase
from broker_common.privacy.accounting import price
from broker_common.privacy.table_laplace import margin
from broker_common.values import MOST_CELLS
from policy_lab.document.model import Axis, Block, Cell, Formula, Line, Lines, Paragraph, Section, Table
from policy_lab.figures import sources
from policy_lab.figures.policy import CAP, SCALE, Limit, limit_of, so_many_answers
from policy_lab.figures.setting import Values, whole, whole_of

CELLS = whole("cells", phrase("Cells of the table"), 2, MOST_CELLS, 4)
SETTINGS = (CELLS, SCALE, CAP)
TITLE = phrase("One table against many counts")


def draw(values: Values) -> Section:
    """Margins of a cell by the number of cells, at one charge: the table's own law, counts one by one, and the usual way."""
    cells, scale, limit = whole_of(values, CELLS.key), whole_of(values, SCALE.key), limit_of(values)
    blocks = (_verdict(cells, scale, limit), _plot(scale), _table(scale, limit))
    return Section("table", TITLE, blocks, _citizen(cells, scale), _SPECIALIST)


def separate_scale(scale: int, cells: int) -> int:
    """The scale at which so many counts together cost no more than one at `scale`."""
    return scale * cells


def _verdict(cells: int, scale: int, limit: Limit) -> Block:
    return Paragraph(
        phrase(
            "A table of {cells} cells at scale {scale} is within {table:,} in each cell, 19 times out of 20, and costs what one count costs. For the same "
            "charge, {cells} counts asked one by one are within {counts:,}. The limit of {cap:.0f}% pays for {answers} at this scale, tables or counts.",
            cells=cells,
            scale=scale,
            table=margin(scale, cells),
            counts=margin(separate_scale(scale, cells)),
            cap=float(100 * limit.belief),
            answers=so_many_answers(limit.answers(scale)),
        )
    )


def _plot(scale: int) -> Lines:
    numbers = range(1, MOST_CELLS + 1)
    return Lines(
        "table-margins",
        phrase("Margin of a cell at one charge, by the number of cells"),
        phrase(
            "The margin of a table grows slowly with its cells. That of counts asked one by one grows with their number, since each gets a part of "
            "the charge. Laplace noise of twice the scale in each cell, the usual way, lies between."
        ),
        Axis(phrase("Cells")),
        Axis(phrase("Margin of a cell, 19 times out of 20"), low=0.0),
        [
            Line(phrase("one table"), [(n, margin(scale, n)) for n in numbers]),
            Line(
                phrase("Laplace noise for each cell, sensitivity 2"), [(n, _usual(scale, n)) for n in numbers], "dots"
            ),
            Line(phrase("counts, one by one"), [(n, margin(separate_scale(scale, n))) for n in numbers], "dashes"),
        ],
    )


def _usual(scale: int, cells: int) -> int:
    return margin(2 * scale) if cells > 1 else margin(scale)


def _table(scale: int, limit: Limit) -> Table:
    def row(cells: int) -> tuple[Cell, ...]:
        apart = separate_scale(scale, cells)
        return (
            cells,
            margin(scale, cells),
            _usual(scale, cells),
            margin(apart),
            Fraction(margin(apart), margin(scale, cells)),
            apart,
            limit.answers(scale) // cells,
        )

    return Table(
        "table-cells",
        phrase("Margins at the charge of one count: {units:,} units", units=price(scale)),
        (
            phrase("Cells"),
            phrase("One table"),
            phrase("Laplace, cell by cell"),
            phrase("Counts, one by one"),
            phrase("Counts ÷ table"),
            phrase("Scale of each count"),
            phrase("Paid for as counts"),
        ),
        [row(cells) for cells in range(1, MOST_CELLS + 1)],
        (0, 0, 0, 0, 2, 0, 0),
        phrase(
            "Margins are exact, 19 times out of 20 for each cell; the sum of all cells of a table has the margin of a cell. Paid "
            "for as counts: how many whole breakdowns the limit pays for if each cell is a count at scale {scale}.",
            scale=scale,
        ),
    )


def _citizen(cells: int, scale: int) -> tuple[Block, ...]:
    return (
        Paragraph(
            phrase(
                "A researcher wants to know, of one group, how many speak French, English, Cree, and so on: {cells} numbers. Asked one by one, each of "
                "them would use up some of everybody's protection. But you are in one line of such a table only: you have one mother tongue.",
                cells=cells,
            )
        ),
        Paragraph(
            phrase(
                "The service makes use of that. It adds the noise to the whole table at once, and the table then tells no more about you than a single "
                "number would. Each line is off by up to {table:,} people instead of {single:,} for a single count; asked one by one for the same "
                "protection, each would be off by up to {counts:,}, 19 times out of 20.",
                table=margin(scale, cells),
                single=margin(scale),
                counts=margin(separate_scale(scale, cells)),
            )
        ),
    )


_SPECIALIST: tuple[Block, ...] = (
    Paragraph(
        phrase(
            "One record moves the vector of d cells by +-e_i (present or absent) or e_i - e_j (another value). The noise has the norm whose unit ball is the "
            "hull of these steps, so that the whole vector is e^(1/b)-private for replacement and for absence alike. With subject household, k people of "
            "a household are k steps, and are charged as such."
        )
    ),
    Formula(
        "g(z) = max(sum of positive parts of z, sum of negative parts of z)",
        phrase("the least number of steps that make z"),
    ),
    Formula(
        "P(Z = z) = q^g(z) (1-q)^d / sum over i of C(d,i)^2 q^i",
        phrase("the law of the table's noise, drawn exactly, in integers"),
    ),
    Formula("d counts at scale d b cost d ceil(2^24/(d b)) >= ceil(2^24/b)", phrase("counts one by one at one charge")),
    Paragraph(
        phrase(
            "The table compares margins of a cell. Laplace noise of scale 2b in each cell is the usual mechanism where a record may move from a cell to another "
            "(L1 sensitivity 2). All cells are of one sample, so that parallel composition does not apply: a question is charged to its sample."
        )
    ),
    sources.DWORK,
    sources.ARGUMENT,
    sources.DESIGN_NOISE,
)
