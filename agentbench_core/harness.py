"""The names for commands of plugins: tasks read, attempts made, flags and tables of the command line.

They are listed in ``harness.pyi`` and loaded when they are first used. Components need only what is in
:mod:`agentbench_core`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("agentbench_core", __file__)
