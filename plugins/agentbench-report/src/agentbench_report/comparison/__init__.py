"""Two runs or more, held against each other: paired by what tasks are, and refused where they do not compare."""
