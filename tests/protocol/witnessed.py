"""A pair of nodes that witness each other's logs over a link of their own, where either side may say anything.

Nothing is cosigned by anybody but the health node's own witness, while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from fakes.patience import until
from fakes.world import CENSUS_ORIGIN, HEALTH, HEALTH_ORIGIN, World
from protocol.log_link import LogLink, census_witness, log_service
from protocol.pair import Pair

from broker_common.storage.journal import Journal
from broker_common.storage.witnessing import CosignedNote, CosignedNotes
from broker_common.tlog.replay import LogState
from health_node.witness import CensusWitness

StateT = TypeVar("StateT", bound=LogState)


class WitnessedPair(Pair):
    """Make it inside an event loop."""

    def __init__(self, world: World, **limits: int) -> None:
        """`limits` are settings of the census node."""
        world.cosigning = False
        super().__init__(world, **limits)
        self.logs = LogLink(log_service(world, world.census, self.census_limits), HEALTH)
        self.witness = self._new_witness()

    def _new_witness(self) -> CensusWitness:
        return census_witness(self.world, self.node, self.logs)

    def restart_census(self) -> None:
        """The census node dies here and now, and so do the calls that it held open."""
        super().restart_census()
        self.logs.service = log_service(self.world, self.world.census, self.census_limits)

    async def restart_health(self) -> None:
        """The health node dies here and now. The operator of its witness starts another one."""
        await super().restart_health()
        self.witness = self._new_witness()

    @asynccontextmanager
    async def witnessing(self) -> AsyncIterator[asyncio.Task[None]]:
        """The health node's witness runs; what ended it, if it ends, is the task's error."""
        running = asyncio.create_task(self.witness.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def rounds(self, number: int) -> None:
        """Return when so many more calls of the witness have been answered."""
        wanted = self.logs.answered + number
        await until(lambda: self.logs.answered >= wanted)

    async def verify_usable(self) -> None:
        """The same, as soon as a quote can be given; the witness runs."""
        await until(self.is_cosigned)
        await super().verify_usable()

    def is_cosigned(self) -> bool:
        """Whether everything that the census node shows has been cosigned by the health node."""
        known = self.world.census.publication.cosigned(witness=HEALTH_ORIGIN)
        return known is not None and self.world.census.publication.newer_than(known.size) is None

    # --- what each agency holds of the other's log -----------------------------------------------------------------

    @property
    def cosigned_by_health(self) -> CosignedNote | None:
        """The newest checkpoint of the census log that the health node has cosigned, by its own store."""
        return _newest(self.node.journal, CENSUS_ORIGIN, HEALTH_ORIGIN)

    @property
    def cosigned_by_census(self) -> CosignedNote | None:
        """The newest checkpoint of the health log that the census node has cosigned, by its own store."""
        return _newest(self.world.census.journal, HEALTH_ORIGIN, CENSUS_ORIGIN)


def _newest(journal: Journal[StateT], log: str, witness: str) -> CosignedNote | None:
    with journal.reading():
        return CosignedNotes(journal.db).newest(log, witness)
