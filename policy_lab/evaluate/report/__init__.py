"""The document of an evaluation: what was evaluated, what is promised, how far off answers are, and what sent data look like."""
