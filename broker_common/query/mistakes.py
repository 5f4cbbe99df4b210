"""Usual mistakes in the text of a condition or a question: which one was made, and what to type instead.

Only a text that was refused comes here. It is cut loosely, every usual mistake in it is rewritten, and what comes of that is
suggested if it can be read; nothing that is rewritten is ever asked. A mistake is a row of a table: what it looks like between
single spaces, how it is written, and the end of the sentence "The condition cannot be read: ...".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.canonical import literal_text
from broker_common.query.dictionary import Column, ColumnType, Dictionary, EventTable
from broker_common.query.remedies import spelled_otherwise, to_type

# A longer suggestion helps nobody; a row is applied so often to one text.
LONGEST_SUGGESTION = 300
_MOST_ROUNDS = 20
# The most words of a code that stands without quotes.
_MOST_WORDS = 8

_LOOSE = re.compile(
    r"""
      (?P<space> \s+ )
    | (?P<string> '(?:[^']|'')*+' )
    | (?P<quoted> "[^"]*+" | `[^`]*+` | [\u201c-\u201e«][^\u201c-\u201e»]*+[\u201c\u201d»]
        | [\u2018-\u201a][^\u2018-\u201a]*+[\u2018\u2019] )
    | (?P<date> (?<![\w-])[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?![\w-]) )
    | (?P<number> -?[0-9]+(?:\.[0-9]+)? )
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> <=>|===?|=>|=<|<>|!=|>=|<=|&&|\|\||:= )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
# A text in quotes, as far as a quote between two letters is a part of it.
_IN_QUOTES = re.compile(r"(?<!\w)'(?:[^']|(?<=\w)'(?=\w))*+'(?!\w)")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_WRITTEN = {
    "==": "=",
    "===": "=",
    ":=": "=",
    ":": "=",
    "=>": ">=",
    "=<": "<=",
    "≥": ">=",
    "≤": "<=",
    "≠": "<>",
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "!": "not",
    "[": "(",
    "]": ")",
    "{": "(",
    "}": ")",
}
_KEYWORDS = frozenset(
    {
        *("and", "between", "by", "date", "from", "in", "is", "like", "not", "null", "or", "rest", "select", "under"),
        "where",
    }
)

# They match texts between single spaces, with '0', '1', ... in place of what stands in quotes.
_VALUE = r"(?:'\d+'|-?\d+(?:\.\d+)?)"
_VALUES = rf"{_VALUE}(?: , {_VALUE})*"
_NAME = r"[^\W\d]\w*"
_SIGN = r"(?:=|<>|!=|<=|>=|<|>)"
_ENDS = r"(?= and\b| or\b| \)|$)"


def _written(wrong: str, right: str) -> str:
    return phrase("{wrong} is written {right}", wrong=f"'{wrong}'", right=f"'{right}'")


