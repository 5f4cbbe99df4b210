"""The figures of the lab, by key: what `lab serve` draws with sliders and `lab explain` prints.

Each is a function of its settings alone: no file, no clock, and no randomness but a seed among the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from broker_common.errors import InvalidRequestError
from broker_common.language import phrase
from broker_common.query.dictionary import nearest
from policy_lab.document.model import Section
from policy_lab.figures import accounting, collusion, form, local, many_counts, margin, prior, tradeoff
from policy_lab.figures.setting import Setting, Values


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, and what may be moved in it."""

    key: str
    title: str
    settings: tuple[Setting, ...]
    draw: Callable[[Values], Section]

    def values(self, given: Mapping[str, str]) -> dict[str, Decimal | str]:
        """Every setting's value: as given, or the usual one.

        Raises:
            InvalidRequestError: INVALID_VALUE, with the bounds, or with the nearest name of a setting.
        """
        known = {setting.key: setting for setting in self.settings}
        for key in given:
            if key not in known:
                raise _unknown(key, self.key, tuple(known))
        return {key: setting.value(given[key]) if key in given else setting.default for key, setting in known.items()}


def _unknown(key: str, figure: str, known: tuple[str, ...]) -> InvalidRequestError:
    problem = phrase("is no setting of the figure '{figure}'", figure=figure)
    remedy = phrase(
        "Did you mean: {nearest}? Its settings: {known}.", nearest=nearest(key, known), known=", ".join(known)
    )
    return InvalidRequestError("INVALID_VALUE", name=key[:40], problem=problem, remedy=remedy)


FIGURES: Mapping[str, Figure] = {
    figure.key: figure
    for figure in (
        Figure("tradeoff", tradeoff.TITLE, tradeoff.SETTINGS, tradeoff.draw),
        Figure("prior", prior.TITLE, prior.SETTINGS, prior.draw),
        Figure("margin", margin.TITLE, margin.SETTINGS, margin.draw),
        Figure("attack", collusion.TITLE, collusion.SETTINGS, collusion.draw),
        Figure("accounting", accounting.TITLE, accounting.SETTINGS, accounting.draw),
        Figure("table", many_counts.TITLE, many_counts.SETTINGS, many_counts.draw),
        Figure("local", local.TITLE, local.SETTINGS, local.draw),
        Figure("form", form.TITLE, form.SETTINGS, form.draw),
    )
}
