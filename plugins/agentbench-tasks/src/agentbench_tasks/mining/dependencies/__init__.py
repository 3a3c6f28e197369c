"""What a project of some years ago depends on, read from its files without running any of its code."""
