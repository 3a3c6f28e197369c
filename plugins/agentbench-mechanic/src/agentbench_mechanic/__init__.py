"""The llm ``mechanic``: rules instead of a model."""
