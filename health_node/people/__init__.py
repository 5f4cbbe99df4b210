"""Health records by pseudonym, and how they are loaded.

store       people by pseudonym, in columns
tables      events, long lists, households    cohort      criteria to passes over columns
encoding    a column as small numbers         sorting     events by whom they belong to
loading     sources to a store                relinking   a store under another linkage key
"""
