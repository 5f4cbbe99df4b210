"""The commands that no single node owns, a module for each word that follows `tripartite`, and the parts that nodes build theirs of.

`keys` and `audit`, `dictionary`, `doctor`, `upgrade` and `auditor` (in `create`) are commands of the program. `create`, `load` and
`dashboard` hold what the commands of that name have in common in all nodes. `texts` has the sentences of them all.
"""
