"""The published part of the log for one charge, and who has cosigned it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker_common.rpc.news import News
from broker_common.storage.journal import Checkpointed, Journal
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.census_state import CensusState
from census_node.query.flow import Charge
from census_node.release.publication import Publication


class Publishing:
    """The published end of the log, charge by charge. Made in the event loop."""

    def __init__(
        self,
        journal: Journal[CensusState],
        publication: Publication,
        witnesses: Callable[[], Mapping[str, str]],
        cosigned: Callable[[Charge], str | None],
    ) -> None:
        """`witnesses` gives the name that each registered health agency cosigns under; `cosigned` looks into the journal."""
        self._journal = journal
        self._publication = publication
        self._witnesses = witnesses
        self._cosigned = cosigned
        self._news = News()
        publication.on_cosigned(self.hear)
        # How much of the log each agency has cosigned, as far as has been heard.
        self._heard: dict[str, int] = {}
        # It starts from what was cosigned before: perhaps nobody has a reason to cosign more.
        self.hear()

    def prove(self, charge: Charge) -> Checkpointed:
        return self._journal.prove(charge.index)

    def entrust(self, charge: Charge) -> None:
        self._publication.entrust(charge.index + 1)

    def show(self, charge: Charge) -> None:
        self._publication.show(charge.index + 1)

    def cosigned(self, charge: Charge) -> str | None:
        note = self._cosigned(charge)
        if note is None:
            # The last word heard is another agency's by now.
            self._heard.pop(charge.agency, None)
        return note

    async def next_cosignature(self, charge: Charge) -> None:
        while True:
            news = self._news.next()
            if self._heard.get(charge.agency, 0) > charge.index:
                return
            await asyncio.wait([news])

    def hear(self) -> None:
        """Look what has been cosigned, and tell those who wait. Blocking."""
        witnesses = self._witnesses()
        with self._journal.reading() as state:
            sizes = {note.witness: note.size for note in CosignedNotes(self._journal.db).of(state.origin)}
        self._heard = {agency: sizes.get(witness, 0) for agency, witness in witnesses.items()}
        self._news.tell()
