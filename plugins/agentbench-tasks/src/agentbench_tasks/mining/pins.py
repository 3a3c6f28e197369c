"""The versions in an environment: read them, write them as setup commands, and explain why there are none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from agentbench_tasks.mining.values import Code, Recipe, RejectedError, Rejection

CAPTURE = "python -m pip freeze --all --local --exclude-editable --exclude pip"
"""The command whose output :func:`pins` parses. It excludes pip, since the image's version is used."""

_MOST = 500
_PER_COMMAND = 100
_LONGEST = 300  # characters of a reason
_LONGEST_LINE = 2000  # characters
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_PIN = re.compile(rf"({_NAME})==([A-Za-z0-9.!+_-]{{1,100}})")


def pins(freeze: str, project: str) -> tuple[str, ...]:
    """The lines `name==version` in the output of ``CAPTURE``, without the project itself.

    Raises RejectedError if there is anything else, such as a package from a URL.
    """
    lines = [line.strip() for line in freeze.splitlines() if line.strip()]
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(("#", "-e ")):  # the project, and comments about it
            continue
        name = re.match(_NAME, line)
        if name and canonicalize_name(name[0]) in (canonicalize_name(project), "pip"):
            continue
        if not _is_pin(line):
            raise RejectedError(
                Code.ENVIRONMENT_FAILED, f"an installed package is not from the package index: {_shortened(line)}"
            )
        found[canonicalize_name(line.partition("==")[0])] = line
    if not found:
        raise RejectedError(Code.ENVIRONMENT_FAILED, "no packages are installed in the environment")
    if len(found) > _MOST:
        raise RejectedError(Code.ENVIRONMENT_FAILED, f"{len(found)} packages are installed, more than {_MOST}")
    return tuple(found.values())


def _is_pin(line: str) -> bool:
    """Whether a line is exactly `name==version`, according to PEP 508 and PEP 440."""
    if not _PIN.fullmatch(line):
        return False
    try:
        Requirement(line)
    except InvalidRequirement:
        return False
    return True


def setup_commands(pinned: Sequence[str], recipe: Recipe) -> tuple[str, ...]:
    """Commands for task.yaml that create the same environment: the pinned packages, then the project."""
    if invalid := [line for line in pinned if not _is_pin(line)]:
        raise ValueError(f"{invalid[0]!r} does not have the form name==version")
    groups = (pinned[start : start + _PER_COMMAND] for start in range(0, len(pinned), _PER_COMMAND))
    install = ("python", "-m", "pip", "install", "--no-deps")
    return (*(shlex.join((*install, *group)) for group in groups), *recipe.project)


def classify(message: str) -> Rejection:
    """The reason why an environment could not be created, from the message of a SetupError."""
    heading, _, output = message.partition("\n")  # the command is in the heading, and may contain anything
    lines = [line.strip()[:_LONGEST_LINE] for line in output.splitlines() if line.strip()]
    for code, pattern, sentence in _FAILURES:
        for line in reversed(lines):
            if match := re.search(pattern, line):
                return Rejection(code=code, reason=_shortened(sentence(match)))
    if match := re.search(r"the task requires Python (\S+), but `python` .{0,200} is (\S+)", heading):
        reason = f"the commit requires Python {match[1]}, but the sandbox has Python {match[2]}"
        return Rejection(code=Code.PYTHON_NOT_AVAILABLE, reason=reason)
    if match := re.search(r"('.{1,300}' is a Git LFS pointer); LFS is not supported", heading):
        return Rejection(code=Code.UNSUPPORTED_FILE, reason=_shortened(f"{match[1]} in the repository"))
    if re.search(r" timed out$", heading):
        return Rejection(code=Code.ENVIRONMENT_FAILED, reason="the installation timed out")
    last = next(_telling(lines), "")
    reason = f"the installation failed: {last}" if last else "the installation failed without a message"
    return Rejection(code=Code.ENVIRONMENT_FAILED, reason=_shortened(reason))


def _telling(lines: Sequence[str]) -> Iterator[str]:
    """Lines about a failure, the most informative first: the last error, else the last line."""
    general = re.compile(r"(?:ERROR|error): (?:subprocess-exited|metadata-generation|legacy-install|Failed to build)")
    errors = [line for line in lines if re.match(r"(?:\w+\.)*\w*[Ee]rror:|ERROR:|fatal:", line)]
    yield from reversed([line for line in errors if not general.match(line)])
    yield from (line for line in reversed(lines) if not line.startswith(("note:", "hint:", "[notice]", "╰─>")))


def _shortened(text: str) -> str:
    """Text without line breaks, of limited length."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_REMEDIES = {
    "certificate verify failed": "; behind a TLS-intercepting proxy, pass --set sandbox.ca_bundle=FILE",
}

_FAILURES: tuple[tuple[Code, str, Callable[[re.Match[str]], str]], ...] = (
    (
        Code.INDEX_WITHOUT_DATES,
        r"(?:Index|the package index) (\S+) does not provide upload.time",
        lambda found: (
            f"the package index {found[1]} does not provide upload times, which are needed to select packages by date"
        ),
    ),
    (
        Code.INDEX_WITHOUT_DATES,
        r"error: (pip is configured with no-index.*)",
        lambda found: found[1],
    ),
    (
        Code.PYTHON_NOT_AVAILABLE,
        r"Package '?([\w.-]+)'? requires a different Python: (\S+) not in '?([^']+)'?",
        lambda found: f"{found[1]} requires Python {found[3]}, but the sandbox has Python {found[2]}",
    ),
    (
        Code.INTERNAL,
        r"(Temporary failure in name resolution|Name or service not known|Network is unreachable|Connection refused"
        r"|Connection timed out|Read timed out|certificate verify failed|No space left on device)",
        lambda found: f"the package index could not be used: {found[1]}{_REMEDIES.get(found[1], '')}",
    ),
    (  # after network failures, which pip reports with the same message
        Code.INDEX_WITHOUT_DATES,
        r"error: (the package index has no pip.*)",
        lambda found: found[1],
    ),
    (
        Code.ENVIRONMENT_FAILED,
        r"No matching distribution found for (.+)",
        lambda found: f"no suitable release of {found[1]} was uploaded before the commit",
    ),
    (
        Code.ENVIRONMENT_FAILED,
        r"Cannot install (.+) because these package versions have conflicting dependencies",
        lambda found: f"the requirements conflict: {found[1]}",
    ),
    (
        Code.ENVIRONMENT_FAILED,
        r"ModuleNotFoundError: No module named '?([\w.]+)'?",
        lambda found: f"a package failed to build, because its build imports {found[1]} without requiring it",
    ),
    (
        Code.ENVIRONMENT_FAILED,
        r"Failed (?:building wheel for|to build) '?(?!installable )([\w.-]+)",
        lambda found: f"building {found[1]} failed",
    ),
)
"""Codes and sentences by patterns of error messages, most specific first."""
