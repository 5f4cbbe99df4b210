"""The lab as a web application: an index, a page for each figure with its sliders and plots, and local noise in three steps.

It holds no data and reads no file of anybody's: everything follows from the settings in the address. So it asks for no key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from typing import Any, NoReturn
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from broker_common.dashboard.web import LOCAL_HOSTS, PACKAGE, Guard, language_chosen, language_of, templates
from broker_common.errors import InvalidRequestError
from broker_common.language import LANGUAGES, Language, language, phrase
from policy_lab.document import page, plots
from policy_lab.document import texts as document_texts
from policy_lab.document.model import Bars, Heat, Lines, Paragraph, Plot, Section
from policy_lab.figures.figure import FIGURES, Figure
from policy_lab.figures.setting import Setting, Values
from policy_lab.site.explainer import HERE, LOCAL_NOISE_PATH, explainer_page

# A figure's key and settings.
Kept = tuple[str, tuple[tuple[str, Decimal | str], ...]]
READERS = {"citizen": document_texts.CITIZEN, "specialist": document_texts.SPECIALIST}
# Somebody's answers to the form stand in no address: its page computes in the browser alone.
FORM = "form"
SHOWN = {key: figure for key, figure in FIGURES.items() if key != FORM}
# In the address beside the settings: for whom the page explains.
_READER = "reader"
_THEMES = ("light", "dark")
_WIDTHS = ("wide", "narrow")
# Sections and plots that are kept: what a reader goes back to, and what others look at.
_KEPT_SECTIONS, _KEPT_PLOTS = 32, 128
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of the navigation."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A figure with its settings as a reader has moved them."""

    figure: Figure
    values: Values

    @property
    def query(self) -> str:
        """The settings as the address has them."""
        return urlencode({key: str(value) for key, value in self.values.items()})

    @property
    def section(self) -> Section:
        """The section to show."""
        return _drawn(self.kept)

    @property
    def kept(self) -> Kept:
        """Its name among what is kept."""
        return self.figure.key, tuple(self.values.items())


def make_app() -> ASGIApp:
    """The application."""
    handlers = _Handlers()
    app = Starlette(
        routes=[
            Route("/", handlers.index, methods=["GET"]),
            Route(f"/figures/{FORM}", handlers.form, methods=["GET"]),
            Route("/figures/{key}", handlers.figure, methods=["GET"]),
            Route("/figures/{key}/plots/{code}/{width}/{theme}/{plot}.svg", handlers.plot, methods=["GET"]),
            Route(LOCAL_NOISE_PATH, handlers.local_noise, methods=["GET"]),
            Route("/static/document.css", handlers.document_style, methods=["GET"]),
            Mount("/static", StaticFiles(packages=[(PACKAGE, "static"), (HERE, "static")])),
        ],
        exception_handlers={_NOT_FOUND: handlers.not_found},
    )
    return Guard(app, LOCAL_HOSTS)


@lru_cache(_KEPT_SECTIONS)
def _drawn(kept: Kept) -> Section:
    key, values = kept
    return FIGURES[key].draw(dict(values))


@lru_cache(_KEPT_PLOTS)
def _plot(kept: Kept, plot: str, code: str, width: str, theme: str) -> bytes | None:
    """One plot of a figure as SVG; None if it has no such plot."""
    section = _drawn(kept)
    for block in (*section.citizen, *section.specialist, *section.blocks):
        if isinstance(block, Lines | Bars | Heat) and block.key == plot:
            return plots.draw(block, language(code), form="svg", dark=theme == "dark", narrow=width == "narrow")
    return None


