"""The Docker sandbox of AgentBench."""
