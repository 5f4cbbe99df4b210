"""The census agency's dashboard: the public face, its staff's pages, and the operator's orders.

A process of its own, beside the node or without it. Its content has three sources: pictures of the log (`picture`), figures
of people that are computed at fixed times (`staff_figures`), and the node's figures about itself (`monitor.prom`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from broker_common.crypto.signing import SigningKey
from broker_common.dashboard.access import Rank
from broker_common.dashboard.agency import AgencyDashboard
from broker_common.dashboard.log_picture import Problem
from broker_common.dashboard.metrics import LogFigures
from broker_common.dashboard.now import log_figures
from broker_common.dashboard.parts import ORDERS, happening_rows
from broker_common.dashboard.site import Action, Page
from broker_common.errors import InvalidRequestError
from broker_common.language import Language, phrase
from broker_common.storage.journal import Journal, rows_of
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.orders import verify_reason
from broker_common.values import Clock
from census_node.assembly import CensusHome
from census_node.operator.belief_report import facts_of
from census_node.operator.operating import reopen, shut_down
from census_node.operator.picture import Picture, picture_of
from census_node.operator.public_face import CensusNow, face_values, problems_of
from census_node.operator.staff_figures import Figures, FiguresFile, figures_of
from census_node.operator.staff_pages import activity_values, morning_rows, people_values
from census_node.registry.rosters import KeptRoster, RosterBook

_log = structlog.get_logger()


class CensusDashboard(AgencyDashboard[CensusState, Picture]):
    """Pages, actions, probes and metrics of one census home."""

    templates = "census_node"

    def __init__(self, home: CensusHome, clock: Clock) -> None:
        super().__init__(home, clock, picture_of)
        self._home = home
        self._figures = FiguresFile(home.home.path, self.config.figures_every_hours * 3_600_000)

    @property
    def pages(self) -> list[Page]:
        return [
            Page("/", "census_face.html", phrase("Public face"), Rank.READER, self._face, self._morning),
            Page("/people", "census_staff.html", phrase("Budgets of people"), Rank.STAFF, self._staff),
            Page("/activity", "census_activity.html", phrase("Activity"), Rank.STAFF, self._activity),
            Page("/orders", "census_orders.html", phrase("Orders"), Rank.OPERATOR, self._orders),
        ]

    @property
    def actions(self) -> list[Action]:
        return [Action("/shutdown", "/orders", self._shut_down), Action("/reopen", "/orders", self._reopen)]

    # --- figures of people -----------------------------------------------------------------------------------------

    def work(self) -> None:
        """Periodic work, whether or not anyone looks: compute the staff's figures if their time has come."""
        picture = self.follower.followed.view
        if picture is None or picture.policy is None:
            return
        now_ms = self._clock()
        if self._figures.compute_if_due(now_ms, picture.answers, picture.sampled, lambda at: self._compute(now_ms, at)):
            _log.info("the staff's figures were computed")

    def _compute(self, now_ms: int, next_ms: int) -> Figures:
        # In this order: the log then knows every answer that the ledger holds.
        charges = self._home.charges()
        return figures_of(
            self._home.read(facts_of),
            charges,
            as_of_ms=now_ms,
            next_ms=next_ms,
            alert_share=self._home.config.alert_exhausted_share,
        )

    # --- what pages show -------------------------------------------------------------------------------------------

    def _face(self, t: Language) -> Mapping[str, Any]:
        return self._shown(lambda now, picture: face_values(t, now, picture))

    def _morning(self, t: Language) -> Mapping[str, Any]:
        return self._shown(lambda now, picture: {"morning": morning_rows(t, now, picture, self._figures.read())})

    def _staff(self, t: Language) -> Mapping[str, Any]:
        return self._shown(lambda now, picture: people_values(t, now, picture, self._figures.read()))

    def _activity(self, t: Language) -> Mapping[str, Any]:
        return self._shown(lambda now, picture: activity_values(t, now, picture, self._rosters()))

    def _rosters(self) -> list[KeptRoster]:
        with rows_of(self._home.journal_path) as db:
            return RosterBook(db).all()

    def _shown(self, values: Callable[[CensusNow, Picture], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The newest picture on a page; before the first one, how far the log has been read."""
        now = self._now()
        shown = {"picture": now.picture, "followed": now.followed}
        return shown if now.picture is None else shown | dict(values(now, now.picture))

    def _orders(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture = now.picture
        verb = "reopen" if picture is not None and picture.is_shut_down else "shutdown"
        return {
            "picture": picture,
            "followed": now.followed,
            "has_key": picture is not None and self._has_operator_key(picture),
            "command": f"tripartite census {verb} --home {shlex.quote(str(self._home.home.path))} --reason '...'",
            "order_rows": [] if picture is None else happening_rows(t, picture.happenings, ORDERS),
        }

    # --- what the operator does ------------------------------------------------------------------------------------

    def _has_operator_key(self, picture: Picture) -> bool:
        if picture.own_card is None:
            return False
        try:
            # From the picture: `private_operator_key` reads the whole log.
            self._home.operator_key_of(picture.own_card, picture.log_ms)
        except InvalidRequestError:
            return False
        return True

    def _shut_down(self, form: Mapping[str, str]) -> str:
        reason = _reason(form)
        with self._home.journal() as journal:
            done = shut_down(journal, reason, self._operator_key(journal))
        if not done.changed:
            return phrase("The service was shut down already; nothing has changed.")
        return phrase("The service is shut down.")

    def _reopen(self, form: Mapping[str, str]) -> str:
        reason = _reason(form)
        with self._home.journal() as journal:
            reopen(journal, reason, self._operator_key(journal))
        return phrase("The service is open again.")

    def _operator_key(self, journal: Journal[CensusState]) -> SigningKey:
        with journal.reading() as state:
            return self._home.operator_key_as_of(state)

    # --- probes and metrics ----------------------------------------------------------------------------------------

    def _problems(self) -> list[Problem]:
        return problems_of(self._now())

    def _log_figures(self, now: CensusNow, picture: Picture) -> LogFigures:
        return log_figures(
            now,
            picture,
            open_questions=picture.unreleased,
            is_shut_down=picture.is_shut_down,
            answers=picture.answers,
            worst_belief=float(picture.worst_belief),
            max_belief=None if picture.policy is None else float(picture.policy.max_belief),
        )


def _reason(form: Mapping[str, str]) -> str:
    reason = form.get("reason", "").strip()
    verify_reason(reason)
    if form.get("sure") != "yes":
        raise InvalidRequestError(
            "INVALID_VALUE",
            name="the order",
            problem="was not confirmed",
            remedy="Tick the box that says that you mean it.",
        )
    return reason
