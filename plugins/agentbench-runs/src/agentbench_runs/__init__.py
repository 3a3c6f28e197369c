"""Commands for run directories: tag, measure, prune, pack and unpack them."""
