"""Servers, and the runs with harmless and hostile evidence of the tests of ``report html``."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Page

PLUGINS = Path(__file__).parents[2] / "plugins"


def _loaded(path: Path) -> ModuleType:
    """Import the fixtures of another directory of tests, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"view_{path.parent.parent.name.replace('-', '_')}_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_report = _loaded(PLUGINS / "agentbench-report/tests/html/conftest.py")
_view = _loaded(PLUGINS / "agentbench-view/tests/conftest.py")
make_evidence, hostility = _report.make_evidence, _report.hostility
serve = _view.serve


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., tuple[Page, Any]]]:
    """Open an address and return its page and what was recorded."""
    with contextlib.ExitStack() as closing:

        def open_(address: str, **context: Any) -> tuple[Page, Any]:
            surroundings = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
            closing.callback(surroundings.close)
            page, seen = surroundings.new_page(), _report.Seen()
            page.set_default_timeout(60_000)
            page.on("request", lambda request: seen.requests.append(request.url))
            page.on("console", lambda message: seen.trouble.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: seen.trouble.append(f"error: {error}"))
            page.on("dialog", lambda dialog: (seen.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
            page.on("popup", lambda popup: seen.trouble.append(f"popup: {popup.url}"))
            page.goto(address)
            return page, seen

        yield open_
