"""mini-swe-agent as an agent of AgentBench."""
