"""How good the links are: for the agency's own staff, never for anybody outside.

Two kinds of estimate stand beside each other. The model's own: the sum of what it gives each link and each unlinked pair; true only as far
as the model is, and blind to people whom no blocking rule brought together. The clerks': of links and of unlinked pairs that were drawn
at random and decided, with Wilson intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

from broker_common.language import Language
from census_node.linking import texts
from census_node.linking.assignment import WHY
from census_node.linking.model import agreement
from census_node.linking.reading import Database, Sources
from census_node.linking.settings import LinkingSettings

# A column with more values than this is no variable whose values are compared.
_MOST_VALUES: Final = 20
_NORMAL_95: Final = 1.959963984540054


def wilson(right: int, of: int) -> tuple[float, float, float]:
    """A share with its 95 % interval; from 0 to 1 if nothing was seen."""
    if not of:
        return 0.0, 0.0, 1.0
    share, square = right / of, _NORMAL_95**2
    centre = (share + square / (2 * of)) / (1 + square / of)
    half = _NORMAL_95 * sqrt(share * (1 - share) / of + square / (4 * of * of)) / (1 + square / of)
    # At either end the bound is exact, and rounding would move it.
    return share, 0.0 if right == 0 else centre - half, 1.0 if right == of else centre + half


def make_report(
    database: Database, settings: LinkingSettings, sources: Sources, model: dict[str, Any], unused_decisions: int
) -> dict[str, Any]:
    """The figures, as programs read them."""
    persons = sources.census_rows
    linked_persons = _one(database, "select count(distinct person) from linked")
    clients = _one(database, "select count(distinct client_id) from register")
    return {
        "internal": True,
        "mode": settings.mode,
        "threshold": settings.threshold,
        "persons": persons,
        "clients": clients,
        "cards": _one(database, "select count(distinct health_card) from register"),
        "linked_persons": linked_persons,
        "linked_cards": _one(database, "select count(*) from links"),
        "linked_share": _share(linked_persons, persons),
        "linked_share_of_clients": _share(linked_persons, clients),
        "by_clerk": _one(database, "select count(*) from linked where by_clerk"),
        "left_out": _left_out(database, sources),
        "model": _of_model(database),
        "review": _of_review(database, unused_decisions),
        "clerical": _of_clerks(database),
        "by": _by_group(database, sources.carried),
        "agreement": agreement(model),
    }


def _one(database: Database, query: str) -> int:
    ((count,),) = database.execute(query).fetchall()
    return int(count or 0)


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


def _left_out(database: Database, sources: Sources) -> dict[str, dict[str, int]]:
    """Number of rows that may not link, by file and reason. Those that could not be read at all are 'wrong_row'."""
    rows = database.execute("select side, reason, count(*) from excluded group by all order by all").fetchall()
    found: dict[str, dict[str, int]] = {side: {} for side in sources.rejected}
    for side, reason, count in rows:
        found[side][reason] = count
    for side, rejected in sources.rejected.items():
        if rejected.count:
            found[side]["wrong_row"] = rejected.count
    return found


def _of_model(database: Database) -> dict[str, float]:
    """The model's expected wrong and missed links."""
    ((links, right),) = database.execute(
        "select count(*), coalesce(sum(probability), 0) from candidates where is_linked"
    ).fetchall()
    ((missed,),) = database.execute(
        "select coalesce(sum(probability), 0) from candidates where not is_linked"
        " and client not in (select client from candidates where is_linked)"
        " and person not in (select person from candidates where is_linked)"
    ).fetchall()
    return {
        "links": links,
        "wrong": round(links - right, 3),
        "missed": round(missed, 3),
        "precision": _share(right, links),
        "recall": _share(right, right + missed),
    }


def _of_review(database: Database, unused_decisions: int) -> dict[str, Any]:
    counted = dict(database.execute("select why, count(*) from reviewable group by why").fetchall())
    return {
        "pairs": {why: counted.get(why, 0) for why in WHY if why != "sample"},
        "written": _one(database, "select count(*) from review"),
        "decided": _one(database, "select count(*) from decided"),
        "decisions_of_no_pair": unused_decisions,
    }


