"""The ``tests`` scorer: run the passing command on a fresh copy, with checks that make its verdict hard to forge."""
