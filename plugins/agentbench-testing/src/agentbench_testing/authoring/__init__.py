"""Create and check plugins: ``agentbench plugins new`` and ``agentbench plugins check``."""
