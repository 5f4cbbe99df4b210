"""`dashboard`, the same command for every node: opens a home's dashboard on a local address, or as its config.toml says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from broker_common.cli import emit
from broker_common.commands import texts
from broker_common.commands.options import home_option, json_option, lifeline_option, port_option
from broker_common.language import said


def dashboard_command(open_home: Callable[[Path], Any]) -> click.Command:
    """The command for homes that `open_home` opens, with their dashboards."""

    @click.command()
    @home_option
    @port_option
    @click.option(
        "--configured", is_flag=True, help="Listen where [dashboard] in config.toml says, as a serving node does."
    )
    @lifeline_option
    @json_option
    def dashboard(home: Path, port: int, configured: bool, lifeline: bool, as_json: bool) -> None:
        """Show the node's pages in a browser, on this machine.

        Prints one line with the address. Anybody who opens that address may see everything and act for the operator, since the
        key in it proves that they have read this line; without the key there is the public face. Works with the node up or
        down, and also serves /healthz, /readyz and /metrics.
        """

        def say(address: str) -> None:
            emit(as_json, {"address": address}, said(texts.DASHBOARD_AT, address=address))

        # Imported here: no other command has to wait for the libraries of pages.
        from broker_common.dashboard.running import run_dashboard  # noqa: PLC0415

        run_dashboard(open_home(home), port=port, configured=configured, lifeline=lifeline, say=say)

    return dashboard
