"""The API for plugin authors: contracts, hooks, discovery, registry."""
