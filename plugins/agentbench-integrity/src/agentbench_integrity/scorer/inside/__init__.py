"""What runs in the sandbox: given to it as a file, and imported by nobody."""
