"""``agentbench init``: prepare a repository for AgentBench."""
