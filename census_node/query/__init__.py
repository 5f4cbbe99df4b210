"""One query, from a sample that arrives to an answer that leaves. Begin with `flow`.

flow        the whole order of steps, and what a crash between two of them leaves
streams     samples on their way in: how many, how long, how many parts
fair_queue  places in line: each agency's own, oldest first, agencies in rotation
desk        whatever is charged or put in force, one at a time, in rounds
schedule    when a round begins and when its outcomes leave: with ticks, or at once
"""
