"""The pictures in the documents: the public face of made-up people after thirty answers, and a page of the policy lab.

`make screenshot` makes them again.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from browser.chromium import ARGUMENTS, CHROMIUM
from browser.lab_site import lab_site
from fakes.dashboards import dashboard
from fakes.deployment import FRENCH, make
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from broker_common.errors import BrokerError

ANSWERS = 30
WIDTH = 1100
# Dots of the picture for each pixel of the page, so that it is sharp where a README shows it smaller.
DENSITY = 1.5
MOST_BYTES = 120_000


def public_face(target: Path) -> None:
    """The census agency's public page."""
    with tempfile.TemporaryDirectory() as directory:
        made = make(Path(directory) / "deployment", accounting="per_person")
        with made.up():
            outcomes = made.ask_all([(f"age >= {30 + number}", FRENCH) for number in range(ANSWERS)], at_once=4)
            refused = [outcome for outcome in outcomes if isinstance(outcome, BrokerError)]
            if refused:
                raise refused[0]
            # Without a key: what anybody may see.
            with dashboard(made.home("census"), "census") as shown, sync_playwright() as started:
                browser = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
                page = _opened(browser)
                page.goto(shown.address)
                page.get_by_role("status").get_by_text("Live").wait_for()
                png = page.screenshot(clip=_down_to(page, "#witness"), full_page=True)
                browser.close()
    _save(png, target)


def page_of_the_lab(target: Path) -> None:
    """The figure that the lab begins with, down to the end of its first plot."""
    with lab_site() as shown, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = _opened(browser)
        page.goto(f"{shown.address}/figures/tradeoff")
        png = page.screenshot(clip=_down_to(page, "#drawn figure"), full_page=True)
        browser.close()
    _save(png, target)


def _opened(browser: Browser) -> Page:
    return browser.new_page(
        viewport={"width": WIDTH, "height": 900},
        device_scale_factor=DENSITY,
        color_scheme="light",
        locale="en-CA",
    )


def _save(png: bytes, target: Path) -> None:
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(target, optimize=True)
    size = target.stat().st_size
    if size >= MOST_BYTES:
        sys.exit(f"{target} has {size} bytes, which is more than {MOST_BYTES}")
    print(f"{target}: {image.width} x {image.height}, {size} bytes")  # noqa: T201 - the command's only output


def _down_to(page: Page, selector: str) -> FloatRect:
    """From the top to the end of the first of these."""
    box = page.locator(selector).first.bounding_box()
    if box is None:
        sys.exit(f"the page has no {selector}")
    return {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + 20}


if __name__ == "__main__":
    public_face(Path(sys.argv[1]))
    page_of_the_lab(Path(sys.argv[2]))
