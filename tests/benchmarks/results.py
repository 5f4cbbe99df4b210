"""Where measured figures are kept between a measurement and the report: one JSON file for each kind of measurement."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.machine import machine

FOLDER: Final = Path("build/bench")


def store(folder: Path, name: str, result: dict[str, Any]) -> Path:
    """Keep a result, with the machine that it was measured on."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n", encoding="utf-8")
    return path


def put(folder: Path, name: str, key: str, result: Any) -> Path:
    """Replace one part of a result, and keep the others."""
    known = load(folder, name) or {}
    known.pop("machine", None)
    return store(folder, name, {**known, key: result})


def load(folder: Path, name: str) -> dict[str, Any] | None:
    """A kept result; None if there is none."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    """Median and p99 of seconds, in milliseconds. With fewer than a hundred, p99 is the longest."""
    return {
        "median": 1000 * float(np.median(times)),
        "p99": 1000 * float(np.quantile(times, 0.99, method="higher")),
        "rounds": len(times),
    }


def heading(*names: str) -> list[str]:
    """The first two lines of a table: names, then numbers under all but the first."""
    return [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]


def verdict(value: float, most: float, what: str) -> str:
    """Whether a bar is met, as a line of Markdown."""
    return f"- {'pass' if value <= most else 'MISS'}: {value:.4g} {what}; at most {most:g}"


def say(text: str) -> None:
    """Print a result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def progress(text: str) -> None:
    """Print progress."""
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()
