"""The staff's pages: budgets of people at fixed times, answers over time with their forecast, and the node at work.

SECURITY: figures about people come from `staff_figures` alone, which computes them at fixed times and hides small groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from broker_common.dashboard.cells import LEAST_CELL
from broker_common.dashboard.charts import Bar, Mark, Range, Series, bars, ranges, steps
from broker_common.dashboard.log_picture import certificate_rows
from broker_common.dashboard.parts import LOADS, PEERS, counted_bars, happening_rows, use_bars
from broker_common.language import Language
from broker_common.monitoring import refusals_by_code
from census_node.operator.picture import DAY_MS, Picture, answers_per_day
from census_node.operator.public_face import CensusNow, day_after, problems_of
from census_node.operator.staff_figures import LEAST_ANSWERS, Figures
from census_node.registry.rosters import KeptRoster
from census_node.registry.staging import newest_and_in_force, was_in_force

# An end at more than so many times the answers so far is not drawn beside them.
_NEAR = 4


def people_values(t: Language, now: CensusNow, picture: Picture, figures: Figures | None) -> Mapping[str, Any]:
    """Values of the page about people's budgets."""
    line, sentence = _spent(t, picture, figures, now.now_ms)
    values: dict[str, Any] = {
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


def morning_rows(t: Language, now: CensusNow, picture: Picture, figures: Figures | None) -> list[tuple[str, str, str]]:
    """The staff's morning summary: who has nothing left, when budgets run out, and what used most."""
    rows = []
    if picture.policy is not None and picture.policy.accounting == "per_person":
        rows.append(_nothing_left(t, picture, figures))
    rows.append(_lasts(t, now, picture, figures))
    used = sorted(picture.use.items(), key=lambda item: (-item[1].answers, item[0]))
    if used:
        (_, project), use = used[0]
        note = t("{n} of {all} answers", n=t.number(use.answers), all=t.number(picture.answers))
        rows.append((t("Used most by"), project, note))
    return rows


def _nothing_left(t: Language, picture: Picture, figures: Figures | None) -> tuple[str, str, str]:
    name = t("People with nothing left")
    if figures is None or not figures.bands:
        return name, t("not known yet"), _no_figures(t, picture)
    if figures.exhausted is None:
        return name, t("fewer than {n}", n=LEAST_CELL), t("as of {time}", time=t.instant(figures.as_of_ms))
    note = t("of {charged} charged, as of {time}", charged=t.number(figures.charged), time=t.instant(figures.as_of_ms))
    return name, t.number(figures.exhausted), note


def _lasts(t: Language, now: CensusNow, picture: Picture, figures: Figures | None) -> tuple[str, str, str]:
    """Further answers until something ends, and when that is at the pace so far."""
    goal, pace = _goal(t, picture, figures), answers_per_day(picture, now.now_ms)
    if goal is None:
        return t("Further answers"), t("not known yet"), _no_forecast(t, picture)
    left = max(goal[0] - picture.answers, 0)
    note = t("then {end}", end=goal[1])
    if pace:
        note += t("; about {day} at the pace of the last 30 days", day=day_after(t, now.now_ms, left / pace))
    return t("Further answers"), t.number(left), note


def activity_values(t: Language, now: CensusNow, picture: Picture, rosters: Sequence[KeptRoster]) -> Mapping[str, Any]:
    """Values of the page about the service's use."""
    return {
        "warnings": [t(each.text) for each in problems_of(now)],
        "live_figures": _live_figures(t, now),
        "refusal_bars": counted_bars(
            t, "refusal-chart", t("Calls since the process started"), refusals_by_code(now.node)
        ),
        "use_bars": use_bars(t, t("Answers"), picture.use),
        "roster_rows": _roster_rows(t, picture, rosters),
        "load_rows": happening_rows(t, picture.happenings, LOADS),
        "peer_rows": happening_rows(t, picture.happenings, PEERS),
        "certificate_rows": certificate_rows(t, (*picture.certificates, *now.own.listed), now.now_ms),
    }


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
        return day_after(t, now_ms, max(answers - since, 0) / pace)

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
    series = [Series([*line, ((now_ms - first_ms) / span, picture.answers / most)])]
    if ahead:
        series.append(Series([((at - first_ms) / span, count / most) for at, count in ahead], "forecast"))
    name = t.day if span > 2 * DAY_MS else t.instant
    chart = steps(
        "spent-chart",
        t("Answers charged over time"),
        sentence,
        series,
        x_marks=[Mark(0.0, name(first_ms)), Mark(1.0, name(last_ms))] if points else [],
        y_marks=[Mark(share, t.number(most * share)) for share in (0.5, 1.0)],
        limit=Mark(goal[0] / most, t("{n}: {end}", n=t.number(goal[0]), end=goal[1])) if goal and is_near else None,
    )
    return chart, sentence


def _round_above(count: int) -> int:
    """The next round number with a whole half, for the upper end of a scale."""
    size: int = 10 ** (len(str(count)) - 1)
    return next(step * size for step in (2, 3, 4, 5, 6, 8, 10) if step * size >= count and step * size % 2 == 0)


def _roster_rows(t: Language, picture: Picture, rosters: Sequence[KeptRoster]) -> list[tuple[str, str, str, str, str]]:
    """Rosters in force and staged, by agency. Declared places alone: a true number of people would tell who is on it."""
    rows = []
    for each in newest_and_in_force(rosters, picture.rosters, picture.health):
        state = t("in force") if was_in_force(picture.rosters, each.health, each.number) else t("staged")
        if not each.file:
            state = t("lost: it is sent again")
        rows.append((each.health, t.number(each.number), state, t.instant(each.received_ms), t.number(each.places)))
    return rows


def _live_figures(t: Language, now: CensusNow) -> list[tuple[str, str, str]]:
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
