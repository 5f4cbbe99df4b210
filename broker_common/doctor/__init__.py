"""Checks for operators' mistakes in a home, made from outside before they do harm; nothing is changed.

`findings` says what a finding is; `files` looks at the folder and its disk, `agency` at what both agencies' homes have, `peers` at
other nodes. Checks of a single role are in that role's package, found through the entry points `tripartite.doctors`.
"""
