"""Tasks made and validated: `tasks new` and `validate-tasks`."""
