"""The commands that no single node owns, a module for each word that follows `tripartite`, and the parts that nodes build theirs of.

`keys`, `audit`, `dictionary`, `doctor`, `upgrade` and `auditor` (in `create`) are commands of the program. `create`, `register`
and `dashboard` hold what the commands of these names have in common in all nodes, `agency` what `load`, `relink` and `serve` of both
agencies have, `options` what options are the same, and `texts` the sentences of them all.
"""
