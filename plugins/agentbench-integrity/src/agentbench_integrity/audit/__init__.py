"""The auditor `integrity`: edits that look for their judge, agents that saw too much, tasks that leak."""
