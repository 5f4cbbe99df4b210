"""Errors: one table of reasons, one table of statuses, the same error on both sides of the wire, no sizes in any detail."""

from __future__ import annotations

import ast
import json
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture.sources import modules, nodes_of
from fakes.links import on_the_wire
from google.protobuf import any_pb2
from google.rpc import status_pb2
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from broker_common import cli
from broker_common.errors import (
    REASONS,
    BrokerError,
    ExitCode,
    PeerUnavailableError,
    RefusedError,
    error_for,
    exit_code_of,
)
from broker_common.rpc.status import STATUS_OF_REASON, broker_error

ROOT = Path(__file__).parents[2]
EXIT_CODES = {
    "InvalidRequestError": ExitCode.INVALID_REQUEST,
    "RefusedError": ExitCode.REFUSED,
    "PeerUnavailableError": ExitCode.PEER_UNAVAILABLE,
    "InternalError": ExitCode.INTERNAL,
    "StateUnknownError": ExitCode.INTERNAL,
}
# Everything that any sentence may name. None is a size, a count, a ledger figure or somebody's record.
DETAILS = frozenset(
    {
        *("problem", "column", "events", "nearest", "value", "codes", "expected", "found", "operator", "variable"),
        *("name", "remedy", "subject", "key", "researcher", "project", "role", "rpc", "query", "asked", "served"),
        *(
            "limit",
            # A number that the policy publishes, and when the reader's own next question may be asked.
            "quota",
            "time",
            # How manieth roster of an agency: both logs have it.
            "number",
            "scale",
            # Details of dictionaries, which are published.
            "changes",
            "version",
            "changes",
            "newest",
            "scales",
            "terms",
            "retry_seconds",
            "what",
            # Details of the reader's own question, and of the reader's own home.
            "cells",
            "known",
            "home",
            "address",
            "file",
            "log",
            "owner",
            "reference",
            "chain",
            "package",
            "party",
            "peer",
            "reason",
            "witness",
        ),
    }
)


# Faults inside a node: its caller can do nothing about it but wait or tell its operator.
INTERNAL = {code for code, reason in REASONS.items() if reason.family.exit_code is ExitCode.INTERNAL}
STOPPING = {"FORMAT_OLD", "FORMAT_UNKNOWN", "INTEGRITY", "ROLLED_BACK", "STORE_FAILED", "STATE_UNKNOWN"}


def placeholders(code: str) -> set[str]:
    """The details that a reason's sentences name."""
    reason = REASONS[code]
    return {name for text in (reason.text, reason.hint) for _, name, _, _ in string.Formatter().parse(text) if name}


def made(code: str) -> BrokerError:
    """The error, with a detail of its own for everything that its sentences name."""
    return REASONS[code].family(code, **{name: f"<{name} é🍁>" for name in placeholders(code)})


def test_every_reason_has_a_status() -> None:
    """A reason without a status could not be told to a caller; a status without a reason is a misspelt one."""
    assert STATUS_OF_REASON.keys() == REASONS.keys()
    assert StatusCode.OK not in STATUS_OF_REASON.values()


def test_every_code_is_the_name_of_one_reason_only() -> None:
    """No two reasons have the same sentence, and each has a hint: a code is what tells them apart, not a wording."""
    assert len({reason.text for reason in REASONS.values()}) == len(REASONS)
    assert all(reason.hint for reason in REASONS.values())
    assert set(EXIT_CODES) == {reason.family.__name__ for reason in REASONS.values()}
    assert {"LOADING", "POLICY_TOO_NARROW", "PEER_FAILED"} <= set(REASONS)
    assert "SAMPLE_TOO_LARGE" not in REASONS, "a refusal by size would tell the size"


def test_every_error_is_the_same_on_both_sides_of_the_wire() -> None:
    """Code, details, sentence, hint and family survive the way through a gRPC status."""
    for code in set(REASONS) - INTERNAL:
        said = made(code)
        heard = broker_error(on_the_wire(said), "census")
        assert type(heard) is type(said)
        assert (heard.code, heard.details) == (said.code, said.details)
        assert (heard.text, heard.hint) == (said.text, said.hint)
        assert heard.exit_code == said.exit_code == EXIT_CODES[type(said).__name__]


