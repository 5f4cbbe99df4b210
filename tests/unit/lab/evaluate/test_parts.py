"""Parts: the same bytes over any number of processes, and after any kill; never those of another file."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.lab.evaluations import RUN, evaluation, respondents, write_csv

from broker_common.errors import InvalidRequestError
from policy_lab.evaluate.data import Data, read_data
from policy_lab.evaluate.parts import Job, Part, Parts, jobs
from policy_lab.evaluate.run import RunFile
from policy_lab.evaluate.run_file import read_run_file
from policy_lab.evaluate.running import Worker, run_all
from policy_lab.standing import make_private_folder

PARTS = ".tripartite-parts"


class KilledError(Exception):
    """The run ends here."""


def read(path: Path) -> tuple[RunFile, Data]:
    """A run and its data."""
    run = read_run_file(path)
    return run, read_data(run, lambda _done, _total: None)


def kept(folder: Path) -> dict[str, bytes]:
    """Every finished part."""
    return {path.name: path.read_bytes() for path in sorted((folder / PARTS).iterdir())}


def whole(run: RunFile, data: Data, folder: Path, processes: int = 1) -> dict[str, bytes]:
    """All parts of a run."""
    run_all(run, data, jobs(run), Parts(folder, run, data), processes, lambda _done, _total: None)
    return kept(folder)


def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path) -> None:
    """Randomness has the names of what is drawn, not the order of work."""
    run, data = read(evaluation(tmp_path))
    assert whole(run, data, tmp_path / "one") == whole(run, data, tmp_path / "three", 3)


@pytest.mark.parametrize("survives", [0, 1, 5, 11])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    """Finished parts are not made again, and what follows does not depend on where the run stopped."""
    run, data = read(evaluation(tmp_path))
    through = whole(run, data, tmp_path / "through")
    made: list[Job] = []
    make = Worker.part

    def dies(self: Worker, job: Job) -> Part:
        if len(made) == survives:
            raise KilledError
        made.append(job)
        return make(self, job)

    monkeypatch.setattr(Worker, "part", dies)
    with pytest.raises(KilledError):
        whole(run, data, tmp_path / "killed")
    assert len(kept(tmp_path / "killed")) == survives + 1
    again: list[Job] = []

    def goes_on(self: Worker, job: Job) -> Part:
        again.append(job)
        return make(self, job)

    monkeypatch.setattr(Worker, "part", goes_on)
    assert whole(run, data, tmp_path / "killed") == through
    assert len(again) == len(jobs(run)) - survives
    assert not set(again) & set(made)


def test_parts_of_another_run_file_or_of_other_data_are_dropped(tmp_path: Path) -> None:
    """One changed character is another run."""
    path = evaluation(tmp_path)
    run, data = read(path)
    whole(run, data, tmp_path / "out")
    assert Parts(tmp_path / "out", run, data).get(jobs(run)[0]) is not None
    write_csv(tmp_path / "people.csv", respondents(59))
    run, data = read(path)
    assert Parts(tmp_path / "out", run, data).get(jobs(run)[0]) is None
    whole(run, data, tmp_path / "out")
    path.write_text(RUN.replace("cap: 90", "cap: 91"), "utf-8")
    run, data = read(path)
    assert Parts(tmp_path / "out", run, data).get(jobs(run)[0]) is None


def test_other_files_of_the_folder_are_left_alone(tmp_path: Path) -> None:
    """The command deletes nothing but its own parts, whatever a user's own files are called."""
    run, data = read(evaluation(tmp_path))
    parts = tmp_path / "out" / "parts"
    make_private_folder(parts)
    mine = [parts / "notes.txt", parts / "film.part"]
    for file in mine:
        file.write_text("mine", "utf-8")
    Parts(tmp_path / "out", run, data)
    assert {file.read_text("utf-8") for file in mine} == {"mine"}


@pytest.mark.parametrize("of", [None, "mine", "0" * 63])
def test_parts_that_are_not_known_to_be_ours_are_left_and_named(tmp_path: Path, of: str | None) -> None:
    """Only what the command's own file speaks for is dropped."""
    run, data = read(evaluation(tmp_path))
    parts = make_private_folder(tmp_path / "out" / PARTS)
    (parts / "film.part").write_text("mine", "utf-8")
    if of is not None:
        (parts / "of.txt").write_text(of, "utf-8")
    with pytest.raises(InvalidRequestError, match="is not a folder of finished parts"):
        Parts(tmp_path / "out", run, data)
    assert (parts / "film.part").read_text("utf-8") == "mine"


def test_parts_are_not_looked_for_behind_a_link(tmp_path: Path) -> None:
    """Its parts may be of another run, and would be dropped."""
    run, data = read(evaluation(tmp_path))
    whole(run, data, tmp_path / "other")
    before = kept(tmp_path / "other")
    (make_private_folder(tmp_path / "out") / PARTS).symlink_to(tmp_path / "other" / PARTS)
    write_csv(tmp_path / "people.csv", respondents(59))
    run, data = read(tmp_path / "run.yaml")
    with pytest.raises(InvalidRequestError, match="is not a folder of finished parts"):
        Parts(tmp_path / "out", run, data)
    assert kept(tmp_path / "other") == before


def test_a_run_that_was_killed_before_its_first_part_goes_on(tmp_path: Path) -> None:
    """Its folder is there and says nothing yet."""
    run, data = read(evaluation(tmp_path))
    make_private_folder(tmp_path / "out" / PARTS)
    assert Parts(tmp_path / "out", run, data).get(jobs(run)[0]) is None


def test_parts_are_their_owners_alone(tmp_path: Path) -> None:
    """Noisy answers beside exact ones give these away."""
    run, data = read(evaluation(tmp_path))
    whole(run, data, tmp_path / "out")
    assert (tmp_path / "out" / PARTS).stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out" / PARTS).iterdir()} == {0o600}


def test_parts_depend_on_nothing_but_their_names(tmp_path: Path) -> None:
    """Another mechanism or epsilon beside them changes no part."""
    path = evaluation(tmp_path)
    run, data = read(path)
    one = whole(run, data, tmp_path / "one")
    path.write_text(RUN.replace("[0.5, 2]", "[0.5, 1, 2]").replace("  - global\n", ""), "utf-8")
    run, data = read(path)
    other = whole(run, data, tmp_path / "other")
    for name in ("local.truncated_0.5_0.part", "shuffled.clamped.with-static_2.0_1.part"):
        assert one[name] == other[name]
