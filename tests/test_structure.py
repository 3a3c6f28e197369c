"""The structure of the code base: imports, public names, module sizes and the setup target."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import agentbench_core
import agentbench_testing
from agentbench_core import harness

ROOT = Path(agentbench_core.__file__).parent.parent
KIT = list(ROOT.glob("plugins/agentbench-testing/src/**/*.py"))


def test_import_contracts_hold() -> None:
    """The import contracts in ``pyproject.toml`` hold; import-linter names the offending line."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


ALLOWED = {"agentbench_view": "agentbench_report.html", "agentbench_dask": "agentbench_workers."}
"""What a plugin may import of another plugin, as in the import contracts."""


def test_plugins_and_built_ins_import_only_public_names() -> None:
    """Only ``agentbench_core``, ``harness`` (for commands) and their own package; the kit may use internals.

    ``agentbench-view`` shows the pages of ``agentbench-report``.
    """
    own = {ROOT / "agentbench_core/builtin": "agentbench_core.builtin"}
    own |= {
        path: path.name for wing in ("plugins", "examples") for path in ROOT.glob(f"{wing}/*/src/*") if path.is_dir()
    }
    del own[ROOT / "plugins/agentbench-testing/src/agentbench_testing"]
    bad = []
    for directory, package in own.items():
        for path in directory.rglob("*.py"):
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                words = line.split()
                if words[:1] not in (["from"], ["import"]) or not words[1].startswith("agentbench_"):
                    continue
                if words[1].startswith(ALLOWED.get(package, "-")):
                    continue
                if words[1] not in ("agentbench_core", "agentbench_core.harness") and not words[1].startswith(package):
                    bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert bad == []


def test_public_names_can_be_imported() -> None:
    """Every public name in a ``.pyi`` can be imported."""
    packages = ((agentbench_core, "hookimpl"), (harness, "run_attempt"), (agentbench_testing, "make_context"))
    for package, known in packages:
        names = dir(package)
        assert known in names
        assert all(hasattr(package, name) for name in names)


def test_no_module_is_too_long() -> None:
    """A module of much more than 300 lines probably has two responsibilities."""
    lengths = {path: len(path.read_text().splitlines()) for path in (*ROOT.glob("agentbench_core/**/*.py"), *KIT)}
    assert [f"{path.relative_to(ROOT)}: {lines}" for path, lines in lengths.items() if lines > 320] == []


def test_commands_print_only_with_say() -> None:
    """H19: commands print with ``say``, which escapes control characters, and never with ``click.echo``."""
    others = [path.name for path in (*ROOT.glob("agentbench_core/cli/*.py"), *KIT) if "click.echo" in path.read_text()]
    assert others == ["app.py"]


def test_make_help(tmp_path: Path) -> None:
    """It lists every target and runs no program: ``PATH`` is empty."""
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run([make, "help"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (targets,) = re.findall(r"^\.PHONY: help (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name in targets.split() if not re.search(rf"make {name}\b", done.stdout)] == []


def test_setup_uses_the_given_python(tmp_path: Path) -> None:
    """The virtual environment is rebuilt for another ``PYTHON``; without ``PYTHON``, any existing one is used."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=tmp_path, check=True)
    (tmp_path / "venv/.ready").touch()
    other = tmp_path / "python3.99"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)

    def up_to_date(*named: str) -> bool:
        command = ["make", "--question", f"VENV={tmp_path}/venv", *named, f"{tmp_path}/venv/.ready"]
        asked = subprocess.run(command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        assert asked.returncode in (0, 1), asked.stderr
        return asked.returncode == 0

    assert up_to_date()
    assert up_to_date(f"PYTHON={sys.executable}")
    assert not up_to_date(f"PYTHON={other}")
