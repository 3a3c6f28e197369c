"""The program used by checks and tests of the kit: it has one bug, and a test that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | bytes]
"""Files by their paths."""
BROKEN: Mapping[str, str] = {
    "adding.py": 'def add(left, right):\n    """The sum of two numbers."""\n    return left - right\n',
    "test_adding.py": (
        "import unittest\n\nfrom adding import add\n\n\n"
        "class TestAdd(unittest.TestCase):\n"
        "    def test_two_numbers(self):\n"
        "        self.assertEqual(add(2, 3), 5)\n"
    ),
    "README.md": "# Adding\n\nAdds two numbers.\n",
}
"""A program with one bug, and the test that shows it."""
FAILING_COMMAND = "python3 -m unittest -q test_adding"  #: fails on `BROKEN`, and passes with `FIX`
FIX = """\
--- a/adding.py
+++ b/adding.py
@@ -1,3 +1,3 @@
 def add(left, right):
     \"\"\"The sum of two numbers.\"\"\"
-    return left - right
+    return left + right
"""  #: the reference solution for `BROKEN`, a unified diff


def write_files(directory: Path, files: Files) -> None:
    """Write files by their paths under a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
