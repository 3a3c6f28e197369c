"""Checks: limits are enforced and reported, and only affect the command that reaches them."""

from __future__ import annotations

from agentbench_core import ExecResult
from agentbench_testing.checks.sandbox.stage import SMALL_MEMORY_MB, SMALL_PIDS, Hooks, Stage, Started

_TAKE_MEMORY = f"b'x' * ({3 * SMALL_MEMORY_MB} << 20); print('taken')"
_FORK = f"""
import os, signal, sys, time
children = []
for _ in range({2 * SMALL_PIDS}):
    try: child = os.fork()
    except OSError: break
    if child == 0:
        time.sleep(60)
        os._exit(0)
    children.append(child)
print(len(children), flush=True)
if sys.argv[1:] == ['stay']: time.sleep(60)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


class LimitChecks(Hooks):
    """``mem_limit_mb``, ``pids_limit`` and ``ExecResult.limits_hit``."""

    def test_memory_limit(self, stage: Stage) -> None:
        """A process that exceeds the limit is killed, and ``oom`` is reported even if the command succeeds."""
        result = stage.small.run(f'{self.python} -c "{_TAKE_MEMORY}"; true')
        assert "taken" not in result.stdout.text
        assert "oom" in result.limits_hit

    def test_after_the_memory_limit(self, stage: Stage) -> None:
        """The call after one that exceeded the memory limit works, and reports no limit."""
        stage.small.run([self.python, "-c", _TAKE_MEMORY])
        self._works(stage.small.run("echo alive"))

    def test_memory_below_the_limit(self, stage: Stage) -> None:
        """A command can use a third of the memory limit."""
        result = stage.small.run([self.python, "-c", f"len(b'x' * ({SMALL_MEMORY_MB // 3} << 20))"])
        assert (result.exit_code, result.limits_hit) == (0, ())

    def test_memory_limit_once(self, stage: Stage) -> None:
        """The memory limit also applies to a command in a fresh sandbox."""
        command = f'{self.python} -c "{_TAKE_MEMORY}"'
        result = stage.once(command, environment=stage.small_environment)
        assert not result.ok
        assert "oom" in result.limits_hit

    def test_process_limit(self, stage: Stage) -> None:
        """Forks beyond the process limit are refused, and ``pids`` is reported."""
        result = stage.small.run([self.python, "-c", _FORK])
        assert 0 < int(result.stdout.text) < SMALL_PIDS
        assert "pids" in result.limits_hit

    def test_after_the_process_limit(self, stage: Stage) -> None:
        """The call after one that reached the process limit works, and reports no limit."""
        stage.small.run([self.python, "-c", _FORK])
        self._works(stage.small.run("echo alive"))

    def test_a_full_process_table(self, stage: Stage) -> None:
        """All processes are killed at the deadline, even if no further process can be started. The next call works."""
        assert stage.small.run([self.python, "-c", _FORK, "stay"], seconds=3.0).timed_out
        self._works(stage.small.run("echo alive"))

    def test_limits_of_one_are_not_those_of_another(self, stage: Stage, shared: Started) -> None:
        """While one sandbox is at its limit, others work."""
        with stage.start(stage.small_environment) as full:
            full.run(f"{self.python} -c '{_FORK.replace(chr(39), chr(34))}' stay </dev/null >/dev/null 2>&1 & sleep 1")
            self._works(shared.run("(echo alive)"))

    def _works(self, result: ExecResult) -> None:
        assert (result.exit_code, result.stdout.data, result.limits_hit) == (0, b"alive\n", ())
