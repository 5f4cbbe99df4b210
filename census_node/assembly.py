"""Puts the node together: from a home folder to a journal, to a node, to a serving process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from grpc import aio
from tripartite.v1 import card_service_pb2_grpc, census_service_pb2_grpc, log_service_pb2_grpc

from broker_common.agency.home import AgencyHome
from broker_common.agency.linkage import NextKey, RelinkReport
from broker_common.crypto.cards import VerifiedCard
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.dashboard.beside import dashboard_beside, watch_certificates
from broker_common.errors import InternalError
from broker_common.monitoring import Monitor
from broker_common.parties.exchange import CardExchange, CardService
from broker_common.parties.keyring import log_signer
from broker_common.parties.peers import KnownPeers
from broker_common.parties.registration import own_card
from broker_common.privacy.report import Charges
from broker_common.query.dictionary import Dictionary
from broker_common.rpc.channel import Peer
from broker_common.rpc.server import StopSignal, every, together
from broker_common.storage.clock import SteadyClock
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.source.plan import SourcePlan, plan_for
from broker_common.storage.source.rows import Progress
from broker_common.storage.witnessing import WitnessStore
from broker_common.tlog.census_state import CensusState
from broker_common.tracing import log_spans
from broker_common.values import Clock
from census_node.config import CensusConfig
from census_node.ledger.book import LedgerBook
from census_node.ledger.samples import KeptSamples
from census_node.ledger.steps import LedgerSteps
from census_node.log_service import LogService
from census_node.node import CensusNode, Folders, Keys, create_tables
from census_node.operator.operating import Confirmation, Done, adopt, sign_again
from census_node.operator.proposals import Proposal, ProposalFolder
from census_node.query.admission import Recovered
from census_node.registry.loading import LoadReport, id_columns, load_registry, verify_variables
from census_node.registry.registry import Registry, loads_needed
from census_node.registry.relinking import relink_registry, reload_registry
from census_node.registry.rosters import KeptRoster
from census_node.registry.staging import rosters_of
from census_node.release.delivery import Courier
from census_node.release.oversight import Oversight
from census_node.release.publication import Publication, verify_witnessed
from census_node.service import CensusService

_OPENINGS = "openings"
_PROPOSALS = "proposals"
# The retention of openings is given in days.
_DAY_MS = 86_400_000
# How often a serving node looks for a load that is about to be put in force.
_READ_AHEAD_SECONDS = 1.0
ResultT = TypeVar("ResultT")


class CensusHome(AgencyHome[CensusState]):
    """A census home and everything that is read from it."""

    config: CensusConfig

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        """`clock` is the machine's unless another one is given."""
        home = Home(path, "census")
        super().__init__(home, home.load_config(CensusConfig), CensusState, clock)
        self.folders = Folders.of(path)
        self.loads = self.folders.loads
        self.proposals = ProposalFolder(path / _PROPOSALS)

    def verify_dictionary(self, dictionary: Dictionary) -> None:
        verify_variables(dictionary)

    def policy_keys(self) -> list[VerifyKey]:
        with self.journal() as journal, journal.reading() as state:
            return own_card(state.parties).verify_keys(Purpose.POLICY, journal.now())

    def private_policy_key(self) -> SigningKey:
        """The key that signs policies.

        Raises:
            InvalidRequestError: KEY_MISSING, it is not on this machine, or what is there is another key.
        """
        return self._offline_key(Purpose.POLICY)

    def private_operator_key(self) -> SigningKey:
        """The key that signs the operator's orders.

        Raises:
            InvalidRequestError: KEY_MISSING, it is not on this machine, or what is there is another key.
        """
        return self._offline_key(Purpose.OPERATOR)

    def operator_key_as_of(self, state: CensusState) -> SigningKey:
        """The same for a caller who has read the log, which takes a while if it is long.

        Raises:
            InvalidRequestError: KEY_MISSING.
        """
        return self.operator_key_of(own_card(state.parties), state.time_ms)

    def operator_key_of(self, card: VerifiedCard, log_ms: int) -> SigningKey:
        """The same by the agency's card and the time of its log's newest entry.

        Raises:
            InvalidRequestError: KEY_MISSING.
        """
        # As replay goes by: a log that was written under a clock that was ahead stays ahead.
        return self._key_of(card, Purpose.OPERATOR, max(log_ms, self._clock()))

    def _offline_key(self, purpose: Purpose) -> SigningKey:
        with self.journal() as journal, journal.reading() as state:
            return self._key_of(own_card(state.parties), purpose, journal.now())

    def open_journal(self, *, create: bool = False) -> Journal[CensusState]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""
        log_time = SteadyClock()
        make = Journal.create if create else Journal
        journal = make(
            self.journal_path,
            fresh_state=self.beginning(),
            signer=log_signer(self.keyring, self.config.origin, self._clock),
            clock=log_time,
            tables=create_tables,
        )
        # Tickets and quotes expire by the log's time even if the wall clock is behind it. Certificates and ticks go by the
        # wall clock: a clock that was ahead once must not end them.
        log_time.not_before(journal.now())
        return journal

    def load(
        self,
        source: Path | None,
        release: str,
        *,
        progress: Progress | None = None,
        max_rejected: int | None = None,
        watch: Callable[[SourcePlan], SourcePlan] = lambda plan: plan,
        check: bool = False,
    ) -> LoadReport:
        """Load the registry from a source, or from what lies in the home, and put it in force; a serving node takes it next.

        `watch` may see what is read. A check ends when everything was read.

        Raises:
            InvalidRequestError: LOAD_REFUSED, SECRET_MISSING, LINKAGE_KEY_MISSING.
            RefusedError: NOTHING_ADOPTED, LOADING.
            InternalError: STORE_FAILED; INTEGRITY, the load in force, which knows the subjects, is not the one that was
                loaded.
        """
        noting = contextlib.nullcontext() if check else self.home.noting_refused_load()

        def plan(dictionary: Dictionary) -> SourcePlan:
            return watch(plan_for(self.home.path, source, id_columns(dictionary), dictionary))

        with noting, self.journal() as journal:
            return load_registry(
                journal,
                self.loads,
                self.dictionaries,
                self.linkage_keys,
                plan,
                release,
                os.urandom,
                people=self.config.people,
                put_load=lambda carry: self.ledger(journal).put_load(carry),
                progress=progress,
                max_rejected=max_rejected,
                check=check,
            )

    def relink(self, source: NextKey, *, progress: Progress | None = None) -> RelinkReport:
        """Change the linkage key of the registry in force; a serving node takes it at the next question."""
        with self.journal() as journal:
            return relink_registry(journal, self.loads, self.linkage_keys, source, os.urandom, progress=progress)

    def reload(
        self, file: Path | None, source: NextKey, *, progress: Progress | None = None
    ) -> tuple[RelinkReport, LoadReport]:
        """Take the health agency's whole chain of linkage keys, and read the registry again; see `reload_registry`."""
        with self.journal() as journal:
            with journal.reading() as state:
                in_force = (
                    self.dictionaries.of_load(state, state.load) if state.load else self.dictionaries.newest(state)
                )
            return reload_registry(
                journal,
                self.loads,
                self.linkage_keys,
                source,
                in_force,
                plan_for(self.home.path, file, id_columns(in_force), in_force),
                os.urandom,
                people=self.config.people,
                progress=progress,
            )

    def _loads_needed(self, journal: Journal[CensusState]) -> set[str]:
        return loads_needed(journal) - {""}

    def _verify_readable(self, load: str, dictionary: Dictionary) -> None:
        if Registry.read(self.loads.file(load), load).dictionary.hash != dictionary.hash:
            raise InternalError("INTEGRITY", problem=f"the registry of load {load} is of another dictionary")

    def samples_kept(self) -> int:
        with self.journal() as journal, journal.reading():
            return LedgerSteps(journal.db).charges_kept

    def after_rotation(self, purpose: str) -> None:
        """The policy in force is signed again by a new policy key: the one before will not be honoured for ever."""
        super().after_rotation(purpose)
        if purpose != Purpose.POLICY.value:
            return
        newest = self.keyring.newest_signing(self.own_card(), Purpose.POLICY)
        with self.journal() as journal:
            sign_again(journal, newest)

    def read(self, view: Callable[[CensusState], ResultT]) -> ResultT:
        """The result of `view` on the log as it is now; works with the node up or down."""
        with self.journal() as journal, journal.reading() as state:
            return view(state)

    def charges(self) -> Charges | None:
        """Each subject's charge in the ledger; None if strict accounting has charged everybody alike from the start."""
        with self.journal() as journal:
            return self.ledger(journal).charges()

    def kept_samples(self) -> KeptSamples:
        return self.folders.samples.kept()

    def rosters(self) -> list[tuple[KeptRoster, bool]]:
        """The rosters in force and staged, by agency, lost ones included; True for one in force."""
        with self.journal() as journal:
            return rosters_of(journal)

    def adopt(self, proposal: Proposal, confirmation: Confirmation | None = None) -> Done:
        """Put a proposed policy in force; see `operating.adopt`."""
        with self.journal() as journal:
            return adopt(journal, proposal, self.policy_keys(), self.dictionaries, confirmation)

    @property
    def _witness_store(self) -> WitnessStore | None:
        folder = self.config.witness_store
        return WitnessStore((self.home.path / folder).resolve()) if folder else None

    def _oversight(self) -> Oversight | None:
        reference = self.config.keys.oversight
        if not reference:
            return None
        key = self.home.read_key(reference, SealingKey.parse_text)
        return Oversight(self.home.path / _OPENINGS, key, _DAY_MS * self.config.opening_retention_days)

    async def _serve(self, journal: Journal[CensusState], on_ready: Callable[[str], None], monitor: Monitor) -> None:
        known = KnownPeers(journal, self._clock)
        store = self._witness_store
        if store is not None:
            # SECURITY: before anything else is done. An older copy of this home forgets charges, and acts on old cards.
            verify_witnessed(journal, store)
        own = self._card_without_ended_keys(journal)
        # Said here, once: with one of these missing every question would fail.
        self.keyring.signing(own, Purpose.ANSWER, self._clock())
        self.keyring.signing(own, Purpose.REFUSAL, self._clock())
        self.keyring.unsealing(own, self._clock())
        stop = StopSignal()
        node = self._node(journal)
        service = CensusService(
            node,
            self.config.limits,
            stop,
            log_spans if self.config.log_stages else None,
            people=self.config.people,
            monitor=monitor,
        )
        log_service = LogService(node, self._witnessing(journal, known), known, self.config.limits, stop)
        await asyncio.to_thread(node.read_registry)

        recovered: list[Recovered] = []

        courier = Courier(node, lambda: self._inboxes(known), lambda: self._tls(known), self.config.limits)

        def add_services(server: aio.Server) -> None:
            census_service_pb2_grpc.add_CensusServiceServicer_to_server(service, server)
            cards = CardService(CardExchange(journal, self._clock))
            card_service_pb2_grpc.add_CardServiceServicer_to_server(cards, server)
            log_service_pb2_grpc.add_LogServiceServicer_to_server(log_service, server)

        async def before_serving() -> None:
            # Not earlier: a start that fails leaves nothing in the log, however often a supervisor tries.
            recovered.extend(await asyncio.to_thread(node.recover))

        async def while_serving() -> None:
            service.go_on_with(recovered)
            await together(
                courier.run(),
                service.run(),
                every(_READ_AHEAD_SECONDS, node.registries.look_ahead),
                monitor.keep_writing(self.home.path),
                watch_certificates(journal, self._clock),
                dashboard_beside("census", self.home.path, self.config.dashboard),
            )

        server = self._server(journal, known, monitor, "tripartite.v1.CensusService")
        try:
            await server.run(
                add_services,
                stop=stop,
                on_ready=on_ready,
                before_serving=before_serving,
                while_serving=while_serving,
            )
        finally:
            await service.drain()

    def ledger(self, journal: Journal[CensusState]) -> LedgerBook:
        """The ledger, as a command works with it."""
        return self.folders.ledger(journal, os.urandom)

    def _node(self, journal: Journal[CensusState]) -> CensusNode:
        return CensusNode(
            journal,
            keys=self._keys(KnownPeers(journal, self._clock)),
            folders=self.folders,
            dictionaries=self.dictionaries,
            publication=Publication(journal, self._witness_store),
            oversight=self._oversight(),
            clock=self._clock,
            randomness=os.urandom,
        )

    def _keys(self, known: KnownPeers) -> Keys:
        def manifest_keys() -> dict[str, list[VerifyKey]]:
            now_ms = self._clock()
            return {name: card.verify_keys(Purpose.MANIFEST, now_ms) for name, card in known.agencies("health").items()}

        def witnesses() -> dict[str, str]:
            return {name: card.card.origin for name, card in known.agencies("health").items()}

        return Keys(
            answer=lambda: self.keyring.signing(known.own(), Purpose.ANSWER, self._clock()),
            refusal=lambda: self.keyring.signing(known.own(), Purpose.REFUSAL, self._clock()),
            sample=lambda: self.keyring.unsealing(known.own(), self._clock()),
            manifest=manifest_keys,
            researchers=known.researchers,
            witnesses=witnesses,
        )

    def _inboxes(self, known: KnownPeers) -> dict[str, Peer]:
        now_ms = self._clock()
        return {
            name: Peer("researcher", peer.inbox, tuple(peer.card.certificates(now_ms)))
            for name, peer in known.inboxes().items()
        }
