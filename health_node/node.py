"""One running health node: its parts put together, and what becomes of one question, without gRPC.

    accepted (durable) -> drawn -> forwarded (durable) -> charged (proved by the census node) -> settled

A question stands for the load that it was accepted on, and its sample is places of that load's roster: it waits until the census
node has that.

SECURITY: nothing of a ticket leaves before `forwarded` is durable, with the manifest that commits to its sample. Whatever a
census node does with a sample, the health agency's log shows that it was handed over.

An accepted ticket is forwarded again, with the same sample, until the census node has charged or refused it: for
`forward_deadline_ms`, then whenever it is submitted again, and after a restart. The census node sees to it that one ticket
is charged once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tripartite.v1 import condition_pb2, health_service_pb2, sample_pb2, ticket_pb2

from broker_common.crypto.commitments import SALT_BYTES, commit_criteria, hash_bytes, verify_commitment
from broker_common.crypto.sample_bits import Bound, SampleBits
from broker_common.crypto.sampling import SamplingKey
from broker_common.crypto.signing import SigningKey
from broker_common.errors import (
    BrokerError,
    InternalError,
    InvalidRequestError,
    PeerUnavailableError,
    RefusedError,
    error_for,
)
from broker_common.language import phrase
from broker_common.parties.registration import own_card
from broker_common.privacy.delays import too_short
from broker_common.privacy.policy import Policy
from broker_common.query.canonical import canonical_bytes
from broker_common.query.condition import Condition
from broker_common.query.condition_wire import condition_from_wire
from broker_common.query.dictionary import Dictionary
from broker_common.query.messages import parse_message
from broker_common.query.ticket import Researcher, VerifiedTicket, verify_ticket
from broker_common.storage.dictionary.adopted import Dictionaries
from broker_common.storage.journal import Journal
from broker_common.storage.loads import LoadFolder
from broker_common.storage.open_loads import OpenLoads
from broker_common.tlog.entries import DictionaryAdopted, Forwarded, Refused, ReportedCharge, Settled, Submitted
from broker_common.tlog.health_state import AcceptedTicket, HealthState
from broker_common.values import Clock, Randomness, base64_text
from health_node.operator.cohort_figures import CohortBands
from health_node.people.cohort import lay_out
from health_node.people.loading import loads_needed
from health_node.people.store import PeopleStore, stored_dictionary
from health_node.people.tables import Declared
from health_node.query.forwarding import HandedOver, Sample, VerifiedCharge, sign_manifest
from health_node.query.marks import mark_sample, verify_affordable
from health_node.query.questions import KeptQuestion, Questions
from health_node.roster.book import RosterBook


@dataclass(frozen=True, slots=True)
class SamplingKeys:
    """The keys that samples are drawn with: the name of the one in use, and the key of a name."""

    in_use: Callable[[], str]
    named: Callable[[str], SamplingKey]


@dataclass(frozen=True, slots=True)
class Verified:
    """A ticket that was checked against one load."""

    ticket: VerifiedTicket
    load: str


class LoadReplacedError(Exception):
    """Another load has been put in force since a ticket was checked."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A ticket that is on its way."""

    ticket: VerifiedTicket
    signed_ticket: ticket_pb2.SignedTicket
    # That it was accepted on: its sample is places of this load's roster.
    load: str
    # True when the answer is already out: there is nothing left to do.
    settled: bool


