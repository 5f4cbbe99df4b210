"""How many answers a cap pays for under each accounting: `make workload`, or `python -m benchmarks.workload`.

A stream of studies is asked of the project's synthetic people (their diagnoses, ages and divisions; nothing is published
about real streams of studies, so these are invented and named): under `strict`, until the service shuts down, and under
`per_person` on the ledgers of the census node itself, as long as it goes on. Both answer at the same scale, hence with the
same noise. Printed is, along the way, how many people are exhausted, which share of the people who should have been counted
was dropped, and what that does to a count of francophones and to their share among everybody linked; beside it the 95 %
margin of the noise, which is the size of error that a researcher expects anyway.

`--subject household` gives each household one budget, which every member in a cohort uses. `--subject address` links by address as well: a
study counts, and charges, all linked people of every household in which somebody matches.

The streams:
    clinical     a procedure, or an uncommon diagnosis in some divisions and an age band: most published studies are like this
    mixed        cohorts of every size, a third of them by age and division alone, diagnoses as popular as they are asked
                 for, one study in four nested in the one before
    registry     studies of chronic disease alone: the same patients again and again
    whole        every study also asks for the whole population, to compare with: the worst that an honest user can do
    one disease  everybody studies type 2 diabetes: what `strict` charges everybody for, these patients have to bear alone
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from broker_common.privacy.accounting import (
    any_fits,
    cap_units,
    default_scales,
    param_of,
    parse_max_belief,
    price,
)
from broker_common.privacy.table_laplace import margin
from census_node.ledger.passes import Homes, HouseholdCharges, Passes, PersonCharges
from deploy.synthetic.codes import CENSUS_DIVISIONS, DIAGNOSES, PROCEDURES
from deploy.synthetic.dice import Dice
from deploy.synthetic.health import health_records
from deploy.synthetic.households import people_at
from deploy.synthetic.language import first_official_languages, is_francophone
from deploy.synthetic.linkage import Linkage

Mask = npt.NDArray[np.bool_]
_CAP = cap_units(param_of(parse_max_belief("0.8")))
_SCALES = default_scales(_CAP)
# Chronic diagnoses, by their place in the published list: what registries are kept of.
_CHRONIC = (
    "type_2_diabetes",
    "hypertension",
    "copd",
    "heart_failure",
    "coronary_heart_disease",
    "depression",
    "asthma",
)
_NAMES = tuple(code for code, _ in DIAGNOSES)
# A diagnosis that a smaller part of the population has.
_UNCOMMON = 0.05
# Lines are printed after these parts of the answers.
_MARKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class World:
    """People of the health data, and what each of them is."""

    # Who is a person of the census too.
    linked: Mask
    age: npt.NDArray[np.int64]
    sex: npt.NDArray[np.int64]
    division: npt.NDArray[np.int64]
    diagnoses: npt.NDArray[np.int64]
    procedures: npt.NDArray[np.int64]
    francophone: Mask
    # Index by number, from 0.
    household: npt.NDArray[np.uint32]

    @property
    def size(self) -> int:
        return len(self.linked)


def make_world(population: int, seed: int) -> World:
    """The same people as `tripartite init` would load, without their files."""
    dice = Dice(seed)
    linkage = Linkage(population, seed, dice)
    index = linkage.health_people(np.arange(population, dtype=np.int64))
    people = people_at(index, dice)
    francophone = is_francophone(first_official_languages(people, dice))
    generator = np.random.default_rng(seed)
    records = health_records(people.age, people.sex, francophone, generator)
    has_row, has_card = linkage.census_rows(index)
    return World(
        has_row & has_card,
        people.age,
        people.sex,
        people.division,
        records.diagnoses,
        records.procedures,
        francophone,
        np.unique(people.household, return_inverse=True)[1].astype(np.uint32),
    )


# --- streams ---------------------------------------------------------------------------------------------------------


def clinical(world: World, generator: np.random.Generator) -> Iterator[Mask]:
    """A procedure, or an uncommon diagnosis, of people of some age in some divisions."""
    shares = [np.count_nonzero(has(world.diagnoses, code)) / world.size for code in range(len(_NAMES))]
    uncommon = [code for code, share in enumerate(shares) if share < _UNCOMMON]
    while True:
        if generator.random() < 0.6:
            chosen = has(world.procedures, int(generator.integers(len(PROCEDURES))))
        else:
            chosen = has(world.diagnoses, uncommon[int(generator.integers(len(uncommon)))])
        youngest = int(generator.integers(0, 70))
        divisions = generator.choice(len(CENSUS_DIVISIONS), size=int(generator.integers(5, 30)), replace=False)
        yield chosen & (world.age >= youngest) & (world.age < youngest + 30) & np.isin(world.division, divisions)


def mixed(world: World, generator: np.random.Generator) -> Iterator[Mask]:
    """Cohorts of every size; popular diagnoses come up more often; one study in four looks closer at the one before."""
    popularity = 1 / np.arange(1, len(_NAMES) + 1)
    popularity /= popularity.sum()
    order = generator.permutation(len(_NAMES))
    previous = np.ones(world.size, np.bool_)
    while True:
        chosen = previous if generator.random() < 0.25 else np.ones(world.size, np.bool_)
        kind = generator.random()
        if kind < 0.6:
            chosen = chosen & has(world.diagnoses, int(order[generator.choice(len(_NAMES), p=popularity)]))
        elif kind < 0.8:
            chosen = chosen & has(world.procedures, int(generator.integers(len(PROCEDURES))))
        youngest = int(generator.integers(0, 80))
        chosen = chosen & (world.age >= youngest) & (world.age < youngest + int(generator.integers(5, 60)))
        if generator.random() < 0.5:
            divisions = generator.choice(len(CENSUS_DIVISIONS), size=int(generator.integers(1, 12)), replace=False)
            chosen = chosen & np.isin(world.division, divisions)
        if generator.random() < 0.3:
            chosen = chosen & (world.sex == generator.integers(2))
        previous = chosen
        yield chosen


def registry(world: World, generator: np.random.Generator) -> Iterator[Mask]:
    """Chronic patients, in a division or two, or all of them."""
    while True:
        name = _CHRONIC[int(generator.integers(len(_CHRONIC)))]
        chosen = has(world.diagnoses, _NAMES.index(name))
        if generator.random() < 0.7:
            divisions = generator.choice(len(CENSUS_DIVISIONS), size=int(generator.integers(1, 5)), replace=False)
            chosen = chosen & np.isin(world.division, divisions)
        yield chosen


def whole(world: World, generator: np.random.Generator) -> Iterator[Mask]:
    """The mixed stream, with everybody after each study."""
    for chosen in mixed(world, generator):
        yield chosen
        yield np.ones(world.size, np.bool_)


def one_disease(world: World, generator: np.random.Generator) -> Iterator[Mask]:
    """Type 2 diabetes, by age and sex."""
    diabetics = has(world.diagnoses, _NAMES.index("type_2_diabetes"))
    while True:
        youngest = int(generator.integers(0, 60))
        yield diabetics & (world.age >= youngest)


STREAMS: dict[str, Callable[[World, np.random.Generator], Iterator[Mask]]] = {
    "clinical": clinical,
    "mixed": mixed,
    "registry": registry,
    "whole": whole,
    "one disease": one_disease,
}


def has(masks: npt.NDArray[np.int64], code: int) -> Mask:
    """Who has a code."""
    found: Mask = (masks >> code) & 1 == 1
    return found


# --- accountings -----------------------------------------------------------------------------------------------------


def strict_answers(scale: int) -> int:
    """How many answers, whatever is asked."""
    charged = answers = 0
    while any_fits(_CAP, charged, (scale,)):
        charged, answers = charged + price(scale), answers + 1
    return answers


@dataclass(frozen=True, slots=True)
class Line:
    """Events since the previous line, and the present state."""

    answers: int
    # Shares of all subjects: of the people, or of their households.
    charged: float
    exhausted: float
    # Share of the people who should have been counted.
    dropped: float
    # Per study: how many francophones its count misses, on average and at most.
    missing: float
    most_missing: int
    # How far the share of francophones among everybody linked is off, in percentage points; None where nobody is left.
    share_off: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One stream."""

    stream: str
    scale: int
    margin_95: int
    strict_answers: int
    median_cohort: int
    largest_cohort: int
    ms_per_answer: float
    lines: list[Line]


