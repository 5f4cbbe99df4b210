"""The researcher's side: asks, signs, waits, and is the only one who can read the answer.

asking/     one question from text to ticket to answer
answers/    what was asked and what came back, kept and shown
trust/      whom the researcher believes, and that the census log keeps what receipts promise
estimates/  shares and comparisons with intervals, from stored answers
study/      many questions from one file
client/     the same from Python: `connect`

config      where the two nodes are           cli        the commands; texts: what they say
assembly    from a home folder to all of      exporting  what an auditor is handed
            these, and the inbox              doctor     what `tripartite doctor` looks at
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from researcher_node.client.researcher import Researcher

__all__ = ["connect"]


def connect(home: str | Path | None = None) -> Researcher:
    """Open a researcher's home, for questions from a script or a notebook (docs/using.md).

    Without one: TRIPARTITE_HOME, or the current folder, as for commands.

    >>> with connect("DIR/researcher") as r:
    ...     print(r.ask("age >= 65", "mother_tongue = 'French'"))

    Raises:
        InvalidRequestError: HOME_INVALID or CONFIG_INVALID.
    """
    # Imported here: commands are looked for in this package, and their help waits for nothing.
    from researcher_node.client.researcher import Researcher  # noqa: PLC0415

    return Researcher(home)
