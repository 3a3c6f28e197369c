"""The subcommands of ``agentbench report``, one per file. Heavy modules are imported when a command runs."""
