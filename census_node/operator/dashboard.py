"""The census agency's dashboard: the public face, its staff's pages, and the operator's orders.

A process of its own, beside the node or without it. What it shows comes from three places: pictures of the log (`picture`),
figures of people that are computed at fixed times (`staff_figures`), and what the node writes of itself (`monitor.prom`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from markupsafe import Markup

from broker_common.crypto.signing import SigningKey
from broker_common.dashboard.access import Rank
from broker_common.dashboard.cells import LEAST_CELL
from broker_common.dashboard.charts import Bar, Mark, Range, Series, bars, gauge, ranges, steps
from broker_common.dashboard.config import DashboardConfig
from broker_common.dashboard.drawings import State, belief_scale, counted_bars, process_state, use_bars
from broker_common.dashboard.log_picture import (
    Problem,
    certificate_rows,
    disk_problems,
    key_problems,
    keys_changed_ms,
    process_problems,
    time_problems,
    witnessed_note,
)
from broker_common.dashboard.metrics import LogFigures, NodeFacts, metrics_text
from broker_common.dashboard.sentences import LOADS, ORDERS, PEERS, POLICIES, happening_rows
from broker_common.dashboard.site import Action, Health, Page
from broker_common.errors import InvalidRequestError
from broker_common.language import Language, phrase
from broker_common.monitoring import Figures as NodeFigures
from broker_common.monitoring import read_figures, refusals_by_code
from broker_common.privacy.policy import scales_text
from broker_common.storage.follower import Followed, Follower
from broker_common.storage.journal import Journal
from broker_common.tlog.census_state import CensusState
from broker_common.tlog.history import History
from broker_common.tlog.orders import verify_reason
from broker_common.values import Clock
from census_node.config import CensusConfig
from census_node.opening import CensusHome
from census_node.operator.belief_report import facts_of
from census_node.operator.operating import reopen, shut_down
from census_node.operator.picture import DAY_MS, Picture, answers_per_day, picture_of
from census_node.operator.staff_figures import LEAST_ANSWERS, Figures, FiguresFile, figures_of

_log = structlog.get_logger()
# Dates further off are not told.
_MOST_DAYS = 3650
# An end at more than so many times the answers so far is not drawn beside them.
_NEAR = 4


@dataclass(frozen=True, slots=True)
class _Now:
    followed: Followed[Picture]
    node: NodeFigures
    is_running: bool
    # Of the disk that the home is on.
    free_share: float
    is_load_refused: bool
    now_ms: int

    @property
    def picture(self) -> Picture | None:
        return self.followed.view


class CensusDashboard:
    """Pages, actions, probes and metrics of one census home."""

    templates = "census_node"

    def __init__(self, home: CensusHome, clock: Clock) -> None:
        self._home = home
        self.home, self.organisation = home.home, home.config.organisation
        self.log_format = home.config.log_format
        self._clock = clock
        self.follower: Follower[CensusState, History, Picture] = Follower(
            home.journal_path, fresh_state=home.beginning(), fresh_notes=History, view=picture_of
        )
        self.news = self.follower
        self._figures = FiguresFile(home.home.path, self.config.figures_every_hours * 3_600_000)

    @property
    def config(self) -> DashboardConfig:
        """As it stands in config.toml now."""
        return self.home.load_config(CensusConfig).dashboard

    def start(self) -> None:
        self.follower.start()

    def stop(self) -> None:
        self.follower.stop()

    @property
    def pages(self) -> list[Page]:
        return [
            Page("/", "census_face.html", phrase("Public face"), Rank.READER, self._face),
            Page("/people", "census_staff.html", phrase("Budgets of people"), Rank.STAFF, self._staff),
            Page("/activity", "census_activity.html", phrase("Activity"), Rank.STAFF, self._activity),
            Page("/orders", "census_orders.html", phrase("Orders"), Rank.OPERATOR, self._orders),
        ]

    @property
    def actions(self) -> list[Action]:
        return [Action("/shutdown", "/orders", self._shut_down), Action("/reopen", "/orders", self._reopen)]

    # --- figures of people -----------------------------------------------------------------------------------------

    def work(self) -> None:
        """What is done now and then, whether or not somebody looks: compute the staff's figures if their time has come."""
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

    def _now(self) -> _Now:
        home = self.home
        return _Now(
            self.follower.followed,
            read_figures(home.path),
            home.is_served,
            home.free_share,
            home.is_load_refused,
            self._clock(),
        )

    def _face(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture = now.picture
        if picture is None:
            return {"picture": None, "followed": now.followed}
        problems = _problems(now)
        kind, head = _verdict(t, picture, holds=not _promise_problems(now))
        return {
            "picture": picture,
            "followed": now.followed,
            "kind": kind,
            "head": head,
            "state_sentence": _state_sentence(t, picture),
            "states": _states(t, now, picture),
            "problems": [t(each.text) for each in problems],
            "worst": t.at_most(picture.worst_belief),
            "hero_sentence": _hero_sentence(t, picture),
            "limit_sentence": _limit_sentence(t, picture),
            "pace_sentence": _pace_sentence(t, picture, now.now_ms),
            "gauge": _gauge(t, picture),
            "belief_rows": _belief_rows(t, picture),
            "per_person": picture.policy is not None and picture.policy.accounting == "per_person",
            "answers_left": t("not published") if picture.answers_left is None else t.number(picture.answers_left),
            "answers_left_note": _left_note(t, picture),
            "witnessed_size": t("none") if picture.witnessed is None else t.number(picture.witnessed.size),
            "witnessed_note": witnessed_note(t, picture.witnessed, now.now_ms),
            "covered_sentence": t(
                "Every answer so far is covered. What came after it is cosigned with the next question."
            )
            if picture.answers and _is_covered(picture)
            else t("An answer leaves once the entry of its charge is cosigned."),
            "policy_rows": _policy_rows(t, picture),
            "policy_history": happening_rows(t, picture.happenings, POLICIES),
            "order_rows": happening_rows(t, picture.happenings, ORDERS),
        }

    def _staff(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture, figures = now.picture, self._figures.read()
        if picture is None:
            return {"picture": None, "followed": now.followed}
        line, sentence = _spent(t, picture, figures, now.now_ms)
        values: dict[str, Any] = {
            "picture": picture,
            "followed": now.followed,
            "figures": figures,
            "least_cell": LEAST_CELL,
            "line": line,
            "line_sentence": sentence,
            "no_figures": _no_figures(t, picture),
            "no_forecast": _no_forecast(t, picture),
            "bars": "",
            "alert": "",
            "drops_sentence": "",
            "typical_rows": [],
            "forecast": "",
        }
        if figures is None:
            return values
        return values | _figure_values(t, figures, picture, now.now_ms)

    def _activity(self, t: Language) -> Mapping[str, Any]:
        now = self._now()
        picture = now.picture
        if picture is None:
            return {"picture": None, "followed": now.followed}
        return {
            "picture": picture,
            "followed": now.followed,
            "warnings": [t(each.text) for each in _problems(now)],
            "live_figures": _live_figures(t, now),
            "refusal_bars": counted_bars(
                t, "refusal-chart", t("Calls since the process started"), refusals_by_code(now.node)
            ),
            "use_bars": use_bars(t, t("Answers"), picture.use),
            "load_rows": happening_rows(t, picture.happenings, LOADS),
            "peer_rows": happening_rows(t, picture.happenings, PEERS),
            "certificate_rows": certificate_rows(t, picture.certificates, now.now_ms),
        }

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

    def problems(self) -> list[str]:
        """Everything that somebody should see to, in English; depends on nobody's records."""
        return [each.text for each in _problems(self._now())]

    def health(self) -> Health:
        """Whether the node can be asked."""
        problems = _problems(self._now())
        return Health(not any(each.stops for each in problems), tuple(each.text for each in problems))

    def metrics(self) -> bytes:
        """What the node counts of itself, and what the log says."""
        now = self._now()
        picture, log = now.picture, None
        if picture is not None:
            log = LogFigures(
                size=picture.log_size,
                newest_ms=picture.log_ms,
                due_size=picture.due_size,
                due_ms=picture.due_ms,
                is_shut_down=picture.is_shut_down,
                answers=picture.answers,
                open_questions=picture.unreleased,
                worst_belief=float(picture.worst_belief),
                max_belief=None if picture.policy is None else float(picture.policy.max_belief),
                witnessed_size=None if picture.witnessed is None else picture.witnessed.size,
                witnessed_ms=None if picture.witnessed is None else picture.witnessed.time_ms,
                keys_changed_ms=keys_changed_ms(picture.happenings),
                certificate_ends=[(each.role, each.is_own, each.end_ms) for each in picture.certificates],
            )
        facts = NodeFacts(
            role="census",
            is_running=now.is_running,
            free_share=now.free_share,
            is_load_refused=now.is_load_refused,
            folded=now.followed.done,
            has_log_problem=bool(now.followed.problem),
        )
        return metrics_text(facts, now.node, log)


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


# --- is all well? ------------------------------------------------------------------------------------------------------


def _promise_problems(now: _Now) -> list[Problem]:
    """What would mean that the promise does not hold, or that nobody can tell."""
    picture, found = now.picture, []
    if now.followed.problem:
        found.append(
            Problem(
                phrase(
                    "The log cannot be read, or breaks its own rules: follow 'When a node refuses to start' in the handbook."
                )
            )
        )
    if picture is not None and picture.policy is not None and picture.worst_units > picture.policy.cap:
        found.append(
            Problem(
                phrase("More was charged than the limit in force allows: it was lowered after answers were given."),
                stops=False,
            )
        )
    return found


def _problems(now: _Now) -> list[Problem]:
    """Everything that somebody should see to, most urgent first. Depends on nobody's records."""
    picture, found = now.picture, _promise_problems(now)
    found += disk_problems(now.free_share, is_load_refused=now.is_load_refused)
    found += process_problems(now.node, is_running=now.is_running, now_ms=now.now_ms)
    if picture is None:
        return found
    found += key_problems(picture.happenings, now.now_ms)
    return found + time_problems(
        log_ms=picture.log_ms,
        due_size=picture.due_size,
        due_ms=picture.due_ms,
        witnessed=picture.witnessed,
        certificates=picture.certificates,
        now_ms=now.now_ms,
    )


def _state_sentence(t: Language, picture: Picture) -> str:
    if picture.policy is None:
        return t("No policy is in force: the service answers nothing yet.")
    if not picture.is_shut_down:
        return t("The service is open: questions are answered under the policy in force.")
    when = t.instant(picture.shutdown_ms)
    if picture.shutdown_reason == "operator":
        return t(
            "The service is shut down since {time}, by the operator: {reason}", time=when, reason=picture.shutdown_note
        )
    return t("The service is shut down since {time}: no further answer fits under the limit.", time=when)


def _verdict(t: Language, picture: Picture, *, holds: bool) -> tuple[str, str]:
    """What the page says first, and how it looks."""
    if not holds:
        return "bad", t("Look at this at once")
    if picture.is_shut_down:
        return "shut", t("The promise holds; the service is shut down")
    return "good", t("The promise holds")


def _states(t: Language, now: _Now, picture: Picture) -> list[State]:
    serves = picture.policy is not None and not picture.is_shut_down
    closed = t("shut down") if picture.is_shut_down else t("not begun")
    witnessed = t("not needed yet") if picture.witnessed is None else _ago(t, now.now_ms - picture.witnessed.time_ms)
    return [
        (t("Service"), t("open") if serves else closed, serves),
        process_state(t, is_running=now.is_running),
        (t("Last cosigned"), witnessed, _is_covered(picture)),
    ]


def _is_covered(picture: Picture) -> bool:
    """Whether every charge so far has been cosigned."""
    return picture.due_size <= (0 if picture.witnessed is None else picture.witnessed.size)


def _ago(t: Language, milliseconds: int) -> str:
    return t("{age} ago", age=t.span(milliseconds))


# --- the public face ---------------------------------------------------------------------------------------------------


def _gauge(t: Language, picture: Picture) -> Markup:
    policy = picture.policy
    limit = 1.0 if policy is None else float(policy.max_belief)

    def place(belief: float) -> float:
        return (belief - 0.5) * 2

    return gauge(
        "belief-chart",
        t("The most that anybody can believe about one person, and the limit"),
        _belief_sentence(t, picture),
        value=Mark(place(float(picture.worst_belief)), t("at most {share}", share=t.at_most(picture.worst_belief))),
        limit=Mark(
            place(limit), "" if policy is None else t("limit {share}", share=t.exact_percent(policy.max_belief))
        ),
        scale=belief_scale(t),
    )


def _belief_sentence(t: Language, picture: Picture) -> str:
    if picture.policy is None:
        return t("No policy is in force yet.")
    return t(
        "Nobody who started at even odds can be surer than {worst} of one person's language; the limit is {limit}.",
        worst=t.at_most(picture.worst_belief, 2),
        limit=t.exact_percent(picture.policy.max_belief),
    )


def _hero_sentence(t: Language, picture: Picture) -> str:
    if picture.policy is None:
        return t("No policy is in force yet.")
    return t(
        "is the most that somebody who started at even odds can believe by now. The agency's limit is {limit}.",
        limit=t.exact_percent(picture.policy.max_belief),
    )


def _limit_sentence(t: Language, picture: Picture) -> str:
    """What happens where the limit has been reached."""
    policy = picture.policy
    if policy is None or policy.accounting == "strict" or picture.worst_units < policy.cap:
        return ""
    return t("Some people may have come to the limit. Further answers leave them out, so that nobody passes it.")


def _left_note(t: Language, picture: Picture) -> str:
    if picture.answers_left is not None:
        return t("under the policy in force, at the usual scale")
    return t("The number would tell who was asked about.")


def _pace_sentence(t: Language, picture: Picture, now_ms: int) -> str:
    """When the answers that are left will be used up; nothing where their number is not published."""
    pace = answers_per_day(picture, now_ms)
    if not picture.answers_left or not pace:
        return ""
    return t(
        "At the pace of the last 30 days, {pace} answers a day, they last until about {day}.",
        pace=t.number(pace, 1),
        day=_day_after(t, now_ms, picture.answers_left / pace),
    )


def _day_after(t: Language, now_ms: int, days: float) -> str:
    """A date that many days from now; no date where it is further off than anybody plans."""
    return t.day(now_ms + int(days * DAY_MS)) if days < _MOST_DAYS else t("in more than ten years")


def _belief_rows(t: Language, picture: Picture) -> list[tuple[str, str]]:
    rows = [(t("The most that anybody can believe by now"), t.at_most(picture.worst_belief, 3))]
    if picture.policy is not None:
        rows += [
            (t("The limit that the agency has set"), t.exact_percent(picture.policy.max_belief)),
            (t("Budget of one person, in units of 2^-24 nat"), t.number(picture.policy.cap)),
        ]
    return [
        *rows,
        (t("The most that one person can have been charged, in the same units"), t.number(picture.worst_units)),
    ]


def _policy_rows(t: Language, picture: Picture) -> list[tuple[str, str | Markup]]:
    policy = picture.policy
    if policy is None:
        return []
    accounting = (
        t("every answer is charged to everybody")
        if policy.accounting == "strict"
        else t("an answer is charged to the people in its sample")
    )
    return [
        (t("Limit of belief"), t.exact_percent(policy.max_belief)),
        (t("Accounting"), f"{accounting} ({policy.accounting})"),
        (t("One budget for"), t(policy.subject)),
        (t("Answers allowed"), t.number(policy.max_answers) if policy.max_answers else t("no fixed number")),
        # The same in every language.
        (t("Noise scales"), scales_text(policy.scales).replace(" to ", "\u2013")),
        (t("Census release"), picture.release or t("nothing is loaded")),
        (t("Policy hash"), Markup("<code>{}</code>").format(picture.policy_hash)),
    ]


# --- the staff's pages -------------------------------------------------------------------------------------------------


def _no_figures(t: Language, picture: Picture) -> str:
    if picture.answers >= LEAST_ANSWERS:
        return t("The figures are being computed.")
    return t(
        "Nothing is shown before {n} answers: the figures of fewer would tell whom each of them charged.",
        n=LEAST_ANSWERS,
    )


def _no_forecast(t: Language, picture: Picture) -> str:
    if picture.policy is None or picture.policy.accounting != "strict":
        return t("There is no forecast yet: it takes more answers and more people.")
    return t.count(
        picture.answers_left or 0,
        "Every answer is charged to everybody: {n} more fits, at the usual scale.",
        "Every answer is charged to everybody: {n} more fit, at the usual scale.",
    )


def _figure_values(t: Language, figures: Figures, picture: Picture, now_ms: int) -> dict[str, Any]:
    values: dict[str, Any] = {"typical_rows": _typical_rows(t, figures)}
    if not figures.bands:
        # Strict accounting: nobody stands anywhere else than everybody.
        sentence = t(
            "Every answer was charged to everybody: all people stand at {share}.",
            share=t.at_most(picture.worst_belief),
        )
        return values | {"no_figures": sentence}
    if figures.exhausted is None:
        drops = t("Fewer than {n} people have nothing left; new answers leave them out.", n=LEAST_CELL)
    else:
        drops = t(
            "Some {exhausted} of {charged} people charged so far have nothing left; new answers leave them out.",
            exhausted=t.number(figures.exhausted),
            charged=t.number(figures.charged),
        )
    alert = ""
    if figures.alert_share is not None:
        share = t.percent(figures.alert_share / 100, 0)
        alert = t("More than {share} of the people charged so far have nothing left.", share=share)
    return values | {
        "bars": bars(
            "budget-chart",
            t("How sure the answers so far can have made anybody of these people's language"),
            (t("At most"), t("People"), t("Share")),
            _band_bars(t, figures),
        ),
        "alert": alert,
        "drops_sentence": drops,
        "forecast": _forecast(t, figures, picture, now_ms),
    }


def _band_bars(t: Language, figures: Figures) -> list[Bar]:
    everybody = sum(band.people for band in figures.bands) or 1
    return [
        Bar(
            t("not charged") if band.high == 0.5 else t.percent(min(band.high, 1.0), 0),  # noqa: PLR2004 - even odds
            float(band.people),
            t.number(band.people),
            (t.percent(band.people / everybody),),
        )
        for band in figures.bands
    ]


def _typical_rows(t: Language, figures: Figures) -> list[tuple[str, str, str]]:
    if figures.expected_belief is None or figures.best_guess_right is None:
        return []
    return [
        (t("Belief in the truth"), t.percent(figures.expected_belief, 1), t("on average, after starting at 50%")),
        (t("The best guess is right"), t.percent(figures.best_guess_right, 1), t("of the time; a coin toss 50%")),
    ]


def _forecast(t: Language, figures: Figures, picture: Picture, now_ms: int) -> Markup | str:
    """After how many further answers, and when at the pace so far, how many have nothing left."""
    if not figures.forecast:
        return ""
    pace = answers_per_day(picture, now_ms)
    since = picture.answers - figures.answers

    def when(answers: int | None, pace: float) -> str:
        if answers is None:
            return t("in more than ten years")
        return _day_after(t, now_ms, max(answers - since, 0) / pace)

    return ranges(
        "forecast-chart",
        t(
            "Further answers at the usual scale until so many of those charged have nothing left, as of {time}",
            time=t.instant(figures.as_of_ms),
        ),
        (
            t("Of those charged"),
            t("Answers"),
            t("Nine times out of ten"),
            *([t("At the pace of the last 30 days")] if pace else []),
        ),
        [
            Range(
                row.early,
                row.middle,
                row.late,
                (
                    t.percent(row.share, 0),
                    _reach(t, row.middle),
                    t("{low} to {high}", low=_reach(t, row.early), high=_reach(t, row.late)),
                    *([when(row.middle, pace)] if pace else []),
                ),
            )
            for row in figures.forecast
        ],
    )


def _reach(t: Language, answers: int | None) -> str:
    return t("beyond 100,000") if answers is None else t.number(answers)


def _goal(t: Language, picture: Picture, figures: Figures | None) -> tuple[int, str] | None:
    """After how many answers in all something ends, and what."""
    if picture.answers_left is not None:
        return picture.answers + picture.answers_left, t("no further answer")
    if figures is not None and figures.forecast and figures.forecast[0].middle is not None:
        first = figures.forecast[0]
        return figures.answers + figures.forecast[0].middle, t(
            "{share} have nothing left", share=t.percent(first.share, 0)
        )
    return None


def _spent(t: Language, picture: Picture, figures: Figures | None, now_ms: int) -> tuple[Markup, str]:
    """Answers over time, as far as they go on at their pace, and where they come to an end."""
    points = picture.points
    sentence = t.count(
        picture.answers,
        "{n} answer has been charged, {units} units in all.",
        "{n} answers have been charged, {units} units in all.",
        units=t.number(points[-1].units if points else 0),
    )
    first_ms = points[0].time_ms if points else now_ms
    goal, pace = _goal(t, picture, figures), answers_per_day(picture, now_ms)
    # A goal far above the line would press it flat.
    is_near = goal is not None and goal[0] <= _NEAR * max(picture.answers, 1)
    most = _round_above(max(picture.answers, goal[0] if goal is not None and is_near else 0))
    last_ms, ahead = now_ms, []
    if goal is not None and is_near and pace and goal[0] > picture.answers:
        last_ms = now_ms + int((goal[0] - picture.answers) / pace * DAY_MS)
        last_ms = min(last_ms, now_ms + 2 * (now_ms - first_ms))
        reached = picture.answers + pace * (last_ms - now_ms) / DAY_MS
        ahead = [(now_ms, float(picture.answers)), (last_ms, reached)]
    span = max(last_ms - first_ms, 1)
    line = [(0.0, 0.0), *(((point.time_ms - first_ms) / span, point.answers / most) for point in points)]
    series = [Series(t("charged"), [*line, ((now_ms - first_ms) / span, picture.answers / most)])]
    if ahead:
        series.append(
            Series(t("forecast"), [((at - first_ms) / span, count / most) for at, count in ahead], "forecast")
        )
    name = t.day if span > 2 * DAY_MS else t.instant
    chart = steps(
        "spent-chart",
        t("Answers charged over time"),
        sentence,
        series,
        x_marks=[Mark(0.0, t.day(first_ms)), Mark(1.0, name(last_ms))] if points else [],
        y_marks=[Mark(share, t.number(most * share)) for share in (0.5, 1.0)],
        limit=Mark(goal[0] / most, t("{n}: {end}", n=t.number(goal[0]), end=goal[1])) if goal and is_near else None,
    )
    return chart, sentence


def _round_above(count: int) -> int:
    """The next round number with a whole half, for the upper end of a scale."""
    size: int = 10 ** (len(str(count)) - 1)
    return next(step * size for step in (2, 3, 4, 5, 6, 8, 10) if step * size >= count and step * size % 2 == 0)


def _live_figures(t: Language, now: _Now) -> list[tuple[str, str, str]]:
    node, picture = now.node, now.picture
    state = t("running") if now.is_running else t("not running")
    if now.is_running and node.is_stale(now.now_ms):
        state = t("running, but silent")
    count, total = node.total("tripartite_answer_seconds_count"), node.total("tripartite_answer_seconds_sum")
    mean = t("{n} s", n=t.number(total / count, 1)) if count else t("none yet")
    return [
        (t("State"), state, ""),
        (t("Answers"), t.number(node.total("tripartite_answers_total")), t("since the process started")),
        (t("Under way"), t.number(node.total("tripartite_questions_in_hand")), ""),
        (t("Waiting for their release"), t.number(0 if picture is None else picture.unreleased), ""),
        (t("From question to answer"), mean, t("on average")),
        (t("Ticks missed"), t.number(node.total("tripartite_ticks_missed_total")), ""),
        (t("Connections refused"), t.number(node.total("tripartite_connections_refused_total")), ""),
    ]
