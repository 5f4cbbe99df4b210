"""The picture of the public face in the README: a deployment of made-up people, thirty answers, and a browser.

`make screenshot` makes it again.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from fakes.chromium import ARGUMENTS, CHROMIUM
from fakes.dashboards import dashboard
from fakes.deployment import FRENCH, make
from PIL import Image
from playwright.sync_api import FloatRect, Page, sync_playwright

from broker_common.errors import BrokerError

ANSWERS = 30
WIDTH = 1100
# Dots of the picture for each pixel of the page, so that it is sharp where a README shows it smaller.
DENSITY = 1.5
MOST_BYTES = 120_000


def main(target: Path) -> None:
    """Make the picture at `target`."""
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
                page = browser.new_page(
                    viewport={"width": WIDTH, "height": 900},
                    device_scale_factor=DENSITY,
                    color_scheme="light",
                    locale="en-CA",
                )
                page.goto(shown.address)
                page.get_by_role("status").get_by_text("Live").wait_for()
                png = page.screenshot(clip=_upper_part(page), full_page=True)
                browser.close()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(target, optimize=True)
    size = target.stat().st_size
    if size >= MOST_BYTES:
        sys.exit(f"{target} has {size} bytes, which is more than {MOST_BYTES}")
    print(f"{target}: {image.width} x {image.height}, {size} bytes")  # noqa: T201 - the command's only output


def _upper_part(page: Page) -> FloatRect:
    """From the top to the end of the figures."""
    box = page.locator("#witness").bounding_box()
    if box is None:
        sys.exit("the page has no figures")
    return {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + 20}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
