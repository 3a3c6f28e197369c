"""Sandboxes with broken isolation, each in one respect. If ``local`` is broken in this way, it is the double itself."""

from __future__ import annotations

from pathlib import Path

import attrs

from agentbench_core import Command, Deadline, ExecResult, Output, Sandbox, SandboxError
from agentbench_testing.doubles.sandboxes import Call, EnvironmentDouble, SandboxDouble, answers, changed

STATUS = "CapInh:\t{0}\nCapPrm:\t{0}\nCapEff:\t{0}\nCapBnd:\t{1}\nCapAmb:\t{0}\nNoNewPrivs:\t{2}\nSeccomp:\t{3}\n"
NONE = "0000000000000000"


class IsolatesNothing(SandboxDouble):
    """The sandbox ``local`` as it is."""


class IgnoresReadOnly(EnvironmentDouble):
    """Makes every workspace writable."""

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        return super().start(workspace, read_only=False, network=network, deadline=deadline)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        return super().run_once(attrs.evolve(command, read_only=False), workspace, deadline)


class HonoursSetuid(SandboxDouble):
    """Honours setuid bits, so that callers become root."""

    def call(self, call: Call) -> ExecResult:
        users = {"./privileged -u": b"0\n", "id -u": b"1000\n"}
        if call.text in users:
            return ExecResult(exit_code=0, stdout=Output(head=users[call.text]))
        return super().call(call)


class DiesWithItsCommands(SandboxDouble):
    """Loses the process that starts commands to ``kill -9 -1``."""

    def call(self, call: Call) -> ExecResult:
        if call.text.startswith("readlink"):
            return ExecResult(exit_code=0, stdout=Output(head=b"pid:[1]\n"))
        if call.text.startswith("kill"):  # must not run without isolation
            self.inner.close()
            raise SandboxError("the connection to the sandbox is lost")
        return super().call(call)


class StaysFull(SandboxDouble):
    """Cannot start processes after a timeout."""

    def call(self, call: Call) -> ExecResult:
        if self.__dict__.get("full"):
            return ExecResult(exit_code=254, stderr=Output(head=b"fork: resource temporarily unavailable\n"))
        result = super().call(call)
        self.__dict__["full"] = result.timed_out
        return result


class SharesItsLimits(SandboxDouble):
    """Shares its process limit with other sandboxes."""

    def call(self, call: Call) -> ExecResult:
        if len({id(each) for made in self.owner.owner.made for each in made.started}) > 1 and "(echo" in call.text:
            return ExecResult(exit_code=254)
        return super().call(call)


def said(text: str) -> ExecResult:
    return ExecResult(exit_code=0, stdout=Output(head=text.encode()))


DOUBLES = {
    "test_no_network": IsolatesNothing,
    "test_no_network_once": IsolatesNothing,
    "test_files_of_the_host": IsolatesNothing,
    "test_reading_through_a_link": IsolatesNothing,
    "test_writing_through_a_link": IsolatesNothing,
    "test_processes_of_the_host": IsolatesNothing,
    "test_variables_of_the_host_in_proc": IsolatesNothing,
    "test_processes_of_other_sandboxes": IsolatesNothing,
    "test_temporary_files_of_others": IsolatesNothing,
    "test_a_read_only_workspace": IgnoresReadOnly,
    "test_a_read_only_workspace_through_files": IgnoresReadOnly,
    "test_a_read_only_workspace_once": IgnoresReadOnly,
    "test_inputs_stay_as_they_are": IsolatesNothing,
    "test_not_root": answers("RunsAsRoot", {"id -u": said("0\n0\n1000\n1000\n")}),
    "test_no_capabilities": answers(
        "BoundsNoCapabilities", {"/status": said(STATUS.format(NONE, "00000000a80425fb", 1, 2))}
    ),
    "test_no_new_privileges": answers("AllowsNewPrivileges", {"/status": said(STATUS.format(NONE, NONE, 0, 2))}),
    "test_system_calls_are_filtered": answers("FiltersNothing", {"/status": said(STATUS.format(NONE, NONE, 1, 0))}),
    "test_setuid_programs": HonoursSetuid,
    "test_the_system_cannot_be_changed": answers(
        "HasAWritableSystem", {"readlink": said("mnt:[1]\n"), "agentbench-probe": said("/etc\n")}
    ),
    "test_no_socket_of_an_engine": answers("MountsTheSocket", {"docker.sock": said("/run/docker.sock\n")}),
    "test_no_disks_of_the_host": answers("IsPrivileged", {"find /dev": said("/dev/sda\n")}),
    "test_killing_all_processes": DiesWithItsCommands,
    "test_memory_limit": IsolatesNothing,
    "test_after_the_memory_limit": changed("CountsFromItsStart", lambda r: attrs.evolve(r, limits_hit=("oom",))),
    "test_memory_below_the_limit": changed("GivesNoMemory", lambda r: attrs.evolve(r, exit_code=137)),
    "test_memory_limit_once": IsolatesNothing,
    "test_process_limit": IsolatesNothing,
    "test_after_the_process_limit": changed("NeverForgets", lambda r: attrs.evolve(r, limits_hit=("pids",))),
    "test_a_full_process_table": StaysFull,
    "test_limits_of_one_are_not_those_of_another": SharesItsLimits,
}
