"""The `integrity` auditor: finds edits that detect tests, agents that saw secrets, and tasks that leak."""
