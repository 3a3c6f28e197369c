"""The files that ``agentbench init`` writes. Existing files are never changed, but .gitignore may get a new line."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import attrs

from agentbench_core import InputError
from agentbench_core.harness import EnvironmentSettings
from agentbench_tasks.init.found import Found
from agentbench_tasks.new_task import write_task

LEAST_PAIRS: Mapping[float, int] = {0.05: 52, 0.1: 25, 0.2: 11}
"""For each margin, the smallest number of tasks with which an equally good candidate passes the gate."""

EXAMPLE = "example"
"""The id of the task in a new suite."""

_USUAL_MARGIN = 0.1
_NO_MODEL = "# model: {name: MAKER/MODEL}"
_MECHANIC = """\
# Rules take the place of a model, so that the workflow can be tried without a key. Replace them with your model:
# model: {name: MAKER/MODEL}
llm: {name: mechanic}"""
_PLAIN = re.compile(r"[\w./+ -]*")
_IGNORED = "artifacts/"
_IGNORING = {_IGNORED, "artifacts", "/artifacts", "/artifacts/"}
_NO_COLLECTION = '''\
"""pytest must not collect the tests of tasks: AgentBench runs them, and some of them must fail."""

collect_ignore_glob = ["*"]
'''


@attrs.frozen(kw_only=True)
class Plan:
    """The files to write: paths relative to ``base``, in order."""

    base: Path  #: the root of the repository, or the directory itself
    prefix: str  #: the directory in ``base``, with a slash at its end, or empty
    suite: str
    new: Mapping[str, str]  #: text of each new file
    kept: Sequence[str]  #: files that exist
    example: bool  #: whether to write the example task as well
    ignore: bool  #: whether a line is added to .gitignore

    @property
    def written(self) -> Sequence[str]:
        """A human-readable list of the written files."""
        task = [f"{self.prefix}tasks/{self.suite}/{EXAMPLE}/"] if self.example else []
        return [*self.new, *task, *([f"{self.prefix}.gitignore (added: {_IGNORED})"] if self.ignore else [])]


def plan(found: Found, model: str) -> Plan:
    """The files that are missing. Raises InputError listing everything that prevents writing them."""
    base = found.repository.root if found.repository else found.directory
    inside = found.directory.relative_to(base).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    new, kept = {}, []
    for path, text in _files(found, prefix, model).items():
        if (base / path).is_symlink() or (base / path).exists():
            kept.append(path)
        else:
            new[path] = text
    made = Plan(
        base=base,
        prefix=prefix,
        suite=found.suite,
        new=new,
        kept=kept,
        example=not found.tasks,
        ignore=_IGNORING.isdisjoint(_lines(found.directory / ".gitignore")),
    )
    _check(made)
    return made


def write(made: Plan) -> None:
    """Write everything. Raises InputError if the system refuses."""
    try:
        for path, text in made.new.items():
            target = made.base / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        if made.example:
            write_task(made.base / made.prefix / "tasks", made.suite, EXAMPLE)
        if made.ignore:
            target = made.base / made.prefix / ".gitignore"
            ends = not target.exists() or target.read_bytes()[-1:] in (b"", b"\n")
            with target.open("a", encoding="utf-8") as file:
                file.write(f"{'' if ends else chr(10)}{_IGNORED}\n")
    except OSError as error:
        raise InputError(f"cannot write {error.filename}: {error.strerror}", remedy="Run the command again.") from None


def render(name: str, values: Mapping[str, str]) -> str:
    """The text of a template, in which ``@name@`` stands for a value."""
    text = resources.files("agentbench_tasks.init").joinpath("templates", name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def workflow(*, suite: str, prefix: str = "", source: str = "", ref: str = "") -> str:
    """The GitHub Actions workflow, for a suite in the directory ``prefix`` of a repository."""
    values = {
        "suite": suite,
        "prefix": prefix,
        "name": f"-{suite}" if prefix else "",
        "directory": prefix.rstrip("/") or ".",
        "variants": f"{prefix}configs/variants",
        "source": json.dumps(source) if source else "${{ vars.AGENTBENCH_SOURCE }}",
        "ref": json.dumps(ref) if ref else "${{ vars.AGENTBENCH_REF || 'HEAD' }}",
        "image": EnvironmentSettings().docker_image,
    }
    return render("agentbench.yml", values)


def gate(tasks: int, suite: str) -> str:
    """The gate's rules, with a margin that this number of tasks can satisfy; without tasks, a common one."""
    margin = min((margin for margin, least in LEAST_PAIRS.items() if tasks >= least), default=_USUAL_MARGIN)
    has = f"tasks/{suite} had {tasks} {'task' if tasks == 1 else 'tasks'} when this file was written."
    return render("gate.yaml", {"margin": str(margin), "pairs": str(LEAST_PAIRS[margin]), "tasks": has})


def _files(found: Found, prefix: str, model: str) -> Mapping[str, str]:
    settings = {"suite": found.suite, "model": _MECHANIC if found.has_mechanic else _NO_MODEL}
    if model:
        settings["model"] = f"model: {{name: {json.dumps(model)}}}"
    name = f"agentbench-{found.suite}.yml" if prefix else "agentbench.yml"
    return {
        posixpath.join(prefix, "agentbench.toml"): render("agentbench.toml", settings),
        posixpath.join(prefix, "gate.yaml"): gate(found.tasks, found.suite),
        posixpath.join(prefix, "configs/variants/current.yaml"): render("current.yaml", settings),
        posixpath.join(prefix, "configs/variants/candidate.yaml"): render("candidate.yaml", settings),
        posixpath.join(prefix, "tasks/conftest.py"): _NO_COLLECTION,
        f".github/workflows/{name}": workflow(suite=found.suite, prefix=prefix, source=found.source, ref=found.ref),
    }


def _lines(path: Path) -> Sequence[str]:
    try:
        return [line.rstrip() for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()]
    except OSError:
        return []


def _check(made: Plan) -> None:
    """Every path that cannot be written, found before anything is written."""
    wrong = []
    if not _PLAIN.fullmatch(made.prefix):
        wrong.append(f"{made.prefix!r} cannot be a path in the workflow: use letters, digits, spaces and '._+-'")
    for path in [*made.new, *([f"{made.prefix}tasks/{made.suite}/{EXAMPLE}/x"] if made.example else [])]:
        parents = [parent for parent in (made.base / path).parents if parent.exists() or parent.is_symlink()]
        if not parents[0].is_dir():
            wrong.append(f"{parents[0]} is not a directory")
        elif not parents[0].resolve().is_relative_to(made.base.resolve()) and made.base.exists():
            wrong.append(f"{parents[0]} is a link to another directory")
    if made.example and (made.base / made.prefix / "tasks" / made.suite / EXAMPLE).exists():
        wrong.append(f"{made.prefix}tasks/{made.suite}/{EXAMPLE} exists and has no task.yaml")
    if wrong:
        remedy = "Nothing was written. Move or rename these paths, or choose another directory."
        raise InputError("\n".join(dict.fromkeys(wrong)), remedy=remedy)
