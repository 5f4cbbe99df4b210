"""gRPC over mutual TLS.

server       TLS, start and stop of a node                 interceptor   what stands before every handler
callers      who may call what: one table                  status        how errors travel
channel      a connection to a peer, pinned                news          waiting for what threads bring about
signed_documents  policies and dictionaries on the wire    handshake_log lines about refused connections
"""
