"""An example of a plugin for AgentBench: a tool, an agent that uses it, and a variant that offers it."""
