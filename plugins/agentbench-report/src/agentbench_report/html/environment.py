"""Templates, and the one door through which text from outside gets into the page (H20).

Every expression of a template is made visible (control characters, what turns the direction of writing around) and
then escaped. The page's policy allows its own script, by its hash, and nothing else: no request, no form, no frame.
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
    # Markup is what templates made, of expressions that came through here; plots and our own script are made of less.
    return escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@functools.cache
def our_own(name: str) -> Markup:
    """A style sheet or script of ours, as it stands in the page."""
    text = resources.files("agentbench_report.html").joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704 - a file of this package, nothing from a run


def policy() -> str:
    """The content security policy of the page."""
    digest = base64.b64encode(hashlib.sha256(our_own("page.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
