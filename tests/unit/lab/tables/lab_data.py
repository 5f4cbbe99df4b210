"""Data that stay out of the product because of their licence: found beside the repository, or the test is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
EXPENDITURE = ROOT / "policy_lab" / "examples" / "expenditure" / "CEdata.csv"


def rice_farms() -> Path:
    """The 1026 rice farms of the R package plm."""
    for folder in ROOT.parents:
        found = folder / "shared" / "data" / "lab" / "RiceFarms.csv"
        if found.is_file():
            return found
    pytest.skip(
        "RiceFarms.csv (R package plm, GPL) is not in ../shared/data/lab: its licence keeps it out of this repository"
    )
