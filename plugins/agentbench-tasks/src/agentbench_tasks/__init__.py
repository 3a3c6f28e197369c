"""Commands for authors of tasks: create, mine, validate, strengthen and refresh them."""
