"""The health-survey report of 2024, repeated: what it published, why those figures came out, and what is wrong with them.

profile    the document, for a run file with `profile: as-published`   respondents the data file
pipeline   the published methods, step by step                         expected    what they answer on average, in closed form
published  the published figures and the survey's codes                simulated   what they answer in runs of our own
promises   epsilon as claimed, as it is, and as measured from below    texts       sentences, in the reader's language
"""
