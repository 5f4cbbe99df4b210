"""Keeps what the documents quote in step with the code: `python -m deploy.documents write` or `check`.

A document marks a quoted block with `<!-- begin NAME -->` and `<!-- end NAME -->`; what stands between is made here, from
the code itself: help texts, settings with their comments, the table of callers, the table of errors. Sample
configurations are files of their own.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import msgspec
from click.testing import CliRunner
from tripartite.v1 import answer_pb2, quote_pb2, ticket_pb2

import broker_common.agency.config
import broker_common.audit.home
import broker_common.privacy.policy
import census_node.config
import census_node.linking.settings
import health_node.config
import researcher_node.config
import researcher_node.study.file
from broker_common.audit.codes import CODES
from broker_common.audit.export.documents import OpenedCriteria, ReceiptFile
from broker_common.cli import program
from broker_common.crypto.commitments import SlotSecret, commit_criteria, hash_bytes, noise_seed
from broker_common.crypto.noise_stream import NoiseStream
from broker_common.crypto.sealing import SEALING_KEY_BYTES
from broker_common.crypto.signing import Purpose, SigningKey
from broker_common.errors import REASONS, exit_code_of
from broker_common.privacy.accounting import price
from broker_common.privacy.delays import DECLARED_STEP
from broker_common.privacy.table_laplace import draw, margin
from broker_common.query.canonical import canonical_bytes
from broker_common.query.criteria import parse_condition
from broker_common.query.question import EVERYONE
from broker_common.query.quote import sign_quote
from broker_common.query.ticket import sign_ticket
from broker_common.rpc.callers import ALLOWED_ROLES
from broker_common.rpc.status import STATUS_OF_REASON
from broker_common.storage.creation import comment_above, comments_of, config_text
from broker_common.tlog.cosignature import Cosigner
from broker_common.tlog.entries import Entry, Event, Loaded, Opened, encode_entry
from broker_common.tlog.merkle import MerkleTree, leaf_hash, verify_consistency
from broker_common.tlog.note import NoteSigner
from broker_common.tlog.orders import Order
from broker_common.tlog.replay import FORMAT_VERSION
from broker_common.tlog.tiles import CHECKPOINT_PATH, entry_bundles, hash_tiles, parse_hash_tile
from broker_common.values import base64_text
from deploy.local import PROJECT, Plan, census_config, health_config, researcher_config
from deploy.synthetic.dictionaries import CENSUS_DICTIONARY, HEALTH_DICTIONARY
from researcher_node.study.design import design
from researcher_node.study.file import KINDS_EXPLAINED, parse_study_file
from researcher_node.study.plan import make_plan
from researcher_node.study.plan_texts import plan_text

_ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end (?P=name) -->)", re.DOTALL)
_DOCUMENTS = (
    "README.md",
    "broker_common/audit/AUDIT.md",
    "broker_common/tlog/FORMAT.md",
    "docs/asking.md",
    "docs/attacks.md",
    "docs/dashboard.md",
    "docs/lab.md",
    "docs/linkage.md",
    "docs/policy.md",
    "docs/settings.md",
    "docs/studies.md",
    "protos/README.md",
)
_SAMPLE_ADDRESSES = {"researcher": "127.0.0.1:7001", "health": "127.0.0.1:7002", "census": "127.0.0.1:7003"}


def changed_documents() -> dict[Path, str]:
    """Every file whose quoted parts are out of step, with the content it should have."""
    wanted = {_ROOT / name: _with_blocks((_ROOT / name).read_text(encoding="utf-8")) for name in _DOCUMENTS}
    wanted |= _samples()
    return {
        path: text for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: list[str]) -> int:
    """`write` brings the files in step; `check` fails, and shows what differs, if any is not."""
    changed = changed_documents()
    for path, text in changed.items():
        if arguments == ["write"]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            old = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            name = str(path.relative_to(_ROOT))
            click.echo("\n".join(difflib.unified_diff(old, text.splitlines(), name, "from the code", lineterm="")))
    return 1 if changed and arguments != ["write"] else 0


def _with_blocks(text: str) -> str:
    return _BLOCK.sub(lambda block: f"{block[1]}{_BLOCKS[block['name']]()}{block[4]}", text)


# --- what blocks hold ----------------------------------------------------------------------------------------------


def _help(*words: str) -> str:
    result = CliRunner().invoke(
        program, [*words, "--help"], prog_name="tripartite", terminal_width=100, catch_exceptions=False
    )
    return f"```\n$ {' '.join(['tripartite', *words])} --help\n{result.output.rstrip()}\n```\n"


def _callers() -> str:
    rows = [
        f"| `{method.split('/')[1].rpartition('.')[2]}.{method.split('/')[2]}` | {', '.join(sorted(roles))} |"
        for method, roles in ALLOWED_ROLES.items()
    ]
    return "\n".join(["| RPC | who may call it |", "|---|---|", *rows]) + "\n"


def _errors() -> str:
    rows = [
        f"| `{code}` | {STATUS_OF_REASON[code].name} | {int(exit_code_of(code))} | {reason.text} |"
        for code, reason in REASONS.items()
    ]
    return "\n".join(["| code | gRPC status | exit | sentence |", "|---|---|---|---|", *rows]) + "\n"


def _problem_codes() -> str:
    rows = [f"| `{code}` | {sentence} |" for code, sentence in CODES.items()]
    return "\n".join(["| code | what it means |", "|---|---|", *rows]) + "\n"


def _settings(homes: Mapping[str, type[msgspec.Struct]]) -> str:
    """The settings of one section, by the homes that have them, with the comments above them in the source."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for home, kind in homes.items():
        comments = comments_of(kind)
        for field in msgspec.structs.fields(kind):
            if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                continue
            if not comments[field.name]:
                raise ValueError(f"{kind.__name__}.{field.name} has no comment that says what it is")
            rows.setdefault((field.name, _default(field), " ".join(comments[field.name])), []).append(home)
    if len(homes) == 1:
        head = ["| setting | default | what it is |", "|---|---|---|"]
        lines = [f"| `{name}` | {default} | {comment} |" for name, default, comment in rows]
    else:
        head = ["| setting | home | default | what it is |", "|---|---|---|---|"]
        lines = [
            f"| `{name}` | {', '.join(at)} | {default} | {comment} |" for (name, default, comment), at in rows.items()
        ]
    return "\n".join([*head, *lines]) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    """As it is written in TOML."""
    if field.required:
        return "required"
    return f"`{json.dumps(field.default)}`" if field.default is not msgspec.NODEFAULT else ""


