"""Exports for an auditor: their format, their verification, and their replay.

export    the files that are handed in: written, read, and whole or not
logs      each log by itself: canonical, signed, folded, and what it says
checks    the parts held against each other, question by question
on_site   the judge of an agency's private stores
audit     the whole, step by step                  report    the verdict, for programs and for people
home      the auditor's home: made, whom it trusts, what was seen
codes     every code that a problem can have       findings  problems, what is pending, what could not be checked
texts     what the commands say

The pure parts take bytes and readers; input and output happen in `export`, `home`, `logs.disk_backed` and `on_site`.
"""
