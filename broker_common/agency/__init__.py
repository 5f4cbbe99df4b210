"""Common part of both agencies' homes: `home` itself, its `linkage_keys`, and their change (`relinking`)."""