# Names that a study file and the program do not share, and fields that are none of its keys.
_STUDY_KEYS = {"fraction_millionths": "fraction"}
_NO_STUDY_KEYS = frozenset({"file", "line", "kind", "part", "select"})


def _study_keys() -> str:
    """The keys of a study file, with the comments above them in the source."""
    source = inspect.getsource(researcher_node.study.file)
    lines = source.splitlines()
    found = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    rows = ["| key | what it is |", "|---|---|"]
    for name, prefix in (("StudyFile", ""), ("Expectation", "expect: ")):
        rows += _study_rows(found[name], lines, prefix)
    kinds = [f"| `estimate: - {kind}` | {meaning} |" for kind, meaning in KINDS_EXPLAINED.items()]
    return "\n".join([*rows, *kinds, *_study_rows(found["EstimateItem"], lines, "estimate: ")]) + "\n"


def _study_rows(node: ast.ClassDef, lines: list[str], prefix: str) -> list[str]:
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return [
        f"| `{prefix}{_STUDY_KEYS.get(each.target.id, each.target.id)}` | {' '.join(comment_above(lines, each.lineno))} |"
        for each in fields
        if isinstance(each.target, ast.Name) and each.target.id not in _NO_STUDY_KEYS
    ]


def _study(name: str) -> str:
    """A sample of a study file."""
    return f"```yaml\n{(_ROOT / 'docs' / 'studies' / f'{name}.yaml').read_text(encoding='utf-8')}```\n"


