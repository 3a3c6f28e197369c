"""Patterns of code that detects or manipulates tests, by name; used by :mod:`code_scan`."""

from __future__ import annotations

import re

_FRAMES = "inspects frames of the call stack"
ENDS = "terminates the process"
_OBJECTS = "inspects all objects in the process"
_TRACES = "traces execution"
IMPORTING = "changes how modules are imported"
PYTEST = "imports pytest"
EQUAL = "compares equal to everything"

ATTRIBUTES = {
    **dict.fromkeys(("_getframe", "_current_frames", "currentframe", "getouterframes", "getinnerframes"), _FRAMES),
    **dict.fromkeys(("f_back", "f_locals", "tb_frame", "gi_frame", "extract_stack", "walk_stack"), _FRAMES),
    **dict.fromkeys(("settrace", "setprofile", "settrace_all_threads", "addaudithook"), _TRACES),
    "pythonapi": "accesses interpreter internals",
}
"""Names that mean the same in every module."""
_LIKE_METHODS = {
    **dict.fromkeys((("os", "_exit"), ("posix", "_exit")), ENDS),
    **dict.fromkeys((("gc", "get_objects"), ("gc", "get_referrers")), _OBJECTS),
    **dict.fromkeys((("sys", "meta_path"), ("sys", "path_hooks"), ("sys", "path_importer_cache")), IMPORTING),
}
"""Names that other objects can also have. They are reported only on their own module and on unnamed objects."""
OF_NAMELESS = {name: what for (_, name), what in _LIKE_METHODS.items()}
OF_MODULES = {
    **_LIKE_METHODS,
    ("os", "abort"): ENDS,
    ("os", "fork"): "starts a process that can outlive the test process",
    ("os", "setsid"): "starts a process that can outlive the test process",
    ("inspect", "stack"): _FRAMES,
    ("inspect", "trace"): _FRAMES,
}
PYTESTS = frozenset({"pytest", "_pytest"})
RECORDER = frozenset({"_agentbench", "_agentbench_recorder"})
RUNNERS = PYTESTS | RECORDER | {"pluggy"}
PATCHED = RUNNERS | {"builtins", "datetime", "importlib", "inspect", "operator", "time", "traceback", "unittest"}
"""Modules whose attributes must not be replaced."""
IMPORTERS = frozenset({"__import__", "import_module"})
BY_NAME = IMPORTERS | {"getattr", "setattr", "find_spec"}
UNPACKING = frozenset(
    {
        *("b64decode", "standard_b64decode", "urlsafe_b64decode", "decodebytes", "a2b_base64"),
        *("b85decode", "a85decode", "b32decode", "b16decode", "unhexlify", "a2b_hex", "fromhex", "decompress"),
    }
)
DECODING = frozenset({"codecs.decode", "codecs.encode", "marshal.loads", "pickle.loads"})
EXECUTES = frozenset({"exec", "eval", "compile"})
ENCODED = "executes an encoded literal"
HIDDEN_CODE = "executes literals that are too large or too deeply nested to analyze"
COMPILED = (".so", ".pyd", ".pyc", ".pyo", ".dll", ".dylib")
PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".css", ".svg")
OF_OURS = re.compile(r"AGENTBENCH_[A-Z_]*|PYTEST_[A-Z_]+|_agentbench(?:_recorder)?")
WORDS = {
    "_agentbench": "accesses the test recorder",
    "_pytest": PYTEST,
    "_getframe": _FRAMES,
    "currentframe": _FRAMES,
    "os._exit": ENDS,
    "get_objects": _OBJECTS,
    "settrace": _TRACES,
    "meta_path": IMPORTING,
    "atexit": "runs code when the process exits",
    "AGENTBENCH_": "uses variables of the harness",
    "PYTEST_CURRENT_TEST": "detects the test runner",
    "junit": "uses a results file",
    "/proc/self": "reads /proc entries of its own process",
}
"""Patterns for files that are not Python, or cannot be parsed."""