@pytest.mark.parametrize("code", sorted(INTERNAL))
def test_fault_of_a_peer_is_the_peers_on_our_side_of_the_wire(code: str) -> None:
    """It is told as the failure of another node, by its name and with its reason, and never taken for our own."""
    heard = broker_error(on_the_wire(made(code)), "census")
    assert type(heard) is PeerUnavailableError
    assert (heard.code, heard.details) == ("PEER_FAILED", {"peer": "census", "reason": code})
    assert heard.exit_code is ExitCode.PEER_UNAVAILABLE
    assert code in heard.text
    # Told on, by the health node to a researcher, it still names the node that failed.
    assert broker_error(on_the_wire(heard), "health").details == heard.details


def test_status_of_a_code_says_whose_fault_it_is() -> None:
    """A reader of gRPC statuses only, a load balancer perhaps, sees the same families."""
    theirs = {StatusCode.UNAVAILABLE, StatusCode.INTERNAL}
    for code, reason in REASONS.items():
        assert (STATUS_OF_REASON[code] in theirs) == (reason.family.exit_code >= ExitCode.PEER_UNAVAILABLE), code
        assert (STATUS_OF_REASON[code] is StatusCode.INTERNAL) >= (code in INTERNAL), code


def test_no_error_from_the_wire_stops_the_node_that_hears_it() -> None:
    """A broken store is its owner's; a peer cannot stop us by naming one."""
    assert {code for code in REASONS if broker_error(on_the_wire(made(code)), "census").stops_node} == set()
    assert {code for code in REASONS if made(code).stops_node} == STOPPING


NASTY = {
    "clears the screen": "\x1b[2J\x1b[H",
    "overwrites the line": "\rNothing was charged.",
    "a second line": "x\nerror: call 555-0100",
    "turns the text round": "\u202egnihton",
    "a zero byte": "\0",
    "a bell of the second set": "\x9b31m",
    "invisible": "a\u200bb\u2028c",
}


@pytest.mark.parametrize("what", NASTY)
def test_details_from_the_wire_are_made_printable(what: str) -> None:
    """A peer's words are shown on a researcher's terminal: nothing in them is obeyed, and they are cut."""
    said = RefusedError("SCALE_REFUSED", scale=NASTY[what], scales="1 to 50, é🍁" + "9" * 10_000)
    heard = broker_error(on_the_wire(said), "census")
    assert heard.details["scale"] == "".join(letter if letter.isprintable() else "?" for letter in NASTY[what])
    assert (heard.text + heard.hint).isprintable()
    assert heard.details["scales"].startswith("1 to 50, é🍁9")
    assert len(heard.details["scales"]) == 500
    # As an unknown code, too.
    assert error_for(NASTY[what] * 100, {}).text.isprintable()


def test_details_of_any_name_are_harmless() -> None:
    """Names of details are a stranger's choice as well: none of them reaches into the error itself."""
    names = {"self": "1", "code": "INTEGRITY", "family": "2", "__class__": "3", "text": "4", "": "5", "0": "6"}
    heard = error_for("BUSY", {**names, "retry_seconds": "{code.__class__}"})
    assert (heard.code, heard.stops_node) == ("BUSY", False)
    assert heard.text == REASONS["BUSY"].text
    assert heard.hint == "Try again in {code.__class__} seconds."


def test_sentences_name_allowed_details_only() -> None:
    """Error text is part of the leakage surface: no sentence has room for a size, a count or a record."""
    assert set().union(*map(placeholders, REASONS)) <= DETAILS


def test_an_error_without_its_details_still_has_a_sentence() -> None:
    """An old or lying peer that leaves details out causes a blank, not a second failure."""
    for code in REASONS:
        heard = error_for(code, {})
        assert heard.text
        assert heard.hint
        assert ("?" in heard.text + heard.hint) >= bool(placeholders(code)), code


FOREIGN = [
    (StatusCode.UNAVAILABLE, "PEER_UNAVAILABLE"),
    (StatusCode.DEADLINE_EXCEEDED, "PEER_UNAVAILABLE"),
    (StatusCode.CANCELLED, "PEER_UNAVAILABLE"),
    *(
        (status, "PEER_MISBEHAVED")
        for status in StatusCode
        if status not in {StatusCode.OK, StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED}
    ),
]


