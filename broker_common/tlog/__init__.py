"""The signed, append-only log: Merkle tree, notes, entries, and the one fold that turns entries into state.

Pure: bytes in, verified values out. Files and databases are `broker_common.storage`'s business. Formats: FORMAT.md.
"""
