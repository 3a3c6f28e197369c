"""What can go wrong."""

from __future__ import annotations

from collections.abc import Sequence


class PressroomError(Exception):
    """Any error of this package."""


class TemplateNotFound(PressroomError):
    """There is no such template."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no template {name!r}")
        self.name = name


class TemplateSyntaxError(PressroomError):
    """A tag that cannot be understood."""

    def __init__(self, name: str, line: int, tag: str) -> None:
        super().__init__(f"{name}, line {line}: cannot understand {tag!r}")
        self.name = name
        self.line = line


class UndefinedVariable(PressroomError):
    """A variable without value and default."""

    def __init__(self, template: str, variable: str) -> None:
        super().__init__(f"{template}: variable {variable!r} has no value and no default")
        self.template = template
        self.variable = variable


class IncludeCycle(PressroomError):
    """A template that includes itself, directly or not."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("templates include each other: " + " -> ".join(names))
        self.names = tuple(names)
