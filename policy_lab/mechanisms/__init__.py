"""The laws of central, local and shuffled noise. Pure: arrays in, arrays out; the random generator is a parameter.

The generator is seeded and the numbers are floats: this is for evaluation, never for release. A release uses the product's
own exact sampler (`broker_common.privacy`).

neighbours            between which two tables a promise holds
central               Laplace noise on a result, and the sensitivity that weights and public bounds imply
randomised_response   a category, kept or replaced
bounded               a bounded number with Laplace noise: truncated, clamped or wrapped
shuffling             a permutation of messages, and the promise that it adds
composition           what several answers spend on one respondent
distinguisher         an epsilon found from below, in samples of two neighbouring worlds
limits                which epsilons, bounds and numbers are accepted
"""
