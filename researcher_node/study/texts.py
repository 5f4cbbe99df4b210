"""Every sentence that studies say: the commands' help, and what plans and reports are made of."""

from __future__ import annotations

# What to type where an estimate lacks a key.
EXAMPLES = {
    "reference": "Name the group to compare with, such as: reference: male",
    "event": "Write the condition whose rate is meant, such as: event: procedure = 'angioplasty'",
    "over": "Name the entry of 'by' that is meant, such as: over: age",
    "weights": "Write a weight for each group, such as: weights: [0.3, 0.4, 0.3]",
}
