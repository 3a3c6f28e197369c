"""Checks: how commands are run, their environment variables, and their output."""

from __future__ import annotations

import signal

from agentbench_core import OUTPUT_CAP, Output
from agentbench_testing.checks.sandbox.stage import PLANTED, Hooks, Stage, Started
from agentbench_testing.doubles.observing import pulse, refused, same, text_of

HALF = OUTPUT_CAP // 2


class CommandChecks(Hooks):
    """``Sandbox.exec``: commands, directories and exit codes."""

    def test_a_command_that_succeeds(self, shared: Started) -> None:
        """A successful command has exit code 0 and did not time out."""
        result = shared.run("true")
        assert (result.exit_code, result.timed_out, result.ok) == (0, False, True)

    def test_a_command_that_fails(self, shared: Started) -> None:
        """A non-zero exit code is a result, not an exception."""
        assert [shared.run(f"exit {code}").exit_code for code in (1, 7, 255)] == [1, 7, 255]

    def test_a_command_that_a_signal_ends(self, shared: Started) -> None:
        """If signal n ends a command, its exit code is 128 + n."""
        codes = [shared.run(f"kill -{number} $$").exit_code for number in (signal.SIGKILL, signal.SIGTERM)]
        assert codes == [128 + signal.SIGKILL, 128 + signal.SIGTERM]

    def test_a_program_that_does_not_exist(self, shared: Started) -> None:
        """If a program does not exist, the exit code is 127, as in a shell. There is no sandbox error."""
        assert shared.run(["agentbench-no-such-program"]).exit_code == 127

    def test_a_program_that_cannot_be_executed(self, shared: Started) -> None:
        """If a program cannot be executed, the exit code is 126, as in a shell."""
        assert shared.run(["/"]).exit_code == 126

    def test_exit_code_124_is_not_a_timeout(self, shared: Started) -> None:
        """Only the harness's deadline causes a timeout, never an exit code."""
        result = shared.run("exit 124")
        assert (result.exit_code, result.timed_out) == (124, False)

    def test_text_goes_to_a_shell(self, shared: Started) -> None:
        """A string is run by a shell, so it may have pipes, variables and several lines."""
        assert shared.run("a=two\nprintf 'one\\n%s\\n' \"$a\" | tail -n 1").stdout.data == b"two\n"

    def test_arguments_are_passed_as_they_are(self, shared: Started) -> None:
        """A sequence is passed without a shell: spaces, quotes, newlines, ``$``, globs and empty arguments are kept."""
        arguments = ["two words", "'\"`", "a\nb", "$HOME $(id)", "*", "", "\\", "-n", "é", ";true"]
        result = shared.run([self.python, "-c", "import sys; sys.stdout.write('|'.join(sys.argv[1:]))", *arguments])
        assert result.stdout.data == "|".join(arguments).encode()

    def test_long_arguments(self, shared: Started) -> None:
        """One argument may be 100 kB long, since agents send whole files."""
        word = "x" * 100_000
        assert shared.run(f"printf %s {word}").stdout.data == word.encode()

    def test_a_call_starts_anew(self, shared: Started) -> None:
        """Changes to the shell's state do not affect the next call."""
        before = shared.ask("pwd; umask; ulimit -n; echo $-")
        shared.run("cd /; umask 077; ulimit -n 64; set -f; exec 3</dev/null")
        assert shared.ask("pwd; umask; ulimit -n; echo $-") == before

    def test_commands_run_in_the_workspace(self, shared: Started) -> None:
        """Commands start in the sandbox's workspace, a fork of the prepared tree."""
        assert shared.ask("cat text made") == "pristine\none\ntwo"

    def test_a_directory_below_the_workspace(self, shared: Started) -> None:
        """``cwd`` is relative to the workspace."""
        result = shared.run("cat module.py", cwd="package")
        assert result.stdout.data == b"ANSWER = 41\n"

    def test_a_directory_that_is_missing(self, shared: Started) -> None:
        """A missing directory is an error that the agent can read, not a SandboxError, and nothing runs."""
        with refused("not_found"):
            shared.run("touch ran-nowhere", cwd="no/such/directory")
        assert not (shared.workspace / "ran-nowhere").exists()

    def test_standard_input_is_empty(self, shared: Started) -> None:
        """Standard input is empty."""
        result = shared.run("cat; read line || echo the end", seconds=self.patience)
        assert (result.timed_out, result.stdout.data) == (False, b"the end\n")

    def test_the_host_sees_what_commands_write(self, shared: Started) -> None:
        """Files that commands write to the workspace are visible on the host when the call returns."""
        shared.run("mkdir -p out/deep; echo inside > out/deep/file; chmod 755 out/deep/file; ln -s file out/deep/link")
        made = shared.workspace / "out" / "deep"
        assert text_of(made / "file") == "inside\n"
        assert (made / "file").stat().st_mode & 0o777 == 0o755
        assert str((made / "link").readlink()) == "file"

    def test_commands_see_what_the_host_writes(self, shared: Started) -> None:
        """Commands see files written on the host between two calls, since tools edit files there."""
        path = shared.workspace / "from-the-host"
        path.write_text("first\n")
        assert shared.ask("cat from-the-host") == "first"
        path.write_text("second\n")
        assert shared.ask("cat from-the-host") == "second"

    def test_ordinary_commands_hit_no_limit(self, shared: Started) -> None:
        """``limits_hit`` is empty unless a command reaches a limit."""
        assert shared.run("exit 1").limits_hit == ()

    def test_load_is_that_of_the_command(self, shared: Started) -> None:
        """``load`` covers only this command; unknown values are ``None``."""
        work = "import time\nwhile time.process_time() < 0.4: pass"
        busy, idle = shared.run([self.python, "-c", work]).load, shared.run("true").load
        assert busy.cpu_sec is None or busy.cpu_sec > 0.3
        assert idle.cpu_sec is None or idle.cpu_sec < 0.2
        assert idle.throttled_sec is None or idle.throttled_sec < 0.2
        assert idle.oom_kills in (None, 0)


