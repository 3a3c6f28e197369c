"""The `integrity` auditor: finds edits that detect or manipulate tests, agents that saw secrets, and leaks."""
