"""Attacks on a live deployment whose people are made up, each beside the curve that it may not beat.

An attacker here has a colluding researcher and, where the adversary is HR, the health agency's records: they choose samples by
criteria and know who is in each. Only the harness knows languages, from DIR/census/people.csv, and judges by them.

`catalogue` lists the attacks, `running` runs them; `arena` is where they run, `people` whom they know, `spending` what they may spend; `chances`
holds the exact probabilities that verdicts rest on, `findings` the verdicts, `transcripts` everything that a researcher can
see of a question. Then one module for each attack or family: `neighbour`, `average`, `tracker`, `reconstruction`, `refusal`,
`quote`, `linkage`, `equality`, `cards`, `household`, `race`.

Invariants. Attacks work through the researcher's own program and, where they say so, through loads of their own making; no
node runs anything but its own code. A verdict is wrong at most once in a million times for each finding that chance has a part
in, whatever is true of the people.
"""
