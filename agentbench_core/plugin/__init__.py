"""What a plugin author meets: contracts, hooks, discovery, registry."""
