"""The researcher's side: asks, signs, waits, and is the only one who can read the answer.

config   where the two nodes are      asking   one question from text to ticket to answer
service  the inbox: takes pushed      answers  what was asked and what came back, kept and verified
         answers                      selection  which of them; listing: as people and programs read them
trust    the cards of both agencies   cli      the commands; texts: what they say
opening  the composition root
"""
