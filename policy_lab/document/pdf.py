"""A document as tagged PDF (PDF/UA-1), typeset by typst without the network.

No text ever becomes markup: the template reads the whole document, plots included, as data.
"""

from __future__ import annotations

import importlib
import json
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import matplotlib as mpl

from broker_common.errors import InvalidRequestError
from broker_common.language import Language
from policy_lab.document import plots, said
from policy_lab.document.model import Document, Plot

Paper = Literal["us-letter", "a4"]


def typesetter() -> ModuleType:
    """The library, which pages do without: it is of the extra `lab`.

    Raises:
        InvalidRequestError: LAB_NOT_INSTALLED.
    """
    try:
        return importlib.import_module("typst")
    except ModuleNotFoundError as error:
        raise InvalidRequestError("LAB_NOT_INSTALLED", package="typst") from error


def pdf(document: Document, t: Language, *, paper: Paper = "us-letter") -> bytes:
    """The document on numbered pages, each with the mark of its standing.

    Raises:
        InvalidRequestError: LAB_NOT_INSTALLED.
    """
    typst = typesetter()

    def drawn(plot: Plot) -> dict[str, Any]:
        return {"svg": plots.draw(plot, t, form="svg").decode()}

    template = resources.files("policy_lab.document").joinpath("templates", "document.typ").read_bytes()
    data = said.document(document, t, drawn) | {"paper": paper}
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[Path(mpl.get_data_path()) / "fonts" / "ttf"])
    made: bytes = typst.compile(
        template,
        format="pdf",
        sys_inputs={"document": json.dumps(data)},
        font_paths=fonts,
        pdf_standards=["ua-1"],
    )
    return made
