"""Which processes the harness may start on the host, checked for all of the source code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

import agentbench_core

ROOT = Path(agentbench_core.__file__).parent.parent
SOURCES = sorted([*ROOT.glob("agentbench_core/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")])

STARTS = re.compile(
    r"subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)"
    r"|os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawn\w*)"
    r"|pty\.\w+|asyncio\.create_subprocess\w*|(multiprocessing|concurrent\.futures\.process)\..*"
)
DASK = "plugins/agentbench-dask/src/agentbench_dask"
DOCKER = "plugins/agentbench-docker/src/agentbench_docker"
TASKS = "plugins/agentbench-tasks/src/agentbench_tasks"
PROGRAMS = "plugins/agentbench-bridge/src/agentbench_bridge/programs"
KIT = "plugins/agentbench-testing/src/agentbench_testing"
LOCAL = "plugins/agentbench-local/src/agentbench_local"
MECHANIC = "plugins/agentbench-mechanic/src/agentbench_mechanic/repair"
KNOWN = {
    "agentbench_core/workspace/git.py": "git, in a bare repository of ours",
    "agentbench_core/run/group/manifest.py": "git rev-parse, in the harness's own checkout",
    "agentbench_core/run/readiness.py": "git --version",
    f"{LOCAL}/process.py": "the server of the sandbox `local`",
    f"{LOCAL}/supervise.py": "the sandbox `local` itself: what runs inside it",
    f"{LOCAL}/provider.py": "a script of ours: does the temporary directory let programs run?",
    f"{PROGRAMS}/registry.py": "the user's npm and pip, which download packages and run none of their code",
    f"{KIT}/authoring/plugin_checks.py": "Python, to import the module of a plugin that is installed",
    f"{KIT}/fixtures.py": "the kit: the command agentbench itself, for tests of plugins",
    f"{KIT}/checks/sandbox/isolation.py": "the conformance kit: a process of its own, to be looked for inside",
    f"{LOCAL}/interpreters.py": "Python interpreters of the host, asked for their version",
    f"{MECHANIC}/run_tests.py": "uploaded to a sandbox and run there: tests on changed copies",
    "plugins/agentbench-workers/src/agentbench_workers/local.py": "workers: this command, with other arguments",
    f"{DASK}/child.py": "modules of ours, which speak Dask",
    f"{DASK}/ticket.py": "on a Dask worker: the command of a worker process, as the coordinator's executor gave it",
    f"{DOCKER}/container.py": "the docker command, with a container's streams",
    f"{DOCKER}/owner.py": "the docker command, with the standard input of the container that keeps the lease",
    f"{DOCKER}/exec_calls.py": "the same, for images without Python",
    f"{DOCKER}/carrying.py": "the docker command, with the streams of the relay of a sandbox's address",
    f"{DOCKER}/building.py": "debootstrap and tar, in an empty directory of ours",
    f"{DOCKER}/disk.py": "find, which opens no file, over workspaces, as the owner of what it sees",
    f"{DOCKER}/inside/commands.py": "inside a container: its supervisors",
    f"{DOCKER}/inside/handover.py": "inside a container of our own: a shell that waits for the end of its input",
    f"{DOCKER}/inside/supervisor.py": "inside a container: commands",
    f"{TASKS}/mining/inside/install.py": "inside a sandbox: its pip, to resolve the dependencies of an old commit",
    f"{TASKS}/init/found.py": "git, in the directory of the user: facts about the repository that `init` is for",
    f"{TASKS}/strengthen/inside/observer.py": "inside a sandbox: itself, to run each call of a program on its own",
}


@attrs.frozen
class Found:
    """What the sources contain, each with its file. Whole syntax trees would take long to search for garbage."""

    calls: list[tuple[str, str, list[ast.keyword]]]
    """The called expression as text, and the keyword arguments."""
    imports: list[tuple[str, str]]
    """Dotted names."""
    constants: list[tuple[str, object]]


@functools.cache
def found() -> Found:
    """Parse all sources."""
    result = Found([], [], [])
    for path in SOURCES:
        file = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                result.calls.append((file, ast.unparse(node.func), node.keywords))
            elif isinstance(node, ast.Import):
                result.imports.extend((file, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                result.imports.extend((file, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Constant):
                result.constants.append((file, node.value))
    return result


def calls_of(pattern: str | re.Pattern[str]) -> Iterator[tuple[str, list[ast.keyword]]]:
    """Calls whose called expression matches the pattern: the file and the keyword arguments of each."""
    return ((file, words) for file, called, words in found().calls if re.fullmatch(pattern, called))


def test_only_known_code_starts_processes() -> None:
    """H33, H34, G09: only known code starts processes; no rg, patch, pip, pytest or make on the host.

    Before you add a file to the list, check whether its process can ever see a workspace.
    """
    assert {file for file, _ in calls_of(STARTS)} == set(KNOWN)


def test_no_process_runs_in_a_workspace() -> None:
    """H34, G09: git runs in its own repository, the server of `local` in ``/``, and no process in a workspace."""
    where = {(file, ast.unparse(word.value)) for file, words in calls_of(STARTS) for word in words if word.arg == "cwd"}
    assert where == {
        ("agentbench_core/workspace/git.py", "self.git_dir"),
        (f"{LOCAL}/process.py", "'/'"),
        (f"{PROGRAMS}/registry.py", "empty"),
        (f"{KIT}/fixtures.py", "cwd or tmp_path"),  # the directory of a test
        (f"{DOCKER}/building.py", "'/'"),
        (f"{DOCKER}/disk.py", "'/'"),
        (f"{DOCKER}/inside/supervisor.py", "directory"),  # inside a container
    }
    moves = {file for file, call in calls_of(r"os\.f?chdir|contextlib\.chdir")}
    # The process that execs the sandbox's command, and a script that runs inside a sandbox.
    assert moves <= {f"{LOCAL}/supervise.py", f"{MECHANIC}/run_tests.py"}


def test_no_shell_and_no_indirect_process_start() -> None:
    """H33, H34: arguments are lists, no shell is used, and ``subprocess`` is only called by its full name."""
    for _, words in calls_of(STARTS):
        assert not any(word.arg in ("shell", "executable", None) for word in words)
    for file, name in found().imports:
        hidden = name.startswith(
            ("subprocess.", "pty.", "os.exec", "os.spawn", "os.system", "os.popen", "multiprocessing")
        )
        assert not hidden, f"{file} imports {name}"


def test_no_other_git_library_or_command() -> None:
    """G01, G09: no library that runs git, and no git command that touches a working tree."""
    libraries = ("git", "pygit2", "dulwich", "patch", "whatthepatch", "unidiff")
    assert not [(file, name) for file, name in found().imports if name.split(".")[0] in libraries]
    words = {value for file, value in found().constants if file.startswith("agentbench_core/workspace/")}
    assert words & GIT_COMMANDS == {
        *("bundle", "cat-file", "commit-tree", "describe", "diff-tree", "fast-import", "fetch"),
        *("ls-tree", "pack-objects", "read-tree", "rev-parse", "update-ref"),
    }


GIT_COMMANDS = {
    *("add", "am", "apply", "archive", "bisect", "blame", "branch", "bundle", "cat-file", "checkout", "cherry-pick"),
    *("clean", "clone", "commit", "commit-tree", "describe", "diff", "diff-files", "diff-index", "diff-tree"),
    *("fast-import", "fetch", "fsck", "gc", "grep", "hash-object", "init", "log", "ls-files", "ls-tree", "merge", "mv"),
    *("pack-objects", "pull", "push", "read-tree", "rebase", "reset", "restore", "rev-parse", "rm", "show", "stash"),
    *("status", "submodule", "switch", "tag", "update-index", "update-ref", "worktree", "write-tree"),
}


def test_nothing_is_unpacked() -> None:
    """H22: tasks are directories; only packages, packed runs and prepared trees are unpacked, by our own rules."""
    unpackers = ("tarfile", "zipfile", "shutil.unpack_archive", "zipimport", "patoolib", "py7zr", "rarfile")
    unpacking = {(file, name) for file, name in found().imports if name.startswith(unpackers)}
    packed_runs = "plugins/agentbench-runs/src/agentbench_runs"
    assert unpacking == {
        (f"{PROGRAMS}/unpack.py", "tarfile"),  # N02
        ("plugins/agentbench-docker/src/agentbench_docker/trees.py", "tarfile"),  # W13
        (f"{packed_runs}/packing.py", "tarfile"),
        (f"{packed_runs}/unpacking.py", "tarfile"),  # R01 to R08
    }
    assert not list(calls_of(r".*\.(extractall|extract|unpack_archive)"))


def test_nothing_is_unpickled() -> None:
    """H23: data from disk or a sandbox is text and JSON, never objects that execute code when loaded."""
    loaders = ("pickle", "marshal", "shelve", "dill", "joblib", "jsonpickle")
    assert not [(file, name) for file, name in found().imports if name.split(".")[0] in loaders]
    assert not list(calls_of(r"eval|exec|builtins\.(eval|exec)|__import__"))
