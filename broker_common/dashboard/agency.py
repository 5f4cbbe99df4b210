"""Common part of both agencies' dashboards: they follow a log, report problems and count events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic

from broker_common.agency.config import DashboardConfig
from broker_common.agency.home import AgencyHome
from broker_common.dashboard.log_picture import Problem
from broker_common.dashboard.metrics import LogFigures, NodeFacts, metrics_text
from broker_common.dashboard.now import Now, PictureT, now_of
from broker_common.dashboard.site import Health
from broker_common.storage.follower import Follower, Head
from broker_common.storage.loads import StoreStateT
from broker_common.tlog.history import History
from broker_common.values import Clock


class AgencyDashboard(ABC, Generic[StoreStateT, PictureT]):
    """Probes and metrics of one agency's home."""

    def __init__(
        self, home: AgencyHome[StoreStateT], clock: Clock, view: Callable[[StoreStateT, History, Head], PictureT]
    ) -> None:
        self.home = home.home
        self.organisation, self.log_format = home.config.organisation, home.config.log_format
        self._config_type = type(home.config)
        self._clock = clock
        self.follower: Follower[StoreStateT, History, PictureT] = Follower(
            home.journal_path, fresh_state=home.beginning(), fresh_notes=History, view=view
        )
        self.news = self.follower

    @property
    def config(self) -> DashboardConfig:
        """As it stands in config.toml now."""
        return self.home.load_config(self._config_type).dashboard

    def start(self) -> None:
        self.follower.start()

    def stop(self) -> None:
        self.follower.stop()

    def _now(self) -> Now[PictureT]:
        return now_of(self.home, self.follower.followed, lambda: self.config, self._clock())

    @abstractmethod
    def _problems(self) -> list[Problem]:
        """Everything that somebody should see to, most urgent first. Depends on nobody's records."""

    @abstractmethod
    def _log_figures(self, now: Now[PictureT], picture: PictureT) -> LogFigures:
        """Figures of the log."""

    def problems(self) -> list[str]:
        """Everything that somebody should see to, in English; depends on nobody's records."""
        return [each.text for each in self._problems()]

    def health(self) -> Health:
        """Whether the node can be asked."""
        problems = self._problems()
        return Health(not any(each.stops for each in problems), tuple(each.text for each in problems))

    def metrics(self) -> bytes:
        """The node's counters of itself, and figures of the log."""
        now = self._now()
        facts = NodeFacts(
            role=self.home.role,
            is_running=now.is_running,
            free_share=now.free_share,
            is_load_refused=now.is_load_refused,
            folded=now.followed.done,
            has_log_problem=bool(now.followed.problem),
        )
        return metrics_text(facts, now.node, None if now.picture is None else self._log_figures(now, now.picture))
