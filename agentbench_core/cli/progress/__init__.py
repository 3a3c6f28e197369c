"""Progress of a run: the displays, and the data that they share."""
