"""BENCHMARKS.md and its pictures from what was measured last: `make bench-report`, or `python -m benchmarks.report`.

The sentences are here; the figures come from the JSON files that the measurements leave. A measurement that was not made is
said to be missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks import end_to_end, events, floor_bits, growth, rivals, timeline
from benchmarks.load import verdicts
from benchmarks.results import FOLDER, heading, load, progress
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_DOCUMENT: Final = Path("BENCHMARKS.md")
_PICTURES: Final = Path("docs/benchmarks")
_DPI: Final = 80

_HEAD: Final = """# How fast, how large, beside what

Measured on {measured}: {processor}; {memory} of memory; load averages {load} in the last minute and quarter of an hour; {system};
Python {python}, numpy {numpy}, grpcio {grpcio}, cryptography {cryptography}, duckdb {duckdb}, polars {polars}, openmined-psi
{openmined-psi}, opendp {opendp}. The nodes, the researcher and everything that they are compared with share this one machine.
The figures depend on the machine and on what else it does at the time; ratios and processor time depend on that less. No test uses
these figures.

```
make bench-all        everything below, and this page from it: half an hour on an idle machine
make bench            questions to 15 million people beside floor and rivals; also PEOPLE=200000 ROUNDS=5 DIR=deployment JSON=1
make bench-bits       the work of the desk alone beside the floor, with a count of its instructions
make bench-events     cohorts of 15 million people by 300 million events; needs 10 GB of memory
make bench-load       32 researchers at once, on a million people
make bench-growth     how the cost grows with one thing at a time: AXIS=log MOST=10000
make bench-report     this page from what was measured last (build/bench/*.json; sentences: tests/benchmarks/report.py)
```
"""

_BARS: Final = """## The bars, and whether they are met

A time misses its bar when something else keeps the cores busy; processor time shows how much work an idle machine would have.
"""

_END_TO_END: Final = """## A question to {people:,} people

*Answer* is the time from Submit to the opened and verified answer in the researcher's session, at tick 0 and with `per_person`
accounting. It includes both nodes, every durable step, the cosignature and the researcher's checks. *Preparation* comes before it:
the quote, the proof of the noise slot and the ticket. The figures are medians of {rounds} rounds; with fewer than a hundred rounds,
p99 is the longest time.

The *floor* is the work that remains if nothing is checked, logged or signed and no noise is added, at the same fixed size: a Polars
filter, AES-GCM over the bits twice, a raw socket under mutual TLS, NumPy passes over everybody in two threads, and one write with
fsync. It is measured just before each question, in the same run.
"""

_AT_THE_TICK: Final = """
*At the tick* is the same time with ticks of {release_tick_ms} ms and a forward delay of {forward_delay_ms} ms, the defaults for this population, in {rounds} rounds.
"""

_STAGES: Final = """
The rows of a node are the spans that `log_stages = true` shows its operator; they overlap. Processor time is in ms a question: the
system counts it in steps of 10 ms, and the table has means. *Bytes a person* is the most memory that the node held at once, with
everybody charged and mapped files included, less the memory of a node without data.
"""

_BITS: Final = """## The work of the desk alone

The product marks, seals, opens and passes over everybody, without nodes around it; the socket and the flush are those of the floor in both columns.
"""

_EVENTS: Final = """## Cohorts by events

An event has a day, a length and one of 100,000 codes, which form a graph. A column of people lists codes of the same graph, and one person
has a hundred thousand events. The *floor* compares every number of each column once and packs one bit for each, in as many threads. Processor
time is counted for each thread, and is what an idle machine would take. *Paid for* is the time that the price allows at the default
`work_per_second`.
"""

_RIVALS: Final = """## Beside what people would pick instead

All of them have the same data, cohorts and machine, and every count is checked against a join of the sources. *DuckDB and gRPC* has one
DuckDB at each agency, streams plain ids over mutual TLS and gives an exact count. *openmined-psi* computes the size of an intersection in one
process. *OpenDP* joins both agencies' data with DuckDB in one process and adds Laplace noise.
"""

_LOAD: Final = """## Many researchers at once

