"""The files of deploy/monitoring are what the handbook says: rules, panels, intervals and units."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker_common.errors import ExitCode, exit_code_of

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
RULES = (MONITORING / "alerts.yml").read_text("utf-8")
TESTS = (MONITORING / "alerts_test.yml").read_text("utf-8")
PROMTOOL = shutil.which("promtool")
ALERTS = re.findall(r"- alert: (\w+)", RULES)
A_MINUTE = 60


def grafana() -> dict[str, Any]:
    """The dashboard file."""
    loaded: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_fires_in_its_test_and_not_on_a_healthy_node(alert: str) -> None:
    """Promtool does not miss an alert that nobody has written a test for."""
    expected = re.findall(rf"alertname: {alert}\n +exp_alerts:(.*)", TESTS)
    assert " []" in expected
    assert "" in expected


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_out_within_a_minute(alert: str) -> None:
    """The rule's wait, how long it must hold, and the two intervals of prometheus.yml, one after the other."""
    rule = RULES.partition(f"- alert: {alert}\n")[2].partition("- alert:")[0]
    waits = [int(seconds) for seconds in re.findall(r"time\(\) - \w+ > (\d+)", rule)]
    (holds,) = map(int, re.findall(r"^ +for: (\d+)s$", rule, re.MULTILINE))
    config = (MONITORING / "prometheus.yml").read_text("utf-8")
    intervals = [
        int(seconds) for seconds in re.findall(r"^ +(?:scrape|evaluation)_interval: (\d+)s$", config, re.MULTILINE)
    ]
    assert len(intervals) == 2
    assert sum(waits) + holds + sum(intervals) <= A_MINUTE


def test_grafana_can_load_the_dashboard() -> None:
    """A schema that it knows, panels with ids and places of their own, all on the data source that its reader chooses."""
    dashboard = grafana()
    assert 36 <= dashboard["schemaVersion"] <= 41
    assert [each["type"] for each in dashboard["templating"]["list"]] == ["datasource"]
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + right, place["y"] + down) for right in range(place["w"]) for down in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert panel["type"] in {"stat", "gauge", "timeseries"}
        assert panel["title"]
        assert [target["refId"] for target in panel["targets"]] == sorted({each["refId"] for each in panel["targets"]})


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: 'make check-alerts' installs it")
def test_prometheus_can_read_every_expression_of_grafana(tmp_path: Path) -> None:
    """As recording rules, which promtool parses."""
    expressions = [target["expr"] for panel in grafana()["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel:{place}", "expr": expression} for place, expression in enumerate(expressions)]
    file = tmp_path / "rules.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    read = subprocess.run([PROMTOOL or "", "check", "rules", file], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stdout + read.stderr
    assert f"{len(expressions)} rules found" in read.stdout


def unit(name: str) -> configparser.SectionProxy:
    """The service section of a systemd unit."""
    # The same setting may stand in a unit twice, and case counts.
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    parser.read(MONITORING / name, "utf-8")
    return parser["Service"]


def test_systemd_does_not_start_a_node_again_that_stopped_for_good() -> None:
    """Systemd's own rule applies: on failure, unless the exit code is one of those that prevent it."""
    service = unit("tripartite-census.service")
    assert service["Restart"] == "on-failure"
    prevented = {int(word) for word in service["RestartPreventExitStatus"].split()}
    assert prevented == {ExitCode.STOPPED} == {exit_code_of("ROLLED_BACK"), exit_code_of("INTEGRITY")}
    # A fault that another start may mend is tried again.
    assert not prevented & {exit_code_of(code) for code in ("STORE_FAILED", "STATE_UNKNOWN", "INTERNAL", "PORT_TAKEN")}


def test_a_dashboard_s_unit_outlives_its_node() -> None:
    """It runs whatever becomes of the node, on the address of config.toml."""
    service = unit("tripartite-census-dashboard.service")
    assert service["Restart"] == "always"
    words = service["ExecStart"].split()
    assert words[1:3] == ["census", "dashboard"]
    assert "--configured" in words
    assert "--while-stdin-open" not in words