class HealthNode:
    """Everything the RPCs do. Blocking methods; the service calls them in threads."""

    def __init__(
        self,
        journal: Journal[HealthState],
        *,
        researchers: Callable[[], Mapping[str, Researcher]],
        sampling: SamplingKeys,
        loads: LoadFolder,
        dictionaries: Dictionaries,
        engine_threads: int,
        work_per_second: int,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.journal = journal
        self.clock = clock
        self._researchers = researchers
        self._sampling = sampling
        self._dictionaries = dictionaries
        self._engine_threads = engine_threads
        self._randomness = randomness
        self._work_per_second = work_per_second
        # Hashes of the tickets whose questions are on their way in this process. Changed in its event loop only.
        self.under_way: set[str] = set()
        self.stores: OpenLoads[HealthState, PeopleStore] = OpenLoads(
            journal,
            loads,
            read=self._read,
            needed=lambda: loads_needed(journal),
        )

    # --- taking a question -----------------------------------------------------------------------------------------

    def verify(self, request: health_service_pb2.SubmitRequest, caller: str, policy: Policy) -> Verified:
        """Every check of a question that needs no record: ticket, its end, dictionary, policy, criteria, commitment, price, in this order.

        SECURITY: of the load only what was declared for it is looked at, never how many people or events it holds.

        Raises:
            InvalidRequestError, RefusedError: the first check that fails.
        """
        ticket = verify_ticket(request.ticket, researchers=self._researchers(), caller=caller)
        while True:
            with self.journal.reading() as state:
                known = state.tickets.get(ticket.hash.hex())
                load = state.load if known is None else known.submission.load
            try:
                if known is None:
                    self._verify_new(request, ticket, policy, load)
                else:
                    # It goes on to its end, whatever has expired or changed meanwhile.
                    _condition_of(request, ticket, self._dictionaries.named(self._adoption_of(load).document))
            except (InternalError, RefusedError):
                # Another load took its place meanwhile: nobody may need its file any more.
                if known is not None or load == self.load_in_force():
                    raise
            else:
                return Verified(ticket, load)

    def _verify_new(
        self, request: health_service_pb2.SubmitRequest, ticket: VerifiedTicket, policy: Policy, load: str
    ) -> None:
        """Checks of a ticket that was not accepted yet, all against one load."""
        if not load:
            raise RefusedError("NOTHING_LOADED", what="health data", role="health")
        # Early, and by this clock: whether a ticket has expired is decided by the census node, whose quote it is, and
        # whose log may be ahead. Only here a clock that was wrong once must not refuse everything for as long.
        ticket.verify_unexpired(self.clock())
        now = self._adoption_of(load)
        with self.journal.reading() as state:
            named = state.adopted_dictionaries.get(ticket.body.health_dictionary.hex())
        ticket.verify_dictionary("health", now.dictionary, lambda: self._dictionaries.changes(named, now))
        ticket.verify_policy(policy.hash)
        dictionary, declared = self._dictionaries.named(now.document), self._store(load).declared
        verify_fits(policy, declared)
        if policy.linkage != dictionary.linkage:
            # SECURITY: the census agency would charge others than those of whom a record decides.
            raise RefusedError("LINKAGE_MISMATCH")
        verify_affordable(
            _condition_of(request, ticket, dictionary),
            ticket.body.fraction_millionths,
            dictionary,
            declared=declared,
            policy=policy,
            work_per_second=self._work_per_second,
        )

    def accept(self, request: health_service_pb2.SubmitRequest, verified: Verified) -> Accepted:
        """Durably take a verified question, or find that it was taken already.

        Raises:
            InvalidRequestError: TICKET_REUSED.
            LoadReplacedError: it is to be verified again.
            BrokerError: as the census node refused it, for a ticket that it has refused.
        """
        ticket, ticket_hash = verified.ticket, verified.ticket.hash.hex()
        with self.journal.transaction() as transaction:
            state = transaction.state
            known = state.tickets.get(ticket_hash)
            if known is not None:
                _verify_not_refused(known, ticket)
                return Accepted(ticket, request.ticket, known.submission.load, settled=known.settled)
            if state.ticket_of_query(ticket.query_id.hex()) is not None:
                raise InvalidRequestError("TICKET_REUSED")
            if state.parties.peer("researcher", ticket.body.researcher_id) is None:
                # Revoked since the ticket was checked.
                raise InvalidRequestError("UNKNOWN_RESEARCHER", researcher=ticket.body.researcher_id)
            if state.load != verified.load:
                # SECURITY: under another dictionary its criteria mean something else, or nothing.
                raise LoadReplacedError
            transaction.append(
                Submitted(
                    query=ticket.query_id.hex(),
                    ticket=ticket_hash,
                    criteria=ticket.body.criteria_commitment.hex(),
                    researcher=ticket.body.researcher_id,
                    project=ticket.body.project_id,
                    load=state.load,
                )
            )
            Questions(transaction.db).put(
                KeptQuestion(
                    ticket_hash=ticket_hash,
                    signed_ticket=request.ticket.SerializeToString(deterministic=True),
                    criteria=request.criteria.SerializeToString(deterministic=True),
                    criteria_nonce=request.criteria_nonce,
                    set_salt=self._randomness(SALT_BYTES),
                    load=state.load,
                    sampling_key=self._sampling.in_use(),
                )
            )
        return Accepted(ticket, request.ticket, verified.load, settled=False)

    def unfinished(self) -> list[str]:
        """After a start: hashes of accepted tickets whose end is not known, oldest first; each is to be resumed."""
        with self.journal.reading() as state:
            return list(state.open_tickets)

    def researcher_of(self, ticket_hash: str) -> str:
        with self.journal.reading() as state:
            return state.tickets[ticket_hash].submission.researcher

    def resume(self, ticket_hash: str) -> Accepted:
        """A ticket that was accepted before, as it stands now."""
        with self.journal.reading() as state:
            known, question = state.tickets[ticket_hash], Questions(self.journal.db).get(ticket_hash)
        assert question is not None  # noqa: S101 - written in the transaction that opened the ticket
        try:
            signed = parse_message(ticket_pb2.SignedTicket, question.signed_ticket)
            ticket = VerifiedTicket(parse_message(ticket_pb2.Ticket, signed.ticket), signed.ticket)
        except InvalidRequestError as error:
            raise InternalError("INTEGRITY", problem="the ticket of an open question is damaged") from error
        _verify_not_refused(known, ticket)
        return Accepted(ticket, signed, known.submission.load, settled=known.settled)

    # --- its sample ------------------------------------------------------------------------------------------------

    def may_be_sampled(self, accepted: Accepted) -> bool:
        """Whether the census node has the roster that the ticket's sample is places of, or was handed that sample before.

        Raises:
            InvalidRequestError: ROSTER_NOT_IN_FORCE, another load took its place before: this one's roster will not be sent.
        """
        with self.journal.reading() as state:
            roster = RosterBook(self.journal.db).get(accepted.load)
            # A sample that was handed over once goes again, even if its load was replaced: it may be charged.
            was_handed_over = bool(state.tickets[accepted.ticket.hash.hex()].manifest)
            is_in_force = state.load == accepted.load
        if was_handed_over or (roster is not None and roster.acknowledged_ms):
            return True
        if not is_in_force:
            raise InvalidRequestError("ROSTER_NOT_IN_FORCE")
        return False

    def sample(self, accepted: Accepted) -> Sample:
        """The ticket's sample, drawn from the load it was accepted on, which has a roster."""
        with self.journal.reading():
            kept = Questions(self.journal.db).get(accepted.ticket.hash.hex())
            roster = RosterBook(self.journal.db).get(accepted.load)
            assert kept is not None  # noqa: S101 - written when the ticket was accepted
            assert roster is not None  # noqa: S101 - nothing is drawn before it is there
        people = self._store(kept.load)
        # SECURITY: by what the load's own numbers mean; under another dictionary other people would be selected.
        condition = condition_from_wire(parse_message(condition_pb2.Condition, kept.criteria), people.dictionary)
        ticket = accepted.ticket
        key = self._sampling.named(kept.sampling_key)
        bits = mark_sample(people, condition, ticket.body.fraction_millionths, key)
        return Sample(SampleBits(bits, kept.set_salt), Bound(ticket.hash, hash_bytes(roster.manifest)), roster.number)

    def loads_of(self, tickets: Collection[str]) -> set[str]:
        """The loads that those of these tickets were accepted on that were accepted."""
        with self.journal.reading() as state:
            return {state.tickets[ticket].submission.load for ticket in tickets if ticket in state.tickets}

    def people(self, load: str) -> PeopleStore:
        """The people of a load.

        Raises:
            RefusedError: NOTHING_LOADED.
            InternalError: INTEGRITY.
        """
        return self._store(load)

    def load_in_force(self) -> str:
        """Its id; empty where nothing is loaded."""
        with self.journal.reading() as state:
            return state.load

    def dictionary_to_publish(self, known: bytes) -> tuple[DictionaryAdopted, bytes]:
        """The dictionary for criteria; see `Dictionaries.unless_known`.

        Raises:
            RefusedError: NOTHING_ADOPTED.
        """
        with self.journal.reading() as state:
            adoption = self._dictionaries.published(state)
        return adoption, self._dictionaries.unless_known(adoption, known)

    def _adoption_of(self, load: str) -> DictionaryAdopted:
        """That of the dictionary of a load."""
        with self.journal.reading() as state:
            return state.adopted_dictionaries[state.dictionaries[load]]

    def _read(self, path: Path, load: str) -> PeopleStore:
        del load
        # A load that is about to be put in force stands in no log.
        stored = stored_dictionary(path)
        with self.journal.reading() as state:
            adoption = state.adopted_dictionaries.get(stored)
        if adoption is None:
            raise InternalError("INTEGRITY", problem=f"the dictionary {stored} was never adopted")
        dictionary = self._dictionaries.named(adoption.document)
        # Now, or the first question of a branch would wait for it.
        lay_out(dictionary)
        return PeopleStore(path, dictionary, threads=self._engine_threads)

    def _store(self, load: str) -> PeopleStore:
        with self.journal.reading() as state:
            commitments = state.commitments
        return self.stores.store(load, commitments)

    # --- what becomes of it ----------------------------------------------------------------------------------------

    def log_forwarded(
        self, manifest: sample_pb2.Manifest, key: SigningKey, *, people: int
    ) -> sample_pb2.SignedManifest:
        """Durably log that the sample is about to be handed over, once for each ticket; gives the signed manifest.

        Only the number of digits of `people` is noted, for this agency's own staff.

        Later attempts get the manifest that was signed first; a key that has replaced the first one signs it anew.

        Raises:
            InternalError: INTEGRITY, the sample is not the one that was committed to; nothing may be sent.
        """
        ticket_hash, document = manifest.ticket_hash.hex(), manifest.SerializeToString(deterministic=True)
        with self.journal.transaction() as transaction:
            questions = Questions(transaction.db)
            if not transaction.state.tickets[ticket_hash].manifest:
                signed = sign_manifest(document, key)
                transaction.append(
                    Forwarded(ticket=ticket_hash, roster=manifest.roster, manifest=hash_bytes(document).hex())
                )
                questions.put_manifest(ticket_hash, signed.SerializeToString(deterministic=True))
                CohortBands(transaction.db).put(ticket_hash, people)
                return signed
            kept = questions.get(ticket_hash)
        assert kept is not None  # noqa: S101 - written when the ticket was accepted
        try:
            first = parse_message(sample_pb2.SignedManifest, kept.signed_manifest)
        except InvalidRequestError as error:
            raise InternalError("INTEGRITY", problem="the manifest of an open question is damaged") from error
        if first.manifest != document:
            raise InternalError("INTEGRITY", problem="a sample is not the one that its manifest commits to")
        return first if first.key_id == key.key_id else sign_manifest(document, key)

    def handed_over(self, ticket_hash: str) -> HandedOver:
        """The log's record of an accepted ticket's sample."""
        with self.journal.reading() as state:
            return HandedOver(own_card(state.parties).card.organisation, state.tickets[ticket_hash].manifest)

    def log_charge(self, ticket_hash: str, charge: VerifiedCharge) -> None:
        with self.journal.transaction() as transaction:
            if not transaction.state.tickets[ticket_hash].charged:
                transaction.append(
                    ReportedCharge(ticket=ticket_hash, log_index=charge.log_index, checkpoint=charge.checkpoint)
                )

    def log_settled(self, ticket_hash: str) -> None:
        with self.journal.transaction() as transaction:
            transaction.append(Settled(ticket=ticket_hash))

    def log_refused(self, ticket_hash: str, error: BrokerError) -> None:
        """Log that the ticket is refused, by the census node or for its roster; one that is charged cannot be any more.

        Raises:
            PeerUnavailableError: PEER_MISBEHAVED, the sample was handed over and nobody signed that it is refused.
        """
        code = error.code
        signed = sample_pb2.SignedRefusal.FromString(error.signed_refusal)
        with self.journal.transaction() as transaction:
            ticket = transaction.state.tickets[ticket_hash]
            if code == "ROSTER_NOT_IN_FORCE":
                # Or every question after this one would be refused as well, instead of waiting until the roster is there.
                RosterBook(transaction.db).forget_acknowledgement(ticket.submission.load)
            if ticket.is_open and not ticket.charged:
                if ticket.manifest and not error.signed_refusal:
                    raise PeerUnavailableError(
                        "PEER_MISBEHAVED", peer="census", problem="a refusal that it did not sign"
                    )
                transaction.append(
                    _refused(ticket_hash, code, signed) if ticket.manifest else Refused(ticket=ticket_hash, code=code)
                )


def _refused(ticket_hash: str, code: str, signed: sample_pb2.SignedRefusal) -> Refused:
    return Refused(
        ticket=ticket_hash,
        code=code,
        refusal=signed.document.decode(),
        signature=base64_text(signed.signature),
        key_id=signed.key_id,
    )


def _condition_of(
    request: health_service_pb2.SubmitRequest, ticket: VerifiedTicket, dictionary: Dictionary
) -> Condition:
    """The criteria, which are those that the ticket commits to."""
    condition = condition_from_wire(request.criteria, dictionary)
    if len(request.criteria_nonce) != SALT_BYTES:
        raise InvalidRequestError("MALFORMED_MESSAGE", problem="the criteria nonce is not 32 bytes")
    verify_commitment(
        ticket.body.criteria_commitment,
        commit_criteria(request.criteria_nonce, canonical_bytes(condition)),
        subject="criteria",
    )
    return condition


def _verify_not_refused(known: AcceptedTicket, ticket: VerifiedTicket) -> None:
    """A ticket that the census node refused is refused again, with the same code; of the details only the scale is known."""
    if known.refused:
        details = {"scale": str(ticket.body.scale)}
        if known.refused == "DICTIONARY_CHANGED":
            details |= {"role": "census", "changes": phrase("Columns or codes have changed.")}
        raise error_for(known.refused, details)


def verify_fits(policy: Policy, declared: Declared) -> None:
    """Return only if the policy's delays cover a sample of so many places, people and events.

    Raises:
        RefusedError: POLICY_TOO_NARROW.
    """
    least = too_short(policy, max(declared.places, declared.people), events=declared.events)
    if least:
        raise RefusedError(
            "POLICY_TOO_NARROW",
            problem=", ".join(f"{name} is {getattr(policy, name)}" for name in least),
            remedy=" ".join(f"--{name.replace('_', '-')} {value}" for name, value in least.items()),
        )
