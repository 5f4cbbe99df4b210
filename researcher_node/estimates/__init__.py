"""Estimates from noisy answers, each with two honest 95 % intervals. Nothing is asked or charged.

    table = Counts(noisy=(212, 1794), scale=30)                  # an answered question: French, rest
    share(Group(table, part=(0,)))                               # French among all cells of the table
    difference(Group(men, (0,)), Group(women, (0,)))             # two tables, two independent noises

The two intervals of every estimate:

    noise_only      about exactly the people who were counted: linked, in the sample, with budget left
    with_sampling   about the population that those people are like a random draw from: binomial variance, times the design
                    effect. A `fraction` below 1 is such a draw, too: then noise_only speaks of the people drawn, and only
                    with_sampling of everybody who matches.

An interval that is the whole range of what is possible is not `told`: print "cannot be told". It is an honest result, not an
error. Estimates and intervals are clipped to what is possible at the very end and nowhere before. docs/estimates.md explains the
methods and says how well they cover.

law         the exact joint noise of two sums of cells, and its critical values
fieller     the set of shares that two noisy counts do not contradict
recombined  intervals of shares, of sums of shares, of ratios
tables      answers as values, and one function for each kind of estimate
planning    how precise an answer will be

These are pure: values in, values out. Around them: `from_answers` (which numbers of stored answers belong together, and how an
estimate is shown), `commands` and `texts`.
"""