class Stream:
    """One stream under `per_person`; each study asks for its francophones and for everybody linked."""

    def __init__(self, world: World, scale: int, subject: str) -> None:
        self._world = world
        self._price = price(scale)
        self._passes = Passes()
        self._is_by_address = subject == "address"
        homes = Homes(world.household, 1 + int(world.household.max()))
        self._charges: PersonCharges | HouseholdCharges = (
            PersonCharges(self._passes, np.zeros(world.size, np.uint32))
            if subject == "person"
            else HouseholdCharges(self._passes, np.zeros(homes.count, np.uint32), homes)
        )
        self._active = self._passes.bits(world.size)
        self._studies: list[tuple[int, int, int, int]] = []
        self.seconds = 0.0

    def study(self, chosen: Mask) -> None:
        """Both its questions."""
        if self._is_by_address:
            homes = np.zeros(1 + int(self._world.household.max()), np.bool_)
            homes[self._world.household[chosen]] = True
            chosen = homes[self._world.household]
        linked = chosen & self._world.linked
        french = self._world.francophone & linked
        french_counted, linked_counted = (np.count_nonzero(asked & self._answer(linked)) for asked in (french, linked))
        self._studies.append(
            (int(np.count_nonzero(french)), int(np.count_nonzero(linked)), int(french_counted), int(linked_counted))
        )

    def close(self) -> None:
        self._passes.close()

    def _answer(self, here: Mask) -> Mask:
        start = time.perf_counter()
        self._charges.fit(np.packbits(here), self._active, price=self._price, most=_CAP)
        self._charges.charge(self._active, self._price)
        self.seconds += time.perf_counter() - start
        return np.unpackbits(self._active, count=self._world.size).view(np.bool_)

    def line(self, answers: int) -> Line:
        """Events since the last one."""
        french, linked, french_counted, linked_counted = np.array(self._studies, np.float64).T
        self._studies = []
        charged = self._charges.charged.astype(np.int64)
        answered = (linked_counted > 0) & (linked > 0)
        off = french_counted[answered] / linked_counted[answered] - french[answered] / linked[answered]
        wanted = french.sum() + linked.sum()
        return Line(
            answers=answers,
            charged=int(np.count_nonzero(charged)) / len(charged),
            exhausted=int(np.count_nonzero(charged + price(max(_SCALES)) > _CAP)) / len(charged),
            dropped=float(1 - (french_counted.sum() + linked_counted.sum()) / wanted) if wanted else 0.0,
            missing=float((french - french_counted).mean()),
            most_missing=int((french - french_counted).max()),
            share_off=float(100 * np.abs(off).mean()) if answered.any() else None,
        )


