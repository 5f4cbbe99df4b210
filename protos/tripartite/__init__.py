"""The wire contract of the three nodes; `v1` is generated from the .proto files beside it."""
