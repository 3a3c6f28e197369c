"""An example of an AgentBench plugin: a tool, an agent that uses it, and a variant that offers it."""
