"""The programs of agents: installed packages, and directories of the user."""
