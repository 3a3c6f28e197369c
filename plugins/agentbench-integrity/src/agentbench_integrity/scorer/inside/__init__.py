"""Files that are copied into the sandbox and run there. Nothing on the host imports them."""
