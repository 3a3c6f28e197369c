"""Code that runs in the sandbox."""
