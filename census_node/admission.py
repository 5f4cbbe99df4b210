"""Admission: is this sample what it claims to be? Every check, in DESIGN's order, before anything may be charged.

    1 ticket signature, researcher, project      4 HPKE: the frame key opens; slot and price are held
    2 shutdown, expiry, policy, release,         5 frames: ascending, one last, padding zero
      dictionary, scale, slot, linkage, question  6 manifest: signature, ticket, set commitment
    3 the sender's organisation

Steps 1 to 4 need the header alone: a ticket that they refuse makes nobody send a sample. A ticket that was charged before
skips steps 1 and 2: it is good for ever, for its one answer, whoever has been revoked since. Nothing here looks anybody up
in the census.

The rounds know no socket: a caller feeds header, frames and manifest as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tripartite.v1 import sample_pb2

from broker_common.crypto.certificates import Identity
from broker_common.crypto.commitments import commit_set, hash_bytes, verify_commitment
from broker_common.crypto.frames import FrameOpener
from broker_common.crypto.sealing import OpeningKey, open_with_any, sample_info
from broker_common.crypto.signing import VerifyKey, key_named
from broker_common.errors import InvalidRequestError, RefusedError
from broker_common.privacy.policy import Policy
from broker_common.query.messages import parse_message
from broker_common.query.question import Question, question_from_wire
from broker_common.query.ticket import Researcher, VerifiedTicket, ticket_verified_before, verify_ticket
from broker_common.stages import stage
from census_node.dictionary import CENSUS_DICTIONARY

__all__ = ["Admission", "AdmittedSample", "Gate", "scales_text", "verify_linkage"]

# Of a sample that was charged under an earlier policy: what a frame's count can say.
_MOST_PEOPLE = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Gate:
    """What a sample is checked against: one consistent view of keys and policy."""

    researchers: Mapping[str, Researcher]
    manifest_keys: Mapping[str, Sequence[VerifyKey]]
    sample_keys: Sequence[OpeningKey]
    policy: Policy
    census_release: str
    # Name of the linkage chain in force.
    linkage: str
    now_ms: int
    # Raises when the service has told that it is shut down.
    verify_open: Callable[[], None]
    # Raises when the registry in force was loaded under another dictionary.
    verify_dictionary: Callable[[], None]
    # Raises when the ticket's slot does not serve it.
    verify_slot: Callable[[VerifiedTicket], None]
    # True for the hash of a ticket that was charged before.
    is_charged: Callable[[str], bool]
    # Binds the ticket's slot to it and holds its price, or raises; nothing to do for a ticket that was charged.
    reserve: Callable[[VerifiedTicket], None]


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedSample:
    """A sample that passed every check."""

    ticket: VerifiedTicket
    question: Question
    organisation: str
    # Name of the linkage chain that the pseudonyms come from.
    linkage: str
    manifest_hash: bytes
    set_commitment: bytes
    set_hash: bytes
    set_salt: bytes
    pseudonyms: npt.NDArray[np.uint8]


class Admission:
    """One attempt: construct with the header, `add_frame` for each frame, `finish` with the manifest.

    Raises, at every step:
        InvalidRequestError, RefusedError: the first check that fails. Nothing was charged.
    """

    def __init__(self, header: sample_pb2.SampleHeader, sender: Identity, gate: Gate) -> None:
        # 1
        if gate.is_charged(hash_bytes(header.ticket.ticket).hex()):
            self._ticket = ticket_verified_before(header.ticket)
        else:
            self._ticket = verify_ticket(header.ticket, researchers=gate.researchers, caller=None)
        # 2
        body = self._ticket.body
        charged = _is_charged_or_in_force(self._ticket, header.linkage, gate)
        self._question = _question(self._ticket, charged=charged)
        self._linkage = header.linkage
        # 3
        manifest_keys = gate.manifest_keys.get(sender.organisation)
        if manifest_keys is None:
            raise InvalidRequestError("WRONG_ORGANISATION", subject="sample")
        self._manifest_keys = manifest_keys
        self._organisation = sender.organisation
        # 4
        frame_key = open_with_any(
            gate.sample_keys,
            header.sealed_frame_key,
            sample_info(self._ticket.hash, body.policy_hash, header.linkage),
            subject="frame key",
        )
        self._opener = FrameOpener(frame_key, max_people=_MOST_PEOPLE if charged else gate.policy.max_sample)
        # Last, so that whatever fails above holds nothing.
        gate.reserve(self._ticket)

    @property
    def ticket_hash(self) -> str:
        """Hex hash of the ticket whose price is now held."""
        return self._ticket.hash.hex()

    def add_frame(self, frame: sample_pb2.SampleFrame) -> npt.NDArray[np.uint8]:
        """5: open the next frame; its pseudonyms, which are nobody's sample before `finish`."""
        with stage("opening"):
            return self._opener.open_frame(frame.index, frame.last, frame.ciphertext)

    @property
    def declared(self) -> int:
        """How many people the first frame says there are; none before it."""
        return self._opener.declared

    def finish(self, signed: sample_pb2.SignedManifest) -> AdmittedSample:
        """6: check what the health agency vouches for."""
        self._opener.finish()
        key_named(self._manifest_keys, signed.key_id, subject="manifest").verify_signature(
            signed.manifest, signed.signature
        )
        manifest = parse_message(sample_pb2.Manifest, signed.manifest)
        commitment = commit_set(self._opener.salt, self._ticket.hash, self._opener.set_hash)
        for subject, claimed, opened in (
            ("ticket", manifest.ticket_hash, self._ticket.hash),
            ("sample", manifest.set_commitment, commitment),
        ):
            verify_commitment(claimed, opened, subject=subject)
        return AdmittedSample(
            ticket=self._ticket,
            question=self._question,
            organisation=self._organisation,
            linkage=self._linkage,
            manifest_hash=hash_bytes(signed.manifest),
            set_commitment=commitment,
            set_hash=self._opener.set_hash,
            set_salt=self._opener.salt,
            pseudonyms=self._opener.pseudonyms,
        )


