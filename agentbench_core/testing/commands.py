"""Checks: how commands are run, and how they end."""

from __future__ import annotations

import signal

from agentbench_core.testing.looking import refused, text_of
from agentbench_core.testing.stage import Hooks, Started


class CommandChecks(Hooks):
    """``Sandbox.exec``: commands, directories and exit codes."""

    def test_a_command_that_succeeds(self, shared: Started) -> None:
        """Exit code 0, and it was not stopped."""
        result = shared.run("true")
        assert (result.exit_code, result.timed_out, result.ok) == (0, False, True)

    def test_a_command_that_fails(self, shared: Started) -> None:
        """Its exit code is data, as it is."""
        assert [shared.run(f"exit {code}").exit_code for code in (1, 7, 255)] == [1, 7, 255]

    def test_a_command_that_a_signal_ends(self, shared: Started) -> None:
        """128 + n stands for signal n."""
        codes = [shared.run(f"kill -{number} $$").exit_code for number in (signal.SIGKILL, signal.SIGTERM)]
        assert codes == [128 + signal.SIGKILL, 128 + signal.SIGTERM]

    def test_a_program_that_does_not_exist(self, shared: Started) -> None:
        """127, as a shell says it; the machinery is not broken."""
        assert shared.run(["agentbench-no-such-program"]).exit_code == 127

    def test_a_program_that_cannot_be_executed(self, shared: Started) -> None:
        """126, as a shell says it."""
        assert shared.run(["/"]).exit_code == 126

    def test_exit_code_124_is_no_timeout(self, shared: Started) -> None:
        """Only the clock of the harness says that time is over, never an exit code."""
        result = shared.run("exit 124")
        assert (result.exit_code, result.timed_out) == (124, False)

    def test_text_goes_to_a_shell(self, shared: Started) -> None:
        """Pipes, variables and several lines."""
        assert shared.run("a=two\nprintf 'one\\n%s\\n' \"$a\" | tail -n 1").stdout.data == b"two\n"

    def test_arguments_are_passed_as_they_are(self, shared: Started) -> None:
        """No shell looks at a sequence: spaces, quotes, newlines, ``$``, globs and empty arguments stay."""
        arguments = ["two words", "'\"`", "a\nb", "$HOME $(id)", "*", "", "\\", "-n", "é", ";true"]
        result = shared.run([self.python, "-c", "import sys; sys.stdout.write('|'.join(sys.argv[1:]))", *arguments])
        assert result.stdout.data == "|".join(arguments).encode()

    def test_long_arguments(self, shared: Started) -> None:
        """100 kB in one argument: agents send whole files."""
        word = "x" * 100_000
        assert shared.run(f"printf %s {word}").stdout.data == word.encode()

    def test_a_call_starts_anew(self, shared: Started) -> None:
        """What a shell changes about itself is gone in the next call."""
        before = shared.ask("pwd; umask; ulimit -n; echo $-")
        shared.run("cd /; umask 077; ulimit -n 64; set -f; exec 3</dev/null")
        assert shared.ask("pwd; umask; ulimit -n; echo $-") == before

    def test_commands_run_in_the_workspace(self, shared: Started) -> None:
        """In the fork of the prepared tree that the sandbox was started over."""
        assert shared.ask("cat text made") == "pristine\none\ntwo"

    def test_a_directory_below_the_workspace(self, shared: Started) -> None:
        """``cwd`` is relative to the workspace."""
        result = shared.run("cat module.py", cwd="package")
        assert result.stdout.data == b"ANSWER = 41\n"

    def test_a_directory_that_is_missing(self, shared: Started) -> None:
        """A refusal that an agent understands, not broken machinery; and nothing runs."""
        with refused("not_found"):
            shared.run("touch ran-nowhere", cwd="no/such/directory")
        assert not (shared.workspace / "ran-nowhere").exists()

    def test_standard_input_is_empty(self, shared: Started) -> None:
        """Who reads gets the end of the file at once."""
        result = shared.run("cat; read line || echo the end", seconds=self.patience)
        assert (result.timed_out, result.stdout.data) == (False, b"the end\n")

    def test_the_host_sees_what_commands_write(self, shared: Started) -> None:
        """The workspace on the host is the one inside: what is written is there when the call is over."""
        shared.run("mkdir -p out/deep; echo inside > out/deep/file; chmod 755 out/deep/file; ln -s file out/deep/link")
        made = shared.workspace / "out" / "deep"
        assert text_of(made / "file") == "inside\n"
        assert (made / "file").stat().st_mode & 0o777 == 0o755
        assert str((made / "link").readlink()) == "file"

    def test_commands_see_what_the_host_writes(self, shared: Started) -> None:
        """Also between two calls: tools of an agent edit files on the host."""
        place = shared.workspace / "from-the-host"
        place.write_text("first\n")
        assert shared.ask("cat from-the-host") == "first"
        place.write_text("second\n")
        assert shared.ask("cat from-the-host") == "second"

    def test_ordinary_commands_hit_no_limit(self, shared: Started) -> None:
        """``limits_hit`` is empty unless the kernel has counted something."""
        assert shared.run("exit 1").limits_hit == ()

    def test_load_is_that_of_the_command(self, shared: Started) -> None:
        """``load`` counts from a command's own beginning, and is ``None`` where nobody counts."""
        work = "import time\nwhile time.process_time() < 0.4: pass"
        busy, idle = shared.run([self.python, "-c", work]).load, shared.run("true").load
        assert busy.cpu_sec is None or busy.cpu_sec > 0.3
        assert idle.cpu_sec is None or idle.cpu_sec < 0.2
        assert idle.throttled_sec is None or idle.throttled_sec < 0.2
        assert idle.oom_kills in (None, 0)