class OutputChecks(Hooks):
    """Byte streams and long output."""

    def test_streams_are_kept_apart(self, shared: Started) -> None:
        """Standard output and standard error are separate."""
        result = shared.run("echo out; echo err >&2; echo out again")
        assert (result.stdout.data, result.stderr.data) == (b"out\nout again\n", b"err\n")

    def test_bytes_that_are_not_text(self, shared: Started) -> None:
        """Output bytes are not decoded, replaced or translated."""
        result = shared.run(r"printf 'a\377\000b\r\n\033[0m'; printf '\376' >&2")
        assert (result.stdout.data, result.stderr.data) == (b"a\xff\x00b\r\n\x1b[0m", b"\xfe")

    def test_newlines_at_the_end(self, shared: Started) -> None:
        """Newlines at the end are preserved, and none is added."""
        assert [shared.run(f"printf '{text}'").stdout.data for text in (r"a\n\n", "a")] == [b"a\n\n", b"a"]

    def test_no_output(self, shared: Started) -> None:
        """Without output, both streams are empty."""
        result = shared.run("true")
        assert (result.stdout, result.stderr) == (Output(), Output())

    def test_output_up_to_the_cap(self, shared: Started) -> None:
        """Output up to the cap is retained completely."""
        out = shared.run(f"head -c {OUTPUT_CAP} /dev/zero").stdout
        assert (len(out.data), out.omitted) == (OUTPUT_CAP, 0)

    def test_a_flood_is_capped(self, shared: Started) -> None:
        """Of 50 MB of output, half the cap is retained at each end, and the omitted bytes are counted."""
        size = 50_000_000
        result = shared.run(f"head -c {size} /dev/zero")
        out = result.stdout
        assert (result.ok, len(out.head), len(out.tail)) == (True, HALF, HALF)
        assert out.omitted == size - OUTPUT_CAP
        assert len(out.data) < OUTPUT_CAP + 100

    def test_both_ends_of_a_flood_are_kept(self, shared: Started) -> None:
        """The first and the last bytes are retained, since errors are usually at the end."""
        out = shared.run("printf start; head -c 3000000 /dev/zero; printf end").stdout
        assert same(out.head, b"start".ljust(HALF, b"\0"))
        assert same(out.tail, b"end".rjust(HALF, b"\0"))

    def test_a_flood_of_errors(self, shared: Started) -> None:
        """Standard error is capped like standard output."""
        result = shared.run("head -c 3000000 /dev/zero >&2; echo out")
        assert (result.stdout.data, len(result.stderr.head), len(result.stderr.tail)) == (b"out\n", HALF, HALF)
        assert result.stderr.omitted == 3_000_000 - OUTPUT_CAP

    def test_two_floods_at_once(self, shared: Started) -> None:
        """Neither stream blocks the other."""
        flood = "head -c 3000000 /dev/zero"
        result = shared.run(f"{flood} >&2; {flood}; {flood} >&2", seconds=self.patience)
        assert (result.exit_code, result.timed_out) == (0, False)
        assert (result.stdout.omitted, result.stderr.omitted) == (3_000_000 - OUTPUT_CAP, 6_000_000 - OUTPUT_CAP)

    def test_a_command_that_closes_its_outputs(self, shared: Started) -> None:
        """A command that closes its streams keeps running, and the call returns when the command ends."""
        result = shared.run("exec >&- 2>&-; sleep 0.3; touch closed-and-done; exit 9")
        assert result.exit_code == 9
        assert (shared.workspace / "closed-and-done").exists()

    def test_a_background_process_delays_nothing(self, shared: Started) -> None:
        """The call returns when the command ends, even if other processes keep its output open."""
        with pulse(shared.workspace, self.patience) as beat:
            result = shared.run(f"({beat.script}) & echo started", seconds=self.patience)
        assert (result.exit_code, result.timed_out, result.stdout.data) == (0, False, b"started\n")
        assert result.duration_sec < self.patience / 2


