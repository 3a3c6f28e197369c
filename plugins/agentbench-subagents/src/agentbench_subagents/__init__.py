"""Agents that read what a failure leads to, or share the work; and a tool that reads test output."""