class _Handlers:
    def __init__(self) -> None:
        self._jinja = templates([HERE])
        self._pages = [
            Entry("/", phrase("Overview")),
            Entry(LOCAL_NOISE_PATH, phrase("Local noise in three steps")),
        ]

    # --- pages -----------------------------------------------------------------------------------------------------

    async def index(self, request: Request) -> Response:
        chosen = language_chosen(request)
        if chosen is not None:
            return chosen
        cards = await asyncio.to_thread(lambda: [_card(figure) for figure in SHOWN.values()])
        return self._rendered(request, "index.html", phrase("The policy lab"), {"cards": cards})

    async def figure(self, request: Request) -> Response:
        chosen = language_chosen(request)
        if chosen is not None:
            return chosen
        figure = _figure_of(request)
        t = language_of(request)
        try:
            moved, failed = _moved(figure, request), None
            shown = await asyncio.to_thread(lambda: _shown(moved, t))
        except InvalidRequestError as error:
            # The usable part of the address is kept: the reader has one thing to correct.
            moved, failed = Moved(figure, _right_ones(figure, request)), error
            shown = await asyncio.to_thread(lambda: _shown(Moved(figure, figure.values({})), t))
        before, after = _beside(figure)
        text, hint = ("", "") if failed is None else failed.said(t)
        values = {
            "figure": figure,
            "sliders_shown": [_slider(setting, moved.values[setting.key], t) for setting in figure.settings],
            "readers": READERS.items(),
            "reader": _reader(request),
            "before": before,
            "after": after,
            "address": lambda code: urlencode([*request.query_params.items(), ("lang", code)]),
            "text": text,
            "hint": hint,
            "shown": shown,
        }
        return self._rendered(request, "figure.html", figure.title, values, status=200 if failed is None else 400)

    async def plot(self, request: Request) -> Response:
        code, width, theme, plot = (request.path_params[name] for name in ("code", "width", "theme", "plot"))
        if code not in LANGUAGES or width not in _WIDTHS or theme not in _THEMES:
            _missing()
        try:
            moved = _moved(_figure_of(request), request)
        except InvalidRequestError:
            _missing()
        svg = await asyncio.to_thread(_plot, moved.kept, plot, code, width, theme)
        if svg is None:
            _missing()
        return Response(svg, media_type="image/svg+xml")

    async def form(self, request: Request) -> Response:
        del request
        return RedirectResponse(LOCAL_NOISE_PATH, 303)

    async def local_noise(self, request: Request) -> Response:
        chosen = language_chosen(request)
        if chosen is not None:
            return chosen
        made = explainer_page(language_of(request), self._pages)
        # SECURITY: this page may connect to nothing, not even to the site that it comes from.
        return Response(made.html, media_type="text/html", headers={"content-security-policy": made.policy})

    async def not_found(self, request: Request, error: Exception) -> Response:
        del error
        return self._rendered(request, "not_found.html", phrase("Not found"), {}, status=_NOT_FOUND)

    async def document_style(self, request: Request) -> Response:
        del request
        sheet = resources.files("policy_lab.document").joinpath("style.css").read_text("utf-8")
        return Response(sheet, media_type="text/css")

    def _rendered(
        self, request: Request, template: str, title: str, values: Mapping[str, Any], *, status: int = 200
    ) -> Response:
        text = self._jinja.get_template(template).render(
            t=language_of(request), pages=self._pages, path=request.url.path, title=title, **values
        )
        return Response(text, status, media_type="text/html")


def _missing() -> NoReturn:
    raise HTTPException(_NOT_FOUND)


# --- what an address says ----------------------------------------------------------------------------------------------


def _figure_of(request: Request) -> Figure:
    figure = SHOWN.get(request.path_params["key"])
    if figure is None:
        _missing()
    return figure


def _reader(request: Request) -> str:
    given = request.query_params.get(_READER, "")
    return given if given in READERS else next(iter(READERS))


def _given(request: Request) -> dict[str, str]:
    return {key: value for key, value in request.query_params.items() if key != _READER}


def _moved(figure: Figure, request: Request) -> Moved:
    """The settings of an address.

    Raises:
        InvalidRequestError: INVALID_VALUE.
    """
    return Moved(figure, figure.values(_given(request)))


def _right_ones(figure: Figure, request: Request) -> Values:
    """The settings of an address that can be used, and the usual ones for the rest."""
    values = figure.values({})
    for key, text in _given(request).items():
        with suppress(InvalidRequestError):
            values[key] = figure.values({key: text})[key]
    return values


# --- what is shown -----------------------------------------------------------------------------------------------------


def _shown(moved: Moved, t: Language) -> dict[str, Any]:
    section = moved.section

    def address(plot: Plot) -> dict[str, Any]:
        wide, narrow = (
            {
                theme: f"/figures/{moved.figure.key}/plots/{t.code}/{width}/{theme}/{plot.key}.svg?{moved.query}"
                for theme in _THEMES
            }
            for width in _WIDTHS
        )
        return {**wide, "narrow": narrow}

    return {
        "citizen": page.blocks(section.citizen, t, address),
        "specialist": page.blocks(section.specialist, t, address),
        "blocks": page.blocks(section.blocks, t, address),
    }


def _slider(setting: Setting, value: Decimal | str, t: Language) -> dict[str, Any]:
    """A setting as the page shows it."""
    digits = max(0, -int(setting.step.as_tuple().exponent)) if not setting.choices else 0
    after = _unit(setting.unit, t)
    return {
        "setting": setting,
        "label": t(setting.label),
        "value": str(value),
        "digits": digits,
        "after": after,
        "shown": "" if setting.choices else t.number(float(value), digits) + after,
        "choices": [(key, t(label)) for key, label in setting.choices],
    }


def _unit(unit: str, t: Language) -> str:
    """The unit after the number."""
    if unit == "%" and t.code == "en":
        return unit
    return f"\N{NO-BREAK SPACE}{t(unit)}" if unit else ""


def _beside(figure: Figure) -> tuple[Figure | None, Figure | None]:
    """The figures before and after one."""
    row = [None, *SHOWN.values(), None]
    place = row.index(figure)
    return row[place - 1], row[place + 1]


def _card(figure: Figure) -> dict[str, Any]:
    """A figure on the index: its first words for everybody, and its first plot as a picture."""
    section = Moved(figure, figure.values({})).section
    words = next((block.words for block in section.citizen if isinstance(block, Paragraph)), "")
    plot = next((block.key for block in section.blocks if isinstance(block, Lines | Bars | Heat)), "")
    return {"key": figure.key, "title": figure.title, "words": words, "plot": plot}
