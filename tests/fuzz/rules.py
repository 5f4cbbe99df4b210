"""Targets on the agency's rules before they are in force: signed policies, proposals, drafts, and the operator's reasons."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import msgspec
from fakes import logs
from fakes.world import make_policy
from fuzz.target import Target, fresh_path, require
from tripartite.v1 import policy_pb2

from broker_common.crypto.signing import VerifyKey
from broker_common.privacy.policy import Policy, parse_policy, parse_signed_policy, verify_policy
from broker_common.query.messages import parse_message
from broker_common.rpc.signed_documents import policy_from_wire
from broker_common.tlog.entries import Adopted, Entry, Event, Reopened, Revoked, Shutdown, encode_entry, parse_entry
from broker_common.tlog.orders import verify_reason
from census_node.operator.proposals import Proposal, ProposalFolder, draft, make_proposal

_KEY = logs.POLICY_KEY
_POLICY = make_policy()
_OTHER = make_policy(max_belief="0.50001", scales=(50, 10**6))
_CODES = frozenset({"UNKNOWN_KEY", "BAD_SIGNATURE", "INVALID_VALUE"})
_WORDS = (b'"scales":[', b"1e2", b"4294967296", b'"\\u0000"', b"[[", b"null", b"-1", b"strict", b'"max_belief":"0.9"')


def _verify_sensible(policy: Policy) -> None:
    """Properties of every policy that may come into force."""
    verify_policy(policy)
    require(parse_policy(policy.document) == policy, "a policy is read back")


# --- as it travels -----------------------------------------------------------------------------------------------------


def _from_wire(data: bytes) -> Policy:
    """A message, or a document that the agency signed."""
    signed = policy_pb2.SignedPolicy(document=data[1:], signature=_KEY.sign(data[1:]), key_id=_KEY.key_id)
    if data[:1] == b"m":
        signed = parse_message(policy_pb2.SignedPolicy, data[1:])
    return policy_from_wire(signed, [_KEY.verify_key])


def _check_wire(policy: Policy, data: bytes) -> None:
    require(policy.document in data, "what was signed is what is read")
    _verify_sensible(policy)


def _wire_seeds() -> dict[str, bytes]:
    document = _POLICY.document
    whole = policy_pb2.SignedPolicy(document=document, signature=_KEY.sign(document), key_id=_KEY.key_id)
    return {
        "document": b"d" + document,
        "message": b"m" + whole.SerializeToString(),
        "bad spelling": b"d" + document + b" ",
        "bad key": b"m" + policy_pb2.SignedPolicy(document=document, key_id="x" * 9000).SerializeToString(),
        "bad signature": b"m" + policy_pb2.SignedPolicy(document=document, key_id=_KEY.key_id).SerializeToString(),
    }


# --- proposals ---------------------------------------------------------------------------------------------------------

_NAMED = _POLICY.hash.hex()


def _find(data: bytes) -> Proposal:
    """A name, in a folder that holds one proposal; or that proposal's file; or a document that is signed and proposed."""
    folder = fresh_path()
    folder.mkdir()
    part, rest = data[:1], data[1:]
    content, named = make_proposal(_POLICY, _KEY).to_bytes(), _NAMED[:8]
    if part == b"n":
        # Nothing outside of the folder: a named file may well be a device that never ends.
        named = rest.decode("utf-8", "surrogateescape").replace("/", "")
    elif part == b"d":
        text = rest.decode("utf-8", "replace")
        content = Proposal(document=text, signature=_KEY.sign_text(text.encode()), key_id=_KEY.key_id).to_bytes()
    elif part in b"hf":
        content = rest
    file = folder / f"{_NAMED}.json"
    file.write_bytes(content)
    try:
        return ProposalFolder(folder).find(str(file) if part in b"fd" else named, [_KEY.verify_key])
    finally:
        shutil.rmtree(folder)


def _check_proposal(proposal: Proposal, data: bytes) -> None:
    policy = proposal.verify([_KEY.verify_key])
    _verify_sensible(policy)
    require(proposal == make_proposal(policy, _KEY), "a proposal has one spelling")
    require(data[:1] in {b"f", b"d"} or policy == _POLICY, "a hash names one policy")
    if data[:1] in {b"f", b"h"}:
        require(data[1:] == proposal.to_bytes(), "nothing stands beside a proposal")


