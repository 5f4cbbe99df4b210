"""One document, shown as a page, a PDF, plots, text for a terminal, or JSON: what it says is written once.

model     what a document is made of        page      HTML that needs no script and no other file
pdf       tagged PDF                        plots     plots as SVG and PNG
terminal  text                              as_json   the same for programs, in English
"""

import logging

# The library of plots warns where it finds no folder for its fonts: a path that no user of ours asked for.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
