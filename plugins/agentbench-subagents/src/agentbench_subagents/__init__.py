"""Tools for agents that read test output."""
