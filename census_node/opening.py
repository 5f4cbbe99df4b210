"""The composition root: from a home folder to a journal, to a node, to a serving process."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from grpc import aio
from sqlite_utils import Database
from tripartite.v1 import census_service_pb2_grpc

from broker_common.crypto.certificates import PeerCertificate
from broker_common.crypto.linkage import LinkageKey
from broker_common.crypto.sealing import OpeningKey
from broker_common.crypto.secret_text import parse_secret
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy
from broker_common.rpc.channel import Peer
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.storage.clock import SteadyClock
from broker_common.storage.home import Home
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.registration import read_peer_certificate, read_researchers
from broker_common.storage.source import Progress
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Adopted, Shutdown
from broker_common.tlog.note import NoteSigner
from census_node.config import CensusConfig
from census_node.delivery import Courier
from census_node.loading import LoadReport, read_registry
from census_node.node import CensusNode, Keys, forget_old_loads
from census_node.outbox import Outbox
from census_node.samples import SampleFolder
from census_node.service import CensusService

__all__ = ["CensusHome"]

_JOURNAL = "journal.db"
_LOADS = "registries"
_SAMPLES = "samples"


class CensusHome:
    """A census home and everything that is read from it."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path, "census")
        self.config = self.home.load_config(CensusConfig)
        self.loads = LoadFolder(path / _LOADS, ".npz")
        self._clock = SteadyClock()

    @property
    def policy_key(self) -> VerifyKey:
        return self.home.read_key(self.config.keys.policy, lambda text: VerifyKey.parse_text(text, Purpose.POLICY))

    @property
    def linkage_key(self) -> LinkageKey:
        return self.home.read_key(self.config.keys.linkage, lambda text: LinkageKey(parse_secret(text, "linkage")))

    def open_journal(self, *, create: bool = False) -> Journal[CensusState]:
        """The node's journal; `create` makes a new one and refuses to touch an old one."""
        policy_key = self.policy_key
        log_key = self.home.read_key(self.config.keys.log, lambda text: SigningKey.parse_text(text, Purpose.LOG))
        log_time = SteadyClock()
        make = Journal.create if create else Journal
        journal = make(
            self.home.path / _JOURNAL,
            fresh_state=lambda: CensusState(policy_key),
            signer=NoteSigner(self.config.origin, log_key),
            clock=log_time,
            tables=_create_tables,
        )
        # What has expired by the log stays expired, and what is quoted now expires in its time, however far the wall
        # clock is behind the log. Certificates and ticks go by the wall clock: a clock that was ahead once must not end
        # them.
        log_time.not_before(journal.now())
        return journal

    def load(
        self, source: Path, release: str, *, progress: Progress | None = None, max_rejected: int | None = None
    ) -> LoadReport:
        """Load the registry from a CSV source and put it in force; a serving node takes it at the next question."""
        linkage_key = self.linkage_key
        journal = self.open_journal()
        try:
            with self.loads.loading(os.urandom) as load:
                registry, report = read_registry(
                    source, load, linkage_key, progress=progress, max_rejected=max_rejected
                )
                registry.write(self.loads.file(load))
                self.loads.put_in_force(journal, load, release, os.urandom)
                forget_old_loads(journal, self.loads)
        finally:
            journal.close()
        return report

    def adopt(self, policy: Policy, key: SigningKey) -> None:
        """Sign a policy and put it in force.

        Raises:
            RefusedError: SERVICE_SHUT_DOWN.
            InvalidRequestError: INVALID_VALUE, it would raise the cap.
        """
        journal = self.open_journal()
        try:
            with journal.transaction() as transaction:
                before = transaction.state.policy
                if transaction.state.shut_down:
                    raise RefusedError("SERVICE_SHUT_DOWN")
                if before is not None and policy.cap > before.cap:
                    raise InvalidRequestError(
                        "INVALID_VALUE", name="max_belief", problem="would raise the cap", remedy="A cap may only fall."
                    )
                transaction.append(
                    Adopted(
                        document=policy.document.decode(),
                        signature=b64encode(key.sign(policy.document)).decode("ascii"),
                        key_id=key.key_id,
                    )
                )
                if transaction.state.must_shut_down:
                    transaction.append(Shutdown(reason="budget", note="nothing fits under this policy"))
        finally:
            journal.close()

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until a signal, or until an error that stops the node, which is raised."""
        journal = self.open_journal()
        stop = StopSignal()
        node = self._node(journal)
        service = CensusService(node, self.config.limits, stop)
        await asyncio.to_thread(node.read_registry)
        recovered = await asyncio.to_thread(node.recover)
        tls = self.home.read_tls(self.config.tls)
        courier = Courier(node, self._inboxes(), tls)

        def add_services(server: aio.Server) -> None:
            census_service_pb2_grpc.add_CensusServiceServicer_to_server(service, server)

        async def while_serving() -> None:
            await service.release_recovered(recovered)
            await courier.run()

        server = NodeServer(
            address=self.config.address,
            tls=tls,
            peers=self._peers(),
            service="tripartite.v1.CensusService",
            clock=self._clock,
        )
        try:
            await server.run(add_services, stop=stop, on_ready=on_ready, while_serving=while_serving)
        finally:
            await service.drain()
            journal.close()

    def _node(self, journal: Journal[CensusState]) -> CensusNode:
        read, keys = self.home.read_key, self.config.keys
        return CensusNode(
            journal,
            keys=Keys(
                answer=read(keys.answer, lambda text: SigningKey.parse_text(text, Purpose.ANSWER)),
                sample=read(keys.sample, OpeningKey.parse_text),
                manifest={
                    organisation: read(peer.manifest_key, lambda text: VerifyKey.parse_text(text, Purpose.MANIFEST))
                    for organisation, peer in self.config.health.items()
                },
            ),
            researchers=read_researchers(self.home, self.config.researchers),
            loads=self.loads,
            samples=SampleFolder(self.home.path / _SAMPLES),
            clock=self._clock,
            randomness=os.urandom,
        )

    def _inboxes(self) -> dict[str, Peer]:
        certificates = self._researcher_certificates()
        return {
            name: Peer("researcher", peer.inbox, certificates[name])
            for name, peer in self.config.researchers.items()
            if peer.inbox
        }

    def _peers(self) -> list[PeerCertificate]:
        health = [
            read_peer_certificate(self.home, peer.certificate, "health", organisation=organisation)
            for organisation, peer in self.config.health.items()
        ]
        return [*health, *self._researcher_certificates().values()]

    def _researcher_certificates(self) -> dict[str, PeerCertificate]:
        return {
            name: read_peer_certificate(self.home, peer.certificate, "researcher", name=name)
            for name, peer in self.config.researchers.items()
        }


def _create_tables(db: Database) -> None:
    Outbox.create_tables(db)
    LoadFolder.create_tables(db)