class VariableChecks(Hooks):
    """``env``, HOME and TMPDIR."""

    def test_variables_of_a_call(self, shared: Started) -> None:
        """``env`` is added to the environment."""
        result = shared.run('echo "$MORE"; test -n "$PATH" && echo "$HOME"', env={"MORE": "given"})
        more, home = result.stdout.text.splitlines()
        assert more == "given"
        assert home

    def test_variables_are_passed_as_they_are(self, shared: Started) -> None:
        """Any value is passed unchanged: quotes, newlines, ``=``, ``$``."""
        value = "a=b\n'\"$HOME `id` \\ é\n"
        code = "import os, sys; sys.stdout.buffer.write(os.environb[b'VALUE'])"
        assert shared.run([self.python, "-c", code], env={"VALUE": value}).stdout.data == value.encode()

    def test_variables_end_with_their_call(self, shared: Started) -> None:
        """Variables do not affect the next call."""
        shared.run("export SHELL_MADE=1", env={"ONLY_ONCE": "given"})
        assert shared.ask('echo "[$ONLY_ONCE$SHELL_MADE]"') == "[]"

    def test_variables_of_the_host_stay_there(self, stage: Stage, shared: Started) -> None:
        """Commands, including setup, do not see the harness's variables, which may contain keys."""
        assert text_of(stage.environment.workspace / "made") == "one\ntwo\n"  # setup has printed the variable
        # Only this variable, since the output appears in failure reports.
        assert shared.ask(f"env | grep {PLANTED} || true") == ""

    def test_private_directories(self, shared: Started) -> None:
        """HOME and TMPDIR exist, are writable, and lie outside the workspace, so their files are not changes."""
        workspace = shared.ask("pwd -P")
        for name in ("HOME", "TMPDIR"):
            retained, directory = shared.ask(f'cd "${name}" && echo kept > file && cat file && pwd -P').splitlines()
            assert retained == "kept"
            assert not f"{directory}/".startswith(f"{workspace}/")

    def test_two_sandboxes_have_their_own(self, stage: Stage, shared: Started) -> None:
        """Each sandbox of an environment has its own HOME and TMPDIR."""
        shared.ask('touch "$HOME/private" "$TMPDIR/private"')
        with stage.start() as other:
            assert other.ask('ls -A "$HOME" "$TMPDIR"').count("private") == 0
