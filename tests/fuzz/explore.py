"""`make fuzz`: every target under a coverage-guided fuzzer, one after the other, and what to keep of what it finds.

A finding is saved in the target's corpus under a name that says what it is; `make check` fails on it until the product
is mended, and replays it for ever after. Of the other inputs those are kept that reach lines, or go from line to line,
as nothing saved before did: the smallest first, each shortened as long as it still does.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from types import FrameType
from typing import Any

from fuzz.target import Target
from fuzz.targets import CORPUS, TARGETS, inputs

from broker_common import __file__ as _product

_ROOT = Path(_product).parents[1]
_PACKAGES = tuple(f"{_ROOT / name}/" for name in ("broker_common", "census_node", "health_node", "researcher_node"))
# A corpus is read by people and cloned by everybody: a few inputs of each target, none of them large.
_MOST_KEPT = 8
_MOST_KEPT_BYTES = 2048
_SECONDS_PER_INPUT = 20
_MOST_SAID = 4000

# Which code, from which line to which.
Arc = tuple[int, int, int]


def main() -> int:
    """Fuzz; 1 when something was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    arguments.add_argument("--seconds", type=int, default=60, help="for each target")
    chosen = arguments.parse_args()
    if unknown := set(chosen.targets) - set(TARGETS):
        arguments.error(f"no such target: {', '.join(sorted(unknown))}. There are: {', '.join(TARGETS)}")
    found = [_explore(name, chosen.seconds) for name in chosen.targets or TARGETS]
    return int(any(found))


def _explore(name: str, seconds: int) -> bool:
    """Fuzz one target and save what is worth it; True when something was found."""
    with tempfile.TemporaryDirectory() as scratch:
        seeds, fresh, findings = (Path(scratch, folder) for folder in ("seeds", "fresh", "findings"))
        for folder in (seeds, fresh, findings):
            folder.mkdir()
        for number, data in enumerate(inputs(name).values()):
            (seeds / str(number)).write_bytes(data)
        words = Path(scratch, "words")
        # libFuzzer takes no empty dictionary.
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in TARGETS[name].words or (b"\0",)))
        said = _fuzz(name, seconds, seeds, fresh, findings, words)
        saved = [_save_finding(name, path) for path in findings.iterdir()]
        before, kept, arcs = _keep(name, fresh) if TARGETS[name].guided else (0, 0, 0)
    runs = re.findall(r"stat::number_of_executed_units:\s+(\d+)", said) or re.findall(r"^#(\d+)", said, re.MULTILINE)
    edges = re.findall(r"cov: (\d+)", said)
    print(  # noqa: T201 - what the command is for
        f"{name}: {runs[-1] if runs else 0} runs, {edges[-1] if edges else 0} edges, "
        f"{before} arcs before and {arcs} after, {kept} inputs kept, findings: {', '.join(saved) or 'none'}",
        flush=True,
    )
    if not runs:
        sys.stderr.write(said[-_MOST_SAID:])
    return bool(saved) or not runs


def _fuzz(name: str, seconds: int, seeds: Path, fresh: Path, findings: Path, words: Path) -> str:
    """Run libFuzzer; everything that it said."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fuzz.guided", name),
            f"-max_total_time={seconds}",
            f"-max_len={TARGETS[name].max_bytes}",
            f"-timeout={_SECONDS_PER_INPUT}",
            f"-artifact_prefix={findings}/",
            f"-dict={words}",
            *("-rss_limit_mb=4096", "-print_final_stats=1"),
            *(str(fresh), str(seeds)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


# --- findings --------------------------------------------------------------------------------------------------------


def _save_finding(name: str, artifact: Path) -> str:
    data = artifact.read_bytes()
    what = _described(TARGETS[name], data) if artifact.name.startswith("crash") else artifact.name.partition("-")[0]
    path = CORPUS / name / f"finding-{what}-{_short_hash(data)}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path.name


def _described(target: Target[Any], data: bytes) -> str:
    """Type and place of what escapes."""
    try:
        target.accepts(data)
    except Exception as error:  # noqa: BLE001 - it is being named, and it is saved
        ours = [frame.name for frame in extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGES)]
        return f"{type(error).__name__}-in-{ours[-1] if ours else 'check'}"
    return "not-every-time"


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


# --- what is kept ----------------------------------------------------------------------------------------------------


def _keep(name: str, fresh: Path) -> tuple[int, int, int]:
    """Save the fresh inputs that raise coverage; gives the arcs covered before, inputs kept, arcs covered after."""
    target = TARGETS[name]
    covered = set().union(*(_arcs(target, data) for data in inputs(name).values()))
    before, kept = len(covered), 0
    candidates = sorted((path.read_bytes() for path in fresh.iterdir()), key=len)
    worth = [(data, _arcs(target, data)) for data in candidates if len(data) <= _MOST_KEPT_BYTES]
    while kept < _MOST_KEPT and worth:
        # The largest addition comes first; the smallest of equals.
        data, _ = max(worth, key=lambda each: (len(each[1] - covered), -len(each[0])))
        new = _arcs(target, data) - covered
        if not new:
            break
        data = _shortened(target, data, new)
        path = CORPUS / name / f"found-{_short_hash(data)}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        covered |= _arcs(target, data)
        kept += 1
    return before, kept, len(covered)


def _shortened(target: Target[Any], data: bytes, wanted: set[Arc]) -> bytes:
    """`data` without the pieces that it does not need to go everywhere it is wanted for."""
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            without = data[:at] + data[at + size :]
            if wanted <= _arcs(target, without):
                data = without
            else:
                at += size
        size //= 2
    return data


def _arcs(target: Target[Any], data: bytes) -> set[Arc]:
    """From which line to which the product went."""
    arcs: set[Arc] = set()
    # A finding is saved and told of elsewhere.
    with _tracing(arcs), suppress(Exception):
        target.accepts(data)
    return arcs


@contextmanager
def _tracing(arcs: set[Arc]) -> Iterator[None]:
    def enter(frame: FrameType, event: str, _: object) -> Any:
        del event
        if not frame.f_code.co_filename.startswith(_PACKAGES):
            return None
        last = 0

        def step(frame: FrameType, event: str, _: object) -> Any:
            nonlocal last
            if event == "line":
                arcs.add((id(frame.f_code), last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


if __name__ == "__main__":
    sys.exit(main())
