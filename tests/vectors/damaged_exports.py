"""Writes every export of `vectors.damages`, as the files that an auditor would be handed, into a new folder.

    PYTHONPATH=.:protos:tests python -m vectors.damaged_exports DIR

Keys and times are made up and fixed, so that the same bytes come out every time: exports.txt beside this file has their hashes.

    DIR/auditor/            the home of an auditor who trusts the parties' cards, for all of them
    DIR/NAME/handed_in/     census/, health/ and researcher/, as far as they were handed in
    DIR/NAME/seen/          for some: checkpoints that the auditor had verified before, to be put into its home
    DIR/exports.txt         a line for each: NAME, the hash of its files, and every problem that there is as CODE:LOG:ENTRY

The hash is what `cd NAME; find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` says. After a wanted change of a
format, or for a new damage, copy DIR/exports.txt over the one beside this file.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from fakes.history import auditor, honest, write
from vectors.damages import DAMAGES, SEEN

HOME: Final = "auditor"
LIST: Final = Path(__file__).with_name("exports.txt")
_HONEST: Final[dict[str, dict[str, str]]] = {"honest": {}, "honest_per_person": {"accounting": "per_person"}}
NAMES: Final = (*_HONEST, *DAMAGES)


def write_home(folder: Path) -> str:
    """Write the auditor's home; gives its line of the list."""
    return f"{HOME} {_hash(auditor(folder / HOME))}"


def write_one(name: str, folder: Path) -> str:
    """Write one export into its folder; gives its line of the list."""
    problems: list[str] = []
    if name in _HONEST:
        exports = honest(3, **_HONEST[name]).exports(criteria=True)
    else:
        exports = DAMAGES[name].make()
        problems = DAMAGES[name].problems.split()
    seen = exports.pop(SEEN, None)
    write(exports, folder / name / "handed_in")
    if seen is not None:
        write({SEEN: seen}, folder / name)
    return " ".join([name, _hash(folder / name), *problems])


def _hash(folder: Path) -> str:
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256((folder / name).read_bytes()).hexdigest()}  ./{name}\n" for name in names]
    return sha256("".join(lines).encode()).hexdigest()


def listed() -> dict[str, str]:
    """The lines of the list that is kept, by name."""
    return {line.partition(" ")[0]: line for line in LIST.read_text().splitlines()}


def write_all(folder: Path) -> None:
    """Write all of it into a new folder."""
    lines = [write_home(folder), *(write_one(name, folder) for name in NAMES)]
    (folder / LIST.name).write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
