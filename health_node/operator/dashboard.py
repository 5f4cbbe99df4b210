"""The health agency's dashboard: what everybody may see of its node, and its own staff's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from markupsafe import Markup

from broker_common.dashboard.access import Rank
from broker_common.dashboard.agency import AgencyDashboard
from broker_common.dashboard.cells import LEAST_CELL
from broker_common.dashboard.charts import Bar, bars
from broker_common.dashboard.log_picture import (
    LogPicture,
    Problem,
    certificate_rows,
    certificates_of,
    process_problems,
    witnessed_by,
    witnessed_note,
)
from broker_common.dashboard.metrics import LogFigures
from broker_common.dashboard.now import Now, log_figures, log_problems, node_problems
from broker_common.dashboard.parts import LOADS, PEERS, State, counted_bars, happening_rows, process_state, use_bars
from broker_common.dashboard.site import Action, Page
from broker_common.language import Language, phrase
from broker_common.monitoring import refusals_by_code
from broker_common.storage.follower import Head
from broker_common.storage.journal import rows_of
from broker_common.tlog.health_state import HealthState
from broker_common.tlog.history import History
from broker_common.values import Clock
from health_node.assembly import HealthHome
from health_node.operator.cohort_figures import (
    LEAST_QUESTIONS,
    CohortFigures,
    compute_if_due,
    read_cohort_figures,
    read_counts,
)
from health_node.roster.book import RosterBook, SentRoster


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(LogPicture):
    """A health log at one instant, as an immutable picture. It follows from the log alone, and from nobody's records."""

    submitted: int
    open_questions: int
    forwarded: int
    charged: int
    settled: int
    # The number of refusals of each code, as the census node gave it.
    refusals: Mapping[str, int]


def picture_of(state: HealthState, history: History, head: Head) -> Picture:
    """The picture of a log that has been folded so far."""
    return Picture(
        origin=state.origin,
        release=state.release,
        load=state.load,
        submitted=len(state.tickets),
        open_questions=len(state.open_tickets),
        forwarded=history.forwarded,
        charged=history.charged,
        settled=history.settled,
        refusals=dict(history.refusals),
        log_size=state.size,
        log_ms=state.time_ms,
        due_size=state.size,
        due_ms=state.time_ms,
        checkpoint=head.checkpoint,
        witnessed=witnessed_by(state, head, state.parties.peers("census")),
        happenings=tuple(history.happenings),
        use=dict(history.use),
        certificates=certificates_of(state),
    )


_Now: TypeAlias = Now[Picture]


