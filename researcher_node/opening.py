"""The composition root: from a home folder to a session with both nodes, or to a serving inbox."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from grpc import aio
from tripartite.v1 import inbox_service_pb2_grpc

from broker_common.crypto.certificates import Role
from broker_common.crypto.signing import Purpose, SigningKey, VerifyKey
from broker_common.rpc.channel import Peer
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.storage.clock import SteadyClock
from broker_common.storage.home import Home
from broker_common.storage.registration import read_peer_certificate
from broker_common.tlog.note import NoteVerifier
from researcher_node.answers import Answers, CensusKeys
from researcher_node.asking import Session
from researcher_node.config import CensusPeer, HealthPeer, ResearcherConfig
from researcher_node.service import InboxService

__all__ = ["ResearcherHome"]

_ANSWERS = "answers.db"


class ResearcherHome:
    """A researcher home and everything that is read from it."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path, "researcher")
        self.config = self.home.load_config(ResearcherConfig)
        self._clock = SteadyClock()

    def _verify_key(self, reference: str, purpose: Purpose) -> VerifyKey:
        return self.home.read_key(reference, lambda text: VerifyKey.parse_text(text, purpose))

    def _peer(self, role: Role, peer: HealthPeer | CensusPeer) -> Peer:
        return Peer(role, peer.address, read_peer_certificate(self.home, peer.certificate, role))

    def open_answers(self) -> Answers:
        """The researcher's own store."""
        census = self.config.census
        keys = CensusKeys(
            answer=self._verify_key(census.answer_key, Purpose.ANSWER),
            log=NoteVerifier(census.origin, self._verify_key(census.log_key, Purpose.LOG)),
        )
        return Answers(self.home.path / _ANSWERS, keys, self._clock)

    def session(self, answers: Answers) -> Session:
        """A session with both nodes, to be entered."""
        config = self.config
        return Session(
            researcher_id=config.researcher_id,
            ticket_key=self.home.read_key(config.keys.ticket, lambda text: SigningKey.parse_text(text, Purpose.TICKET)),
            policy_key=self._verify_key(config.census.policy_key, Purpose.POLICY),
            health=self._peer("health", config.health),
            census=self._peer("census", config.census),
            tls=self.home.read_tls(config.tls),
            answers=answers,
            clock=self._clock,
            randomness=os.urandom,
        )

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve the inbox until a signal."""
        answers = self.open_answers()

        def add_services(server: aio.Server) -> None:
            inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(InboxService(answers), server)

        server = NodeServer(
            address=self.config.address,
            tls=self.home.read_tls(self.config.tls),
            peers=[self._peer("census", self.config.census).certificate],
            service="tripartite.v1.InboxService",
            clock=self._clock,
        )
        try:
            await server.run(add_services, stop=StopSignal(), on_ready=on_ready)
        finally:
            answers.close()
