"""The scorer ``tests``: the passing command on a fresh copy, and the checks that make its verdict hard to forge."""