def run(world: World, name: str, *, scale: int, answers: int, seed: int, subject: str) -> Result:
    """One stream, to its end."""
    cohorts, stream = STREAMS[name](world, np.random.default_rng(seed)), Stream(world, scale, subject)
    marks, lines, sizes = {round(answers * part / 2) for part in _MARKS}, [], []
    for number in range(1, answers // 2 + 1):
        chosen = next(cohorts)
        sizes.append(int(np.count_nonzero(chosen)))
        stream.study(chosen)
        if number in marks:
            lines.append(stream.line(2 * number))
    stream.close()
    return Result(
        stream=name,
        scale=scale,
        margin_95=margin(scale),
        strict_answers=strict_answers(scale),
        median_cohort=int(np.median(sizes)),
        largest_cohort=max(sizes),
        ms_per_answer=1000 * stream.seconds / answers,
        lines=lines,
    )


def say(text: str) -> None:
    """Print."""
    sys.stdout.write(text + "\n")


def show(result: Result) -> None:
    """One stream for a reader."""
    say(
        f"\n{result.stream}: strict gives {result.strict_answers} answers at scale {result.scale} and shuts down; "
        f"median cohort {result.median_cohort:,}, largest {result.largest_cohort:,}; "
        f"{result.ms_per_answer:.1f} ms an answer in the ledgers"
    )
    say("   answers  charged  exhausted   dropped  francophones missed: mean, most  noise 95 %  share off by")
    for line in result.lines:
        off = "-" if line.share_off is None else f"{line.share_off:.2f} points"
        say(
            f"  {line.answers:8d}  {line.charged:7.1%}  {line.exhausted:9.2%}  {line.dropped:8.2%}"
            f"  {line.missing:24.1f} {line.most_missing:6d}  {'±' + str(result.margin_95):>10}"
            f"  {off:>13}"
        )


def plot(results: list[Result], path: Path) -> None:
    """Dropped share along the answers, a line for each stream."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second that nobody else should wait

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    for result in results:
        axes.plot(
            [line.answers for line in result.lines],
            [100 * line.dropped for line in result.lines],
            "o-",
            label=result.stream,
        )
    axes.axvline(results[0].strict_answers, linestyle="--", color="black", label="strict: the last answer")
    axes.set_xscale("log")
    axes.set_xlabel("answers")
    axes.set_ylabel("people dropped, % of those who should be counted")
    axes.set_title("What the cap costs under per-person accounting")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return number


def main() -> None:
    """Run the streams and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "streams", nargs="*", default=list(STREAMS), help=f"of {', '.join(STREAMS)}; all if none is given"
    )
    parser.add_argument("--population", type=_least(1), default=300_000)
    parser.add_argument("--answers", type=_least(2), default=4_000)
    parser.add_argument("--scale", type=_least(1), default=30)
    parser.add_argument("--seed", type=_least(0), default=1)
    parser.add_argument("--subject", choices=["person", "household", "address"], default="person")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    if unknown := [name for name in asked.streams if name not in STREAMS]:
        parser.error(f"no stream is called {', '.join(unknown)}; there are: {', '.join(STREAMS)}")
    world = make_world(asked.population, asked.seed)
    results = []
    for name in asked.streams:
        results.append(
            run(world, name, scale=asked.scale, answers=asked.answers, seed=asked.seed, subject=asked.subject)
        )
        if asked.json:
            sys.stderr.write(f"{name}: done\n")
        else:
            show(results[-1])
    if asked.plot is not None:
        plot(results, asked.plot)
    if asked.json:
        say(json.dumps({"population": asked.population, "results": [asdict(result) for result in results]}))


if __name__ == "__main__":
    main()
