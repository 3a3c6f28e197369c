"""The ``outline`` tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolError, ToolResult, ToolSpec, load, option
from agentbench_outline.options import OutlineOptions
from agentbench_outline.outlining import NotPythonError, outlined


@attrs.frozen(kw_only=True)
class OutlineArguments:
    """Arguments of the tool."""

    path: str = option(help="Python file, relative to the workspace")


@attrs.frozen
class Outline:
    """Lists the definitions of a file. Reads one file, and neither writes nor runs anything."""

    options: OutlineOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        description = (
            "List the classes and functions of a Python file: lines, name, first line of the docstring; its imports."
        )
        return ToolSpec.of("outline", description, OutlineArguments, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``definitions`` (``12-30: def Cart.total - The sum.``), the number ``omitted``, and ``imports``.

        Raises ToolError (``too_large``, ``not_python``, or a read error), and InputError for invalid arguments.
        """
        wanted = load(arguments, OutlineArguments, where="outline")
        limit = self.options.max_bytes
        data = context.workspace.read(wanted.path, limit=limit + 1)
        if len(data) > limit:
            raise ToolError("too_large", f"{wanted.path!r} has more than {limit} bytes; read some of its lines instead")
        context.deadline.check()
        try:
            # The declared encoding is ignored: names are nearly always ASCII, and some codecs are very slow.
            outline = outlined(data.decode("utf-8", "replace"))
        except NotPythonError as error:
            raise ToolError("not_python", f"{wanted.path!r} cannot be parsed: {error}") from None
        shown = outline.definitions[: self.options.max_definitions]
        return ToolResult.success(
            definitions=[str(each) for each in shown],
            omitted=len(outline.definitions) - len(shown),
            imports=list(outline.imports),
        )
