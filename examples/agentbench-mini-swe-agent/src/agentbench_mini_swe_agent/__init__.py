"""mini-swe-agent as an AgentBench agent."""
