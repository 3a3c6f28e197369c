"""The Jinja2 environment, which escapes all untrusted text that enters the page (H20).

In every template expression, control and bidirectional characters are made visible, and then the text is escaped. The
page's content security policy allows only its bundled script, by hash, and no requests, forms or frames.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agentbench_core import escape_control
from agentbench_report.html import wording


@functools.cache
def templates() -> Environment:
    """The environment of all templates."""
    environment = Environment(
        loader=PackageLoader("agentbench_report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "share": wording.share,
        "seconds": wording.seconds,
        "usd": wording.usd,
        "count": wording.count,
        "words": wording.words,
    }
    return environment


def _finalize(value: object) -> object:
    # Markup is template output that is already escaped, or comes from this package.
    return escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@functools.cache
def bundled(name: str, package: str = "agentbench_report.html") -> Markup:
    """The content of a style sheet or script that is part of a package."""
    text = resources.files(package).joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704 - an installed file, without data from a run


def policy(*scripts: Markup, connect: bool = False) -> str:
    """The content security policy of the page; with ``connect``, scripts may send requests to the page's server.

    ``scripts`` are allowed in addition to the page's own.
    """
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in (bundled("page.js"), *scripts))
    connections = "connect-src 'self'; " if connect else ""
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        f"{connections}base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
