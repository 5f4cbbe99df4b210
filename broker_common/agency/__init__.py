"""What the homes of both agencies have in common: `home` itself, and its `linkage` keys with their change."""
