"""Whom a researcher believes, and what is checked before and after.

cards       the card of each agency           census_log             who signs the census log, and who cosigns it
slots       that a quoted noise slot is       remembered_checkpoint  the newest checkpoint that was verified here
            committed to                      checking               that the log keeps what receipts promise
"""
