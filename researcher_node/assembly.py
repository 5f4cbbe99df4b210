"""Puts the node together: from a home folder to a session with both nodes, or to a serving inbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import structlog
from grpc import aio
from grpc.aio import ServicerContext
from tripartite.v1 import inbox_service_pb2, inbox_service_pb2_grpc

from broker_common.crypto.cards import SignedCard, VerifiedCard
from broker_common.crypto.certificates import Identity, TlsCredentials
from broker_common.crypto.signing import Purpose
from broker_common.errors import BrokerError, InternalError, InvalidRequestError
from broker_common.logs import log_unforeseen
from broker_common.parties.keyring import Keyring
from broker_common.parties.registration import read_card
from broker_common.rpc.server import NodeServer, StopSignal
from broker_common.storage.clock import SteadyClock
from broker_common.storage.creation import new_home
from broker_common.storage.durable import replace_file
from broker_common.storage.home import Home
from broker_common.tlog.note import NoteVerifier
from broker_common.tlog.parties import Registration
from broker_common.values import Clock
from researcher_node.answers.store import Answers, CensusKeys
from researcher_node.asking.contact import DictionaryHandler, Party
from researcher_node.asking.kept import KeptDictionaries, Policies
from researcher_node.asking.session import Session
from researcher_node.config import ResearcherConfig
from researcher_node.trust.cards import AGENCIES, Trust
from researcher_node.trust.census_log import RememberedCheckpoint

Context = ServicerContext[object, object]


class InboxService(inbox_service_pb2_grpc.InboxServiceServicer):
    """tripartite.v1.InboxService."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def Deliver(  # noqa: N802 - the name that the proto gives it
        self, request: inbox_service_pb2.DeliverRequest, context: Context
    ) -> inbox_service_pb2.DeliverResponse:
        del context
        await asyncio.to_thread(self._answers.receive, request.answer)
        return inbox_service_pb2.DeliverResponse()


_ANSWERS = "answers.db"
_SEEN = "census.checkpoint"
_POLICIES = "policies"
_OWN_CARD = "own.card"
# Between an inbox's exchanges of cards with the agencies.
_EXCHANGE_SECONDS = 300.0
_log = structlog.get_logger()


class ResearcherHome:
    """A researcher home and everything that is read from it."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        """`clock` is the machine's unless another one is given."""
        self.home = Home(path, "researcher")
        self.config = self.home.load_config(ResearcherConfig)
        self.keyring = Keyring(self.home, self.config.keys.private)
        self._clock = SteadyClock() if clock is None else clock
        self.trust = Trust(path / "trust", self._clock)
        self.seen = RememberedCheckpoint(path / _SEEN)
        self.policies = Policies(path / _POLICIES)

    @classmethod
    def create(cls, path: Path, config: ResearcherConfig) -> ResearcherHome:
        """A new home with fresh keys and a first card, in a folder that is new or empty.

        Raises:
            InvalidRequestError: HOME_INVALID.
        """
        with new_home(path, config):
            made = cls(path)
            identity = Identity(config.organisation, "researcher", config.researcher_id)
            made.publish(made.keyring.first_card(identity, "", made._clock()).signed)
        return made

    def own_card(self) -> VerifiedCard:
        """The researcher's own card.

        Raises:
            InvalidRequestError: CARD_MISSING; or what is wrong with the file.
        """
        if not self._own_file.is_file():
            raise InvalidRequestError("CARD_MISSING")
        return read_card(self._own_file)

    def publish(self, signed: SignedCard) -> None:
        """Make this the researcher's card; the agencies hear of it at the next contact."""
        replace_file(self._own_file, signed.to_bytes() + b"\n")

    def after_rotation(self, purpose: str) -> None:
        """Nothing: the agencies hear of a new key at the next contact."""
        del purpose

    def known(self) -> list[Registration]:
        """The agencies whose cards are in `trust/`."""
        return [Registration(self.trust.card(role)) for role in AGENCIES if self.trust.file(role).is_file()]

    @property
    def linkage(self) -> str:
        """A researcher links nobody."""
        return ""

    @property
    def _own_file(self) -> Path:
        return self.home.path / _OWN_CARD

    def _tls(self) -> TlsCredentials:
        return self.keyring.tls(self.own_card(), self._clock())

    def open_answers(self) -> Answers:
        def log() -> NoteVerifier:
            card = self.trust.card("census")
            return NoteVerifier(card.card.origin, tuple(card.verify_keys(Purpose.LOG, self._clock())))

        keys = CensusKeys(answer=lambda: self.trust.card("census").verify_keys(Purpose.ANSWER, self._clock()), log=log)
        return Answers(self.home.path / _ANSWERS, keys, self._clock)

    def session(self, answers: Answers, *, on_dictionary: DictionaryHandler = lambda _role, _version: None) -> Session:
        """A session with both nodes, to be entered; `on_dictionary` is told of a dictionary that has changed."""
        config = self.config
        return Session(
            researcher_id=config.researcher_id,
            ticket_key=lambda: self.keyring.signing(self.own_card(), Purpose.TICKET, self._clock()),
            health=Party("health", config.health.address),
            census=Party("census", config.census.address),
            own_card=self.own_card,
            trust=self.trust,
            tls=self._tls,
            answers=answers,
            policies=self.policies,
            dictionaries=KeptDictionaries(self.home.path / "dictionaries"),
            on_dictionary=on_dictionary,
            clock=self._clock,
            randomness=os.urandom,
        )

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve the inbox until a signal."""
        with self.keyring.changing():
            self.keyring.forget_ended(self.own_card(), self._clock(), log_ms=0)
        answers = self.open_answers()

        def add_services(server: aio.Server) -> None:
            inbox_service_pb2_grpc.add_InboxServiceServicer_to_server(InboxService(answers), server)

        server = NodeServer(
            address=self.config.address,
            tls=self._tls,
            peers=lambda: self.trust.card("census").certificates(self._clock()),
            service="tripartite.v1.InboxService",
            clock=self._clock,
            reflection=self.config.reflection,
            exchanges_cards=False,
        )

        async def keep_cards_current() -> None:
            # An inbox hears of a new answer key before the first answer under it comes.
            while True:
                async with self.session(answers) as session:
                    for role in AGENCIES:
                        try:
                            await session.meet(role)
                        except BrokerError as error:
                            if error.stops_node:
                                raise
                            _log.info("cards were not exchanged", peer=role, code=error.code)
                        except OSError as error:
                            # Our own disk: what a peer does comes as an error of the library's own.
                            raise InternalError("STORE_FAILED") from error
                        except Exception as error:  # noqa: BLE001 - SECURITY: nothing that a peer sends may stop the inbox
                            log_unforeseen(error, peer=role)
                await asyncio.sleep(_EXCHANGE_SECONDS)

        try:
            await server.run(add_services, stop=StopSignal(), on_ready=on_ready, while_serving=keep_cards_current)
        finally:
            answers.close()
