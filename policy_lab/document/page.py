"""A document as HTML: a whole file that loads nothing from anywhere, or parts of it for the site. No script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from broker_common.language import Language
from policy_lab.document import plots, said
from policy_lab.document.model import Block, Document, Plot, Section


def page(document: Document, t: Language) -> str:
    """The whole document as one file."""
    return _environment().get_template("page.html").render(document=_said(document, t), style=style())


def section(section: Section, t: Language) -> Markup:
    """One section, for a page that has the styles of `style`."""
    return Markup(_macros().section(said.section(section, t, _drawer(t))))  # noqa: S704 - the template escapes


def blocks(blocks: Sequence[Block], t: Language, draw: said.Draw | None = None) -> Markup:
    """Blocks, for such a page. `draw` says where plots are found that do not stand in the page."""
    return Markup(_macros().blocks(said.blocks(blocks, t, draw or _drawer(t))))  # noqa: S704 - the template escapes


@cache
def style() -> Markup:
    """The style of the nodes' pages, and what documents add to it."""
    sheets = (
        resources.files("broker_common.dashboard").joinpath("static", "style.css"),
        resources.files("policy_lab.document").joinpath("style.css"),
    )
    return Markup("\n".join(sheet.read_text("utf-8") for sheet in sheets))  # noqa: S704 - our own files


def _said(document: Document, t: Language) -> dict[str, Any]:
    return said.document(document, t, _drawer(t))


def _drawer(t: Language) -> said.Draw:
    """Each plot in both colours, inside the page."""

    def drawn(plot: Plot) -> dict[str, Any]:
        return {
            "light": _inside(plots.draw(plot, t, form="svg")),
            "dark": _inside(plots.draw(plot, t, form="svg", dark=True)),
        }

    return drawn


def _inside(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("policy_lab.document"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _macros() -> Any:
    return _environment().get_template("blocks.html").module
