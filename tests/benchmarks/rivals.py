"""The alternatives that people would pick, on the same data: `python -m benchmarks.rivals`.

Three of them: DuckDB at both agencies with plain ids between them over gRPC (mutual TLS); private set intersection
(openmined-psi, cardinality only); and a count with OpenDP's noise in one process that holds both agencies' data, which is
what the law forbids. Each is asked for the same cohorts as the product, and its count is checked against a join of the
sources. The figures of the product come from `end_to_end`; what each gives and lacks stands in `GIVES`.

`python -m benchmarks.rivals --census FOLDER SOURCE` is the census agency of the first rival.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import grpc
import numpy as np
import numpy.typing as npt
from benchmarks.asking import COUNT
from benchmarks.children import end_when_told, environment, module
from benchmarks.cohorts import Cohort, HealthSource
from benchmarks.credentials import write_ec
from benchmarks.deployments import made
from benchmarks.end_to_end import PEOPLE
from benchmarks.extras import extra
from benchmarks.results import FOLDER, heading, load, milliseconds, progress, say, store

_SIZES: Final = (10_000, 1_000_000)
_ROUNDS: Final = 20
_WARM_UP: Final = 2
# Ids in one message of the stream.
_IDS_PER_MESSAGE: Final = 32_768
_COUNT_METHOD: Final = "/rival.Census/Count"
# Columns of each source that are numbers, and those that are texts.
_HEALTH: Final = ("health_card::bigint as id, age::utinyint as age", ("sex", "census_division"))
_CENSUS: Final = ("health_card::bigint as id", ("mother_tongue",))
# Input of private set intersection: a sample of this size against so many people with the wanted language.
_PSI_SAMPLE: Final = 10_000
_PSI_HELD: Final = 100_000
_PSI_FALSE_POSITIVES: Final = 1e-9
_OPENDP_SCALE: Final = 50.0


class Gives(NamedTuple):
    """Properties of one way of counting, in a word or two each."""

    name: str
    people_hidden: str
    answer_protected: str
    budget: str
    audit: str
    parties: str


GIVES: Final = (
    Gives(
        "this broker",
        "the census node learns pseudonyms, and nobody else learns how many; the health node learns nothing about language",
        "noise from a slot that was committed to before",
        "durable, per person, charged before counting",
        "two cosigned logs, receipts, replay",
        "two, by construction",
    ),
    Gives(
        "DuckDB and gRPC",
        "the census agency reads the health cards of the whole sample",
        "none: exact count",
        "none",
        "none",
        "two",
    ),
    Gives(
        "openmined-psi",
        "neither side learns who is in both; sizes are shown",
        "none: exact count; two questions that differ in one person tell about that person",
        "none",
        "none",
        "two",
    ),
    Gives(
        "OpenDP in one process",
        "one party holds both agencies' records, which the law forbids",
        "noise",
        "in memory, if its caller keeps one",
        "none",
        "one",
    ),
)


def measure(directory: Path, people: int, rounds: int) -> dict[str, Any]:
    """All rivals, on the sources of one deployment."""
    deployment, _ = made(directory, people)
    sources = {role: deployment.home(role) / "people.csv" for role in ("health", "census")}
    source = HealthSource(sources["health"])
    cohorts = {size: source.near(size) for size in _SIZES if size <= source.people}
    del source
    result: dict[str, Any] = {"people": people, "rounds": rounds, "sizes": {}}
    result["sizes"] = {str(size): {"where": cohort.where, "people": cohort.people} for size, cohort in cohorts.items()}
    progress("OpenDP in one process")
    true_counts = {}
    for size, (true, times) in _one_process(sources, cohorts, rounds).items():
        true_counts[size] = true
        result["sizes"][str(size)]["opendp"] = times
    progress("DuckDB at both agencies")
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
        for size, (found, times) in _joined_over_grpc(Path(folder), sources, cohorts, rounds).items():
            if found != true_counts[size]:
                raise SystemExit(f"the join over gRPC found {found}, the join in one process {true_counts[size]}")
            result["sizes"][str(size)]["duckdb"] = times
    progress("private set intersection")
    result["psi"] = _private_set_intersection(sources, cohorts.get(_PSI_SAMPLE))
    return result


# --- OpenDP, both agencies' data in one process ------------------------------------------------------------------------


def _one_process(
    sources: dict[str, Path], cohorts: dict[int, Cohort], rounds: int
) -> dict[int, tuple[int, dict[str, float]]]:
    opendp = extra("opendp.prelude")
    if opendp is None:
        return {}
    opendp.enable_features("contrib")
    noise = opendp.m.make_laplace(opendp.atom_domain(T=int), opendp.absolute_distance(T=int), scale=_OPENDP_SCALE)
    with duckdb.connect(config={"threads": 2}) as connection:
        _read(connection, "health", sources["health"], *_HEALTH)
        _read(connection, "census", sources["census"], *_CENSUS)

        def count(cohort: Cohort) -> int:
            (row,) = connection.execute(
                f"select count(*) from health join census using (id) where {cohort.where} and {COUNT}"  # noqa: S608 - our own
            ).fetchall()
            return int(row[0])

        def noisy(cohort: Cohort) -> object:
            return noise(count(cohort))

        return {size: (count(cohort), _timed(partial(noisy, cohort), rounds)) for size, cohort in cohorts.items()}


# --- DuckDB at both agencies, plain ids over gRPC ------------------------------------------------------------------------


def _joined_over_grpc(
    folder: Path, sources: dict[str, Path], cohorts: dict[int, Cohort], rounds: int
) -> dict[int, tuple[int, dict[str, float]]]:
    """The health agency is this process; it asks the other one, which joins, for the count."""
    certificate, key = (path.read_bytes() for path in write_ec(folder))
    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    with duckdb.connect(config={"threads": 2}) as connection:
        _read(connection, "health", sources["health"], *_HEALTH)
        with _census_agency(folder, sources["census"]) as address, grpc.secure_channel(address, credentials) as channel:
            count: Any = channel.stream_unary(_COUNT_METHOD, request_serializer=None, response_deserializer=None)

            def ask(cohort: Cohort) -> int:
                found = connection.execute(f"select id from health where {cohort.where}").fetchnumpy()  # noqa: S608 - our own
                return int(count(_messages(np.asarray(found["id"], np.int64))))

            return {size: (ask(cohort), _timed(partial(ask, cohort), rounds)) for size, cohort in cohorts.items()}


def _messages(ids: npt.NDArray[np.int64]) -> Iterator[bytes]:
    for start in range(0, len(ids), _IDS_PER_MESSAGE):
        yield ids[start : start + _IDS_PER_MESSAGE].tobytes()


@contextmanager
def _census_agency(folder: Path, source: Path) -> Iterator[str]:
    words, pipe = module("rivals", "--census", folder, source), subprocess.PIPE
    with subprocess.Popen(words, env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            # It serves for as long as somebody holds this end.
            process.stdin.close()


def _serve_census(folder: Path, source: Path) -> None:
    """Join the ids of each stream with the census, and say how many have the wanted language."""
    with duckdb.connect(config={"threads": 2}) as connection:
        _read(connection, "census", source, *_CENSUS)

        def count(requests: Iterator[bytes], _context: grpc.ServicerContext) -> bytes:
            ids = np.concatenate([np.frombuffer(message, np.int64) for message in requests])
            with connection.cursor() as cursor:
                cursor.register("sample", {"id": ids})
                (row,) = cursor.execute(f"select count(*) from sample join census using (id) where {COUNT}").fetchall()  # noqa: S608 - our own
            return str(row[0]).encode()

        handler: Any = grpc.stream_unary_rpc_method_handler(count)
        service, method = _COUNT_METHOD.strip("/").split("/")
        server = grpc.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        certificate, key = (folder / name for name in ("certificate.pem", "key.pem"))
        credentials = grpc.ssl_server_credentials(
            [(key.read_bytes(), certificate.read_bytes())], certificate.read_bytes(), require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.stop(None)


# --- private set intersection --------------------------------------------------------------------------------------------


def _private_set_intersection(sources: dict[str, Path], cohort: Cohort | None) -> dict[str, Any] | None:
    """Its cardinality, once; None where the library is not installed or the population is too small."""
    psi = extra("private_set_intersection.python")
    if psi is None or cohort is None:
        return None
    with duckdb.connect(config={"threads": 2}) as connection:
        _read(connection, "health", sources["health"], *_HEALTH)
        _read(connection, "census", sources["census"], *_CENSUS)
        sample = _ids(connection, f"select id from health where {cohort.where} order by id")  # noqa: S608 - our own
        held = _ids(connection, f"select id from census where {COUNT} order by hash(id) limit {_PSI_HELD}")  # noqa: S608 - our own
    if len(held) < _PSI_HELD:
        return None
    times, started = {}, time.perf_counter()

    def lap(step: str) -> None:
        nonlocal started
        now = time.perf_counter()
        times[step], started = now - started, now

    server, client = psi.server.CreateWithNewKey(False), psi.client.CreateWithNewKey(False)
    setup = server.CreateSetupMessage(_PSI_FALSE_POSITIVES, len(sample), held, psi.DataStructure.GCS)
    lap("encrypting what the census holds")
    request = client.CreateRequest(sample)
    lap("encrypting the sample")
    response = server.ProcessRequest(request)
    lap("encrypting it again at the census")
    found = client.GetIntersectionSize(setup, response)
    lap("decrypting and counting")
    true = len(set(sample) & set(held))
    if found != true:
        raise SystemExit(f"private set intersection found {found}, there are {true}")
    return {
        "sample": len(sample),
        "held": len(held),
        "seconds": times,
        "microseconds an element": {
            "of the sample": 1e6 * (sum(times.values()) - times["encrypting what the census holds"]) / len(sample),
            "held": 1e6 * times["encrypting what the census holds"] / len(held),
        },
        "bytes": {
            "from the census, before": len(setup.SerializeToString()),
            "to the census": len(request.SerializeToString()),
            "and back": len(response.SerializeToString()),
        },
    }


def _ids(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return [f"{row[0]:010d}" for row in connection.execute(query).fetchall()]


# --- common ----------------------------------------------------------------------------------------------------------


def _read(connection: duckdb.DuckDBPyConnection, name: str, source: Path, columns: str, texts: Sequence[str]) -> None:
    """A source as a table in memory, of everybody who has a card; its texts as numbers, which is the fastest that it knows."""
    connection.execute(
        f"create table read as select {', '.join([columns, *texts])} from read_csv(?, all_varchar = true) "  # noqa: S608 - our own
        "where health_card is not null and health_card <> ''",
        [str(source)],
    )
    for text in texts:
        values = f"select distinct {text} from read where {text} is not null"  # noqa: S608 - our own
        connection.execute(f"create type {text}_code as enum ({values})")
    codes = ", ".join(f"{text}::{text}_code as {text}" for text in texts)
    connection.execute(f"create table {name} as select * replace ({codes}) from read")  # noqa: S608 - our own
    connection.execute("drop table read")


def _median(sizes: dict[str, Any], rival: str, size: str) -> float | None:
    return sizes[size][rival]["median"] if rival in sizes[size] else None


def _timed(step: Callable[[], object], rounds: int) -> dict[str, float]:
    times = []
    for number in range(_WARM_UP + rounds):
        started = time.perf_counter()
        step()
        if number >= _WARM_UP:
            times.append(time.perf_counter() - started)
    return milliseconds(times)


def table(result: dict[str, Any], ours: dict[str, Any] | None) -> list[str]:
    """The result as lines of Markdown; `ours` is that of `end_to_end`."""
    sizes = result["sizes"]
    ours = ours["samples"] if ours is not None and ours["people"] == result["people"] else {}
    broker: dict[str, float] = {}
    for size, found in sizes.items() if ours else ():
        # Criteria by age alone; all of its questions are alike.
        nearest = min(ours.values(), key=lambda sample, people=found["people"]: abs(sample["people"] - people))
        broker[size] = nearest["answer"]["median"]
    lines = heading("median ms", *(f"{found['people']:,}" for found in sizes.values()))

    def row(name: str, median: Callable[[str], float | None]) -> None:
        times = (median(size) for size in sizes)
        lines.append(f"| {name} | " + " | ".join("-" if each is None else f"{each:,.1f}" for each in times) + " |")

    row("this broker, without preparation", broker.get)
    for name, key in (("DuckDB and gRPC", "duckdb"), ("OpenDP in one process", "opendp")):
        row(name, partial(_median, sizes, key))
    psi = result["psi"]
    if psi is None:
        lines.append("\nopenmined-psi was not measured.")
    else:
        row("openmined-psi", lambda size: 1000 * sum(psi["seconds"].values()) if int(size) == _PSI_SAMPLE else None)
        each, size = psi["microseconds an element"], psi["bytes"]
        lines.append(
            f"\nopenmined-psi, cardinality of {psi['sample']:,} people against {psi['held']:,}: "
            f"{each['of the sample']:.0f} µs for each person of the sample, {each['held']:.0f} µs for each of the agency's set, "
            f"{sum(size.values()) / 1e6:.1f} MB sent. The census agency's set differs from question to question, so it is "
            f"encrypted for each of them."
        )
    lines += ["", "| | who is in the sample | the answer | budget | audit | parties |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(each)} |" for each in GIVES]
    return lines


def main() -> None:
    """Measure, keep, and print."""
    end_when_told()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--census", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument(
        "--directory", type=Path, help="a deployment to use, or where to make one; else one that is removed"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args()
    if asked.census:
        _serve_census(*asked.census)
        return
    with tempfile.TemporaryDirectory(prefix="tripartite-bench-") as folder:
        result = measure(asked.directory or Path(folder) / "deployment", asked.people, asked.rounds)
    path = store(asked.results, "rivals", result)
    say(json.dumps(result) if asked.json else "\n".join(table(result, load(asked.results, "end_to_end"))))
    progress(f"kept in {path}")


if __name__ == "__main__":
    main()
