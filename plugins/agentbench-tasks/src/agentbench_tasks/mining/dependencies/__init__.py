"""Find the dependencies of an old version of a project from its files, without running any of its code."""
