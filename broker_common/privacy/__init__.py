"""Privacy: how far an answer can move anybody's belief about one person, what it costs, and the noise that pays for it.

`accounting` turns a belief limit into an integer budget and an answer into an integer price; `belief` turns both back
into what an adversary can come to believe; `policy` is the document that sets the limit; `table_laplace` is the only
mechanism, the only code that may read an `ExactCounts`, and `discrete_laplace` its noise of one cell; `report` says what all charges mean for people, with the typical case
beside the ceiling (`typical`) and a `forecast`; `enclosure` rounds irrational numbers with certainty. Why this
keeps the promise, and what it depends on elsewhere, stands in ARGUMENT.md beside this file.

Invariants. No float decides anything, no clock, no randomness of its own, no input or output.
"""
