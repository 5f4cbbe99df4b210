"""The researcher's side: asks, signs, waits, and is the only one who can read the answer.

config   where the two nodes are      asking   one question from text to ticket to answer
answers  what was asked and what      selection  which of them; listing: as people and programs read them
         came back, kept and verified
formats  answers as files for other programs
slots    that a quoted noise slot     checking that the log keeps what receipts promise;
         is committed to                       seen: what was seen of it before
census_log  who signs and cosigns it  trust    whom the researcher knows
opening  the composition root, inbox  cli      the commands; texts: what they say
exporting  what an auditor is handed  study    many questions from one file
"""