def _study_plan() -> str:
    """The plan of a sample under the policy that `init` makes."""
    name = "diabetes-by-age"
    file = parse_study_file((_ROOT / "docs" / "studies" / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
    study = design(file, HEALTH_DICTIONARY, CENSUS_DICTIONARY, PROJECT)
    policy = Plan(population=100_000, seed=1, accounting="per_person", max_belief="0.8").policy()
    made = make_plan(study, file.scale or policy.usual_scale, policy, HEALTH_DICTIONARY, answered=0)
    return f"```\n{plan_text(made)}\n```\n"


def _samples() -> dict[Path, str]:
    configs = {
        "census": census_config(_SAMPLE_ADDRESSES, DECLARED_STEP, {}),
        "health": health_config(_SAMPLE_ADDRESSES, DECLARED_STEP),
        "researcher": researcher_config(_SAMPLE_ADDRESSES),
    }
    return {_ROOT / "deploy" / "samples" / f"{role}.toml": config_text(config) for role, config in configs.items()}


# The examples are under a key that anybody can make: 32 bytes of 0x2a.
_EXAMPLE_SIGNER = NoteSigner("census.example/tripartite", (SigningKey(Purpose.LOG, b"*" * 32),))


_EXAMPLE_NONCE = b"," * 32


def _example_entries() -> list[bytes]:
    opened = Opened(origin=_EXAMPLE_SIGNER.name, role="census", format=FORMAT_VERSION)
    loaded = Loaded(
        load="6f1d0c7be29a4458", release="2011", linkage="5d0f6a1c9e3b7248", dictionary="cd" * 32, commitment="ab" * 32
    )
    events: tuple[Event, ...] = (opened, loaded)
    return [
        encode_entry(Entry(sequence=sequence, time_ms=1_763_458_236_000 + sequence, policy="", event=event))
        for sequence, event in enumerate(events)
    ]


def _example_note() -> str:
    tree = _tree(_example_entries())
    return _EXAMPLE_SIGNER.sign_checkpoint(tree.size, tree.root())


def _tree(entries: list[bytes]) -> MerkleTree:
    tree = MerkleTree()
    for entry in entries:
        tree.append(entry)
    return tree


def _example_log() -> str:
    """Two entries, their checkpoint, and its key."""
    lines = b"\n".join(_example_entries()).decode()
    return f"```\n{lines}\n```\n\n```\n{_example_note()}```\n\n```\n{_EXAMPLE_SIGNER.verifier.to_text()}\n```\n"


def _example_export() -> str:
    """The same log as files: lengths and hashes in hexadecimal, with spaces that the files do not have."""
    entries = _example_entries()
    ((bundle, _),) = entry_bundles(entries)
    ((tile, hashes),) = hash_tiles(leaf_hash(entry) for entry in entries)
    content = "\n".join(f"{len(entry):04x} {entry.decode()}" for entry in entries)
    leaves = "\n".join(node.hex() for node in parse_hash_tile(hashes, len(entries)))
    return f"```\n{CHECKPOINT_PATH}\n\n{_example_note()}```\n\n```\n{bundle}\n\n{content}\n```\n\n```\n{tile}\n\n{leaves}\n```\n"


def _example_consistency() -> str:
    """A log of seven entries continues the one of three."""
    tree = _tree([b"leaf %d" % number for number in range(7)])
    proof = tree.consistency_proof(3)
    verify_consistency(3, tree.root(3), 7, tree.root(), proof)
    roots = "\n".join(f"{size} {tree.root(size).hex()}" for size in (3, 7))
    nodes = "\n".join(node.hex() for node in proof)
    return f"```\n{roots}\n```\n\n```\n{nodes}\n```\n"


def _example_noise() -> str:
    """The noise of a count and of a table, from what a charge fixes."""
    lines = []
    for cells in (1, 3):
        seed = noise_seed(
            SlotSecret(b"*" * 32), ticket_hash=b"\xab" * 32, set_commitment=b"\x12" * 32, scale=30, cells=cells
        )
        noise = draw(cells, 30, NoiseStream(seed))
        lines.append(f"{cells} {seed.hex()} {', '.join(map(str, noise))}\n")
    return f"```\n{''.join(lines)}```\n"


def _example_cosigned() -> str:
    """The same checkpoint with a cosignature, and the witness's key: other 32 bytes that anybody can make."""
    cosigner = Cosigner("health.example/tripartite", SigningKey(Purpose.WITNESS, b"+" * 32))
    cosigned = cosigner.cosign(_example_note(), 1_763_458_300)
    return f"```\n{cosigned}```\n\n```\n{cosigner.verifier.to_text()}\n```\n"


def _example_order() -> str:
    """A reopening's document and signature, under the same key."""
    key = SigningKey(Purpose.OPERATOR, b"*" * 32)
    order = Order(act="reopen", log="census.example/tripartite", note="the drill is over", policy="ab" * 32, sequence=7)
    return f"```\n{order.document.decode()}\n```\n\n```\n{key.sign_text(order.document)}\n```\n"


def _example_key_ids() -> str:
    """The same private key, for every purpose that names its keys so."""
    named = [purpose for purpose in Purpose if purpose.key is purpose and purpose not in {Purpose.LOG, Purpose.WITNESS}]
    lines = [f"{purpose.value:<8} {SigningKey(purpose, b'*' * 32).key_id}" for purpose in named]
    public = SigningKey(Purpose.TICKET, b"*" * 32).verify_key.raw.hex()
    return "\n".join(["```", f"public   {public}", *lines, "```", ""])


def _example_ticket() -> ticket_pb2.SignedTicket:
    slot = ticket_pb2.NoiseSlot(number=7, commitment=b"\xab" * 32, checkpoint=_example_note())
    body = ticket_pb2.Ticket(
        query_id=bytes(range(16)),
        researcher_id="alice",
        project_id="francophone-health",
        question=EVERYONE.to_wire(),
        census_release="2011",
        scale=30,
        fraction_millionths=1_000_000,
        criteria_commitment=commit_criteria(_EXAMPLE_NONCE, _example_criteria()),
        answer_key=bytes(SEALING_KEY_BYTES),
        policy_hash=b"\xab" * 32,
        noise_slot=slot,
        expires_ms=1_763_458_836_000,
    )
    return sign_ticket(body, SigningKey(Purpose.TICKET, b"*" * 32))


def _example_quote(ticket: ticket_pb2.Ticket) -> bytes:
    body = quote_pb2.Quote(
        researcher_id=ticket.researcher_id,
        question=ticket.question,
        census_release=ticket.census_release,
        scale=ticket.scale,
        charged=price(ticket.scale),
        margin_95=margin(ticket.scale),
        remaining=41,
        policy_hash=ticket.policy_hash,
        noise_slot=ticket.noise_slot,
        told_ms=1_763_458_236_000,
        expires_ms=ticket.expires_ms,
    )
    return sign_quote(body, SigningKey(Purpose.ANSWER, b"*" * 32)).SerializeToString(deterministic=True)


def _example_criteria() -> bytes:
    return canonical_bytes(parse_condition("age >= 65", HEALTH_DICTIONARY))


def _example_receipt() -> str:
    """The file of a question that has an answer, with its base64 cut short, and the ticket hash."""
    ticket = _example_ticket()
    hashed = hash_bytes(ticket.ticket)
    body = answer_pb2.Receipt(query_id=bytes(range(16)), ticket_hash=hashed, scale=30, charged=price(30))
    receipt = body.SerializeToString(deterministic=True)
    key = SigningKey(Purpose.ANSWER, b"*" * 32)
    signed = answer_pb2.SignedReceipt(receipt=receipt, signature=key.sign(receipt), key_id=key.key_id)
    file = ReceiptFile.of(
        bytes(range(16)).hex(),
        "answered",
        _example_quote(ticket_pb2.Ticket.FromString(ticket.ticket)),
        ticket.SerializeToString(),
        signed.SerializeToString(deterministic=True),
    )
    text = re.sub(r"([A-Za-z0-9+/]{40})[A-Za-z0-9+/]*=*", r"\1...", file.to_bytes().decode())
    return f"```\n{file.name}\n\n{text}```\n\n```\n{hashed.hex()}\n```\n"


def _example_opened_criteria() -> str:
    """The opened criteria of the same ticket, and their commitment."""
    opened = OpenedCriteria(
        ticket=hash_bytes(_example_ticket().ticket).hex(),
        criteria=base64_text(_example_criteria()),
        nonce=base64_text(_EXAMPLE_NONCE),
    )
    commitment = commit_criteria(_EXAMPLE_NONCE, _example_criteria()).hex()
    return f"```\n{opened.name}\n\n{opened.to_bytes().decode()}```\n\n```\n{commitment}\n```\n"


_BLOCKS: Mapping[str, Callable[[], str]] = {
    "help": _help,
    "help-attack": lambda: _help("attack"),
    "help-audit": lambda: f"{_help('audit', 'export')}\n{_help('audit', 'replay')}",
    "problem-codes": _problem_codes,
    "help-ask": lambda: _help("researcher", "ask"),
    "help-explain": lambda: _help("lab", "explain"),
    "callers": _callers,
    "example-log": _example_log,
    "example-noise": _example_noise,
    "example-order": _example_order,
    "example-export": _example_export,
    "example-consistency": _example_consistency,
    "example-cosigned": _example_cosigned,
    "example-criteria": _example_opened_criteria,
    "example-key-ids": _example_key_ids,
    "example-receipt": _example_receipt,
    "errors": _errors,
    "study-angioplasty": lambda: _study("angioplasty"),
    "study-diabetes-by-age": lambda: _study("diabetes-by-age"),
    "study-keys": _study_keys,
    "study-plan": _study_plan,
    "settings-policy": lambda: _settings({"census": broker_common.privacy.policy.Policy}),
    "settings-dashboard": lambda: _settings({"either": broker_common.agency.config.DashboardConfig}),
    "settings-linking": lambda: _settings({"census": census_node.linking.settings.LinkingSettings}),
    "settings": lambda: _settings(
        {
            "census": census_node.config.CensusConfig,
            "health": health_node.config.HealthConfig,
            "researcher": researcher_node.config.ResearcherConfig,
            "auditor": broker_common.audit.home.AuditorConfig,
        }
    ),
    "settings-keys": lambda: _settings(
        {
            "census": census_node.config.KeyConfig,
            "health": health_node.config.KeyConfig,
            "researcher": researcher_node.config.KeyConfig,
            "auditor": broker_common.audit.home.KeyConfig,
        }
    ),
    "settings-limits": lambda: _settings(
        {"census": census_node.config.LimitConfig, "health": health_node.config.LimitConfig}
    ),
    "settings-peers": lambda: _settings(
        {"health": health_node.config.CensusPeer, "researcher": researcher_node.config.AgencyPeer}
    ),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
