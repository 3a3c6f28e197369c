"""Creating and validating tasks: `tasks new` and `validate-tasks`."""
