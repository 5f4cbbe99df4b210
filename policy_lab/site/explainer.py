"""The explainer of local noise in three steps: one page that runs in the browser alone, with or without a server.

Its script may connect to nothing: the page's own policy says so, and allows that script and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from markupsafe import Markup

from broker_common.dashboard.web import PACKAGE, templates
from broker_common.language import Language
from policy_lab.document.page import blocks, style
from policy_lab.figures.figure import FIGURES
from policy_lab.figures.form_law import FIELDS, Number
from policy_lab.site import texts

HERE = "policy_lab.site"
LOCAL_NOISE_PATH = "/local-noise"


@dataclass(frozen=True, slots=True)
class Explainer:
    """The page, and the policy that a server says beside it."""

    html: str
    policy: str


def explainer_file(t: Language) -> str:
    """The page as one file that needs no server."""
    return _made(t, pages=()).html


def explainer_page(t: Language, pages: Sequence[Any]) -> Explainer:
    """The same among the pages of a site."""
    return _made(t, pages=pages)


def file_name(code: str) -> str:
    """How the file in one language is called; the other languages are looked for beside it."""
    return f"local-noise.{code}.html"


def _made(t: Language, pages: Sequence[Any]) -> Explainer:
    section = FIGURES["form"].draw(FIGURES["form"].values({}))
    script = read_static(HERE, "local_noise.js")
    sheet = f"{style()}\n{read_static(HERE, 'lab.css')}"
    policy = (
        "default-src 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'; img-src data:; "
        f"script-src '{_hash(script)}'; style-src '{_hash(sheet)}'"
    )
    icon = base64.b64encode(read_static(PACKAGE, "icon.svg").encode()).decode()
    html = (
        templates([HERE])
        .get_template("local_noise.html")
        .render(
            t=t,
            pages=pages,
            path=LOCAL_NOISE_PATH,
            fields=FIELDS,
            is_number=lambda field: isinstance(field, Number),
            # Its explanations are those of the figure that 'lab explain form' prints.
            citizen=blocks(section.citizen, t),
            specialist=blocks(section.specialist, t),
            # Texts that the script fills in; no text may end the element that they stand in.
            words=Markup(json.dumps(_words(t), ensure_ascii=False).replace("<", "\\u003c")),  # noqa: S704 - escaped here
            policy=policy,
            script=Markup(script),  # noqa: S704 - our own file
            sheet=Markup(sheet),  # noqa: S704 - our own file
            icon=f"data:image/svg+xml;base64,{icon}",
            file_name=file_name,
        )
    )
    return Explainer(html, f"{policy}; frame-ancestors 'none'")


def _words(t: Language) -> dict[str, str]:
    return {name: t(text) for name, text in texts.SCRIPT.items()}


def read_static(package: str, name: str) -> str:
    """A static file of a package."""
    return resources.files(package).joinpath("static", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
