"""The composition root: from a home folder to a journal, to a node, to a serving process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from grpc import aio
from sqlite_utils import Database
from tripartite.v1 import census_service_pb2_grpc, health_service_pb2_grpc

from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.sealing import SealingKey
from broker_common.crypto.secret_text import parse_secret
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.rpc.channel import Peer, open_channel
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.storage.clock import SteadyClock
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.registration import read_peer_certificate, read_researchers
from broker_common.storage.source import Progress
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.note import NoteSigner, NoteVerifier
from health_node.config import HealthConfig
from health_node.forwarding import Sender
from health_node.loading import LoadReport, load_people
from health_node.node import HealthNode, forget_old_loads
from health_node.questions import Questions
from health_node.service import HealthService

__all__ = ["HealthHome"]

_JOURNAL = "journal.db"
_LOADS = "people"


class HealthHome:
    """A health home and everything that is read from it."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path, "health")
        self.config = self.home.load_config(HealthConfig)
        self.loads = LoadFolder(path / _LOADS, ".duckdb")
        self._clock = SteadyClock()

    @property
    def linkage_key(self) -> LinkageKey:
        return self.home.read_key(self.config.keys.linkage, lambda text: LinkageKey(parse_secret(text, "linkage")))

    def open_journal(self, *, create: bool = False) -> Journal[HealthState]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""
        log_key = self.home.read_key(self.config.keys.log, lambda text: SigningKey.parse_text(text, Purpose.LOG))
        make = Journal.create if create else Journal
        return make(
            self.home.path / _JOURNAL,
            fresh_state=HealthState,
            signer=NoteSigner(self.config.origin, log_key),
            clock=self._clock,
            tables=_create_tables,
        )

    def load(
        self, source: Path, release: str, *, progress: Progress | None = None, max_rejected: int | None = None
    ) -> LoadReport:
        """Load people from a CSV source and put them in force; a serving node takes them at the next question."""
        linkage_key = self.linkage_key
        journal = self.open_journal()
        try:
            with self.loads.loading(os.urandom) as load:
                report = load_people(
                    source, self.loads.file(load), linkage_key, progress=progress, max_rejected=max_rejected
                )
                self.loads.put_in_force(journal, load, release, os.urandom)
                forget_old_loads(journal, self.loads)
        finally:
            journal.close()
        return report

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until a signal, or until an error that stops the node, which is raised."""
        journal = self.open_journal()
        stop = StopSignal()
        tls = self.home.read_tls(self.config.tls)
        census = self.config.census
        census_peer = Peer("census", census.address, read_peer_certificate(self.home, census.certificate, "census"))
        read, keys = self.home.read_key, self.config.keys
        channel = open_channel(census_peer, tls, self._clock)
        service = HealthService(
            self._node(journal),
            census=census_service_pb2_grpc.CensusServiceStub(channel),
            sender=Sender(
                census_key=read(census.sample_key, SealingKey.parse_text),
                manifest_key=read(keys.manifest, lambda text: SigningKey.parse_text(text, Purpose.MANIFEST)),
                randomness=os.urandom,
            ),
            policy_key=read(census.policy_key, lambda text: VerifyKey.parse_text(text, Purpose.POLICY)),
            census_log=NoteVerifier(
                census.origin, read(census.log_key, lambda text: VerifyKey.parse_text(text, Purpose.LOG))
            ),
            limits=self.config.limits,
            stop=stop,
        )

        def add_services(server: aio.Server) -> None:
            health_service_pb2_grpc.add_HealthServiceServicer_to_server(service, server)

        server = NodeServer(
            address=self.config.address,
            tls=tls,
            peers=[
                read_peer_certificate(self.home, peer.certificate, "researcher", name=name)
                for name, peer in self.config.researchers.items()
            ],
            service="tripartite.v1.HealthService",
            clock=self._clock,
        )
        try:
            await server.run(add_services, stop=stop, on_ready=on_ready, while_serving=service.recover)
        finally:
            await service.drain()
            await channel.close()
            journal.close()

    def _node(self, journal: Journal[HealthState]) -> HealthNode:
        read = self.home.read_key
        return HealthNode(
            journal,
            researchers=read_researchers(self.home, self.config.researchers),
            sampling_key=read(self.config.keys.sampling, lambda text: SamplingKey(parse_secret(text, "sampling"))),
            loads=self.loads,
            engine_threads=self.config.limits.engine_threads,
            clock=self._clock,
            randomness=os.urandom,
        )


def _create_tables(db: Database) -> None:
    Questions.create_tables(db)
    LoadFolder.create_tables(db)
