"""The grammar: what binds closer, where each node stands in the text, and where a text stops making sense."""

from __future__ import annotations

from itertools import product

import pytest

from broker_common.errors import InvalidRequestError
from broker_common.query.scanner import MAX_NESTING, scan
from broker_common.query.syntax import Events, Joined, Name, Node, Not, Relation, Value, parse_syntax


def shape(node: Node) -> str:
    """A tree with a parenthesis for every node, so that nothing depends on what binds closer."""
    match node:
        case Joined(word, parts):
            return f"({f' {word} '.join(map(shape, parts))})"
        case Not(part):
            return f"(not {shape(part)})"
        case Relation(operator, operands, negated):
            return f"({'not ' * negated}{operator} {' '.join(map(shape, operands))})"
        case Events(word, table, where):
            return f"{word}[{table.text}{'' if where is None else f' {shape(where)}'}]"
        case Name(text) | Value(_, text):
            return text


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1 or b = 2 and c = 3", "((= a 1) or ((= b 2) and (= c 3)))"),
        ("a = 1 and b = 2 or c = 3 and d = 4 or e = 5", "(((= a 1) and (= b 2)) or ((= c 3) and (= d 4)) or (= e 5))"),
        ("(a = 1 or b = 2) and c = 3", "(((= a 1) or (= b 2)) and (= c 3))"),
        ("not a = 1 and b = 2", "((not (= a 1)) and (= b 2))"),
        ("not not (a = 1 or b = 2)", "(not (not ((= a 1) or (= b 2))))"),
        ("a between 1 and 2 and b not between 3 and 4", "((between a 1 2) and (not between b 3 4))"),
        ("a not in (1, (2)) or b is not null", "((not in a 1 2) or (not null b))"),
        ("a under 'x' and b not under ('x', 'y')", "((under a x) and (not under b x y))"),
        ("any(t where a = 1 or b = 2) and count(t) > 3", "(any[t ((= a 1) or (= b 2))] and (> count[t] 3))"),
        ("count(t where not any = 1) between 1 and 2", "(between count[t (not (= any 1))] 1 2)"),
        ("a = date '2010-01-01' and date = 'x'", "((= a 2010-01-01) and (= date x))"),
    ],
)
def test_tree_of_a_text(text: str, tree: str) -> None:
    """`not` binds closer than `and`, which binds closer than `or`; the `and` of between belongs to it."""
    assert shape(parse_syntax(scan(text))) == tree


def test_chains_of_every_order_bind_as_they_should() -> None:
    """All orders of five connectives mean what Python's own mean, on all truths of six tests."""
    for words in product(("and", "or"), repeat=5):
        names = [*"abcdef"]
        text = " ".join(f"{name} = 1 {word}" for name, word in zip(names, words, strict=False)) + " f = 1"
        tree = parse_syntax(scan(text))
        for truths in product((False, True), repeat=6):
            true = dict(zip(names, truths, strict=True))
            expected = eval(text.replace(" = 1", ""), {}, true)  # noqa: S307 - made above of letters, and, or
            assert holds(tree, true) == expected


def holds(node: Node, true: dict[str, bool]) -> bool:
    """Whether a tree holds, of tests of one name each."""
    match node:
        case Joined("and", parts):
            return all(holds(part, true) for part in parts)
        case Joined(_, parts):
            return any(holds(part, true) for part in parts)
        case Relation(_, (Name(name), _)):
            return true[name]
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x = 1 and  (a) >= ( 5 )  or y = 2", "(a) >= ( 5 )"),
        ("x = 1 and a not  in (1, 2)and y = 2", "a not  in (1, 2)"),
        ("x = 1 and a between 1 and DATE '2010-01-01'", "a between 1 and DATE '2010-01-01'"),
        ("x = 1 and count( t where b = 1 )>3 or y = 2", "count( t where b = 1 )>3"),
        ("x = 1 and a is not null", "a is not null"),
    ],
)
def test_a_relation_knows_where_it_stands(text: str, written: str) -> None:
    """From its first character to its last, parentheses of its sides included."""
    tree = parse_syntax(scan(text))
    while isinstance(tree, Joined):
        tree = next((part for part in tree.parts if isinstance(part, Joined)), tree.parts[1])
    assert text[tree.start : tree.end] == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1 b = 2", "near 'b' (character 7)"),
        ("a = 1 and or b = 2", "near 'or' (character 11)"),
        ("a not = 1", "near 'not' (character 3)"),
        ("a in (1,, 2)", "near ',' (character 9)"),
        ("a in (1, 2,)", "near ')' (character 12)"),
        ("a between 1 or 2", "near 'or' (character 13)"),
        ("a between 1 2", "near '2' (character 13)"),
        ("a is 5", "near '5' (character 6)"),
        ("a not is null", "near 'not' (character 3)"),
        ("any(t a = 1)", "near 'a' (character 7)"),
        ("any(t where)", "near ')' (character 12)"),
        ("any(where a = 1)", "begin with the name of events"),
        ("a = 'x' 'it''s'", "near 'it's' (character 9)"),
        ("a =", "something is missing at its end"),
        ("a = 1 and not", "something is missing at its end"),
        ("a -1 = 1", "there is no arithmetic"),
        ("a = null", "a column on one side and values on the other"),
    ],
)
def test_error_names_the_place(text: str, problem: str) -> None:
    """Counted from 1, as an editor does."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_syntax(scan(text))
    assert problem in caught.value.details["problem"]


def test_full_nesting_is_read() -> None:
    """Nesting of parentheses, of `not`, and of both with events inside."""
    deep = MAX_NESTING // 2 - 1
    text = "not (" * deep + "any(t where (a = 1))" + ")" * deep
    assert shape(parse_syntax(scan(text))) == "(not " * deep + "any[t (= a 1)]" + ")" * deep
