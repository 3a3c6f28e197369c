"""Attempts for agents under test: the harness's own tools on a small shop with a bug."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import yaml

from agentbench_core.workspace.repos import directory_commit
from agentbench_testing import ContextDouble, Workbench, open_workbench

SHOP = {
    "src/shop/__init__.py": "from shop.cart import Cart\n",
    "src/shop/cart.py": (
        "from shop.money import total\n\n\n"
        "class Cart:\n"
        '    """Prices in cents."""\n\n'
        "    def __init__(self, *prices):\n"
        "        self.prices = prices\n\n"
        "    def sum(self):\n"
        "        return total(self.prices)\n"
    ),
    "src/shop/money.py": "def total(prices):\n    return sum(prices[1:])\n",
    "src/shop/unused.py": "from shop import money\n",
    "tests/test_cart.py": (
        "import sys\nimport unittest\n\n"
        'sys.path.insert(0, "src")\n'
        "from shop import Cart\n\n\n"
        "class CartTest(unittest.TestCase):\n"
        "    def test_sum(self):\n"
        "        self.assertEqual(Cart(1, 2).sum(), 3)\n"
    ),
}
"""The failing assertion names only the test. The bug is two imports away, behind a package that re-exports a name."""
COMMAND = "python3 -m unittest -q tests/test_cart.py"


@pytest.fixture(scope="session")
def workbench() -> Iterator[Workbench]:
    """Makes workspaces with a sandbox ``local``."""
    with open_workbench() as made:
        yield made


@pytest.fixture
def attempt(workbench: Workbench) -> Callable[..., AbstractContextManager[ContextDouble]]:
    """Opens an attempt on the shop, with the model's answers and other arguments of ``Workbench.context``."""
    return partial(workbench.context, files=SHOP, failing_command=COMMAND)


@pytest.fixture
def fix() -> str:
    """The diff that makes the command pass."""
    return (
        "--- a/src/shop/money.py\n+++ b/src/shop/money.py\n@@ -1,2 +1,2 @@\n def total(prices):\n"
        "-    return sum(prices[1:])\n+    return sum(prices)\n"
    )


@pytest.fixture
def shop_task(tmp_path: Path, fix: str) -> Path:
    """The same shop as a task. Returns its directory."""
    task = tmp_path / "task"
    for name, text in SHOP.items():
        path = task / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (task / "solution.patch").write_text(fix)
    spec = {
        "id": "shop",
        "suite": "mini",
        "repo": {"url": "repo", "commit": directory_commit(task / "repo")},
        "environment": {"timeout_sec": 60, "network_policy": "none"},
        "setup": {"capture": []},
        "validation": {"failing_command": COMMAND, "passing_command": COMMAND},
        "oracle": {"patch": "solution.patch"},
    }
    (task / "task.yaml").write_text(yaml.safe_dump(spec))
    return task
