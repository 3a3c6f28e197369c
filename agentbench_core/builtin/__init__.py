"""Plugins that come with the core, through the public hooks and nothing else."""
