"""A synthetic Ontario: people who never existed, with the published marginals of those who did.

`population.write_sources` writes the two CSV sources that the nodes load; `codes` holds the code lists used in them. The
nodes never import this package: their dictionaries are published lists of their own, and a test compares the two.
Published figures are in `figures/`, with source and doubt in `figures/SOURCES.md`; invented figures say so where they
are used.
"""
