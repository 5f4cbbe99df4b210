"""Clerks' decisions: the review file of an earlier run, with 'link' or 'no' in its first column."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from census_node.linking import texts
from census_node.linking.reading import CARD, PERSON, refuse

Answer: TypeAlias = Literal["link", "no"]
DECISION: Final = "decision"
_ANSWERS: Final[dict[str, Answer | None]] = {"": None, "link": "link", "no": "no"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A card, a person, and whether they are one."""

    line: int
    card: str
    person: str
    answer: Answer


def read_decisions(file: Path) -> list[Decision]:
    """The pairs that are decided, in the order of the file. Other columns than three are not read.

    Raises:
        InvalidRequestError: LINKING_REFUSED, FILE_UNUSABLE.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            rows = csv.DictReader(opened, strict=True)
            missing = {DECISION, CARD, PERSON} - set(rows.fieldnames or ())
            if missing:
                refuse(file, phrase(texts.DECISIONS_LACK, columns=", ".join(sorted(missing))), texts.DECISIONS_REMEDY)
            return _decided(file, rows)
    except OSError as error:
        raise InvalidRequestError("FILE_UNUSABLE", file=str(file), problem=error.strerror or "unreadable") from error
    except (csv.Error, UnicodeDecodeError):
        refuse(file, texts.DECISIONS_UNREADABLE, texts.DECISIONS_REMEDY)


def _decided(file: Path, rows: csv.DictReader[str]) -> list[Decision]:
    found: dict[tuple[str, str], Decision] = {}
    for row in rows:
        told = (row[DECISION] or "").strip().lower()
        if told not in _ANSWERS:
            refuse(file, phrase(texts.DECISION_UNKNOWN, line=rows.line_num), texts.DECISIONS_REMEDY)
        answer = _ANSWERS[told]
        if answer is None:
            continue
        decision = Decision(rows.line_num, row[CARD] or "", row[PERSON] or "", answer)
        earlier = found.setdefault((decision.card, decision.person), decision)
        if earlier.answer != answer:
            refuse(file, phrase(texts.DECIDED_TWICE, line=earlier.line, other=decision.line), texts.DECISIONS_REMEDY)
    return list(found.values())
