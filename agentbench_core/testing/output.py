"""Checks: what is kept of what commands print."""

from __future__ import annotations

from agentbench_core import OUTPUT_CAP, Output
from agentbench_core.testing.looking import same
from agentbench_core.testing.pulse import pulse
from agentbench_core.testing.stage import Hooks, Started

HALF = OUTPUT_CAP // 2


class OutputChecks(Hooks):
    """Streams byte by byte, and floods."""

    def test_streams_are_kept_apart(self, shared: Started) -> None:
        """Standard output and standard error."""
        result = shared.run("echo out; echo err >&2; echo out again")
        assert (result.stdout.data, result.stderr.data) == (b"out\nout again\n", b"err\n")

    def test_bytes_that_are_no_text(self, shared: Started) -> None:
        """Nothing is decoded, replaced or translated."""
        result = shared.run(r"printf 'a\377\000b\r\n\033[0m'; printf '\376' >&2")
        assert (result.stdout.data, result.stderr.data) == (b"a\xff\x00b\r\n\x1b[0m", b"\xfe")

    def test_newlines_at_the_end(self, shared: Started) -> None:
        """They are kept, and none is added."""
        assert [shared.run(f"printf '{text}'").stdout.data for text in (r"a\n\n", "a")] == [b"a\n\n", b"a"]

    def test_no_output(self, shared: Started) -> None:
        """Nothing is nothing."""
        result = shared.run("true")
        assert (result.stdout, result.stderr) == (Output(), Output())

    def test_output_up_to_the_cap(self, shared: Started) -> None:
        """As many bytes as may be kept are all kept."""
        out = shared.run(f"head -c {OUTPUT_CAP} /dev/zero").stdout
        assert (len(out.data), out.omitted) == (OUTPUT_CAP, 0)

    def test_a_flood_is_capped(self, shared: Started) -> None:
        """Of 50 MB half the cap is kept from either end, and the rest is counted."""
        size = 50_000_000
        result = shared.run(f"head -c {size} /dev/zero")
        out = result.stdout
        assert (result.ok, len(out.head), len(out.tail)) == (True, HALF, HALF)
        assert out.omitted == size - OUTPUT_CAP
        assert len(out.data) < OUTPUT_CAP + 100

    def test_both_ends_of_a_flood_are_kept(self, shared: Started) -> None:
        """Head and tail are the first and the last bytes: an error stands at the end."""
        out = shared.run("printf start; head -c 3000000 /dev/zero; printf end").stdout
        assert same(out.head, b"start".ljust(HALF, b"\0"))
        assert same(out.tail, b"end".rjust(HALF, b"\0"))

    def test_a_flood_of_errors(self, shared: Started) -> None:
        """Standard error is capped as standard output is."""
        result = shared.run("head -c 3000000 /dev/zero >&2; echo out")
        assert (result.stdout.data, len(result.stderr.head), len(result.stderr.tail)) == (b"out\n", HALF, HALF)
        assert result.stderr.omitted == 3_000_000 - OUTPUT_CAP

    def test_two_floods_at_once(self, shared: Started) -> None:
        """Neither stream waits for the other to be read."""
        flood = "head -c 3000000 /dev/zero"
        result = shared.run(f"{flood} >&2; {flood}; {flood} >&2", seconds=self.patience)
        assert (result.exit_code, result.timed_out) == (0, False)
        assert (result.stdout.omitted, result.stderr.omitted) == (3_000_000 - OUTPUT_CAP, 6_000_000 - OUTPUT_CAP)

    def test_a_command_that_closes_its_outputs(self, shared: Started) -> None:
        """It runs on: its end counts, not the end of its output."""
        result = shared.run("exec >&- 2>&-; sleep 0.3; touch closed-and-done; exit 9")
        assert result.exit_code == 9
        assert (shared.workspace / "closed-and-done").exists()

    def test_a_background_process_delays_nothing(self, shared: Started) -> None:
        """The result comes when the command ends, although others hold its output open."""
        with pulse(shared.workspace, self.patience) as beat:
            result = shared.run(f"({beat.script}) & echo started", seconds=self.patience)
        assert (result.exit_code, result.timed_out, result.stdout.data) == (0, False, b"started\n")
        assert result.duration_sec < self.patience / 2
