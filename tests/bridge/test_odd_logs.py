"""Programs that do odd things to their own logs and directories: evidence is bounded, and no attempt hangs."""

from __future__ import annotations

from tests.bridge.conftest import Bridge

ODD = """
    home = pathlib.Path(os.environ["AGENTBENCH_PROMPT_FILE"]).parent
    ask(); fix()
    print("begun", flush=True)
    for name in ("stdout.log", "stderr.log", "prompt.txt"):
        (home / name).unlink()
    os.mkfifo(home / "stdout.log")
    (home / "stderr.log").symlink_to("/dev/zero")
    pathlib.Path(".claude").symlink_to("/etc")
    os.mkfifo(".codex")
    pathlib.Path(".opencode").write_text("a file")
"""


def test_logs_that_are_not_files(bridge: Bridge) -> None:
    """They are not evidence; what has the name of the program's own directories is removed, not followed."""
    run = bridge.run(ODD)
    assert run.outcome == ("completed", True), run.ended.err
    stderr = run.attempt / "agent/stderr.txt"
    assert not stderr.exists() or stderr.stat().st_size <= 32 << 20
    assert run.stdout == ""
    patch = (run.attempt / "diffs/final.patch").read_text()
    assert patch.count("diff --git") == 1
    assert "dropped_link" not in run.labels
