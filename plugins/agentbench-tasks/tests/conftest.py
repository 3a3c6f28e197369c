"""Tests write tasks and run the command with the fixtures of the kit."""

pytest_plugins = ["agentbench_testing.fixtures"]
