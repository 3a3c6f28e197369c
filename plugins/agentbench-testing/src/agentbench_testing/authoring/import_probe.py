"""Import one module in a separate process, and report the effects.

``python -m agentbench_testing.authoring.import_probe MODULE FILE [BEFORE ...]`` writes JSON to the file. The modules
``BEFORE``, which every command imports, are imported first. Output of the module goes to the output of this process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def probe(module: str, loaded_anyway: Iterable[str]) -> dict[str, Any]:
    """Import ``module`` after the modules that every command loads.

    Returns: ``seconds``, the duration; ``modules``, the top-level names that were also imported and do not belong to
    the module, the core or Python; and ``changed``, descriptions of changed process state.
    """
    for name in loaded_anyway:
        importlib.import_module(name)
    before = _state()
    loaded = set(sys.modules)
    began = time.perf_counter()
    importlib.import_module(module)
    seconds = time.perf_counter() - began
    after = _state()
    free = {*sys.stdlib_module_names, module.partition(".")[0], "agentbench_core"}
    added = {name: sys.modules[name] for name in set(sys.modules) - loaded}
    new = {name.partition(".")[0] for name, each in added.items() if getattr(each, "__spec__", None) is not None}
    return {
        "seconds": seconds,
        "modules": sorted(name for name in new - free if not name.startswith("_")),
        "changed": [what for what in before if before[what] != after[what]],
    }


def _state() -> dict[str, object]:
    return {
        "environment variables": dict(os.environ),
        "the working directory": Path.cwd(),
        "signal handlers": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "running threads": threading.active_count(),
        "sys.path": list(sys.path),
        "standard output": sys.stdout,
    }


if __name__ == "__main__":
    report = probe(sys.argv[1], sys.argv[3:])
    Path(sys.argv[2]).write_text(json.dumps(report), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # do not wait for threads started by the module
