"""Fixtures of the testing kit."""

from agentbench_testing.fixtures import make_task as make_task, run_agentbench as run_agentbench
