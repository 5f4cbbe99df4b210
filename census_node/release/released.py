"""Answers that are out: who may fetch them, who has them, and until when they are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker_common.errors import InvalidRequestError
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.entries import Delivered, Expired
from census_node.release.outbox import Outbox, WaitingAnswer


class ReleasedAnswers:
    """The outbox as researchers may see it. Blocking methods."""

    def __init__(self, journal: Journal[CensusState], held_back: Callable[[], Collection[str]]) -> None:
        """`held_back` gives the tickets whose release stands in the log before the instant at which it is told."""
        self._journal = journal
        self._held_back = held_back

    def released_answer(self, query: str, researcher: str) -> WaitingAnswer | None:
        """The researcher's own released answer; None for a query that is not out, nobody's, or somebody else's.

        SECURITY: one result for all of them. Whether a query has been charged shows when its answer is out, not before.

        Raises:
            InvalidRequestError: ANSWER_EXPIRED, the researcher's own answer was out and has been removed.
        """
        with self._journal.reading() as state:
            ticket_hash = state.ticket_of_query(query)
            ticket = state.tickets[ticket_hash] if ticket_hash is not None else None
            if ticket is None or ticket.charge.researcher != researcher or not ticket.answer:
                return None
            if ticket_hash in self._held_back():
                return None
            answer = Outbox(self._journal.db).answer(query)
        if answer is None:
            raise InvalidRequestError("ANSWER_EXPIRED", query=query)
        return answer

    def undelivered(self, researchers: Collection[str]) -> dict[str, list[str]]:
        """For these researchers, the queries whose answers are out and that they do not have, oldest first."""
        waiting: dict[str, list[str]] = {}
        held_back = self._held_back()
        with self._journal.reading() as state:
            for ticket_hash in state.undelivered:
                if ticket_hash in held_back:
                    continue
                charge = state.tickets[ticket_hash].charge
                if charge.researcher in researchers:
                    waiting.setdefault(charge.researcher, []).append(charge.query)
        return waiting

    def waiting_answer(self, query: str) -> WaitingAnswer | None:
        """The sealed answer to a query, unless it has expired."""
        with self._journal.reading():
            return Outbox(self._journal.db).answer(query)

    def delivered(self, ticket_hash: str, by: str) -> None:
        """Log, once, that the researcher has the answer.

        Raises:
            InvalidRequestError: ANSWER_EXPIRED, it was removed meanwhile, and the log says so.
        """
        with self._journal.transaction() as transaction:
            ticket = transaction.state.tickets[ticket_hash]
            if ticket.expired:
                raise InvalidRequestError("ANSWER_EXPIRED", query=ticket.charge.query)
            if not ticket.delivered:
                transaction.append(Delivered(ticket=ticket_hash, by=by))

    def forget_expired(self, now_ms: int) -> None:
        """Remove answers that were kept long enough; the log says which of them nobody fetched."""
        with self._journal.reading():
            if not Outbox(self._journal.db).expired(now_ms):
                return
        with self._journal.transaction() as transaction:
            outbox, undelivered = Outbox(transaction.db), transaction.state.undelivered
            for ticket_hash in [ticket_hash for ticket_hash in outbox.expired(now_ms) if ticket_hash in undelivered]:
                # Not before the instant they were found at: a clock that is set back meanwhile must not make it early.
                transaction.append(Expired(ticket=ticket_hash), at_ms=now_ms)
            outbox.forget_expired(now_ms)
            # CRASH: entries and removals stand together or not at all.
