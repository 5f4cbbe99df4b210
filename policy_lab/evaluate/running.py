"""All parts of a run, over one process or several: the same bytes in any case."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait

from broker_common.errors import InternalError
from policy_lab.arrays import Codes, Reals
from policy_lab.evaluate import messages
from policy_lab.evaluate.answers import central_answers, central_tables
from policy_lab.evaluate.cells import Table
from policy_lab.evaluate.data import Data
from policy_lab.evaluate.likeness import candidates, likeness
from policy_lab.evaluate.parts import Job, Part, Parts
from policy_lab.evaluate.run import Mechanism, RunFile

Progress = Callable[[int, int], None]


class Worker:
    """Makes parts of one run; what all repetitions of a mechanism have in common is made once."""

    def __init__(self, run: RunFile, data: Data) -> None:
        self._run = run
        self._data = data
        self._tables: dict[str, list[Table]] = {}
        self._groups: dict[str, tuple[messages.Groups, Codes]] = {}

    def part(self, job: Job) -> Part:
        """One part: it depends on the run, the data and the job alone."""
        if job.mechanism.place == "global":
            answers = central_answers(
                self._run, job.mechanism, job.epsilon, job.repetition, self._tables_of(job.mechanism)
            )
            return Part(_lists(answers), None)
        return self._sent_part(job)

    def _sent_part(self, job: Job) -> Part:
        run, data, mechanism = self._run, self._data, job.mechanism
        among, alike = self._groups_of(mechanism)
        sent = messages.sent(run, data, mechanism, job.epsilon, job.repetition)
        received, weights = sent, among.weights
        if mechanism.place == "shuffled":
            places = messages.shuffled(run, data, mechanism, among, job.epsilon, job.repetition)
            received = {name: messages.moved(values, places) for name, values in sent.items()}
            weights = weights[places]
        answers = messages.estimates(run, data, mechanism, job.epsilon, received, weights)
        like = likeness(run, data, mechanism, job.epsilon, job.repetition, alike, sent, received)
        return Part(_lists(answers), like)

    def _tables_of(self, mechanism: Mechanism) -> list[Table]:
        if mechanism.key not in self._tables:
            self._tables[mechanism.key] = central_tables(self._run, self._data, mechanism)
        return self._tables[mechanism.key]

    def _groups_of(self, mechanism: Mechanism) -> tuple[messages.Groups, Codes]:
        if mechanism.key not in self._groups:
            among = messages.groups(self._run, self._data, mechanism)
            self._groups[mechanism.key] = among, candidates(self._run, self._data, mechanism, among)
        return self._groups[mechanism.key]


def run_all(run: RunFile, data: Data, jobs: Sequence[Job], parts: Parts, processes: int, progress: Progress) -> None:
    """Make and keep every part that is not finished."""
    missing = [job for job in jobs if parts.get(job) is None]
    done = len(jobs) - len(missing)
    progress(done, len(jobs))
    made = _in_this_process(run, data, missing) if processes == 1 else _in_processes(run, data, missing, processes)
    for job, part in made:
        parts.put(job, part)
        done += 1
        progress(done, len(jobs))


def _in_this_process(run: RunFile, data: Data, missing: Sequence[Job]) -> Iterator[tuple[Job, Part]]:
    worker = Worker(run, data)
    for job in missing:
        yield job, worker.part(job)


def _in_processes(run: RunFile, data: Data, missing: Sequence[Job], processes: int) -> Iterator[tuple[Job, Part]]:
    # Not forked: a fork of a process with threads may stop for ever.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(processes, max(1, len(missing))), mp_context=context, initializer=_begin, initargs=(run, data)
    )
    try:
        waiting = {pool.submit(_part, job): job for job in missing}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise InternalError("LAB_PROCESS_ENDED") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


# One worker in each process of the pool.
_workers: list[Worker] = []


def _begin(run: RunFile, data: Data) -> None:
    # A Ctrl-C in the terminal reaches our parent too, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _workers.append(Worker(run, data))


def _end_with_parent() -> None:
    """A killed parent leaves no process that waits for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _part(job: Job) -> Part:
    return _workers[0].part(job)


def _lists(answers: Sequence[Reals]) -> list[list[list[float]]]:
    return [table.tolist() for table in answers]
