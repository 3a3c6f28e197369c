"""The public API for plugin commands: reading tasks, running attempts, command-line flags and tables.

Its names are listed in ``harness.pyi`` and loaded on first use. Components need only :mod:`agentbench_core`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("agentbench_core", __file__)
