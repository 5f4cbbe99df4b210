"""Who is linked to whom: at most one person to a client, at most one client to a person, and nobody on a toss of a coin.

A client is what the register says is one: cards with one client_id, or each card by itself. The probability of a pair is lowered by its
rivals, of which at most one can be right: odds / (1 + the odds of all pairs of this client), the same for the person, and the smaller of the two.
Above one half nobody has two, so no pairs have to be chosen between. Not linked by themselves, however much else agrees, are pairs whose given
names or birth dates are others': twins, father and son, somebody's former household.

Clerks' decisions come last and change their own pairs alone: what is not to be linked still is a rival. 'link' outranks what was
linked without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from broker_common.language import phrase
from census_node.linking import texts
from census_node.linking.decisions import Decision
from census_node.linking.reading import Database, refuse
from census_node.linking.settings import LinkingSettings

WHY: Final = ("tie", "differs", "band", "sample")
"""Why a pair is for review: a rival is as likely; given name or birth date are others'; below the threshold; linked, and drawn."""

# Beyond it odds are as good as certain, and would overflow.
_MOST_WEIGHT: Final = 200.0


def assign(
    database: Database, settings: LinkingSettings, decisions: Sequence[Decision], decisions_file: Path | None
) -> int:
    """Make `candidates`, `review` and `links` (person row, client, card) from `pairs`; gives how many decisions had no candidate.

    Raises:
        InvalidRequestError: LINKING_REFUSED, decisions that contradict each other.
    """
    _make_candidates(database, settings)
    _make_review(database, settings)
    unused = _apply(database, decisions, decisions_file)
    _make_links(database, settings)
    return unused


def _make_candidates(database: Database, settings: LinkingSettings) -> None:
    """Probability that each client and person are one, with and without rivals, and whether that links them."""
    database.execute(
        """
        create table scored as
        select person, client_id as client, max(weight) as weight, arg_min(client_row, (-weight, client_row)) as client_row,
            bool_and(differs) as differs
        from pairs join register on register.row = pairs.client_row group by person, client_id
        """
    )
    database.execute(
        f"""
        create table candidates as
        with odds as (select *, pow(2.0, least(weight, {_MOST_WEIGHT})) as odds from scored)
        select *, odds / (1 + odds) as alone,
            round(least(odds / (1 + sum(odds) over (partition by client)), odds / (1 + sum(odds) over (partition by person))), 9)
                as probability,
            probability >= $threshold and not differs as is_linked
        from odds
        """,
        {"threshold": settings.threshold},
    )
    database.execute("drop table scored")


def _make_review(database: Database, settings: LinkingSettings) -> None:
    """Pairs for clerks: of people and clients whom nothing links, and of links that are drawn to see whether they are right."""
    database.execute(
        """
        create table reviewable as
        select *, case when is_linked then 'sample' when differs then 'differs' when alone >= $threshold then 'tie' else 'band' end
            as why, md5(concat_ws('|', $seed, client, person)) as drawn
        from candidates where is_linked or ((alone >= $threshold or probability >= $review_from)
            and client not in (select client from candidates where is_linked)
            and person not in (select person from candidates where is_linked))
        """,
        {"threshold": settings.threshold, "review_from": settings.review_from, "seed": settings.seed},
    )
    database.execute(
        """
        create table review as
        select * exclude (place) from (
            select *, row_number() over (partition by is_linked order by drawn, person, client) as place from reviewable
        ) where place <= case when is_linked then $sample else $most end
        """,
        {"sample": settings.sample, "most": settings.review_most},
    )


def _apply(database: Database, decisions: Sequence[Decision], file: Path | None) -> int:
    table = pa.table(
        {
            "line": pa.array([each.line for each in decisions], pa.int64()),
            "card": pa.array([each.card for each in decisions], pa.string()),
            "person_id": pa.array([each.person for each in decisions], pa.string()),
            "answer": pa.array([each.answer for each in decisions], pa.string()),
        }
    )
    database.register("told", table)
    database.execute(
        """
        create table decided as
        select distinct on (candidates.person, candidates.client) candidates.person, candidates.client, line, answer
        from told join census on census.person_id = told.person_id
            join (select distinct health_card, client_id from register) held on held.health_card = told.card
            join candidates on candidates.person = census.row and candidates.client = held.client_id
        order by candidates.person, candidates.client, line
        """
    )
    database.unregister("told")
    for one in ("person", "client"):
        for first, second in database.execute(
            f"select min(line), max(line) from decided where answer = 'link' group by {one} having count(*) > 1 limit 1"
        ).fetchall():
            refuse(file or Path(), phrase(texts.DECIDED_TWICE, line=first, other=second), texts.DECISIONS_REMEDY)
    ((applied,),) = database.execute("select count(*) from decided").fetchall()
    return len(decisions) - int(applied)


def _make_links(database: Database, settings: LinkingSettings) -> None:
    """Pairs that are linked after decisions, with every card of the client whose own row says the same."""
    database.execute(
        """
        create table linked as
        select person, client, client_row, weight, probability, false as by_clerk from candidates where is_linked
            and (person, client) not in (select (person, client) from decided where answer = 'no')
            and person not in (select person from decided where answer = 'link')
            and client not in (select client from decided where answer = 'link')
        union all
        select person, client, client_row, weight, probability, true from candidates
            where (person, client) in (select (person, client) from decided where answer = 'link')
        """
    )
    database.execute(
        """
        create table links as
        select distinct linked.person, linked.client, register.health_card as card from linked
            join pairs on pairs.person = linked.person
            join register on register.row = pairs.client_row and register.client_id = linked.client
        where pairs.client_row = linked.client_row
            or (not pairs.differs and pow(2.0, pairs.weight) / (1 + pow(2.0, pairs.weight)) >= $threshold)
        """,
        {"threshold": settings.threshold},
    )
