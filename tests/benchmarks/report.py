"""BENCHMARKS.md and its pictures from what was measured last: `make bench-report`, or `python -m benchmarks.report`.

What is said of the figures stands here; the figures come from the JSON files that the measurements leave. A measurement that
was not made is said to be missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from benchmarks import end_to_end, growth, rivals, timeline
from benchmarks.load import verdicts
from benchmarks.results import FOLDER, heading, load, progress
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["main", "written"]

_DOCUMENT: Final = Path("BENCHMARKS.md")
_PICTURES: Final = Path("docs/benchmarks")
_DPI: Final = 80
_MISSING: Final = "Not measured yet."

_HEAD: Final = """# How fast, how large, beside what

Measured on {measured}: {processor}; {memory} of memory; {system}; Python {python}, numpy {numpy}, grpcio {grpcio},
cryptography {cryptography}, duckdb {duckdb}, polars {polars}, openmined-psi {openmined-psi}, opendp {opendp}. Nodes, researcher
and everything they are compared with share this one machine.

```
make bench            questions beside floor and rivals, and where the time goes: 15 million people, some ten minutes
make bench-load       many researchers at once
make bench-growth     how cost grows
make bench-report     writes this page from what was measured (build/bench/*.json)
make bench PEOPLE=200000      a quick look; also DIR=deployment, JSON=1
make bench-growth AXIS=log MOST=10000
```

Nothing here is a test: figures depend on the machine, ratios less so. This page is written by `make bench-report`; its
sentences stand in `tests/benchmarks/report.py`.
"""

_END_TO_END: Final = """## A question to {people:,} people

*Answer* is the time from Submit to the opened and verified answer in the researcher's own session, at release tick 0 and
under `per_person` accounting: both nodes, every durable step, the health agency's cosignature and the researcher's own checks
included. *Preparation* comes before it: dictionaries, policy, quote, proof of the noise slot, ticket. Of fewer than a hundred
rounds ({rounds} here), p99 is the longest. *The first one* is the first question about that sample after a start.

The *floor* is what remains if nothing is checked, logged, signed or noised: one filter of the columns in memory by Polars,
whose finds are bits already; AES-GCM over the bits twice; the bytes once through a raw socket under mutual TLS (open connection, Ed25519
certificates) to another process; bare passes over everybody by NumPy in two threads (look up, compare, add, count two cells); one
fsynced write of sample and active bits. A sample has one size whoever is in it, and so has its floor. It is measured just before
each question, in the same run, a tenth of a second after the answer before it.
"""

_AT_THE_TICK: Final = """
*At the tick* is the same with {release_tick_ms} ms ticks and a forward delay of {forward_delay_ms} ms, as are usual for this population, so that an
answer leaves at the same tick whoever is in its sample: {rounds} rounds.
"""

_STAGES: Final = """
Stages are what the nodes' operators see with `log_stages = true`. They overlap, so they do not add up to *total*, which for
the health node lasts until it has heard that the answer is out. Processor time comes in steps of 10 ms for each question;
these are means.

*Bytes a person* are what a node holds after the questions, all of whose samples were charged, everybody's too, or ever held at
once (resident memory, mapped files included), less what a node with nobody loaded holds.
"""

_RIVALS: Final = """## Beside what people would pick instead

Same data, same cohorts, same machine, and every count checked against a join of the sources. *DuckDB and gRPC*: one DuckDB
at each agency, everything in memory, codes as enums; the health agency filters and streams plain ids over mutual TLS, the
census agency joins and returns the exact count. *openmined-psi*: cardinality alone, in one process, nothing sent. *OpenDP in one
process*: a DuckDB join of both agencies' data, and Laplace noise on the count.
"""

_LOAD: Final = """## Many researchers at once

Researchers ask one question after the other, one greedy researcher many at once, at tick 0: tiny samples, a tenth of the people, and
everybody. Times are those of whoever asked, waiting in line included; *fairness* is the answers of the researcher who got fewest over
those of the one who got most, the greedy one left out. Researchers and nodes share the machine's cores. Afterwards both logs
and all receipts are audited. `make bench-load`; ten thousand tiny questions: `python -m benchmarks.load --tiny 10000`.
"""

_GROWTH: Final = """## How cost grows

One thing grows and everything else stays. Populations are asked for a sample near 10,000; terms are of the
largest population; the log and the answered questions are those of 100,000 people and a sample near 1,000. The long log
holds real entries of answered questions (slots, charges, releases, deliveries), appended by the product's own journal under
strict accounting. Starting reads the whole log again, so that this does grow with it; answering is not to.
"""

_PROFILE: Final = """## Where the time of one large query goes

![Stages of both nodes on one clock](docs/benchmarks/timeline.png)

The median of {rounds} rounds, {sample:,} people of {people:,}, {answer:.0f} ms from Submit to the answer. Figures at the bars are
milliseconds; pale bars are whole queries; dotted lines are what the researcher was told. {when}

