"""Writes exports/ beside this file: every damaged export of `vectors.damages`, as the files that an auditor would be handed.

    PYTHONPATH=.:protos:tests python -m vectors.damaged_exports

Keys and times are made up and fixed, so that the same bytes come out every time. A folder for each, named after the damage:

    auditor/                the home of an auditor who trusts the parties' cards, for all of them
    NAME/handed_in/         census/, health/ and researcher/, as far as they were handed in
    NAME/seen/              for some: checkpoints that the auditor had verified before, to be put into its home
    NAME/expected.json      a list of {"code", "entry", "log"}: every problem that there is, and there is no other
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fakes.history import auditor, write
from vectors.damages import DAMAGES, SEEN, Damage, honest

__all__ = ["EXPORTS", "HOME", "NAMES", "write_all"]

EXPORTS: Final = Path(__file__).with_name("exports")
HOME: Final = "auditor"
# One file each, of 17 MB and of 260 KB.
_TOO_LARGE: Final = frozenset({"giant_bundle", "giant_receipt"})
_UNDAMAGED: Final[Mapping[str, Damage]] = {
    "honest": Damage(lambda: honest(3).exports(criteria=True), ()),
    "honest_per_person": Damage(lambda: honest(3, accounting="per_person").exports(criteria=True), ()),
}
NAMES: Final = (*_UNDAMAGED, *(name for name in DAMAGES if name not in _TOO_LARGE))


def write_all(folder: Path) -> None:
    """Write all of it into a new folder."""
    auditor(folder / HOME)
    damages = {**_UNDAMAGED, **DAMAGES}
    for name in NAMES:
        exports = damages[name].make()
        seen = exports.pop(SEEN, None)
        write(exports, folder / name / "handed_in")
        if seen is not None:
            write({SEEN: seen}, folder / name)
        expected = [{"code": code, "entry": entry, "log": log} for code, log, entry in damages[name].problems]
        text = "".join(json.dumps(problem) + ",\n" for problem in expected).rstrip(",\n")
        (folder / name / "expected.json").write_text(f"[\n{text}\n]\n" if text else "[]\n")


if __name__ == "__main__":
    shutil.rmtree(EXPORTS, ignore_errors=True)
    write_all(EXPORTS)
