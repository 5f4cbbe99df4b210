"""Every parser of the product is fuzzed, or says here why not: one that is added cannot be forgotten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from architecture.sources import ROOT, modules, tree_of
from fuzz.targets import TARGETS

PACKAGES = ("broker_common", "census_node", "health_node", "researcher_node")
# How the house calls what makes a value of bytes or text, or stands between the two.
PARSER = re.compile(
    r"(parse|read|verify)_[a-z]\w*|[a-z]\w*from_wire|from_wire|load_config|load_people|read|receive|unseal_(answer|frame|opening)"
)
# Functions that are called like parsers and see no bytes from outside, or hand them on as they are.
EXEMPT = {
    "broker_common.audit.export.writing:ExportFolder.read": "hands bytes on, to compare them",
    "broker_common.audit.export.reading:FolderPart.read": "hands bytes on; what is no plain file is tested beside it",
    "broker_common.audit.export.reading:Part.read": "an interface",
    "broker_common.commands.register:verify_card_role": "takes a card that was verified",
    "broker_common.commands.create:verify_names": "takes words of a command line, each with a rule of its own",
    "broker_common.storage.creation:verify_empty": "looks into a folder",
    "broker_common.storage.creation:verify_identifier": "a pattern, with its bad names beside it",
    "broker_common.storage.creation:verify_origin": "a pattern, with its bad names beside it",
    "broker_common.query.ticket:VerifiedTicket.verify_dictionary": "compares two hashes",
    "broker_common.agency.home:AgencyHome.verify_dictionary": "takes a dictionary that was read",
    "census_node.assembly:CensusHome.verify_dictionary": "takes a dictionary that was read",
    "health_node.assembly:HealthHome.verify_dictionary": "takes a dictionary that was read",
    "census_node.registry.loading:verify_variables": "takes a dictionary that was read",
    "broker_common.monitoring:read_figures": "a file of the node's own; what cannot be read counts as silence",
    "broker_common.rpc.callers:verify_role": "takes an identity and the name of an RPC",
    "broker_common.storage.source.rows:RowKind.verify_count": "takes a number",
    "broker_common.storage.source.toml:verify_private": "looks at the mode of a file",
    "broker_common.storage.source.values:ColumnReader.read": "texts of a source: reached through both loaders",
    "broker_common.storage.source.values:verify_storable": "takes a column of a dictionary that was read",
    "census_node.query.budget:verify_affordable": "takes a state and a scale",
    "census_node.query.budget:verify_open": "takes a state",
    "census_node.query.budget:verify_quota": "takes a state, a name and a time",
    "census_node.ledger.samples:KeptSample.verify_active": "takes a sample that was read and compares its commitment",
    "census_node.assembly:CensusHome.read": "gives a view of the log, which the journal's targets read",
    "census_node.roster_rounds:RosterRounds.receive": "admits a header and opens frames: both are reached by themselves",
    "census_node.node:CensusNode.read_registry": "LoadFolder.verify, then Registry.read",
    "census_node.registry.loading:verify_declared": "takes numbers",
    "census_node.linking.reading:read_sources": "sources, which their own targets read",
    "census_node.registry.loading:verify_delays": "takes a policy that was read, and a number",
    "census_node.query.admission:BrokenOff.verify_claim": "raises what it was given",
    "census_node.query.admission:Recovered.verify_claim": "gives what it was given",
    "census_node.query.flow:Attempt.verify_claim": "an interface",
    "census_node.query.flow:Attempt.verify_sample": "an interface",
    "census_node.operator.staff_figures:FiguresFile.read": "a file of the dashboard's own; a damaged one is tested beside it",
    "health_node.operator.cohort_figures:read_cohort_figures": "a file of the dashboard's own",
    "health_node.operator.cohort_figures:read_counts": "a table of the node's own journal",
    "health_node.node:verify_fits": "takes a policy that was read, and a number",
    "census_node.operator.proposals:verify_subject": "takes a policy that was read, and a state",
    "census_node.operator.proposals:verify_linkage_kept": "takes a policy that was read, and a state",
    "broker_common.audit.logs.census_log:CensusLog.verify_linkages": "takes what was read of documents",
    "researcher_node.study.opened:verify_rehearsed": "a study file and two dictionaries, which their own targets read",
    "broker_common.privacy.policy:verify_linkage": "takes a policy that was read, and a dictionary's word",
}


def parsers() -> Iterator[str]:
    """Every public function and method that is named as parsers are."""
    for path in modules(*PACKAGES):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node, qualname in _functions(tree_of(path), ""):
            if PARSER.fullmatch(node.name) and not _is_property(node):
                yield f"{module}:{qualname}"


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _functions(node, f"{prefix}{node.name}.")


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in node.decorator_list)


COVERED = {
    f"{function.__module__}:{function.__qualname__}" for target in TARGETS.values() for function in target.covers
}


def test_every_parser_is_fuzzed_or_says_why_not() -> None:
    """A new parser needs a row in tests/fuzz: a target that calls it, or its name among the `covers` of one that does."""
    wrong = [parser for parser in parsers() if (parser in COVERED) == (parser in EXEMPT)]
    assert wrong == [], "see CONTRIBUTING.md, 'A parser is fuzzed'"


def test_exemptions_are_of_parsers_that_exist() -> None:
    """A reason for something that is no more would hide its successor."""
    assert set(EXEMPT) <= set(parsers())
    assert all(EXEMPT.values())


def test_the_usual_parsers_are_found() -> None:
    """The search itself works: functions, methods and class methods."""
    found = set(parsers())
    assert {
        "broker_common.query.criteria:parse_condition",
        "broker_common.query.dictionary_document:parse_dictionary_document",
        "broker_common.tlog.note:NoteVerifier.verify_checkpoint",
        "census_node.registry.registry:Registry.read",
    } <= found
    assert len(found) > 30
