"""The auditor `integrity`: edits that detect tests, agents that saw secrets, tasks that leak."""
