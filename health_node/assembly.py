"""Puts the node together: from a home folder to a journal, to a node, to a serving process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from grpc import aio
from tripartite.v1 import card_service_pb2_grpc, health_service_pb2_grpc

from broker_common.agency.home import AgencyHome
from broker_common.agency.linkage import NextKey, RelinkReport
from broker_common.crypto.cards import SAMPLING
from broker_common.crypto.certificates import Role
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.dashboard.beside import dashboard_beside, watch_certificates
from broker_common.monitoring import Monitor
from broker_common.parties.exchange import CardExchange, CardService
from broker_common.parties.keyring import log_signer
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import renew
from broker_common.privacy.policy import Policy, verify_linkage
from broker_common.query.dictionary import Dictionary
from broker_common.rpc.server import StopSignal, every, together
from broker_common.storage.database import Database
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.source.plan import LINKED_ID, SourcePlan, plan_for
from broker_common.storage.source.rows import Progress
from broker_common.storage.witnessing import CosignedNotes
from broker_common.tlog.health_state import HealthState
from broker_common.tracing import log_spans
from broker_common.values import Clock
from health_node.census_link import CensusLink, fetch_policy
from health_node.config import HealthConfig
from health_node.flow import Flow
from health_node.node import HealthNode, SamplingKeys, verify_fits
from health_node.operator.cohort_figures import CohortBands
from health_node.people.loading import LoadReport, forget_old_loads, load_people, loads_needed
from health_node.people.relinking import relink_people, reload_people
from health_node.people.store import PeopleStore
from health_node.people.tables import shapes_of
from health_node.query.questions import Questions
from health_node.roster.book import RosterBook
from health_node.roster.sending import RosterSender
from health_node.service import HealthService
from health_node.witness import CensusWitness

_LOADS = "people"
# How often a serving node looks for a load that is about to be put in force.
_READ_AHEAD_SECONDS = 1.0


class HealthHome(AgencyHome[HealthState]):
    """A health home and everything that is read from it."""

    config: HealthConfig

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        """`clock` is the machine's unless another one is given."""
        home = Home(path, "health")
        super().__init__(home, home.load_config(HealthConfig), HealthState, clock)
        self.loads = LoadFolder(path / _LOADS, ".people")

    def open_journal(self, *, create: bool = False) -> Journal[HealthState]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""
        make = Journal.create if create else Journal
        return make(
            self.journal_path,
            fresh_state=self.beginning(),
            signer=log_signer(self.keyring, self.config.origin, self._clock),
            clock=self._clock,
            tables=_create_tables,
        )

    def expected(self, role: Role) -> str:
        return self.config.census.organisation if role == "census" else ""

    def verify_dictionary(self, dictionary: Dictionary) -> None:
        shapes_of(dictionary)

    def load(
        self,
        source: Path | None,
        release: str,
        *,
        policy: Policy | None = None,
        progress: Progress | None = None,
        max_rejected: int | None = None,
        watch: Callable[[SourcePlan], SourcePlan] | None = None,
        check: bool = False,
    ) -> LoadReport:
        """Load people from a source, or from what lies in the home, and put them in force; a serving node takes them next.

        `watch` may see what is read. A check ends when everything was read.

        Raises:
            RefusedError: NOTHING_ADOPTED; POLICY_TOO_NARROW, `policy`, where it is known, does not fit the declared places.
        """
        noting = contextlib.nullcontext() if check else self.home.noting_refused_load()
        with noting, self.journal() as journal, self.loads.loading(os.urandom) as load:
            with journal.reading() as state:
                in_force, dictionary = state.linkage, self.dictionaries.newest(state)
            declared = self.config.declared(dictionary)
            if policy is not None:
                verify_fits(policy, declared)
                verify_linkage(policy, dictionary.linkage)
            linkage = self.linkage_keys.chain_for_load(in_force, dictionary.id_form)
            plan = plan_for(self.home.path, source, (LINKED_ID,), dictionary)
            report = load_people(
                watch(plan) if watch is not None else plan,
                self.loads.file(load),
                linkage,
                dictionary=dictionary,
                declared=declared,
                progress=progress,
                max_rejected=max_rejected,
            )
            if check:
                self.loads.file(load).unlink()
                return report
            self.loads.put_in_force(journal, load, release, linkage.chain_id, os.urandom, dictionary=dictionary)
            forget_old_loads(journal, self.loads)
        return report

    def _loads_needed(self, journal: Journal[HealthState]) -> set[str]:
        return loads_needed(journal)

    def _verify_readable(self, load: str, dictionary: Dictionary) -> None:
        PeopleStore(self.loads.file(load), dictionary, threads=self.config.limits.engine_threads).close()

    async def policy_in_force(self) -> Policy:
        """The policy that the census node says is in force.

        Raises:
            BrokerError: it cannot be asked, or is not known here.
        """
        with self.journal() as journal:
            link = self._link(journal, KnownPeers(journal, self._clock))
            try:
                return await fetch_policy(await link.now(), wait_for_ready=False)
            finally:
                await link.close()

    def relink(self, source: NextKey, *, progress: Progress | None = None) -> RelinkReport:
        """Change the linkage key of the people in force; a serving node takes it at the next question."""
        with self.journal() as journal:
            return relink_people(
                journal,
                self.loads,
                self.dictionaries,
                self.linkage_keys,
                source,
                os.urandom,
                engine_threads=self.config.limits.engine_threads,
                progress=progress,
            )

    def reload(
        self, file: Path | None, source: NextKey, *, progress: Progress | None = None, max_rejected: int | None = None
    ) -> tuple[RelinkReport, LoadReport]:
        """Take the census agency's whole chain of linkage keys, and load the people again under it."""
        with self.journal() as journal:
            with journal.reading() as state:
                in_force = (
                    self.dictionaries.of_load(state, state.load) if state.load else self.dictionaries.newest(state)
                )
            return reload_people(
                journal,
                self.loads,
                self.dictionaries,
                self.linkage_keys,
                source,
                plan_for(self.home.path, file, (LINKED_ID,), in_force),
                os.urandom,
                declared=self.config.declared,
                progress=progress,
                max_rejected=max_rejected,
            )

    async def _serve(self, journal: Journal[HealthState], on_ready: Callable[[str], None], monitor: Monitor) -> None:
        own = self._card_without_ended_keys(journal)
        # Said here, once: with one of these missing every question would fail.
        self.keyring.signing(own, Purpose.MANIFEST, self._clock())
        self.keyring.sampling(str(own.in_use(SAMPLING, self._clock())))
        stop = StopSignal()
        known = KnownPeers(journal, self._clock)
        link = self._link(journal, known)
        node = self._node(journal)
        # Or the first question would wait for it; a damaged store is said here as well.
        await asyncio.to_thread(node.stores.prepare)

        def manifest_key() -> SigningKey:
            return self.keyring.signing(known.own(), Purpose.MANIFEST, self._clock())

        rosters = RosterSender(
            node,
            link,
            manifest_key=manifest_key,
            randomness=os.urandom,
            deadline_ms=self.config.limits.roster_deadline_ms,
        )
        flow = Flow(
            node,
            census=link,
            manifest_key=manifest_key,
            limits=self.config.limits,
            offer_roster=rosters.offer_again,
            report_spans=log_spans if self.config.log_stages else None,
            stop=stop,
            monitor=monitor,
        )
        service = HealthService(node, flow)
        witness = CensusWitness(
            link,
            journal,
            known=known,
            witnessing=self._witnessing(journal, known),
            census=self.config.census.organisation,
            heard=monitor.heard_of_peer,
        )

        def add_services(server: aio.Server) -> None:
            health_service_pb2_grpc.add_HealthServiceServicer_to_server(service, server)
            cards = CardService(CardExchange(journal, self._clock))
            card_service_pb2_grpc.add_CardServiceServicer_to_server(cards, server)

        async def go_on() -> None:
            # In this order: a roster waits for questions that stand for an older load, also for those that go on after a start.
            await flow.recover()
            await rosters.run()

        async def while_serving() -> None:
            # First, or what goes on again would be sealed to a key that was replaced while this node was down.
            await link.exchange_cards()
            # Together: what is taken up waits for places, and places for what is cosigned.
            reading_ahead = every(_READ_AHEAD_SECONDS, node.stores.look_ahead)
            await together(
                go_on(),
                witness.run(),
                link.keep_cards_current(),
                reading_ahead,
                monitor.keep_writing(self.home.path),
                watch_certificates(journal, self._clock),
                dashboard_beside("health", self.home.path, self.config.dashboard),
            )

        server = self._server(journal, known, monitor, "tripartite.v1.HealthService")
        try:
            await server.run(add_services, stop=stop, on_ready=on_ready, while_serving=while_serving)
        finally:
            await flow.drain()
            await link.close()

    def _link(self, journal: Journal[HealthState], known: KnownPeers) -> CensusLink:
        return CensusLink(
            self.config.census.address,
            card=lambda: known.card("census", self.config.census.organisation),
            own_card=lambda: known.own().signed,
            take=lambda card: renew(journal, card),
            tls=lambda: self._tls(known),
            clock=self._clock,
            glance=journal.glance,
        )

    def _node(self, journal: Journal[HealthState]) -> HealthNode:
        known = KnownPeers(journal, self._clock)
        return HealthNode(
            journal,
            researchers=known.researchers,
            sampling=SamplingKeys(
                in_use=lambda: str(known.own().in_use(SAMPLING, self._clock())), named=self.keyring.sampling
            ),
            loads=self.loads,
            dictionaries=self.dictionaries,
            engine_threads=self.config.limits.engine_threads,
            work_per_second=self.config.limits.work_per_second,
            clock=self._clock,
            randomness=os.urandom,
        )


def _create_tables(db: Database) -> None:
    CohortBands.create_tables(db)
    CosignedNotes.create_tables(db)
    Questions.create_tables(db)
    RosterBook.create_tables(db)
    LoadFolder.create_tables(db)