@pytest.mark.parametrize(("status", "code"), FOREIGN)
def test_status_that_is_not_ours_becomes_an_error_of_ours(status: StatusCode, code: str) -> None:
    """Whatever gRPC itself says, a caller catches a BrokerError that blames the peer and quotes nothing."""
    heard = broker_error(AioRpcError(status, Metadata(), Metadata(), details="17 people"), "health")
    assert (heard.code, heard.details["peer"]) == (code, "health")
    assert "17" not in heard.text


# A status whose one detail claims to be one of ours and is not.
FALSE_DETAIL = status_pb2.Status(
    code=StatusCode.INTERNAL.value[0],
    message="broken",
    details=[any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")],
).SerializeToString()


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x08\x05\x12\x01x", b"\x0a", FALSE_DETAIL])
def test_status_details_that_lie_become_the_peers_misbehaviour(details: bytes) -> None:
    """Details that do not parse, or contradict the status, are not believed in part."""
    error = AioRpcError(StatusCode.INTERNAL, Metadata(), Metadata(("grpc-status-details-bin", details)), "broken")
    assert broker_error(error, "census").code == "PEER_MISBEHAVED"


def test_unknown_reason_from_the_wire_is_the_peers_misbehaviour() -> None:
    """A code that this version does not know is not passed on as one that it does."""
    heard = error_for("NO_SUCH_REASON", {"people": "17"})
    assert heard.code == "PEER_MISBEHAVED"
    assert "17" not in heard.text


def raised_codes(path: Path) -> Iterator[tuple[str, str]]:
    """Every (family, code) that a source file raises with a literal code."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EXIT_CODES and node.args:
            code = node.args[0]
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield node.func.id, code.value


def test_every_code_that_is_raised_is_in_the_table_under_its_family() -> None:
    """A misspelt code, or one raised as another family, would surface only when it is needed."""
    raised = {pair for path in modules() for pair in raised_codes(path)}
    assert raised
    assert {(family, code) for family, code in raised if REASONS[code].family.__name__ != family} == set()


def test_every_reason_is_in_use() -> None:
    """A reason that nothing raises is a promise that nobody keeps."""
    raised = {code for path in modules() for _, code in raised_codes(path)}
    # Some codes are chosen first and raised later; the tables themselves do not count.
    tables = {ROOT / "broker_common" / "errors.py", ROOT / "broker_common" / "rpc" / "status.py"}
    chosen = {
        node.value for path in set(modules()) - tables for node in nodes_of(path) if isinstance(node, ast.Constant)
    }
    assert set(REASONS) - raised - chosen == set()


def test_details_that_are_raised_are_those_that_sentences_name() -> None:
    """A sentence with a blank in it tells its reader that we forgot something."""
    forgotten = []
    for path in modules():
        for node in nodes_of(path):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EXIT_CODES):
                continue
            keywords = {keyword.arg for keyword in node.keywords}
            if node.args and isinstance(node.args[0], ast.Constant) and None not in keywords:
                missing = placeholders(str(node.args[0].value)) - keywords
                forgotten += [(path.name, node.lineno, missing)] if missing else []
    assert forgotten == []


@pytest.mark.parametrize("as_json", [False, True])
def test_every_command_ends_with_its_familys_exit_code(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts can tell whose fault it was: 3 theirs, 4 refused, 5 a peer, 6 ours; --json names the code."""
    errors = iter([made(code) for code in REASONS])

    def failing(*_: object, **__: object) -> None:
        raise next(errors)

    monkeypatch.setattr(cli.program, "main", failing)
    # The log's destination is set for the whole process, and this one's stderr ends with this test.
    monkeypatch.setattr(cli, "log_as", lambda _: None)
    for code in REASONS:
        with pytest.raises(SystemExit) as ended:
            cli.main(["researcher", "ask", *(["--json"] if as_json else [])])
        assert ended.value.code == exit_code_of(code), code
        said = capsys.readouterr()
        if as_json:
            assert json.loads(said.out) == made(code).as_json()
        else:
            assert (said.out, f"[{code}]" in said.err) == ("", True), code
