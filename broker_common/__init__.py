"""What the three nodes share: values, errors, cryptography, accounting, queries, logs, storage and transport.

The pure packages (`values`, `errors`, `crypto`, `privacy`, `query`, `tlog`) do no input or output and take clock and
randomness as parameters; import-linter holds them to it (see the contracts in `pyproject.toml`).
"""
