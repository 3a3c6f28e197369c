"""Make a plugin, and look for what is wrong with one: ``agentbench plugins new`` and ``agentbench plugins check``."""
