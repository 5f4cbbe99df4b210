"""Figures of the pages: each from its settings alone, with every number from the product's own `privacy` code.

figure     all of them, by key              setting    what may be moved, within which bounds
policy     limits and ceilings              sources    where the formulas come from
tradeoff   noise, answers, belief           prior      ceiling and typical case by prior
margin     "give or take" by group size     collusion  the attack of Figure 2
accounting strict against per person      workloads  made-up streams of questions
local      flipped languages, or noise      form       local noise on a health form, by form_law
many_counts one table against counts        randomness seeded bits for made-up answers
"""
