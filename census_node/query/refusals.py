"""Refusals of samples, signed: what was refused, and between which instants that was decided.

The auditor recomputes a refusal from the log. It says how much of the log was shown when the sample began to come, and when the
refusal left: whatever it was decided by stood in the log at some instant in between.

SECURITY: both are known to everybody. How long the log was when it was decided would tell when others were charged.
"""

from __future__ import annotations

from collections.abc import Callable

from tripartite.v1 import sample_pb2

from broker_common.crypto.signing import SigningKey
from broker_common.errors import BrokerError, InvalidRequestError
from broker_common.query.messages import parse_message
from broker_common.query.refusal import refusal_of
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState


class Refusing:
    """How one attempt would be refused."""

    def __init__(
        self,
        head: sample_pb2.SampleHead,
        agency: str,
        journal: Journal[CensusState],
        *,
        key: Callable[[], SigningKey],
        shown_size: int,
    ) -> None:
        """`shown_size` is how much of the log is shown now, when its head has come."""
        # Without the sealed sample, of which nothing is needed.
        self._ticket, self._manifest = head.ticket.ticket, head.manifest.manifest
        self._agency = agency
        self._journal = journal
        self._find_key = key
        self._key: SigningKey | None = None
        self._shown_size = shown_size

    def prepare(self) -> None:
        """Find the key. May wait for the journal, as nothing may at the instant at which the refusal leaves."""
        self._key = self._find_key()

    def sign(self, refusal: BrokerError, left_ms: int) -> BrokerError:
        """The refusal with our signature; as it is if nothing can be said of the ticket."""
        state = self._journal.state
        if self._key is None:
            return refusal
        try:
            document = refusal_of(
                self._ticket,
                self._manifest,
                code=refusal.code,
                health=self._agency,
                log=state.origin,
                roster=parse_message(sample_pb2.Manifest, self._manifest).roster,
                size=self._shown_size,
                # The log's own time is later only if a clock was set back.
                time_ms=max(left_ms, state.time_ms),
            ).document
        except (InvalidRequestError, ValueError):
            return refusal
        # Everybody who joined a place is told by the same error; each has a refusal of their own.
        signed = type(refusal)(refusal.code, **refusal.details)
        signed.signed_refusal = sample_pb2.SignedRefusal(
            document=document, signature=self._key.sign(document), key_id=self._key.key_id
        ).SerializeToString(deterministic=True)
        return signed
