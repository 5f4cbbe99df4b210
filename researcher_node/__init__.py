"""The researcher's side: asks, signs, waits, and is the only one who can read the answer.

config   where the two nodes are      asking   one question from text to ticket to answer
answers  what was asked and what      selection  which of them; listing: as people and programs read them
         came back, kept and verified
composing  counts to one question     before_asking  what to warn about; confirming: who goes on
own_use  what own questions can have  counts   of an answer as they are shown; quoting: quotes
         used of budgets; policies: the ones met here
formats  answers as files for other programs
slots    that a quoted noise slot     checking that the log keeps what receipts promise;
         is committed to                       remembered_checkpoint: what it showed before
census_log  who signs and cosigns it  trust    whom the researcher knows
opening  the composition root, inbox  cli      the commands; texts: what they say
exporting  what an auditor is handed  study    many questions from one file
client   the same from Python: `connect`
estimates  shares and comparisons with    estimating: from stored answers; estimate_commands,
           intervals, pure                            estimate_texts: the commands
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
