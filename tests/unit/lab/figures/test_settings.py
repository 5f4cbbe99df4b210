"""Settings lie within their bounds and on a step; everything else is refused with the bounds."""

from __future__ import annotations

import pytest

from broker_common.errors import InvalidRequestError
from broker_common.language import language
from broker_common.privacy.accounting import USUAL_SCALE, cap_units, param_of, parse_max_belief
from census_node.cli import commands as census_commands
from policy_lab.figures.figure import FIGURES, Figure
from policy_lab.figures.policy import limit_of
from policy_lab.figures.setting import Setting

SETTINGS = [(figure, setting) for figure in FIGURES.values() for setting in figure.settings]


def ids(case: object) -> str:
    """A figure and its setting as a test's name."""
    return case.key if isinstance(case, Figure | Setting) else str(case)


@pytest.mark.parametrize(("figure", "setting"), SETTINGS, ids=ids)
def test_usual_value_is_one_that_may_be_asked_for(figure: Figure, setting: Setting) -> None:
    """Leaving a setting out and giving its usual value are the same."""
    assert figure.values({setting.key: str(setting.default)}) == figure.values({})


@pytest.mark.parametrize(("figure", "setting"), SETTINGS, ids=ids)
def test_value_outside_the_bounds_is_refused_with_the_bounds(figure: Figure, setting: Setting) -> None:
    """Also one between two steps, none at all, and what is no number."""
    if setting.choices:
        wrong, told = ["", "none", setting.choices[0][0].upper()], [key for key, _ in setting.choices]
    else:
        low, high, step = setting.low, setting.high, setting.step
        wrong = [
            str(low - step),
            str(high + step),
            str(low + step / 2),
            "",
            "nan",
            "inf",
            "1e3",
            "0x10",
            "9" * 400,
            "٣",
            "1/2",
        ]
        told = [str(low), str(high)]
    for text in wrong:
        with pytest.raises(InvalidRequestError) as refused:
            figure.values({setting.key: text})
        assert refused.value.code == "INVALID_VALUE"
        assert all(each in refused.value.text for each in [setting.key, *told]), text
        assert str(setting.default) in refused.value.hint


def test_both_bounds_may_be_asked_for() -> None:
    """They are part of the range."""
    for figure, setting in SETTINGS:
        if not setting.choices:
            assert figure.values({setting.key: str(setting.low)})[setting.key] == setting.low
            assert figure.values({setting.key: str(setting.high)})[setting.key] == setting.high


def test_unknown_setting_is_refused_with_the_nearest_name() -> None:
    """And the figure that does not have it is named."""
    with pytest.raises(InvalidRequestError) as refused:
        FIGURES["tradeoff"].values({"scal": "30"})
    assert "'tradeoff'" in refused.value.text
    assert "Did you mean: scale" in refused.value.hint
    french = refused.value.said(language("fr"))
    assert french[0] == "scal n\u2019est pas un réglage de la figure «\u00a0tradeoff\u00a0»."


def test_usual_settings_are_those_of_the_product() -> None:
    """The limit that 'census create' writes, and the scale that is asked for where nobody says otherwise."""
    create = census_commands.commands["create"]
    max_belief = next(option.default for option in create.params if option.name == "max_belief")
    values = FIGURES["tradeoff"].values({})
    assert limit_of(values).units == cap_units(param_of(parse_max_belief(str(max_belief))))
    assert values["scale"] == USUAL_SCALE
