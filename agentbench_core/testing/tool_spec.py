"""Checks: what a tool says of itself."""

from __future__ import annotations

import json
import re

from agentbench_core.testing.bench import Bench
from agentbench_core.testing.schemas import fits, patterns
from agentbench_core.testing.tool_stage import ToolHooks

_NAMES_OF_PATHS = re.compile(r"(.*_)?(path|file|filename|root|dir|directory|folder)")


class SpecChecks(ToolHooks):
    """Names, descriptions and schemas, as models and their servers need them."""

    def test_the_name(self) -> None:
        """Letters, digits, ``_`` and ``-``, at most 64: what every server of models accepts."""
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", self.make_tool().spec.name)

    def test_the_description(self) -> None:
        """Something is said of the tool, and of every argument."""
        spec = self.make_tool().spec
        assert spec.description.strip()
        assert [name for name, each in spec.parameters["properties"].items() if not each.get("description")] == []

    def test_the_parameters(self) -> None:
        """A JSON Schema of an object, which can be sent; what is required is there."""
        parameters = json.loads(json.dumps(self.make_tool().spec.parameters))
        assert parameters["type"] == "object"
        assert set(parameters.get("required", ())) <= set(parameters["properties"])

    def test_the_effect(self) -> None:
        """It is declared: the tool ``reads``, ``edits`` or ``runs``. Agents and the harness go by it."""
        assert self.make_tool().spec.effect in ("reads", "edits", "runs")

    def test_patterns_are_valid(self) -> None:
        """Servers compile them, and refuse every request of an agent that offers one that is not."""
        for pattern in patterns(self.make_tool().spec.parameters):
            assert not re.search(r"\(\?[aiLmsux]", pattern), f"{pattern!r} has flags, which not every server knows"
            re.compile(pattern)

    def test_good_arguments_fit(self) -> None:
        """Into the schema: it describes what the tool takes."""
        assert fits(self.good_arguments(), self.make_tool().spec.parameters)

    def test_the_spec_stays(self, bench: Bench) -> None:
        """As it is from one tool to the next, and whatever was called: requests are compared by it."""
        before = self.make_tool().spec
        with self.at_hand(bench) as at_hand:
            at_hand.call(self.good_arguments())
            assert at_hand.tool.spec == before == self.make_tool().spec

    def test_paths_are_declared(self) -> None:
        """What looks like a path by its name is one of ``path_arguments``: other checks try these."""
        names = [name for name in self.make_tool().spec.parameters["properties"] if _NAMES_OF_PATHS.fullmatch(name)]
        assert [name for name in names if name not in self.path_arguments] == []
