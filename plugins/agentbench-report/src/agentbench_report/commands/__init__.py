"""The commands below ``agentbench report``, one per file. What is heavy is imported when one is run."""
