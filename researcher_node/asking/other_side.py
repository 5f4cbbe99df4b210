"""Words that belong to the other agency: a language variable in --where, a health column in --count, and where to type them.

Neither node's dictionary tells, so both are looked at, and only when a text was refused. Nothing is asked of either node but
its published dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from broker_common.crypto.certificates import Role
from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.criteria import parse_condition
from broker_common.query.dictionary import Dictionary
from broker_common.query.question import parse_question
from broker_common.query.remedies import example

OTHER: dict[Role, Role] = {"health": "census", "census": "health"}
_CODES = frozenset({"CRITERIA_SYNTAX", "QUESTION_SYNTAX", "UNKNOWN_COLUMN", "UNKNOWN_VARIABLE"})
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)


def may_be_for_other(error: InvalidRequestError) -> bool:
    """Whether the other node's dictionary could say more about what is wrong."""
    return error.code in _CODES and not error.details.get("instead")


def pointed(
    error: InvalidRequestError, role: Role, text: str, own: Dictionary, other: Dictionary
) -> InvalidRequestError:
    """The error, or the same with where to type what belongs to the other node; `role` is whose text it was."""
    words = [word.lower() for word in _WORD.findall(_QUOTED.sub(" ", text))]
    name = next((word for word in words if word in other.names and word not in own.names), None)
    if name is None:
        return error
    options = _options(role, name, _AND.split(text.strip()), own, other)
    if role == "health":
        instead = phrase(
            "'{name}' is a language variable and belongs to --count. Type: {options}", name=name, options=options
        )
    else:
        instead = phrase(
            "'{name}' is a health column and belongs to --where. Type: {options}", name=name, options=options
        )
    return InvalidRequestError(error.code, **{**error.details, "instead": instead})


def _options(role: Role, name: str, parts: Sequence[str], own: Dictionary, other: Dictionary) -> str:
    """The options that say the same, if every part belongs to one of the nodes; or an example with the name."""
    read, read_other = (_is_condition, _is_question) if role == "health" else (_is_question, _is_condition)
    theirs = [part for part in parts if read_other(part, other)]
    ours = " and ".join(part for part in parts if part not in theirs)
    its = " and ".join(theirs)
    if not read_other(its, other):
        its, ours = example(other.column(name)), ""
    options = {"health": its, "census": ours} if role == "census" else {"health": ours, "census": its}
    if not read(ours, own):
        options[role] = ""
    written = [("--where", options["health"]), ("--count", options["census"])]
    return " ".join(f'{option} "{value}"' for option, value in written if value)


def _is_condition(text: str, dictionary: Dictionary) -> bool:
    return _is_read(parse_condition, text, dictionary)


def _is_question(text: str, dictionary: Dictionary) -> bool:
    return _is_read(parse_question, text, dictionary)


def _is_read(parse: Callable[[str, Dictionary], object], text: str, dictionary: Dictionary) -> bool:
    try:
        parse(text, dictionary)
    except InvalidRequestError:
        return False
    return True
