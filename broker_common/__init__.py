"""Shared by the three nodes: values, errors, cryptography, accounting, queries, logs, storage and transport.

The pure packages (`values`, `errors`, `crypto`, `privacy`, `query`, `tlog`) do no input or output and take clock and
randomness as parameters. On them rest `storage` (files) and `rpc` (calls), `parties` (keys, cards, who is known), `agency`
(the homes of both agencies), `dashboard` and `audit`, then the `commands`. import-linter holds them to it (the contracts in
`pyproject.toml`).
"""
