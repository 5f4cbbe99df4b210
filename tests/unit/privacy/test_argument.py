"""The written argument names code and tests that exist: a guard that was renamed away is no guard."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from broker_common.crypto import noise_stream
from broker_common.privacy import accounting, belief, discrete_laplace, enclosure, table_laplace

ROOT = Path(__file__).parents[3]
ARGUMENT = (ROOT / "broker_common" / "privacy" / "ARGUMENT.md").read_text(encoding="utf-8")
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (accounting, belief, discrete_laplace, enclosure, table_laplace)
}
MODULES["noise_stream"] = noise_stream


def named_tests() -> list[tuple[str, str]]:
    """Every `file::test` in the argument."""
    return re.findall(r"`([\w/]+\.py)::(\w+)`", ARGUMENT)


def test_the_argument_names_tests() -> None:
    """The tests below check something: the argument is found and names its guards."""
    assert len(named_tests()) > len(MODULES)


def test_every_named_test_exists() -> None:
    """A test named as a guard is in the file it is said to be in."""
    for file, name in sorted(set(named_tests())):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "name"), sorted(set(re.findall(rf"`({'|'.join(MODULES)})\.(?!py`)(\w+)`", ARGUMENT)))
)
def test_every_named_function_exists(module: str, name: str) -> None:
    """A function named as a guard is in the module it is said to be in, and public."""
    holder: ModuleType = MODULES[module]
    assert hasattr(holder, name)
    assert not name.startswith("_")


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:broker_common|census_node|health_node)/[\w/]+\.py)`", ARGUMENT)))
)
def test_every_named_file_exists(path: str) -> None:
    """A file outside this package that the proof leans on is where it is said to be."""
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("figure", ["23 258 159", "559 241", "0.79685", "0.80218", "0.84113"])
def test_every_figure_is_recomputed(figure: str) -> None:
    """The figures in the argument are those that the code gives."""
    cap, price = (
        accounting.cap_units(accounting.param_of(accounting.parse_max_belief("0.8"))),
        accounting.price(30),
    )
    recomputed = {
        f"{cap:,}".replace(",", " "),
        f"{price:,}".replace(",", " "),
        str(belief.belief_of_units(accounting.answers_left(cap, 0, 30) * price)),
        str(belief.belief_after(42, 30)),
        str(belief.belief_after(50, 30)),
    }
    assert figure in recomputed
    assert figure in ARGUMENT