class HealthDashboard(AgencyDashboard[HealthState, Picture]):
    """Pages, probes and metrics of one health home."""

    templates = "health_node"

    def __init__(self, home: HealthHome, clock: Clock) -> None:
        super().__init__(home, clock, picture_of)
        self._home = home

    def work(self) -> None:
        """Periodic work, whether or not anyone looks."""
        compute_if_due(
            self.home.path,
            lambda: read_counts(self._home.journal_path),
            now_ms=self._clock(),
            period_ms=self.config.figures_every_hours * 3_600_000,
        )

    @property
    def pages(self) -> list[Page]:
        return [
            Page("/", "health_face.html", phrase("Overview"), Rank.READER, self._face),
            Page("/activity", "health_activity.html", phrase("Activity"), Rank.STAFF, self._activity),
        ]

    @property
    def actions(self) -> list[Action]:
        return []

    def _face(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture = now.picture
        if picture is None:
            return {"picture": None, "followed": now.followed}
        problems = _problems(now)
        return {
            "picture": picture,
            "followed": now.followed,
            "kind": "bad" if any(each.stops for each in problems) else "good",
            "head": t("Look at this at once") if any(each.stops for each in problems) else t("The node is at work"),
            "states": [process_state(t, is_running=now.is_running), _census_state(t, now), _load_state(t, picture)],
            "problems": [t(each.text) for each in problems],
            "witnessed_size": t("none") if picture.witnessed is None else t.number(picture.witnessed.size),
            "witnessed_note": witnessed_note(t, picture.witnessed, now.now_ms),
        }

    def _activity(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture = now.picture
        if picture is None:
            return {"picture": None, "followed": now.followed}
        cohorts = read_cohort_figures(self.home.path)
        roster, refusal = self._roster(picture.load)
        return {
            "picture": picture,
            "followed": now.followed,
            "warnings": [t(each.text) for each in _problems(now)],
            "funnel": _funnel(t, picture),
            "live_figures": [*_live_figures(t, now, picture), _roster_figure(t, roster, refusal)],
            "cohorts": cohorts,
            "bars": "" if cohorts is None else _bars(t, cohorts),
            "least_cell": LEAST_CELL,
            "no_cohorts": _no_cohorts(t, picture.forwarded),
            "refusal_bars": counted_bars(
                t, "refusal-chart", t("Accepted questions that were refused"), picture.refusals
            ),
            "call_bars": counted_bars(t, "call-chart", t("Calls that were refused"), refusals_by_code(now.node)),
            "use_bars": use_bars(t, t("Questions"), picture.use),
            "load_rows": happening_rows(t, picture.happenings, LOADS),
            "peer_rows": happening_rows(t, picture.happenings, PEERS),
            "certificate_rows": certificate_rows(t, (*picture.certificates, *now.own.listed), now.now_ms),
        }

    def _roster(self, load: str) -> tuple[SentRoster | None, str]:
        with rows_of(self._home.journal_path) as db:
            book = RosterBook(db)
            return book.get(load), book.refusal(load)

    def _problems(self) -> list[Problem]:
        return _problems(self._now())

    def _log_figures(self, now: _Now, picture: Picture) -> LogFigures:
        return log_figures(now, picture, open_questions=picture.open_questions)


def _problems(now: _Now) -> list[Problem]:
    """Everything that somebody should see to, most urgent first. Depends on nobody's records."""
    found = log_problems(now)
    if now.picture is not None and not now.picture.load:
        found.append(Problem(phrase("No health data are loaded: no question can be answered.")))
    return found + node_problems(now)


def _heard(t: Language, now: _Now) -> str:
    heard = now.node.total("tripartite_peer_last_contact_timestamp_seconds")
    has_heard = heard > now.node.total("tripartite_started_timestamp_seconds")
    return t("{age} ago", age=t.span(now.now_ms - int(1000 * heard))) if has_heard else t("not yet")


def _census_state(t: Language, now: _Now) -> State:
    is_well = not process_problems(now.node, is_running=now.is_running, now_ms=now.now_ms)
    return t("Census node heard of"), _heard(t, now), is_well


def _load_state(t: Language, picture: Picture) -> State:
    return t("Health data"), t("loaded") if picture.load else t("nothing is loaded"), bool(picture.load)


def _live_figures(t: Language, now: _Now, picture: Picture) -> list[tuple[str, str, str]]:
    state = t("running") if now.is_running else t("not running")
    return [
        (t("State"), state, ""),
        (t("Under way"), t.number(picture.open_questions), ""),
        (t("Waiting in line"), t.number(now.node.total("tripartite_questions_waiting")), t("for a place")),
        (t("Ticks missed"), t.number(now.node.total("tripartite_ticks_missed_total")), t("since the process started")),
        (t("Connections refused"), t.number(now.node.total("tripartite_connections_refused_total")), ""),
        (t("Census node heard of"), _heard(t, now), ""),
        (t("Release in force"), picture.release or t("nothing is loaded"), ""),
    ]


def _roster_figure(t: Language, roster: SentRoster | None, refusal: str) -> tuple[str, str, str]:
    """The roster of the load in force; questions wait until the census node has it."""
    if roster is None:
        return t("Roster of the load"), t("none"), ""
    if refusal:
        refused = t("refused by the census node ({code}); questions wait: see 'tripartite doctor'", code=refusal)
        return t("Roster of the load"), t.number(roster.number), refused
    if not roster.acknowledged_ms:
        return t("Roster of the load"), t.number(roster.number), t("on its way to the census node; questions wait")
    since = t("at the census node since {time}", time=t.instant(roster.acknowledged_ms))
    return t("Roster of the load"), t.number(roster.number), since


def _funnel(t: Language, picture: Picture) -> Markup:
    rows = [
        (t("Accepted"), picture.submitted),
        (t("Samples handed over"), picture.forwarded),
        (t("Charged"), picture.charged),
        (t("Answered"), picture.settled),
    ]
    return bars(
        "funnel-chart",
        t("How far they have come, since the log began"),
        (t("Stage"), t("Questions")),
        [Bar(name, float(count), t.number(count)) for name, count in rows],
    )


def _no_cohorts(t: Language, questions: int) -> str:
    if questions >= LEAST_QUESTIONS:
        return t("The figures are being computed.")
    return t(
        "Nothing is shown before {n} questions: the figures of fewer would tell the size of each.", n=LEAST_QUESTIONS
    )


def _band(t: Language, low: int, high: int) -> str:
    return t.number(low) if low == high else t("{low} to {high}", low=t.number(low), high=t.number(high))


def _bars(t: Language, cohorts: CohortFigures) -> Markup:
    return bars(
        "cohort-chart",
        t("{n} questions by size of their cohort", n=t.number(cohorts.questions)),
        (t("People in the cohort"), t("Questions")),
        [Bar(_band(t, low, high), float(count), t.number(count)) for low, high, count in cohorts.bands],
    )
