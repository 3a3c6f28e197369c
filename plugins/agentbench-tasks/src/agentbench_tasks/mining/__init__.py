"""Create tasks from the history of a repository."""
