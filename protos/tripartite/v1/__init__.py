"""Generated messages and services, version 1. Regenerate with `make protos`; read the .proto files instead."""
