"""The ``mechanic`` llm: rules instead of a model."""
