"""Studies: one small file, many questions, and what can be said from their answers.

file      what the author wrote, line by line      design   its groups, questions and numbers
overlap   how many groups one person can be in     plan     what it will cost, and whether it can find anything
record    which query answers which question       running  asks what has no answer yet, and charges nothing twice
"""
