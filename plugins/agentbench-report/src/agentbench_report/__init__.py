"""Reports on AgentBench runs."""
