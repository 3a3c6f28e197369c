"""Where the programs of agents come from: installed packages, and directories of the user."""
