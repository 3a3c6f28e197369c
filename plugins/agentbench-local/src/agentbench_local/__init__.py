"""The ``local`` sandbox: a directory and processes on this machine, without isolation, for trusted agents only."""
