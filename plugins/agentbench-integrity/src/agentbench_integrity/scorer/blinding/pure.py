"""Modules, functions and methods that are known not to call the program under test."""

from __future__ import annotations

import ast

from agentbench_integrity.scorer.blinding.names import name_of

PURE_MODULES = frozenset(
    """array ast base64 binascii bisect calendar cmath codecs collections copy dataclasses datetime decimal difflib enum
    fractions functools hashlib heapq html ipaddress itertools json math numbers operator pathlib pytest random re
    statistics string struct textwrap types typing unicodedata unittest urllib uuid zlib zoneinfo
    attr attrs dateutil numpy pytz sortedcontainers yaml""".split()
)
"""Modules with functions that do not call the program."""
PURE_FUNCTIONS = frozenset(
    """abs all any bin bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hash hex int
    isinstance iter len list map max memoryview min next oct ord pow range repr reversed round set slice sorted str sum
    tuple type zip""".split()
)
PURE_METHODS = frozenset(
    """as_tuple capitalize casefold center combine copy count decode difference encode endswith expandtabs find format
    format_map from_bytes from_iterable fromhex fromisoformat fromkeys fromordinal fromtimestamp get hex index
    intersection is_integer isalnum isalpha isdigit isformat islower isoformat isspace issubset issuperset isupper items
    join keys ljust lower lstrip most_common partition quantize removeprefix removesuffix replace rfind rindex rjust
    rpartition rsplit rstrip split splitlines startswith strftime strip strptime swapcase symmetric_difference title
    to_bytes toordinal total_seconds translate union upper values weekday zfill""".split()
)
MUTATING_METHODS = frozenset(
    """add append appendleft clear discard extend insert pop popleft remove reverse setdefault sort
    update""".split()
)
CONTAINER_TYPES = frozenset(
    {"list", "dict", "set", "defaultdict", "deque", "Counter", "StringIO", "BytesIO", "OrderedDict"}
)
IMPURE_STATEMENTS = (ast.Global, ast.Nonlocal, ast.Assert, ast.With, ast.AsyncWith)
ENVIRONMENT_FUNCTIONS = frozenset(
    """absolute cwd exists expanduser getsource glob home is_dir is_file is_symlink iterdir lstat now open read_bytes
    read_text resolve rglob samefile stat today urlopen utcnow walk""".split()
)
"""Functions of pure modules with results that depend on time or on the machine."""
IMPURE_EXPRESSIONS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def is_class(name: str) -> bool:
    """Whether a name is written like a class name."""
    return name.lstrip("_")[:1].isupper()


def root_name(value: ast.expr) -> str:
    """The name at the start of an attribute chain; empty if it starts with another expression."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


def has_unpacking(call: ast.Call) -> bool:
    """Whether a call unpacks arguments with ``*`` or ``**``."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument of a call."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def is_empty_container(value: ast.expr) -> bool:
    """Whether an expression creates an empty container."""
    if isinstance(value, ast.List | ast.Tuple):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and name_of(value) in CONTAINER_TYPES and not value.args
