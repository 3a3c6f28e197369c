"""What can be said of one component without letting it work: its options, and the methods of what its factory makes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import AgentBenchError, InputError
from agentbench_core.plugin.kinds import KINDS
from agentbench_core.plugin.loading import silenced
from agentbench_core.plugin.registry import Component
from agentbench_core.schema import describe, json_schema

_SECRETS = re.compile(r"(^|_)(api_?key|secret|password|passwd|token|credentials?)$")
_LONGEST_SUMMARY = 100  # characters


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at: as it should be, worth a change, or wrong; with what to do."""

    level: Literal["ok", "advice", "problem"]
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    """As it should be."""
    return Finding(level="ok", text=text)


def advice(text: str, remedy: str = "") -> Finding:
    """It works, and could be better."""
    return Finding(level="advice", text=text, remedy=remedy)


def problem(text: str, remedy: str = "") -> Finding:
    """It will let somebody down."""
    return Finding(level="problem", text=text, remedy=remedy)


def surviving(findings: Iterable[Finding], what: str) -> Iterator[Finding]:
    """What is found; and where that ended, if what is looked at raises whatever it likes."""
    try:
        yield from findings
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is another's code, and all else is still looked at
        said = str(error).strip().partition("\n")[0]
        yield problem(f"{what} cannot be looked at: {type(error).__name__}: {said}")


def check_component(component: Component) -> Iterator[Finding]:
    """Its summary, and for the kinds that have options these and what is made with their defaults."""
    who = f"{component.kind} {component.name!r}"
    yield from _check_summary(component, who)
    if component.options is None:
        return
    wrong = list(_check_options(component.options, who))
    yield from wrong
    if not wrong:
        yield from _check_made(component, who)


def _check_summary(component: Component, who: str) -> Iterator[Finding]:
    summary = component.summary.strip()
    if not summary:
        yield problem(f"{who} has no summary", "Say in a few words what it does: register(..., summary=...)")
    elif len(summary) > _LONGEST_SUMMARY or "\n" in summary:
        yield advice(
            f"the summary of {who} does not fit on a line", f"Use fewer than {_LONGEST_SUMMARY} characters on one line."
        )


def _check_options(options: type, who: str) -> Iterator[Finding]:
    if not _frozen(options):
        yield problem(
            f"the options of {who} can be changed after they were written down",
            f"Decorate {options.__name__} with @attrs.frozen(kw_only=True)",
        )
    for field in attrs.fields(options):
        if _SECRETS.search(field.name):
            yield problem(
                f"option {field.name!r} of {who} asks for a secret, which would be in run.json",
                f"Let the option name an environment variable: {field.name}_env",
            )
    try:
        describe(options)
        json_schema(options)
        if all(field.default is not attrs.NOTHING for field in attrs.fields(options)):
            load(dump(load({}, options, where=who)), options, where=who)
    except InputError as error:
        yield problem(f"the defaults of {who} break their own rules: {error.message}", "Mend the default or the rule.")
    except Exception as error:  # noqa: BLE001 - types of strangers break the converter in many ways
        yield problem(
            f"the options of {who} cannot be read and written: {type(error).__name__}: {error}",
            "Use text, numbers, booleans, enums, Literal, lists and mappings of these, and classes made so.",
        )


def _frozen(options: type) -> bool:
    empty: Any = object.__new__(options)
    name = next((field.name for field in attrs.fields(options)), "anything")
    try:
        setattr(empty, name, None)
    except attrs.exceptions.FrozenInstanceError:
        return True
    except Exception:  # noqa: BLE001 - a validator of a class that can be changed
        return False
    return False


def _check_made(component: Component, who: str) -> Iterator[Finding]:
    assert component.options is not None
    required = [field.name for field in attrs.fields(component.options) if field.default is attrs.NOTHING]
    if required:
        yield advice(
            f"{who} cannot be tried, since options have no default: {', '.join(required)}",
            "Give them defaults, if that is possible: then it can be used without reading anything.",
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
        yield problem(error.message, error.remedy or "A factory only makes it: what can fail comes later.")
        return
    wrong += [problem(f"{who}: {note}", "Every run would print it: remove it.") for note in notes]
    yield from wrong
    if not wrong:
        count = len(attrs.fields(component.options))
        said = f"{count} option{'' if count == 1 else 's'}, frozen, with help" if count else "no options"
        yield ok(f"{who}: {said}; its factory gives what the kind demands")


def _check_methods(made: Any, contract: type, who: str) -> Iterator[Finding]:
    """Every method that the contract has, callable as the harness calls it."""
    for name, member in vars(contract).items():
        if name.startswith("_"):
            continue
        if not hasattr(made, name):
            yield problem(f"{who} has no {name!r}", _signature_of(name, member))
        elif inspect.isfunction(member) and (why := _misfit(getattr(made, name), member)):
            yield problem(f"{who}: {name!r} cannot be called as it will be: {why}", _signature_of(name, member))


def _misfit(method: Any, contract: Any) -> str:
    """Why ``method`` does not take what the contract's is given; empty when it does."""
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
    except ValueError:  # not written in Python: nobody knows
        return ""
    return ""


def _signature_of(name: str, member: Any) -> str:
    if not inspect.isfunction(member):
        return f"The contract has it as an attribute: {name}"
    return f"The contract: def {name}{inspect.signature(member)}"
