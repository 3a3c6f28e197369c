"""Registers the core's components, through the same hooks as plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_core.builtin.options import (
    BaselineOptions,
    ListFilesOptions,
    NoOptions,
    PlainOptions,
    ReadFileOptions,
    ReplayOptions,
    RunOptions,
    ScriptedOptions,
    SearchOptions,
)

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import LLM, Agent, Register, RegisterVariant, Reporter, Scorer, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The baseline agent, and the two controls."""
    register(
        "baseline",
        baseline,
        BaselineOptions,
        summary="one model, the tools and a loop",
        capabilities={"needs_llm"},
        aliases={"llm_v0"},
    )
    register(
        "scripted",
        scripted,
        ScriptedOptions,
        summary="applies the task's reference solution; must pass every valid task",
        capabilities={"needs_oracle"},
    )
    register("idle", idle, NoOptions, summary="does nothing; must not pass any task")


@hookimpl
def agentbench_register_llms(register: Register[LLM]) -> None:
    """The replay provider."""
    register(
        "replay", replay, ReplayOptions, summary="replays the responses of an earlier run", capabilities={"replays"}
    )


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """The five tools."""
    register("list_files", list_files, ListFilesOptions, summary="paths below a directory")
    register("read_file", read_file, ReadFileOptions, summary="text of a file, or some lines of it")
    register("search", search, SearchOptions, summary="lines that match, in all files or some")
    register("apply_patch", apply_patch, NoOptions, summary="a unified diff: all hunks or nothing")
    register("run", run, RunOptions, summary="a shell command in the sandbox")


@hookimpl
def agentbench_register_scorers(register: Register[Scorer]) -> None:
    """The plain scorer."""
    register(
        "plain",
        plain,
        PlainOptions,
        summary="runs the passing command and trusts its report: every verdict is weak",
        capabilities={"calibrates"},
    )


@hookimpl
def agentbench_register_reporters(register: Register[Reporter]) -> None:
    """The reporter that every run uses."""
    register("console", console, NoOptions, summary="report_summary.md as one page of plain text")


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Variants of the agents."""
    register("baseline", {"agent": "baseline"}, summary="one model, the tools and a loop")
    register("scripted", {"agent": "scripted"}, summary="positive control: the reference solution")
    register("idle", {"agent": "idle"}, summary="no-op control: no change")


def baseline(options: BaselineOptions) -> Agent:
    """Make the agent ``baseline``."""
    from agentbench_core.builtin.agents.baseline import Baseline

    return Baseline(options)


def replay(options: ReplayOptions) -> LLM:
    """Make the llm ``replay``."""
    from agentbench_core.builtin.replay import Replay

    return Replay(options)


def scripted(options: ScriptedOptions) -> Agent:
    """Make the agent ``scripted``."""
    from agentbench_core.builtin.agents.controls import Scripted

    return Scripted(options)


def idle(options: NoOptions) -> Agent:
    """Make the agent ``idle``."""
    from agentbench_core.builtin.agents.controls import Idle

    return Idle(options)


def list_files(options: ListFilesOptions) -> Tool:
    """Make the tool ``list_files``."""
    from agentbench_core.builtin.tools.files import ListFiles

    return ListFiles(options)


def read_file(options: ReadFileOptions) -> Tool:
    """Make the tool ``read_file``."""
    from agentbench_core.builtin.tools.files import ReadFile

    return ReadFile(options)


def search(options: SearchOptions) -> Tool:
    """Make the tool ``search``."""
    from agentbench_core.builtin.tools.files import Search

    return Search(options)


def apply_patch(options: NoOptions) -> Tool:
    """Make the tool ``apply_patch``."""
    from agentbench_core.builtin.tools.apply_patch import ApplyPatch

    return ApplyPatch(options)


def run(options: RunOptions) -> Tool:
    """Make the tool ``run``."""
    from agentbench_core.builtin.tools.run import Run

    return Run(options)


def plain(options: PlainOptions) -> Scorer:
    """Make the scorer ``plain``."""
    from agentbench_core.builtin.plain_scorer import PlainScorer

    return PlainScorer(options)


def console(options: NoOptions) -> Reporter:
    """Make the reporter ``console``."""
    from agentbench_core.builtin.console import Console

    return Console(options)
