"""Progress of a run: what every display counts, and the displays."""
