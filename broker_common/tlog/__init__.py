"""The signed, append-only log: Merkle tree, notes, cosignatures, tiles, entries, and the one fold from entries to state.

Pure: bytes in, verified values out. Files and databases are `broker_common.storage`'s business. Formats: FORMAT.md.
"""