@dataclass(slots=True)
class _Loose:
    """A text between single spaces, what stands in its quotes, and what was wrong with it so far."""

    text: str = ""
    strings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def quote(self, content: str) -> str:
        """The text of this, in quotes."""
        self.strings.append(content)
        return f"'{len(self.strings) - 1}'"

    def content(self, quoted: str) -> str:
        return self.strings[int(quoted[1:-1])]

    def written(self) -> str:
        """The text as a person would type it."""
        tidy = re.sub(r" (?=[,)])|(?<=\() ", "", self.text)
        tidy = re.sub(r"\b(any|count) \(", r"\1(", tidy, flags=re.IGNORECASE)
        return re.sub(r"'(\d+)'", lambda found: literal_text(self.content(found[0])), tidy)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One row: `problem` completes the sentence; without a replacement nothing is suggested for it."""

    pattern: str
    replacement: str | Callable[[_Loose, re.Match[str], Dictionary], str] | None
    problem: str

    def mend(self, loose: _Loose, dictionary: Dictionary) -> None:
        for _ in range(_MOST_ROUNDS):
            found = re.search(self.pattern, loose.text, re.IGNORECASE)
            if found is None:
                return
            if self.replacement is None:
                loose.problems.append(self.problem)
                return
            if isinstance(self.replacement, str):
                instead = found.expand(self.replacement)
            else:
                instead = self.replacement(loose, found, dictionary)
            if instead == found[0]:
                # It only looked like it.
                return
            loose.problems.append(self.problem)
            loose.text = f"{loose.text[: found.start()]}{instead}{loose.text[found.end() :]}".strip()


def explained(
    error: InvalidRequestError,
    text: str,
    dictionary: Dictionary,
    read: Callable[[str, Dictionary], object],
    mistakes: Sequence[Mistake] = (),
) -> InvalidRequestError:
    """The error, or one of the same code that names the mistake and what to type, if the text has one of the usual ones."""
    if not error.code.endswith("_SYNTAX") or error.details.get("instead"):
        return error
    loose = _cut(text, dictionary)
    before = loose.problems
    loose.problems = []
    for mistake in mistakes or CONDITIONS:
        mistake.mend(loose, dictionary)
    problems = [*loose.problems, *before]
    suggestion = loose.written()
    instead = to_type(suggestion) if _is_read(suggestion, dictionary, read) else ""
    if not problems and not instead:
        return error
    return InvalidRequestError(error.code, problem=(*problems, error.details["problem"])[0], instead=instead)


def _is_read(text: str, dictionary: Dictionary, read: Callable[[str, Dictionary], object]) -> bool:
    if len(text) > LONGEST_SUGGESTION:
        return False
    try:
        read(text, dictionary)
    except InvalidRequestError:
        return False
    return True


def _cut(text: str, dictionary: Dictionary) -> _Loose:
    """The text between single spaces, with signs and quotes that are usual elsewhere written as they are here."""
    loose = _Loose()
    names = _names(dictionary)
    words = []
    text = text.strip()
    doubled = _IN_QUOTES.sub(lambda quoted: _APOSTROPHE.sub("''", quoted[0]), text)
    if doubled != text:
        loose.problems.append(phrase("a quote inside a code is doubled, as in 'Kahler''s'"))
    for found in _LOOSE.finditer(doubled.rstrip(";")):
        kind, token = found.lastgroup, found[0]
        if kind == "string":
            words.append(loose.quote(token[1:-1].replace("''", "'")))
        elif kind == "quoted" and token[1:-1].strip().lower() in names:
            words.append(token[1:-1].strip())
            loose.problems.append(phrase("names of columns take no quotes"))
        elif kind == "quoted":
            words.append(loose.quote(token[1:-1].strip()))
            loose.problems.append(phrase("values need straight single quotes, '...'"))
        elif kind == "date":
            year, month, day = token.split("-")
            words.append(loose.quote(f"{year}-{month:0>2}-{day:0>2}"))
            loose.problems.append(phrase("dates need single quotes, like '2011-12-31'"))
        elif token in _WRITTEN:
            words.append(_WRITTEN[token])
            loose.problems.append(_written(token, _WRITTEN[token]))
        elif kind != "space":
            words.append(token)
    if text.endswith(";"):
        loose.problems.append(phrase("it must not end with a semicolon"))
    loose.text = " ".join(words)
    return loose


# --- rewriting --------------------------------------------------------------------------------------------------------


def _names(dictionary: Dictionary) -> frozenset[str]:
    """Names that are allowed where a column is expected, inside any(...) as well."""
    return frozenset((*dictionary.names, *(name for table in dictionary.events for name in (table.name, *table.names))))


def _table_of(dictionary: Dictionary, name: str) -> EventTable | None:
    """The first event table that has a column of this name."""
    return next((table for table in dictionary.events if name.lower() in table.names), None)


def _column(dictionary: Dictionary, name: str) -> Column | None:
    column, table = dictionary.find(name.lower()), _table_of(dictionary, name)
    if column is None and table is not None:
        column = table.column(name.lower())
    return column if column is not None and column.type is ColumnType.CODE else None


def _quoted_code(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """The words after a comparison, in quotes: as many as make a published code, or else the first."""
    column = _column(dictionary, found["name"])
    words = found["words"].split()
    if column is None or words[0].lower() in _names(dictionary):
        return found[0]
    for number in range(min(len(words), _MOST_WORDS), 0, -1):
        code = spelled_otherwise(column, " ".join(words[:number]).replace(" ,", ","))
        if code is not None:
            return " ".join([found["before"], loose.quote(code), *words[number:]])
    return " ".join([found["before"], loose.quote(words[0]), *words[1:]])


def _quoted_codes(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """The words of a list in quotes."""
    column = _column(dictionary, found["name"])
    if column is None:
        return found[0]
    items = [
        item
        if re.fullmatch(_VALUE, item) or item.lower() == "rest"
        else loose.quote(spelled_otherwise(column, item) or item)
        for item in found["items"].split(" , ")
    ]
    return f"{found['before']}{' , '.join(items)}{found['after']}"


def _bare_name(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    name = loose.content(found["quoted"])
    return f"{name} {found['rest']}" if name.lower() in _names(dictionary) else found[0]


def _with_events(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """The events that have the column, before it."""
    del loose
    table = _table_of(dictionary, found["name"])
    return found[0] if table is None else f"{found['before']} {table.name} where {found['name']}"


def _closed(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """With every ( closed at the end."""
    del dictionary
    return found[0] + " )" * max(0, loose.text.count("(") - loose.text.count(")"))


def _opened(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """Without the ) that have no (."""
    del loose, dictionary
    kept, depth = [], 0
    for word in found[0].split():
        depth += (word == "(") - (word == ")")
        if depth >= 0:
            kept.append(word)
        depth = max(0, depth)
    return " ".join(kept)


_NO_KEYWORD = rf"(?!(?:{'|'.join(sorted(_KEYWORDS))})\b)"
_LIST_ITEM = r"[^(),]+"

_EITHER: Sequence[Mistake] = (
    Mistake(
        rf"(?P<before>(?P<name>{_NAME}) (?:=|<>|!=|is not|is|(?:not )?under)) (?P<words>{_NO_KEYWORD}{_NAME}(?! \().*)",
        _quoted_code,
        phrase("codes and values need single quotes"),
    ),
    Mistake(
        rf"(?P<before>(?P<name>{_NAME}) (?:not )?(?:in|under) \( )(?P<items>(?=[^()]*{_NAME}){_LIST_ITEM}(?: , {_LIST_ITEM})*)(?P<after> \))",
        _quoted_codes,
        phrase("codes and values need single quotes"),
    ),
    Mistake(rf"\b(?:contains|includes|equals|has)(?= {_VALUE})", "=", _written("contains", "=")),
    Mistake(rf"\bis not(?= {_VALUE})", "<>", phrase("'is' stands before null only; not equal is written <>")),
    Mistake(rf"\bis(?= {_VALUE})", "=", phrase("'is' stands before null only; equal is written =")),
    Mistake(r"\bnot =", "<>", _written("not =", "<>")),
    Mistake(
        rf"(?<= )= \( ({_VALUE}(?: , {_VALUE})+) \)",
        r"in ( \1 )",
        phrase("several values need 'in' and parentheses"),
    ),
    Mistake(
        rf"(?<= )(?:<>|!=) \( ({_VALUE}(?: , {_VALUE})+) \)",
        r"not in ( \1 )",
        phrase("several values need 'in' and parentheses"),
    ),
    Mistake(
        rf"(?<= )= ({_VALUE}(?: , {_VALUE})+){_ENDS}",
        r"in ( \1 )",
        phrase("several values need 'in' and parentheses"),
    ),
    Mistake(rf"\bin ({_VALUES})", r"in ( \1 )", phrase("several values need 'in' and parentheses")),
    Mistake(
        rf"({_NAME}) ({_SIGN}) ({_VALUE}) (and|or) ({_VALUE}){_ENDS}",
        r"\1 \2 \3 \4 \1 \2 \5",
        phrase("the column is repeated in every comparison"),
    ),
)

_PARENTHESES: Sequence[Mistake] = (
    Mistake(r"^.*\).*$", _opened, phrase("a ) has no (")),
    Mistake(r"^.*\(.*$", _closed, phrase("a ( is not closed")),
)

_OF_EVENTS: Sequence[Mistake] = (
    Mistake(rf"\b(?:exists|some)(?= \( {_NAME} (?:where|,|\)))", "any", _written("exists", "any")),
    Mistake(rf"\b{_NAME} \. (?={_NAME})", "", phrase("the name of a column stands alone, without that of its table")),
    Mistake(
        rf"(?P<before>\b(?:any|count) \() (?P<name>{_NAME})(?= (?:{_SIGN}|in|not|between|like|is|under) )",
        _with_events,
        phrase("any(...) and count(...) begin with the name of events"),
    ),
    Mistake(
        rf"\b(any|count) \( ({_NAME}) (?:,|and|with|having|if|on) ",
        r"\1 ( \2 where ",
        phrase("a condition on events begins with 'where'"),
    ),
    Mistake(
        rf"^((?:not )?any) (?:({_NAME})|\( ({_NAME}) \)) where (.+)$",
        lambda _loose, found, _dictionary: f"{found[1]} ( {found[2] or found[3]} where {found[4]} )",
        phrase("events and their condition go inside the parentheses of any(...) or count(...)"),
    ),
    Mistake(
        rf"\b(any|count) ({_NAME})(?= {_SIGN} |$)",
        r"\1 ( \2 )",
        phrase("events and their condition go inside the parentheses of any(...) or count(...)"),
    ),
    Mistake(r"\b(?:under in|in under)(?= \()", "under", _written("under in", "under")),
    Mistake(rf"\bunder ({_VALUE}(?: , {_VALUE})+)", r"under ( \1 )", phrase("several codes need parentheses")),
)

CONDITIONS: Sequence[Mistake] = (
    Mistake(
        r"^(?:select .*?)?(?<!\w)where (?P<rest>.+)$",
        r"\g<rest>",
        phrase("only the condition is typed, without select, from or where"),
    ),
    Mistake(r"^select .*$", None, phrase("only the condition is typed, without select, from or where")),
    Mistake(r"\bcount \( (?:\*|\)|distinct\b|all\b|1\b).*$", None, phrase("what is counted is said with --count")),
    *_OF_EVENTS,
    *_EITHER,
    Mistake(
        rf"(?P<quoted>'\d+') (?P<rest>(?:{_SIGN}|in|between|like|under|is)(?: not)? (?:\(|{_VALUE}|null))",
        _bare_name,
        phrase("names of columns take no quotes"),
    ),
    Mistake(r"(?<= )= null\b", "is null", phrase("a missing value is found with 'is null'")),
    Mistake(r"(?<= )(?:<>|!=) null\b", "is not null", phrase("any value at all is found with 'is not null'")),
    Mistake(r"(?<!is )\bnot null\b", "is not null", phrase("any value at all is found with 'is not null'")),
    Mistake(r"\bilike\b", "like", _written("ilike", "like")),
    Mistake(
        rf"({_VALUE}) (<=?) ({_NAME}) (<=?) ({_VALUE})",
        r"\1 \2 \3 and \3 \4 \5",
        phrase("a comparison has one sign; two comparisons are joined with 'and'"),
    ),
    Mistake(
        rf"({_NAME}) (>=?) ({_VALUE}) (<=?) ({_VALUE})",
        r"\1 \2 \3 and \1 \4 \5",
        phrase("a comparison has one sign; two comparisons are joined with 'and'"),
    ),
    Mistake(
        rf"\bbetween (?:\( )?({_VALUE}) (?:,|to|and|-) ({_VALUE}) \)",
        r"between \1 and \2",
        phrase("the bounds of between are joined with 'and', without parentheses"),
    ),
    Mistake(
        rf"\bbetween ({_VALUE}) (?:,|to|-) ({_VALUE})",
        r"between \1 and \2",
        phrase("the bounds of between are joined with 'and', without parentheses"),
    ),
    Mistake(
        rf"({_VALUE}|null|\)) (?:, )?{_NO_KEYWORD}({_NAME}) (?={_SIGN} |in |between |like |under |is |not )",
        r"\1 and \2 ",
        phrase("'and' or 'or' stands between two comparisons"),
    ),
    *_PARENTHESES,
)


def others(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """A list of the values that were not excluded."""
    column = _column(dictionary, found["name"])
    if column is None:
        return found[0]
    excluded = {loose.content(quoted) for quoted in re.findall(r"'\d+'", found["values"])}
    left = [loose.quote(value) for value in column.asked if value not in excluded]
    return f"{found['name']} in ( {' , '.join(left)} )" if left else found[0]


def _variable_of(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    """The first variable that has the value, before it."""
    for column in dictionary.columns:
        code = spelled_otherwise(column, loose.content(found[0]) if found[0].startswith("'") else found[0])
        if code is not None:
            return f"{column.name} = {loose.quote(code)}"
    return found[0]


def _beginning_so(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    column = _column(dictionary, found["name"])
    prefix = loose.content(found["pattern"]).rstrip("%")
    values = [] if column is None else [loose.quote(value) for value in column.values if value.startswith(prefix)]
    return f"{found['name']} in ( {' , '.join(values)} )" if values else found[0]


def _in_list(loose: _Loose, found: re.Match[str], dictionary: Dictionary) -> str:
    del loose, dictionary
    return f"{found['name']} in ( {' , '.join(re.findall(_VALUE, found[0]))} )"


QUESTIONS: Sequence[Mistake] = (
    Mistake(
        r"^select .*? where (.+)$", r"\1", phrase("only what is counted is typed, without select, count, from or where")
    ),
    Mistake(
        r"^(?:select .*|(?:count )?\( ?\* ?\)|count|\*|every(?:one|body)|any(?:one|body)|total|people|persons)$",
        "all",
        phrase("everyone is counted with 'all'"),
    ),
    Mistake(
        r"^count \( (.+) \)$", r"\1", phrase("only what is counted is typed, without select, count, from or where")
    ),
    *_EITHER,
    Mistake(
        rf"(?P<before>^(?P<name>{_NAME}) by )(?P<items>(?=.*{_NAME}){_LIST_ITEM}(?: , {_LIST_ITEM})*)(?P<after>$)",
        _quoted_codes,
        phrase("codes and values need single quotes"),
    ),
    Mistake(
        rf"^(?P<name>{_NAME}) (?:<>|!=|not in) (?P<values>'\d+'|\( '\d+'(?: , '\d+')* \))$",
        others,
        phrase("a question names what is counted, not what is left out"),
    ),
    Mistake(
        rf"^not (?P<name>{_NAME}) (?:=|in) (?P<values>'\d+'|\( '\d+'(?: , '\d+')* \))$",
        others,
        phrase("a question names what is counted, not what is left out"),
    ),
    Mistake(
        rf"^(?P<name>{_NAME}) = '\d+'(?: or (?P=name) = '\d+')+$",
        _in_list,
        phrase("several values need 'in' and parentheses"),
    ),
    Mistake(
        rf"^({_NAME}) (?:=|in) (?:\( )?({_VALUES}) , rest(?: \))?$",
        r"\1 by \2 , rest",
        phrase("cells are listed after 'by'"),
    ),
    Mistake(
        rf"^(?P<name>{_NAME}) like (?P<pattern>'\d+')$", _beginning_so, phrase("'like' is for health codes, in --where")
    ),
    Mistake(
        rf"^(?:'\d+'|(?!all$){_NAME}(?: {_NAME})*)$", _variable_of, phrase("a value needs the name of its variable")
    ),
    Mistake(r"\band\b", None, phrase("a question is of one language variable; health goes into --where")),
    *_PARENTHESES,
)
