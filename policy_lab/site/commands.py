"""`tripartite lab serve`."""

from __future__ import annotations

from pathlib import Path

import click

from broker_common.cli import emit
from broker_common.commands.options import json_option, lifeline_option, port_option
from broker_common.language import said
from policy_lab.site import texts


@click.command()
@port_option
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Serve nothing: write the page on local noise, which needs no server, in every language to this folder.",
)
@lifeline_option
@json_option
def serve(port: int, folder: Path | None, lifeline: bool, as_json: bool) -> None:
    """Show the lab in a browser, on this machine: figures to move sliders on, and local noise in three steps.

    Prints one line with the address. The pages hold nobody's data, so that they need no key; they answer on this machine only.
    """
    from policy_lab.site.running import run_lab, save_explainer

    if folder is not None:
        files = [str(path) for path in save_explainer(folder)]
        emit(as_json, {"files": files}, said(texts.SAVED, files=", ".join(files)))
        return

    def say(address: str) -> None:
        emit(as_json, {"address": address}, said(texts.READY, address=address))

    run_lab(port, lifeline=lifeline, say=say)
