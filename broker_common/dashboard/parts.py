"""Drawings and sentences that several pages share: shares, refusals, use by project, and the state of a process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from markupsafe import Markup, escape

from broker_common.dashboard.charts import Bar, Mark, bars
from broker_common.language import Language, phrase
from broker_common.tlog.history import Happening, Kind, Use

# Name, value, and whether that is as it should be.
State: TypeAlias = tuple[str, str, bool]
# Rows of one picture; what comes after them is in the log.
_MOST_ROWS = 500
_MOST_HAPPENINGS = 200
_SENTENCES: Mapping[Kind, str] = {
    "adopted": phrase("Policy adopted: no belief above {max_belief}, accounting {accounting}, hash {hash}"),
    "confirmed": phrase(
        "Weaker policy adopted, confirmed by the operator: no belief above {max_belief}, accounting {accounting}, hash {hash}"
    ),
    "shutdown": phrase("Shut down by the operator"),
    "budget": phrase("Shut down: no further answer fits"),
    "reopened": phrase("Reopened by the operator"),
    "registered": phrase("Registered {name} ({role})"),
    "replaced": phrase("Card of {name} ({role}) replaced by one that does not follow it"),
    "revoked": phrase("Revoked {name} ({role})"),
    "loaded": phrase("Load {load} in force, release {release}"),
    "relinked": phrase("Linkage key changed to {linkage}"),
    "rostered": phrase("Roster {number} of {health} in force"),
    "roster_numbered": phrase("Roster {number} made for the census node"),
    "key": phrase("New keys of {name} ({role}): {purposes}"),
}
_FIELDS: Mapping[str, str] = {
    "accounting": phrase("accounting"),
    "subject": phrase("whose budget"),
    "max_belief": phrase("limit of belief"),
    "max_answers": phrase("number of answers"),
    "scales": phrase("noise scales"),
    "forward_delay_ms": phrase("delays"),
    "release_tick_ms": phrase("ticks"),
    "quote_lifetime_ms": phrase("quotes"),
    "open_quotes": phrase("quotes"),
    "answer_retention_ms": phrase("retention"),
    "sample_retention_ms": phrase("retention"),
    "researcher_answers": phrase("quota of a researcher"),
}
ORDERS: frozenset[Kind] = frozenset({"shutdown", "budget", "reopened", "confirmed"})
POLICIES: frozenset[Kind] = frozenset({"adopted", "confirmed"})
LOADS: frozenset[Kind] = frozenset({"loaded", "relinked", "rostered", "roster_numbered"})
PEERS: frozenset[Kind] = frozenset({"registered", "replaced", "revoked", "key"})


def happened(t: Language, happening: Happening) -> str:
    """One happening as a sentence."""
    details = {name: _shown(t, name, value) for name, value in happening.details.items()}
    if details.get("projects"):
        return t("Registered {name} ({role}); projects: {projects}", **details)
    sentence = t(_SENTENCES[happening.kind], **details)
    changed = [_FIELDS.get(name, name) for name in happening.details.get("changed", "").split(",") if name]
    if not changed:
        return sentence
    return t("{sentence}. Changed: {fields}", sentence=sentence, fields=", ".join(map(t, dict.fromkeys(changed))))


def _shown(t: Language, name: str, value: str) -> str:
    if name == "max_belief":
        return t.exact_percent(value)
    if name == "purposes":
        return ", ".join(map(t, value.split(", ")))
    return t(value) if name in {"role", "accounting"} else value


def happening_rows(t: Language, happenings: Iterable[Happening], kinds: Collection[Kind]) -> list[Sequence[str]]:
    """Rows of entry, time, sentence and reason, newest first."""
    chosen = [each for each in happenings if each.kind in kinds][-_MOST_HAPPENINGS:]
    return [(t.number(each.entry), t.instant(each.time_ms), _sentence(t, each), each.note) for each in reversed(chosen)]


def _sentence(t: Language, happening: Happening) -> Markup:
    """The same with its hash set as one."""
    text, digest = escape(happened(t, happening)), escape(happening.details.get("hash", ""))
    return text.replace(digest, Markup("<code>{}</code>").format(digest)) if digest else text


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


def use_bars(t: Language, counted: str, use: Mapping[tuple[str, str], Use]) -> Markup | str:
    """Who has used the service how much, most first; nothing where nobody has."""
    rows = sorted(use.items(), key=lambda item: (-item[1].answers, item[0]))[:_MOST_ROWS]
    if not rows:
        return ""
    return bars(
        "use-chart",
        t("From the log, most first"),
        (t("Project"), t("Researcher"), counted, t("Last")),
        [
            Bar(project, each.answers, t.number(each.answers), (t.day(each.last_ms),), researcher)
            for (researcher, project), each in rows
        ],
    )
