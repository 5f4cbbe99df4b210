"""An agency's installation: a wheel that runs its nodes and holds no attacks, no made-up people and no policy lab; a second one adds them."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from fakes.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
# Content that the agency's wheel must not have, and the part of `deploy` that it has.
OF_THE_LAB = ("attack", "demo", "init", "lab", "up")
FOR_AN_OPERATOR = {"examples", "monitoring", "samples", "systemd"}


class Installed:
    """An environment of its own, with the libraries of this one and nothing of the repository's."""

    def __init__(self, directory: Path, *wheels: Path) -> None:
        self.directory = directory
        venv.create(directory, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(directory / "bin" / "python"),
            "--disable-pip-version-check",
        )
        run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", *map(str, wheels)], directory)
        # Read last, and its own .pth files are not: the editable install of the repository stays out.
        (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")

    @property
    def for_operators(self) -> Path:
        """The folder that the documents call `deploy`."""
        return self.directory / "share" / "tripartite" / "deploy"

    def words(self, *words: str | Path) -> list[str]:
        """A command of the program, as it stands in this environment."""
        return [str(self.directory / "bin" / "tripartite"), *map(str, words)]

    def run(self, *words: str | Path, code: int = 0) -> str:
        """Output of a command, beside the environment."""
        return run(self.words(*words), self.directory.parent, code)

    def result(self, *words: str | Path, code: int = 0) -> Any:
        """Output of a command under --json."""
        return json.loads(self.run(*words, "--json", code=code))


def run(words: list[str], directory: Path, code: int = 0) -> str:
    """Output of a program, elsewhere than in the repository."""
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=directory, timeout=PATIENCE_SECONDS, env={}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from the tree without the network."""
    directory = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    run([*pip, "wheel", *options, str(ROOT), str(ROOT / "deploy")], directory)
    return {wheel.name.partition("-")[0]: wheel for wheel in directory.iterdir()}


def files(wheel: Path) -> set[PurePosixPath]:
    """Everything that a wheel puts into an environment, without its own description."""
    with zipfile.ZipFile(wheel) as archive:
        names = {PurePosixPath(name) for name in archive.namelist()}
    return {name for name in names if not name.parts[0].endswith(".dist-info")}


def modules(folder: str) -> set[PurePosixPath]:
    """Every module below a folder of the tree."""
    return {PurePosixPath(file.relative_to(ROOT).as_posix()) for file in (ROOT / folder).rglob("*.py")}


def test_wheels_hold_every_module_once_and_the_agencys_none_of_the_lab(wheels: dict[str, Path]) -> None:
    """Nodes in one, everything with attacks and made-up people in the other; what operators copy from and read goes with the nodes."""
    agency, lab = files(wheels["tripartite"]), files(wheels["tripartite_lab"])
    shared = {PurePosixPath(*name.parts[4:]) for name in agency if name.parts[0].endswith(".data")}
    assert {name.parts[1] for name in shared if name.parts[0] == "deploy"} == FOR_AN_OPERATOR
    pages = {PurePosixPath(page.relative_to(ROOT).as_posix()) for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= shared
    assert not [name for name in agency if name.parts[0] in {"deploy", "policy_lab"}]
    assert not [name for name in agency if {"attacks", "synthetic"} & set(name.parts)]
    nodes = set().union(*(modules(f"{name}_node") for name in ("census", "health", "researcher")))
    assert nodes | modules("broker_common") == {name for name in agency if name.suffix == ".py"} - {
        name for name in agency if name.parts[0] == "tripartite"
    }
    documents = PurePosixPath("deploy/documents.py")
    assert modules("deploy") | modules("policy_lab") == {name for name in lab if name.suffix == ".py"} | {documents}
    assert documents not in lab


def test_an_agency_runs_its_node_without_the_lab(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Homes are made from the dictionaries that come with it, looked at, and served; a command of the lab says what to install."""
    agency = Installed(tmp_path / "environment", wheels["tripartite"])
    help_text = agency.run("--help")
    assert "\n  census " in help_text
    assert not [name for name in OF_THE_LAB if f"\n  {name} " in help_text]
    assert "tripartite demo" not in help_text
    error = agency.result("demo", code=3)["error"]
    assert (error["code"], "tripartite[lab]" in error["hint"]) == ("NOT_INSTALLED", True)
    ontario = agency.for_operators / "examples" / "ontario"
    agency.run(
        *("census", "create", "--home", "C", "--organisation", "statistics", "--origin", "census.example/log"),
        *("--address", "127.0.0.1:7003", "--people", "600", "--dictionary", ontario / "census" / "dictionary.toml"),
    )
    agency.run(
        *("health", "create", "--home", "H", "--organisation", "ministry", "--origin", "health.example/log"),
        *("--address", "127.0.0.1:7002", "--places", "300", "--linkage-file", "C/keys/linkage.key"),
        *("--census", "127.0.0.1:7003", "--census-organisation", "statistics"),
        *("--dictionary", ontario / "health" / "dictionary.toml"),
    )
    assert agency.result("doctor", "--home", "C")["problems"] == 0
    # Any free port.
    config = tmp_path / "C" / "config.toml"
    config.write_text(config.read_text().replace("127.0.0.1:7003", "127.0.0.1:0"))
    with subprocess.Popen(
        agency.words("census", "serve", "--home", tmp_path / "C", "--while-stdin-open"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={},
    ) as node:
        assert node.stdin
        assert node.stdout
        assert node.stdout.readline().startswith("census node ready on 127.0.0.1:")
        node.stdin.close()
        assert node.wait(PATIENCE_SECONDS) == 0


def test_the_second_wheel_adds_the_lab_attacks_and_made_up_people(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Its commands are listed and found, a deployment of made-up people is made, and a figure is explained."""
    both = Installed(tmp_path / "environment", *wheels.values())
    help_text = both.run("--help")
    assert [name for name in OF_THE_LAB if f"\n  {name} " in help_text] == list(OF_THE_LAB)
    assert "Start with 'tripartite demo'." in help_text
    assert "Usage: tripartite attack" in both.run("attack", "--help")
    assert both.result("init", "D", "--population", "10")["population"] == 10
    assert both.result("lab", "explain", "margin")["title"]
