"""The tool ``outline``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolError, ToolResult, ToolSpec, load, option
from agentbench_outline.options import OutlineOptions
from agentbench_outline.outlining import NotPythonError, outlined


@attrs.frozen(kw_only=True)
class OutlineArguments:
    """What a model may say."""

    path: str = option(help="Python file, relative to the workspace")


@attrs.frozen
class Outline:
    """Shows what is in a file without showing the file. Reads one, writes none, runs none."""

    options: OutlineOptions

    @property
    def spec(self) -> ToolSpec:
        """What a model is told."""
        said = "List the classes and functions of a Python file: lines, name, first line of the docstring; its imports."
        return ToolSpec.of("outline", said, OutlineArguments, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``definitions`` (``12-30: def Cart.total - The sum.``), ``omitted`` (how many more), ``imports``.

        Raises ToolError: ``too_large``, ``not_python``, and what reading raises; InputError for bad arguments.
        """
        asked = load(arguments, OutlineArguments, where="outline")
        most = self.options.max_bytes
        data = context.workspace.read(asked.path, limit=most + 1)
        if len(data) > most:
            raise ToolError("too_large", f"{asked.path!r} has more than {most} bytes; read some of its lines instead")
        context.deadline.check()
        try:
            # Whatever coding it declares: names are ASCII nearly always, and of odd codecs some take for ever.
            found = outlined(data.decode("utf-8", "replace"))
        except NotPythonError as error:
            raise ToolError("not_python", f"{asked.path!r} cannot be parsed: {error}") from None
        shown = found.definitions[: self.options.max_definitions]
        return ToolResult.success(
            definitions=[str(each) for each in shown],
            omitted=len(found.definitions) - len(shown),
            imports=list(found.imports),
        )
