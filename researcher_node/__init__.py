"""The researcher's side: asks, signs, waits, and is the only one who can read the answer.

config   where the two nodes are      asking   one question from text to ticket to answer
inbox    takes pushed answers         answers  what was asked and what came back, kept and verified
service  the RPC                      cli      the commands; texts: what they say
"""
