"""What several pages draw and say alike: shares, refusals, use by project, and the state of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from markupsafe import Markup

from broker_common.dashboard.charts import Bar, Mark, bars
from broker_common.language import Language
from broker_common.tlog.history import Use

# Name, value, and whether that is as it should be.
State: TypeAlias = tuple[str, str, bool]
# Rows of one picture; what comes after them is in the log.
_MOST_ROWS = 500


def belief_scale(t: Language) -> list[Mark]:
    """From knowing nothing to certainty, in steps of ten percent."""
    notes = {5: t("a coin toss"), 10: t("certainty")}
    return [Mark((tenth - 5) / 5, t.percent(tenth / 10, 0), notes.get(tenth, "")) for tenth in range(5, 11)]


def process_state(t: Language, *, is_running: bool) -> State:
    """Whether the node's process runs."""
    return t("Process"), t("running") if is_running else t("not running"), is_running


def counted_bars(t: Language, key: str, caption: str, counts: Mapping[str, float]) -> Markup | str:
    """How often each reason was given, most often first; nothing where there is none."""
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if not rows:
        return ""
    return bars(
        key, caption, (t("Reason"), t("How often")), [Bar(code, value, t.number(value)) for code, value in rows]
    )


def use_bars(t: Language, unit: str, use: Mapping[tuple[str, str], Use]) -> Markup | str:
    """Who has used the service how much, most first; nothing where nobody has."""
    rows = sorted(use.items(), key=lambda item: (-item[1].answers, item[0]))[:_MOST_ROWS]
    if not rows:
        return ""
    return bars(
        "use-chart",
        t("From the log, most first"),
        (t("Project"), t("Researcher"), unit, t("Last")),
        [
            Bar(project, each.answers, t.number(each.answers), (t.day(each.last_ms),), researcher)
            for (researcher, project), each in rows
        ],
    )
