"""Whom a researcher believes, and what is checked before and after.

cards       the card of each agency
census_log  that the census log is signed and cosigned, has the quoted noise slot, and goes on from what it showed before
checking    that the log keeps what receipts promise
"""
