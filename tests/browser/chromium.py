"""The browser that pages are looked at with: Debian's Chromium."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium")
# Without these the browser calls home, which nobody needs and no machine of tests can.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
# The rules of WCAG 2.2, levels A and AA, as axe is asked for them.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}

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
