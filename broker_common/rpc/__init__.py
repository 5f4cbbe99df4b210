"""gRPC over mutual TLS: who may call what, how errors travel, how servers start and stop, how channels are pinned."""