def verify_linkage(linkage: str, in_force: str) -> None:
    """Return only if a sample of chain `linkage` can be looked up in the registry in force.

    SECURITY: of two chains nobody links, so that an answer would be noise around zero, paid for and believed.

    Raises:
        RefusedError: LINKAGE_MISMATCH.
    """
    if linkage != in_force:
        raise RefusedError("LINKAGE_MISMATCH")


def _is_charged_or_in_force(ticket: VerifiedTicket, linkage: str, gate: Gate) -> bool:
    """True for a ticket that was charged; otherwise it, and what its sample is made with, must be good now."""
    if gate.is_charged(ticket.hash.hex()):
        return True
    try:
        _verify_in_force(ticket, gate)
        verify_linkage(linkage, gate.linkage)
    except (InvalidRequestError, RefusedError):
        # A first attempt may have charged it since: then it is good for ever.
        if not gate.is_charged(ticket.hash.hex()):
            raise
        return True
    return False


def _question(ticket: VerifiedTicket, *, charged: bool) -> Question:
    try:
        return question_from_wire(ticket.body.question, CENSUS_DICTIONARY)
    except InvalidRequestError as error:
        if charged:
            # It was good when it was charged: whoever is told otherwise would log that it never was.
            raise RefusedError("DICTIONARY_CHANGED", role="census") from error
        raise


def _verify_in_force(ticket: VerifiedTicket, gate: Gate) -> None:
    # First: whatever else is wrong with the ticket, asking anew would not help.
    gate.verify_open()
    ticket.verify_fresh(gate.now_ms)
    ticket.verify_policy(gate.policy.hash)
    ticket.verify_release(gate.census_release)
    gate.verify_dictionary()
    scale = ticket.body.scale
    if scale not in gate.policy.scales:
        raise RefusedError("SCALE_REFUSED", scale=scale, scales=scales_text(gate.policy.scales))
    gate.verify_slot(ticket)


def scales_text(scales: Sequence[int]) -> str:
    """Ascending scales for a sentence: a range for each run of three or more, the others one by one."""
    runs: list[list[int]] = []
    for scale in scales:
        if runs and scale == runs[-1][-1] + 1:
            runs[-1].append(scale)
        else:
            runs.append([scale])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]  # noqa: PLR2004
    return ", ".join(parts)
