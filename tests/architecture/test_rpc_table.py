"""The table of who may call what covers every RPC that exists, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
import tripartite.v1
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from broker_common.crypto.certificates import Identity
from broker_common.errors import InvalidRequestError
from broker_common.rpc.callers import ALLOWED_ROLES, verify_role

ROLES = {"researcher", "health", "census"}


def all_methods() -> Iterator[MethodDescriptor]:
    """Every RPC of every service that our protos define, and of the standard services beside them."""
    files = [
        importlib.import_module(f"tripartite.v1.{module.name}").DESCRIPTOR
        for module in pkgutil.iter_modules(tripartite.v1.__path__)
        if module.name.endswith("_pb2")
    ]
    for file in [*files, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR]:
        for service in file.services_by_name.values():
            yield from service.methods


def path(method: MethodDescriptor) -> str:
    """A method's name on the wire."""
    return f"/{method.containing_service.full_name}/{method.name}"


def test_every_rpc_has_its_row_and_every_row_its_rpc() -> None:
    """A new RPC is refused to everybody until somebody decides who may call it; a removed one leaves no row."""
    assert set(ALLOWED_ROLES) == {path(method) for method in all_methods()}
    assert len(list(all_methods())) == 18


def test_every_row_names_known_roles() -> None:
    """A row for nobody, or for a role that does not exist, would be a mistake."""
    assert all(roles and roles <= ROLES for roles in ALLOWED_ROLES.values())


def test_who_may_call_what() -> None:
    """The whole table once more, written down by another hand."""
    by_role = {
        role: sorted(
            rpc.rpartition("/")[2] for rpc, roles in ALLOWED_ROLES.items() if role in roles and "grpc" not in rpc
        )
        for role in ROLES
    }
    assert by_role == {
        "researcher": [
            *("Collect", "Exchange", "GetCheckpoint", "GetConsistencyProof", "GetDictionary", "GetDictionary"),
            *("GetInclusionProof", "GetPolicy", "Quote", "Submit"),
        ],
        "health": [
            *("Count", "Exchange", "GetCheckpoint", "GetConsistencyProof", "GetInclusionProof", "GetPolicy"),
            *("SendRoster", "Witness"),
        ],
        "census": ["Deliver"],
    }


def test_rpc_that_is_not_in_the_table_is_refused_to_everybody() -> None:
    """The default is no."""
    for identity in (Identity("a", "researcher", "a"), Identity("a", "health", "a"), Identity("a", "census", "a")):
        with pytest.raises(InvalidRequestError) as caught:
            verify_role(identity, "/tripartite.v1.CensusService/Reveal")
        assert caught.value.code == "WRONG_ROLE"


def test_comments_in_the_protos_say_the_same(request: pytest.FixtureRequest) -> None:
    """A reader of a proto learns who may call: its comment and the table agree."""
    for method in all_methods():
        file = request.config.rootpath / "protos" / method.containing_service.file.name
        if not file.is_file():
            continue
        before, _, _ = file.read_text().partition(f"rpc {method.name}(")
        said = before.rpartition("Callers: ")[2].partition(".")[0]
        assert {role.strip() for role in said.split(",")} == ALLOWED_ROLES[path(method)], path(method)