def _proposal_seeds() -> dict[str, bytes]:
    own, other = (make_proposal(policy, _KEY).to_bytes() for policy in (_POLICY, _OTHER))
    return {
        "prefix": b"n" + _NAMED[:8].encode(),
        "hash": b"n" + _NAMED.encode(),
        "by hash": b"h" + own,
        "file": b"f" + other,
        "document": b"d" + _OTHER.document,
        "bad hash": b"h" + other,
        "bad prefix": b"n" + _NAMED[:7].encode(),
        "bad name": b"n\0",
        "bad pattern": b"n*",
        "bad spelling": b"f" + own + b"\n",
        "bad document": b"d{}",
    }


# --- drafts ------------------------------------------------------------------------------------------------------------


def _check_draft(policy: Policy, data: bytes) -> None:
    _verify_sensible(policy)
    require(msgspec.json.decode(data, type=Policy) == policy, "a draft without changes says what it was made from")
    require(draft(policy, {}) == policy == draft(policy.document, {}), "a draft of a policy is that policy")


def _draft_seeds() -> dict[str, bytes]:
    fields = msgspec.to_builtins(_POLICY)
    return {
        "document": _POLICY.document,
        "pretty": msgspec.json.format(_POLICY.document, indent=2),
        "any order": msgspec.json.encode(dict(reversed(fields.items()))),
        "bad belief": msgspec.json.encode(fields | {"max_belief": "2"}),
        "bad scales": msgspec.json.encode(fields | {"scales": [3, 2]}),
        "bad field": msgspec.json.encode(fields | {"new": 1}),
        "bad empty": b"",
    }


# --- reasons -----------------------------------------------------------------------------------------------------------


def _parse_reason(data: bytes) -> str:
    return verify_reason(data.decode("utf-8", "surrogateescape"))


def _check_reason(reason: str, data: bytes) -> None:
    require(reason.encode() == data, "a reason is logged as it was given")
    signature, key_id = _KEY.sign_text(b""), _KEY.key_id
    events: tuple[Event, ...] = (
        Shutdown(reason="operator", note=reason, signature=signature, key_id=key_id),
        Reopened(note=reason, signature=signature, key_id=key_id),
        Revoked(role="health", name="health-agency", note=reason),
        Adopted(
            document=_POLICY.document.decode(),
            signature=signature,
            key_id=key_id,
            note=reason,
            confirmation=signature,
            confirmation_key_id=key_id,
        ),
    )
    for event in events:
        entry = Entry(sequence=0, time_ms=0, policy="", event=event)
        require(parse_entry(encode_entry(entry)) == entry, "a reason can be logged")


TARGETS: Mapping[str, Target[Any]] = {
    "signed_policy": Target(
        parse=_from_wire,
        check=_check_wire,
        covers=(policy_from_wire, parse_policy, VerifyKey.verify_signature),
        seeds=_wire_seeds,
        codes=_CODES | {"MALFORMED_MESSAGE"},
        words=_WORDS,
        mutations=400,
        max_bytes=12_000,
    ),
    "proposal": Target(
        parse=_find,
        check=_check_proposal,
        covers=(ProposalFolder.find, parse_signed_policy, VerifyKey.verify_text),
        seeds=_proposal_seeds,
        codes=_CODES,
        words=(b'"document":', b'"key_id":', b'"signature":', b"*", b"[", b".", _NAMED[:8].encode(), *_WORDS),
        mutations=400,
    ),
    "draft": Target(
        parse=lambda data: draft(data, {}),
        check=_check_draft,
        covers=(draft, verify_policy),
        seeds=_draft_seeds,
        codes=frozenset({"INVALID_VALUE"}),
        words=(b"\n", b" ", b"\xef\xbb\xbf", b"\\ud800", *_WORDS),
        mutations=400,
    ),
    "reason": Target(
        parse=_parse_reason,
        check=_check_reason,
        covers=(verify_reason,),
        seeds=lambda: {
            "usual": b"a drill",
            "marks": '"é\u2028\\'.encode(),
            "long": b"\x01" * 4096,
            "bad long": b"x" * 4097,
            "bad space": b" \t",
            "bad bytes": b"\xff",
        },
        codes=frozenset({"INVALID_VALUE"}),
        words=(b"\x00", b"\xed\xa0\x80", b"\xf0\x9f\x8d\x81", b'"', b"\\", b"\xc2\x85"),
        max_bytes=20_000,
    ),
}
