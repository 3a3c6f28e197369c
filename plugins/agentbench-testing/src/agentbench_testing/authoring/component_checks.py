"""Check one component without running it: its options, and the methods of the object that its factory returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import AgentBenchError, InputError
from agentbench_core.harness import Attack
from agentbench_core.plugin.kinds import KINDS
from agentbench_core.plugin.loading import silenced
from agentbench_core.plugin.registry import Component
from agentbench_core.schema import describe, json_schema

_SECRETS = re.compile(r"(^|_)(api_?key|secret|password|passwd|token|credentials?)$")
_LONGEST_SUMMARY = 100  # characters


@attrs.frozen(kw_only=True)
class Finding:
    """The result of one check: passed, a warning, or an error, with a remedy."""

    level: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    """A passed check."""
    return Finding(level="ok", text=text)


def advice(text: str, remedy: str = "") -> Finding:
    """A warning: the component works, but should be improved."""
    return Finding(level="warning", text=text, remedy=remedy)


def problem(text: str, remedy: str = "") -> Finding:
    """An error: the component fails for some users."""
    return Finding(level="error", text=text, remedy=remedy)


def surviving(findings: Iterable[Finding], what: str) -> Iterator[Finding]:
    """Yield findings; if checked code raises, the exception becomes a finding."""
    try:
        yield from findings
    except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code; continue with the other checks
        message = str(error).strip().partition("\n")[0]
        yield problem(f"{what} cannot be checked: {type(error).__name__}: {message}")


def check_component(component: Component) -> Iterator[Finding]:
    """Check the summary and, for kinds with options, the options and the component created with the defaults."""
    who = f"the {component.name!r} {component.kind}"
    yield from _check_summary(component, who)
    if component.options is None:
        return
    wrong = list(_check_options(component.options, who))
    yield from wrong
    if not wrong:
        yield from _check_made(component, who)


def check_attack(component: Component) -> Iterator[Finding]:
    """Import an attack, and check that commands can call it."""
    who = f"the {component.name!r} attack"
    if why := _misfit(component.load(), Attack.__call__):
        yield problem(f"{who} cannot be called: {why}", _signature_of(component.target, Attack.__call__))
    else:
        yield ok(f"attack {component.name!r}: loads and accepts the arguments of commands")


def _check_summary(component: Component, who: str) -> Iterator[Finding]:
    summary = component.summary.strip()
    if not summary:
        yield problem(f"{who} has no summary", "Add a short description: register(..., summary=...)")
    elif len(summary) > _LONGEST_SUMMARY or "\n" in summary:
        yield advice(
            f"the summary of {who} does not fit on a line", f"Use at most {_LONGEST_SUMMARY} characters on one line."
        )


def _check_options(options: type, who: str) -> Iterator[Finding]:
    if not _frozen(options):
        yield problem(
            f"the options of {who} are mutable",
            f"Decorate {options.__name__} with @attrs.frozen(kw_only=True)",
        )
    for field in attrs.fields(options):
        if _SECRETS.search(field.name):
            yield problem(
                f"the {field.name!r} option of {who} looks like a secret, which would be written to run.json",
                f"Replace it with an option for the name of an environment variable: {field.name}_env",
            )
    try:
        describe(options)
        json_schema(options)
        if all(field.default is not attrs.NOTHING for field in attrs.fields(options)):
            load(dump(load({}, options, where=who)), options, where=who)
    except InputError as error:
        yield problem(
            f"the defaults of {who} violate their own constraints: {error.message}",
            "Fix the default or the constraint.",
        )
    except Exception as error:  # noqa: BLE001 - foreign types may break the converter in any way
        yield problem(
            f"the options of {who} cannot be converted: {type(error).__name__}: {error}",
            "Use strings, numbers, booleans, enums, Literal, lists and mappings of these, and attrs classes of these.",
        )


def _frozen(options: type) -> bool:
    empty: Any = object.__new__(options)
    name = next((field.name for field in attrs.fields(options)), "anything")
    try:
        setattr(empty, name, None)
    except Exception as error:  # noqa: BLE001 - a validator of a mutable class may raise anything
        return isinstance(error, attrs.exceptions.FrozenInstanceError)
    return False


def _check_made(component: Component, who: str) -> Iterator[Finding]:
    assert component.options is not None
    required = [field.name for field in attrs.fields(component.options) if field.default is attrs.NOTHING]
    if required:
        yield advice(
            f"{who} cannot be created, because these options have no default: {', '.join(required)}",
            "Add defaults if possible, so that it works without configuration.",
        )
        return
    notes: list[str] = []
    contract = KINDS[component.kind].contract()
    try:
        with silenced(notes, "made"):
            made = component.make(load({}, component.options, where=who))
            try:
                wrong = list(_check_methods(made, contract, who))
            finally:
                if hasattr(contract, "close") and callable(close := getattr(made, "close", None)):
                    close()
    except AgentBenchError as error:
        yield problem(
            error.message,
            error.remedy or "A factory should only create the component. Postpone any work that can fail.",
        )
        return
    wrong += [
        problem(f"{component.kind} {component.name!r}: {note}", "Remove the output: every run would print it.")
        for note in notes
    ]
    yield from wrong
    if not wrong:
        count = len(attrs.fields(component.options))
        message = f"{count} option{'' if count == 1 else 's'}, frozen, with help" if count else "no options"
        yield ok(f"{component.kind} {component.name!r}: {message}; its factory returns a valid component")


def _check_methods(made: Any, contract: type, who: str) -> Iterator[Finding]:
    """Check that all members of the contract exist, and that methods accept the harness's arguments."""
    for name, member in vars(contract).items():
        if name.startswith("_"):
            continue
        if not hasattr(made, name):
            yield problem(f"{who} has no {name!r}", _signature_of(name, member))
        elif inspect.isfunction(member) and (why := _misfit(getattr(made, name), member)):
            yield problem(f"the harness cannot call {name!r} of {who}: {why}", _signature_of(name, member))


def _misfit(method: Any, contract: Any) -> str:
    """Why ``method`` does not accept the arguments of the contract's method; empty if it accepts them."""
    if not callable(method):
        return f"it is {method!r}"
    positional: list[None] = []
    named: dict[str, None] = {}
    for parameter in list(inspect.signature(contract).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = None
        else:
            positional.append(None)
    try:
        inspect.signature(method).bind(*positional, **named)
    except TypeError as error:
        return str(error)
    except ValueError:  # not written in Python, so the signature is unknown
        return ""
    return ""


def _signature_of(name: str, member: Any) -> str:
    if not inspect.isfunction(member):
        return f"The contract defines it as an attribute: {name}"
    return f"The contract defines: def {name}{inspect.signature(member)}"
