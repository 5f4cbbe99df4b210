"""The browser that pages are looked at with: Debian's Chromium."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
# Each window would draw the lists below its address bar, two pages of their own that nobody sees, and hold a process ready.
_UNSEEN = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess")
# Playwright's own list: the last one alone counts, and that is ours.
_OF_PLAYWRIGHT = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
# Without these the browser calls home, which nobody needs and no machine of tests can.
ARGUMENTS = (
    f"--disable-features={','.join((*_OF_PLAYWRIGHT, *_UNSEEN))}",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
# The rules of WCAG 2.2, levels A and AA, as axe is asked for them.
_RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}
# Only what is found is sent: sending what was in order, with each of its elements, takes longer than looking.
_BROKEN = """
async ([within, options]) => (await axe.run(within, options)).violations.map((each) => `${each.id}: ${each.nodes[0].html}`)
"""

# The words in cells of tables that do not stand on one line, but for those that no line could hold.
TORN_WORDS = r"""
() => [...document.querySelectorAll("main .scroll :is(th, td)")].flatMap((cell) => {
  const torn = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (word[0].length <= 24 && new Set([...range.getClientRects()].map((box) => box.top)).size > 1) torn.push(word[0]);
    }
  }
  return torn;
})
"""
# Elements beyond the side of the window, outside of boxes that scroll, and the boxes that hide rows.
CUT_OFF = """
() => [...document.querySelectorAll("main *")]
  .filter((each) => each.matches(".scroll") ? each.scrollHeight > each.clientHeight + 1
    : !each.closest(".scroll, .hidden") && each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 100))
"""


def broken_rules(page: Page, within: str = "html") -> list[str]:
    """The rules that a page, or a part of it, breaks as it stands, each with an element; axe is loaded once into a page."""
    # Imported here: where no browser is installed, this is not, either.
    from axe_playwright_python.base import AXE_SCRIPT  # noqa: PLC0415

    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(_BROKEN, [within, _RULES])
    return found