def _of_clerks(database: Database) -> dict[str, Any] | None:
    """Estimates from clerks' answers; None before they decided any pair that was drawn."""
    ((sampled, confirmed, seen, found, pairs),) = database.execute(
        """
        select count(*) filter (is_linked and answer is not null), count(*) filter (is_linked and answer = 'link'),
            count(*) filter (not is_linked and answer is not null), count(*) filter (not is_linked and answer = 'link'),
            (select count(*) from reviewable where not is_linked)
        from review left join decided using (person, client)
        """
    ).fetchall()
    if not sampled or (pairs and not seen):
        return None
    links = _one(database, "select count(*) from linked")
    precision = wilson(confirmed, sampled)
    # Undecided pairs are assumed to match as often as decided ones.
    missed = [(pairs - seen) * share for share in wilson(found, seen)] if pairs > seen else [0.0, 0.0, 0.0]
    right = [links * share for share in precision]
    return {
        "links_decided": sampled,
        "links_confirmed": confirmed,
        "pairs_decided": seen,
        "pairs_linked": found,
        "precision": _interval(precision),
        # The worst of both, and the best of both.
        "recall": _interval(
            (
                _share(right[0], right[0] + missed[0]),
                _share(right[1], right[1] + missed[2]),
                _share(right[2], right[2] + missed[1]),
            )
        ),
    }


def _interval(values: Sequence[float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in zip(("estimate", "low", "high"), values, strict=True)}


def _by_group(database: Database, carried: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """People, linked people and their share, by sex, decade of birth and every carried column with few values."""
    groups = {
        "sex": "coalesce(census_side.sex, '')",
        "decade_of_birth": "coalesce(left(census_side.birth_year, 3) || '0', '')",
        **{name: f'census."{name}"' for name in carried},
    }
    return {name: shares for name, value in groups.items() if (shares := _shares(database, value))}


def _shares(database: Database, value: str) -> dict[str, dict[str, float]]:
    rows = database.execute(
        f"""
        select {value} as value, count(*), count(linked.person) from census
            left join census_side on census_side.unique_id = census.row
            left join (select distinct person from linked) linked on linked.person = census.row
        group by 1 order by 1 limit {_MOST_VALUES + 1}
        """
    ).fetchall()
    if len(rows) > _MOST_VALUES:
        return {}
    return {
        str(name): {"persons": persons, "linked": linked, "share": _share(linked, persons)}
        for name, persons, linked in rows
    }


# --- for people --------------------------------------------------------------------------------------------------------


def report_text(report: dict[str, Any], t: Language) -> str:
    """The same for people."""
    model, review, clerical = report["model"], report["review"], report["clerical"]
    lines = [
        t(
            texts.REPORT,
            mode=t(texts.MODES[report["mode"]]),
            linked=t.number(report["linked_persons"]),
            persons=t.number(report["persons"]),
            share=t.percent(report["linked_share"]),
            clients=t.number(report["clients"]),
            clients_share=t.percent(report["linked_share_of_clients"]),
            cards=t.number(report["linked_cards"]),
            by_clerk=t.number(report["by_clerk"]),
            threshold=report["threshold"],
        ),
        t(texts.REPORT_LEFT_OUT),
    ]
    for side, reasons in report["left_out"].items():
        told = ", ".join(f"{t(texts.REASONS[reason])} {t.number(count)}" for reason, count in reasons.items())
        lines.append(t(texts.REPORT_LEFT_OUT_ROW, side=t(texts.SIDES[side]), reasons=told or t(texts.NOTHING)))
    lines.append(
        t(
            texts.REPORT_MODEL,
            precision=t.percent(model["precision"], 2),
            wrong=t.number(model["wrong"], 1),
            recall=t.percent(model["recall"], 1),
            missed=t.number(model["missed"], 1),
        )
    )
    lines.append(
        t(texts.REPORT_NO_CLERKS)
        if clerical is None
        else t(
            texts.REPORT_CLERKS,
            confirmed=clerical["links_confirmed"],
            links=clerical["links_decided"],
            precision=_told(clerical["precision"], t),
            found=clerical["pairs_linked"],
            pairs=clerical["pairs_decided"],
            recall=_told(clerical["recall"], t),
        )
    )
    pairs = ", ".join(f"{t(texts.WHY[why])} {t.number(count)}" for why, count in review["pairs"].items())
    lines.append(
        t(texts.REPORT_REVIEW, pairs=pairs, written=t.number(review["written"]), decided=t.number(review["decided"]))
    )
    if review["decisions_of_no_pair"]:
        lines.append(t(texts.REPORT_UNUSED, count=t.number(review["decisions_of_no_pair"])))
    lines.append(t(texts.REPORT_GROUPS))
    for column, values in report["by"].items():
        lines.append(f"  {column}")
        lines += [
            t(
                texts.REPORT_GROUP,
                value=value or t(texts.NO_VALUE),
                share=t.percent(group["share"]),
                linked=t.number(group["linked"]),
                persons=t.number(group["persons"]),
            )
            for value, group in values.items()
        ]
    return "\n".join(lines) + "\n"


def _told(interval: dict[str, float], t: Language) -> str:
    return t(
        texts.INTERVAL,
        estimate=t.percent(interval["estimate"]),
        low=t.percent(interval["low"]),
        high=t.percent(interval["high"]),
    )
