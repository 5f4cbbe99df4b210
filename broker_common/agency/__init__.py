"""What the homes of both agencies have in common: `home` itself, its `linkage_keys`, and their change (`relinking`)."""
