"""Runs a GitHub Actions workflow on this machine: its shell commands as GitHub runs them, and known actions by hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

INPUTS: Mapping[str, frozenset[str]] = {
    "actions/checkout@v4": frozenset({"fetch-depth", "persist-credentials", "ref", "path"}),
    "actions/setup-python@v5": frozenset({"python-version", "cache"}),
    "actions/cache@v4": frozenset({"path", "key", "restore-keys"}),
    "actions/upload-artifact@v4": frozenset({"name", "path", "if-no-files-found", "retention-days", "overwrite"}),
    "actions/download-artifact@v4": frozenset({"name", "path", "pattern", "merge-multiple"}),
}
"""The inputs of the actions that may be used."""

_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")


@attrs.define(kw_only=True)
class Workflow:
    """One job of a workflow, in a checkout of a repository."""

    text: str
    origin: Path  #: the repository that is checked out
    place: Path  #: an empty directory for the checkout and everything else
    variables: Mapping[str, str]  #: variables of the repository, such as ``vars.NAME``
    environment: Mapping[str, str] = attrs.field(factory=dict)  #: what differs from this process
    job: str = ""  #: id of the job; needed if there are several
    expressions: Mapping[str, str] = attrs.field(factory=dict)  #: values such as ``matrix.NAME`` and ``needs.NAME...``
    artifacts: Path | None = None  #: the artifacts of all jobs, a directory each
    installed: Workflow | None = None  #: another job whose Python, with AgentBench, this job uses
    log: list[str] = attrs.field(factory=list)  #: name and output of each step that ran
    failed: list[str] = attrs.field(factory=list)  #: names of the steps that failed
    uploaded: list[str] = attrs.field(factory=list)  #: files of the artifact, relative to the checkout
    unmatched: list[str] = attrs.field(factory=list)  #: patterns of the artifact without a file
    _outputs: dict[str, str] = attrs.field(factory=dict)

    @property
    def checkout(self) -> Path:
        """The working directory of the runner."""
        return self.place / "checkout"

    @property
    def summary(self) -> str:
        """The job summary."""
        path = self.place / "summary.md"
        return path.read_text() if path.exists() else ""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of the job."""
        return {key: self._evaluated(value) for key, value in self._job["outputs"].items()}

    @property
    def _job(self) -> Mapping[str, Any]:
        jobs: Mapping[str, Mapping[str, Any]] = yaml.safe_load(self.text)["jobs"]
        if self.job:
            return jobs[self.job]
        (only,) = jobs.values()
        return only

    def run(self, *, first: str = "") -> None:
        """Run all steps, or those from the step named ``first``."""
        content = yaml.safe_load(self.text)
        steps = self._job["steps"]
        self.checkout.mkdir(parents=True, exist_ok=True)
        names = [step.get("name", step.get("uses", "")) for step in steps]
        self.failed.clear()
        self.unmatched.clear()
        for name, step in list(zip(names, steps, strict=True))[names.index(first) if first else 0 :]:
            condition = step.get("if", "success()")
            assert condition in ("success()", "always()")
            if self.failed and condition != "always()":
                continue
            if "uses" in step:
                assert step.get("with", {}).keys() <= INPUTS[step["uses"]]
                self._action(step["uses"].partition("@")[0], step["with"])
            else:
                environment = {**content.get("env", {}), **step.get("env", {})}
                if self.installed is None or name != "Install AgentBench":
                    self._shell(name, step, environment, content["defaults"]["run"])

    def _action(self, name: str, inputs: Mapping[str, Any]) -> None:
        known: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "actions/checkout": self._check_out,
            "actions/setup-python": self._set_up_python,
            "actions/cache": self._restore,
            "actions/upload-artifact": self._upload,
            "actions/download-artifact": self._download,
        }
        known[name](inputs)

    def _check_out(self, inputs: Mapping[str, Any]) -> None:
        """The commit of HEAD without a branch, as for a pull request, with the history that was asked for."""
        depth = inputs.get("fetch-depth", 1)
        git = ("git", "-C", str(self.checkout))
        subprocess.run(["git", "init", "-q", str(self.checkout)], check=True)
        some = ["--depth", str(depth)] if depth else []
        fetch = ["fetch", "-q", *some, f"file://{self.origin}", "+HEAD:refs/remotes/pull/1/merge"]
        subprocess.run([*git, *fetch], check=True)
        subprocess.run([*git, "checkout", "-q", "--detach", "refs/remotes/pull/1/merge"], check=True)

    def _set_up_python(self, _: Mapping[str, Any]) -> None:
        """A virtual environment, which finds the dependencies of AgentBench in that of this process."""
        if self.installed is not None:
            return
        subprocess.run([sys.executable, "-m", "venv", str(self.place / "venv")], check=True)
        (packages,) = (self.place / "venv").glob("lib/python*/site-packages")
        own = next(path for path in sys.path if path.endswith("site-packages"))
        (packages / "dependencies.pth").write_text(f"{own}\n")

    def _restore(self, inputs: Mapping[str, Any]) -> None:
        """Find nothing in the cache."""
        assert not Path(self._evaluated(inputs["path"])).exists()
        assert self._evaluated(inputs["key"])

    def _upload(self, inputs: Mapping[str, Any]) -> None:
        """Collect the files, without hidden ones."""
        found: set[Path] = set()
        base = self.checkout
        for line in self._evaluated(inputs["path"]).splitlines():
            exclude, pattern = line.startswith("!"), line.removeprefix("!")
            if Path(pattern).is_absolute():
                base, pattern = Path(pattern).parent, Path(pattern).name
            paths = {file for path in base.glob(pattern) for file in (path, *path.rglob("*"))}
            self.unmatched += [] if paths or exclude else [pattern]
            found = found - paths if exclude else found | paths
        files = [path.relative_to(base) for path in found if path.is_file()]
        self.uploaded = sorted(str(file) for file in files if not any(part.startswith(".") for part in file.parts))
        if self.artifacts is not None:
            for name in self.uploaded:
                target = self.artifacts / self._evaluated(inputs["name"]) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                target.hardlink_to(base / name)

    def _download(self, inputs: Mapping[str, Any]) -> None:
        """Copy the files of one artifact, or of all that match, into one directory."""
        assert self.artifacts is not None
        assert "name" in inputs or inputs["merge-multiple"] is True
        found = sorted(self.artifacts.glob(inputs["name"] if "name" in inputs else inputs["pattern"]))
        assert found or "pattern" in inputs
        for artifact in found:
            shutil.copytree(
                artifact, self.checkout / self._evaluated(inputs["path"]), copy_function=os.link, dirs_exist_ok=True
            )

    def _shell(
        self, name: str, step: Mapping[str, Any], environment: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        assert defaults["shell"] == "bash"
        output = self.place / "output"
        output.write_text("")
        temporary = self.place / "temp"
        temporary.mkdir(exist_ok=True)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self._evaluated(step["run"])],
            cwd=self.checkout / defaults["working-directory"],
            env={
                **os.environ,
                **self.environment,
                **{key: self._evaluated(value) for key, value in environment.items()},
                "PATH": f"{(self.installed or self).place / 'venv' / 'bin'}:{os.environ['PATH']}",
                "RUNNER_TEMP": str(temporary),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self.place / "summary.md"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.log.append(f"{name}: exit {done.returncode}\n{done.stdout}")
        if done.returncode:
            self.failed.append(name)
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self._outputs[f"steps.{step['id']}.outputs.{key}"] = value

    def _evaluated(self, text: str) -> str:
        """The text with its expressions replaced; secrets are empty."""
        known = {
            **{f"vars.{key}": value for key, value in self.variables.items()},
            **self._outputs,
            "runner.temp": str(self.place / "temp"),
            "runner.os": "Linux",
            "runner.arch": "X64",
            "vars.AGENTBENCH_REF || 'HEAD'": "HEAD",
            "secrets.OPENROUTER_API_KEY": "",
            **self.expressions,
        }
        return _EXPRESSION.sub(lambda match: known[match[1]], text)


def source_repository(root: Path, place: Path) -> Path:
    """A git repository with the files of a working tree as they are now."""
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (root / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)
    git = ("git", "-C", str(place), "-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "AgentBench"], check=True)
    return place
