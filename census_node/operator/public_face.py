"""The public face: whether the promise holds, how far it is used, and under which rules. It follows from the log alone.

SECURITY: nothing of the ledger, of samples or registries comes here; anybody may see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from markupsafe import Markup

from broker_common.dashboard.charts import Mark, gauge
from broker_common.dashboard.log_picture import Problem, witnessed_note
from broker_common.dashboard.now import Now, log_problems, node_problems
from broker_common.dashboard.parts import ORDERS, POLICIES, State, belief_scale, happening_rows, process_state
from broker_common.language import Language, phrase
from broker_common.privacy.policy import scales_text
from census_node import texts
from census_node.operator.picture import DAY_MS, Picture, answers_per_day

CensusNow: TypeAlias = Now[Picture]
# Dates further off are not told.
_MOST_DAYS = 3650


def problems_of(now: CensusNow) -> list[Problem]:
    """Everything that somebody should see to, most urgent first. Depends on nobody's records."""
    return _promise_problems(now) + node_problems(now)


def face_values(t: Language, now: CensusNow, picture: Picture) -> Mapping[str, Any]:
    """Values of the page."""
    problems = problems_of(now)
    kind, head = _verdict(t, picture, holds=not _promise_problems(now))
    return {
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
        "covered_sentence": t("Every answer so far is covered. What came after it is cosigned with the next question.")
        if picture.answers and _is_covered(picture)
        else t("An answer leaves once the entry of its charge is cosigned."),
        "policy_rows": _policy_rows(t, picture),
        "policy_history": happening_rows(t, picture.happenings, POLICIES),
        "order_rows": happening_rows(t, picture.happenings, ORDERS),
    }


def _promise_problems(now: CensusNow) -> list[Problem]:
    """Problems that would mean that the promise does not hold, or that nobody can tell."""
    picture, found = now.picture, log_problems(now)
    if picture is not None and picture.policy is not None and picture.worst_units > picture.policy.cap:
        found.append(
            Problem(
                phrase("More was charged than the limit in force allows: it was lowered after answers were given."),
                stops=False,
            )
        )
    return found


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
    """The page's first sentence, and how it looks."""
    if not holds:
        return "bad", t("Look at this at once")
    if picture.is_shut_down:
        return "shut", t("The promise holds; the service is shut down")
    return "good", t("The promise holds")


def _states(t: Language, now: CensusNow, picture: Picture) -> list[State]:
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
    """The sentence about a limit that was reached."""
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
        day=day_after(t, now_ms, picture.answers_left / pace),
    )


def day_after(t: Language, now_ms: int, days: float) -> str:
    """A date that many days from now; no date where it is further off than anybody plans."""
    return t.day(now_ms + int(days * DAY_MS)) if days < _MOST_DAYS else t("in more than ten years")


def _belief_rows(t: Language, picture: Picture) -> list[tuple[str, str]]:
    rows = [(t("The most that anybody can believe by now"), t.at_most(picture.worst_belief, 2))]
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
    percent = policy.declared_linked_percent
    return [
        (t("Limit of belief"), t.exact_percent(policy.max_belief)),
        (t("Accounting"), f"{accounting} ({policy.accounting})"),
        (t("One budget for"), t(policy.subject)),
        (t("Records are linked"), t(texts.LINKAGE[policy.linkage])),
        (t("Linked share"), t(texts.DECLARED_LINKED, percent=percent) if percent else t(texts.DECLARED_NOTHING)),
        (t("Answers allowed"), t.number(policy.max_answers) if policy.max_answers else t("no fixed number")),
        # The same in every language.
        (t("Noise scales"), scales_text(policy.scales).replace(" to ", "\u2013")),
        (t("Census release"), picture.release or t("nothing is loaded")),
        (t("Policy hash"), Markup("<code>{}</code>").format(picture.policy_hash)),
    ]
