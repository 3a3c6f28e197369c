"""The public API for plugin authors: plugins import from here, never from submodules.

Its names are listed in ``__init__.pyi`` and loaded on first use, so that importing this package is cheap.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
