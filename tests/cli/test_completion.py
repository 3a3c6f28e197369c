"""Shell completion of commands, options and names, with the generated script in a real shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TYPED = {
    "a command": ("conf", "config"),
    "a command of a plugin": ("repo", "report"),
    "a subcommand": ("plugins sh", "show"),
    "a flag": ("run --max-c", "--max-cost-usd"),
    "an agent": ("run --agent scr", "scripted"),
    "a sandbox": ("run --sandbox lo", "local"),
    "a model's provider": ("run --llm re", "replay"),
    "a suite": ("run --suite mi", "mini"),
    "a suite in another directory": ("run --tasks other --suite el", "elsewhere"),
    "a variant of a plugin": ("run --variant scr", "scripted"),
    "a variant in a file": ("run --variant mine-", "mine-too"),
    "a component": ("plugins show apply", "apply_patch"),
    "a plugin": ("plugins check cor", "core"),
    "an adversary": ("tasks attack --adversary c31", "c31-words-to-a-judge"),
    "a task": ("run --suite mini --task on", "one"),
    "a task to be shown": ("tasks show on", "one"),
    "a run to resume": ("run --resume arti", "artifacts/runs/2026__mini__idle"),
    "a run to repeat": ("run --like artifacts/runs/20", "artifacts/runs/2026__mini__idle"),
    "a run elsewhere": ("replay elsewhere/", "elsewhere/2026__mini__idle"),
    "a run to be shown": ("runs show ", "artifacts/runs/2026__mini__idle"),
    "a shell": ("completion fi", "fish"),
}


@pytest.fixture
def project(make_task: Any, tmp_path: Path) -> Path:
    make_task()
    (tmp_path / "other/elsewhere").mkdir(parents=True)
    shutil.copytree(tmp_path / "tasks/mini/one", tmp_path / "other/elsewhere/one")
    for place in ("artifacts/runs", "elsewhere"):
        run = tmp_path / place / "2026__mini__idle"
        run.mkdir(parents=True)
        (run / "run.json").touch()
    variants = tmp_path / "configs/variants"
    variants.mkdir(parents=True)
    (variants / "mine-too.yaml").write_text("agent: scripted\n")
    return tmp_path


@pytest.mark.parametrize("case", TYPED)
@pytest.mark.usefixtures("project")
def test_completions(case: str, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Completion as bash requests it, in this process; :func:`test_in_bash` uses a real shell."""
    typed, expected = TYPED[case]
    words = f"agentbench {typed}"
    monkeypatch.setenv("_AGENTBENCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    done = agentbench()
    assert done.out.splitlines() == [f"plain,{expected}"]


@pytest.mark.parametrize("name", ["agentbench", "ab"])
def test_in_bash(project: Path, name: str) -> None:
    """The script is loaded as its help describes, and completes the short command name, too."""
    lines = [
        f"PATH={Path(sys.executable).parent}:$PATH",
        'eval "$(agentbench completion bash)"',
        f"COMP_WORDS=({name} run --agent scr); COMP_CWORD=3",
        f"_{name}_completion {name}; echo ${{COMPREPLY[@]}}",
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("scripted\n", "")


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_script(shell: str, agentbench: Any) -> None:
    """Every shell has one, and the help explains how to load it."""
    done = agentbench("completion", shell)
    assert done.code == 0
    assert "_AGENTBENCH_COMPLETE" in done.out
    assert f"agentbench completion {shell}" in agentbench("completion", "--help").out
