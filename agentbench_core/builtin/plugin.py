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
    from agentbench_core import LLM, Agent, Executor, Register, RegisterVariant, Reporter, Scorer, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The baseline agent and the two controls."""
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
        "replay",
        replay,
        ReplayOptions,
        summary="replays the responses of an earlier run",
        capabilities={"replays", "forwards"},
    )


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """The five tools."""
    register("list_files", list_files, ListFilesOptions, summary="paths under a directory")
    register("read_file", read_file, ReadFileOptions, summary="text of a file, or some of its lines")
    register("search", search, SearchOptions, summary="matching lines, in all or some files")
    register("apply_patch", apply_patch, NoOptions, summary="applies a unified diff: all hunks or none")
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
def agentbench_register_executors(register: Register[Executor]) -> None:
    """The executor on this machine."""
    register("threads", threads, NoOptions, summary="in threads on this machine")


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Variants of the agents."""
    register("baseline", {"agent": "baseline"}, summary="one model, the tools and a loop")
    register("scripted", {"agent": "scripted"}, summary="positive control: the reference solution")
    register("idle", {"agent": "idle"}, summary="no-op control: no change")


def baseline(options: BaselineOptions) -> Agent:
    """Create the ``baseline`` agent."""
    from agentbench_core.builtin.agents.baseline import Baseline

    return Baseline(options)


def replay(options: ReplayOptions) -> LLM:
    """Create the ``replay`` llm."""
    from agentbench_core.builtin.replay import Replay

    return Replay(options)


def scripted(options: ScriptedOptions) -> Agent:
    """Create the ``scripted`` agent."""
    from agentbench_core.builtin.agents.controls import Scripted

    return Scripted(options)


def idle(options: NoOptions) -> Agent:
    """Create the ``idle`` agent."""
    from agentbench_core.builtin.agents.controls import Idle

    return Idle(options)


def list_files(options: ListFilesOptions) -> Tool:
    """Create the ``list_files`` tool."""
    from agentbench_core.builtin.tools.files import ListFiles

    return ListFiles(options)


def read_file(options: ReadFileOptions) -> Tool:
    """Create the ``read_file`` tool."""
    from agentbench_core.builtin.tools.files import ReadFile

    return ReadFile(options)


def search(options: SearchOptions) -> Tool:
    """Create the ``search`` tool."""
    from agentbench_core.builtin.tools.files import Search

    return Search(options)


def apply_patch(options: NoOptions) -> Tool:
    """Create the ``apply_patch`` tool."""
    from agentbench_core.builtin.tools.apply_patch import ApplyPatch

    return ApplyPatch(options)


def run(options: RunOptions) -> Tool:
    """Create the ``run`` tool."""
    from agentbench_core.builtin.tools.run import Run

    return Run(options)


def plain(options: PlainOptions) -> Scorer:
    """Create the ``plain`` scorer."""
    from agentbench_core.builtin.plain_scorer import PlainScorer

    return PlainScorer(options)


def console(options: NoOptions) -> Reporter:
    """Create the ``console`` reporter."""
    from agentbench_core.builtin.console import Console

    return Console(options)


def threads(options: NoOptions) -> Executor:
    """Create the ``threads`` executor."""
    from agentbench_core.builtin.threads import Threads

    return Threads(options)
