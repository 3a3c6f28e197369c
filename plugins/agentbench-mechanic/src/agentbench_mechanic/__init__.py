"""A set of rules in the place of a model: the llm ``mechanic``."""