Each researcher asks one question after the other, and one greedy researcher asks sixty at once; the tick is 0. Times include waiting in the
queue. *Fairness* is the fewest answers that a researcher got, divided by the most; the greedy one does not count. Afterwards both logs and
all receipts are replayed.
"""

_GROWTH: Final = """## How cost grows

One thing grows and everything else stays as it is. Each population is asked about a sample of about 10,000 people; the terms of criteria
are measured on the largest population; the log and the answered questions are those of 100,000 people with a sample of about 1,000. A node
that starts reads the whole log, so the time to start grows with the log; the time to answer should not.
"""

_PROFILE: Final = """## Where the time of one large query goes

![Spans of both nodes on one clock](docs/benchmarks/timeline.png)

This is the median of {rounds} rounds: a sample of {sample:,} people among {people:,}, with {answer:.0f} ms from Submit to the answer. Dotted lines
show when the researcher was told of a stage. {when}

{what}
"""


def written(results: Path, root: Path) -> None:
    """Write the page and its pictures under `root`."""
    pictures = root / _PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    names = ("end_to_end", "bits", "events", "load", "rivals", growth.NAME, "timeline")
    found = {name: result for name in names if (result := load(results, name)) is not None}
    if not found:
        raise SystemExit(f"nothing was measured: {results} holds no results")
    whole = found.get("end_to_end")
    parts = [_HEAD.format_map(next(iter(found.values()))["machine"])]
    missing = [name for name in names if name not in found]
    if missing:
        parts.append(f"Not measured in this state: {', '.join(missing)}.")
    parts.append("\n".join([_BARS, *_bars(found)]))
    if whole is not None:
        parts.append(_end_to_end(whole))
    for name, text, lines in (
        ("bits", _BITS, floor_bits.table),
        ("events", _EVENTS, events.table),
        ("load", _LOAD, _load),
        ("rivals", _RIVALS, lambda result: rivals.table(result, whole)),
        (growth.NAME, _GROWTH, lambda result: _growth(result, pictures)),
    ):
        if name in found:
            parts.append("\n".join([text, *lines(found[name]), "", _when(found[name])]))
    if "timeline" in found:
        traced = found["timeline"]
        timeline.draw(traced, pictures / "timeline.png")
        parts.append(_PROFILE.format(**traced, when=_when(traced), what=timeline.sentences(traced)))
    (root / _DOCUMENT).write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _bars(found: dict[str, dict[str, Any]]) -> list[str]:
    judges: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "end_to_end": end_to_end.verdicts,
        "bits": floor_bits.verdicts,
        "events": events.verdicts,
        "load": lambda result: verdicts(result["mixed"]) if "mixed" in result else [],
    }
    return [line for name, judge in judges.items() if name in found for line in judge(found[name])]


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
    return f"Measured on {result['machine']['measured']}, load averages {result['machine']['load']}."


def _load(under_load: dict[str, Any]) -> list[str]:
    lines = heading("sample", "answers", "p50", "p99", "p50 of the first fifth", "of the last")
    after: list[str] = []
    for report in (under_load[run] for run in ("mixed", "tiny") if run in under_load):
        for size, took in report["milliseconds"].items():
            times = " | ".join(f"{took[key]:,} ms" for key in ("p50", "p99", "p50_first", "p50_last"))
            lines.append(f"| {size} | {took['answers']} | {times} |")
        after.append(_in_all(report))
    return [*lines, "", *after]


def _in_all(report: dict[str, Any]) -> str:
    memory = "; ".join(
        f"{role} node {seen['start']} MiB at the start, {seen['most']} at most, {seen['end']} at the end"
        for role, seen in report["memory_mib"].items()
    )
    return (
        f"- {report['people']:,} people, {report['researchers']} researchers: {report['answers']} answers in {report['seconds']:.0f} s, "
        f"refused {sum(report['refused'].values())}, asked to try again {report['asked_again_when_busy']}; {memory}."
    )


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
