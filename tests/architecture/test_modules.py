"""Modules: each says what it is, imports follow the contracts, settings stand in the manual."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from architecture.sources import PACKAGES, ROOT, modules, nodes_of, tree_of

from broker_common.audit import home as auditor_config
from broker_common.privacy.policy import Policy
from census_node import config as census_config
from health_node import config as health_config
from researcher_node import config as researcher_config

MANUAL = "".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("settings", "policy"))


def name_of(path: Path) -> str:
    """A source file, as it is told."""
    return str(path.relative_to(ROOT))


def test_modules_say_what_they_are() -> None:
    """Every module has a docstring; what it exports its names say, and only a package's root has a list of them."""
    assert [name_of(path) for path in modules() if not ast.get_docstring(tree_of(path))] == []
    inner = [path for path in modules() if path.name != "__init__.py"]
    assert [name_of(path) for path in inner if "__all__" in path.read_text()] == []


def test_private_names_are_not_imported_from_other_modules() -> None:
    """No module imports another's underscored names: publishing a name is a decision."""
    imported = [
        f"{name_of(path)}:{node.lineno} {alias.name}"
        for path in modules()
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert imported == []


def test_import_contracts_hold() -> None:
    """Nodes never import each other, layers point one way, pure packages do no input or output."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def structs(module: ModuleType) -> list[type[msgspec.Struct]]:
    """The configuration types that a module defines."""
    return [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, msgspec.Struct) and item.__module__ == module.__name__
    ]


CONFIGURED: list[type[msgspec.Struct]] = [
    *structs(auditor_config),
    *structs(census_config),
    *structs(health_config),
    *structs(researcher_config),
    Policy,
]
SETTINGS = sorted({(struct.__name__, field) for struct in CONFIGURED for field in struct.__struct_fields__})


def test_settings_stand_in_the_operators_manual() -> None:
    """An operator can look up every setting and every field of the policy, as `code`."""
    assert [(struct, field) for struct, field in SETTINGS if not re.search(rf"`\[?{field}\]?`", MANUAL)] == []


@pytest.mark.parametrize(
    "config",
    [
        auditor_config.AuditorConfig,
        census_config.CensusConfig,
        health_config.HealthConfig,
        researcher_config.ResearcherConfig,
    ],
)
def test_unknown_setting_is_an_error(config: type[msgspec.Struct]) -> None:
    """A misspelt setting is never silently ignored, at any depth."""
    waiting: list[type[msgspec.Struct]] = [config]
    while waiting:
        struct = waiting.pop()
        assert struct.__struct_config__.forbid_unknown_fields, struct
        waiting += [
            kind
            for field in msgspec.structs.fields(struct)
            for kind in (field.type, *getattr(field.type, "__args__", ()))
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        ]
