"""Commands that tag, measure, merge, prune, pack and unpack run directories."""
