"""Docker for AgentBench."""
