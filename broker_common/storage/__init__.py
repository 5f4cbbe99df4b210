"""Durable things: the journal (log and state in one SQLite file), files that are replaced whole, and sources."""