{what}
"""


def written(results: Path, root: Path) -> None:
    """Write the page and its pictures under `root`."""
    pictures = root / _PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    names = ("end_to_end", "rivals", "load", growth.NAME, "timeline")
    found = [load(results, name) for name in names]
    whole, others, under_load, grown, traced = found
    measured = next((result for result in found if result is not None), None)
    if measured is None:
        raise SystemExit(f"nothing was measured: {results} holds no results")
    parts = [_HEAD.format_map(measured["machine"])]
    parts.append(_MISSING if whole is None else _end_to_end(whole))
    parts.append(
        "\n".join([_RIVALS, *([_MISSING] if others is None else [_when(others), *rivals.table(others, whole)])])
    )
    if under_load is not None:
        parts.append("\n".join([_LOAD, _when(under_load), *_load(under_load)]))
    parts.append("\n".join([_GROWTH, *([_MISSING] if grown is None else [_when(grown), *_growth(grown, pictures)])]))
    if traced is not None:
        timeline.draw(traced, pictures / "timeline.png")
        parts.append(_PROFILE.format(**traced, when=_when(traced), what=timeline.sentences(traced)))
    (root / _DOCUMENT).write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _end_to_end(whole: dict[str, Any]) -> str:
    first = next(iter(whole["samples"].values()))
    parts = [_END_TO_END.format(people=whole["people"], rounds=first["answer"]["rounds"])]
    if "tick" in whole:
        rounds = next(iter(whole["tick"].values()))["answer"]["rounds"]
        parts.append(_AT_THE_TICK.format(**whole["delays"], rounds=rounds))
    lines = end_to_end.table(whole)
    # Before the stages.
    first_gap = lines.index("")
    return "\n".join([*parts, *lines[:first_gap], _STAGES, *lines[first_gap + 1 :]])


def _when(result: dict[str, Any]) -> str:
    """Parts may be measured on different days."""
    return f"Measured on {result['machine']['measured']}.\n"


def _load(under_load: dict[str, Any]) -> list[str]:
    lines = heading(
        "people, researchers", "answers", "a second", "sample", "p50", "p99", "p50 of the first fifth", "of the last"
    )
    after: list[str] = []
    for report in (under_load[run] for run in ("mixed", "tiny") if run in under_load):
        name = f"{report['people']:,}, {report['researchers']}"
        for size, took in report["milliseconds"].items():
            each = [took["answers"], report["answers_per_second"], size]
            times = [f"{took[key]} ms" for key in ("p50", "p99", "p50_first", "p50_last")]
            lines.append(f"| {name} | {' | '.join(map(str, [*each, *times]))} |")
        memory = "; ".join(
            f"{role} node {seen['start']} MiB at the start, {seen['most']} at most, {seen['end']} at the end"
            for role, seen in report["memory_mib"].items()
        )
        verdict = "verified" if report["replay"]["verified"] else "NOT VERIFIED"
        after.append(
            f"- {name}: {report['answers']} answers in {report['seconds']:.0f} s, fairness {report['fairness']}, refused "
            f"{sum(report['refused'].values())}, told to come back {report['asked_again_when_busy']}; {memory}; replay {verdict}."
        )
    bars = verdicts(under_load["mixed"]) if "mixed" in under_load else []
    return [*lines, "", *after, *bars, ""]


def _growth(grown: dict[str, Any], pictures: Path) -> list[str]:
    names = [name for name in growth.AXES if grown.get(name)]
    figure = Figure(figsize=(9, 2.6 * -(-len(names) // 3)), layout="constrained")
    grid = figure.subplots(-(-len(names) // 3), 3, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place < len(names):
            _plot(axes, growth.titled(growth.AXES[names[place]], grown[names[place]]), grown[names[place]])
        else:
            axes.set_axis_off()
    figure.savefig(pictures / "growth.png", dpi=_DPI, metadata={"Software": None})
    return ["![Time of an answer along each axis](docs/benchmarks/growth.png)", "", *growth.table(grown)]


def _plot(axes: Axes, title: str, rows: list[dict[str, Any]]) -> None:
    steps = [row["step"] for row in rows]
    for key, label, style in (("answer", "answer, median", "o-"), ("prepare", "preparation", "s--")):
        axes.plot(steps, [row[key]["median"] for row in rows], style, markersize=3, linewidth=1, label=label)
    axes.plot(steps, [row["answer"]["p99"] for row in rows], ":", linewidth=1, color="#888888", label="answer, p99")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(title, fontsize=7)
    axes.set_ylabel("ms", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=6, frameon=False)


def main() -> None:
    """Write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--root", type=Path, default=Path())
    asked = parser.parse_args()
    written(asked.results, asked.root)
    progress(f"wrote {asked.root / _DOCUMENT}")


if __name__ == "__main__":
    main()
