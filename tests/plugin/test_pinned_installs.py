"""Setup commands that only install pinned packages are recognized, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentbench_core import pinned_installs

PINS = "python -m pip install --no-deps attrs==24.2.0 pluggy==1.5.0"
PROJECT = "python -m pip install --no-deps --no-build-isolation -e ."


def test_only_leading_commands_count() -> None:
    assert pinned_installs([PINS, PINS, PROJECT, PINS]) == 2
    assert pinned_installs([PROJECT, PINS]) == 0
    assert pinned_installs([]) == 0


@pytest.mark.parametrize(
    "command",
    [
        "pip install --no-deps attrs==24.2.0",
        "python -m pip install attrs==24.2.0 --no-deps",
        "python  -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps  attrs==24.2.0 ",
        "PIP_NO_INPUT=1 PIP_NO_CACHE_DIR=1 python -m pip install --no-deps attrs==24.2.0",
        "python -m pip install --no-deps --no-build-isolation 'zope.interface==5.0' \"Django_x==1\"",
        "python -m pip install --no-deps 'requests[socks,use-chardet]==2.32.0'",
        "python -m pip install --no-deps a==1!2.0 b==1.0a1 c==1.0.post1 d==1.0rc1.dev2 e==2.13.0+cpu f==1.0-1",
        "python -m pip install --no-deps g==2020.1.1.DEV3 h==1.0+g12ab34.d20240101",
    ],
)
def test_pinned_packages(command: str) -> None:
    assert pinned_installs([command]) == 1


@pytest.mark.parametrize(
    "command",
    [
        # not exactly pinned, or not only the named packages
        "python -m pip install attrs==24.2.0",
        "python -m pip install --no-deps",
        "python -m pip install --no-deps attrs",
        "python -m pip install --no-deps attrs==24.*",
        "python -m pip install --no-deps attrs===24.2.0",
        "python -m pip install --no-deps 'attrs>=24.2.0'",
        "python -m pip install --no-deps attrs==24.2.0,!=24.1.0",
        "python -m pip install --no-deps \"attrs==24.2.0; python_version<'4'\"",
        # files and addresses
        "python -m pip install --no-deps .",
        "python -m pip install --no-deps -e . attrs==24.2.0",
        "python -m pip install --no-deps ./attrs==24.2.0",
        "python -m pip install --no-deps attrs==1.0/setup",
        "python -m pip install --no-deps attrs==1.0+x.zip",
        "python -m pip install --no-deps attrs==1.0+x.tar.gz",
        "python -m pip install --no-deps attrs-24.2.0.whl",
        "python -m pip install --no-deps -r requirements.txt",
        "python -m pip install --no-deps -c constraints.txt attrs==24.2.0",
        "python -m pip install --no-deps --find-links=wheels attrs==24.2.0",
        "python -m pip install --no-deps --target=out attrs==24.2.0",
        "python -m pip install --no-deps 'attrs @ https://localhost/attrs.zip'",
        # other programs and variables
        "python3 -m pip install --no-deps attrs==24.2.0",
        "./python -m pip install --no-deps attrs==24.2.0",
        "python -m pip download --no-deps attrs==24.2.0",
        "python -m pip --isolated install --no-deps attrs==24.2.0",
        "PIP_CONSTRAINT=constraints.txt python -m pip install --no-deps attrs==24.2.0",
        "PYTHONPATH=src python -m pip install --no-deps attrs==24.2.0",
        "PIP_NO_INPUT=1",
        # shell syntax
        "python -m pip install --no-deps requests[socks]==2.32.0",
        "python -m pip install --no-deps attrs==24.2.0; ls",
        "python -m pip install --no-deps attrs==24.2.0 && ls",
        "python -m pip install --no-deps attrs==24.2.0\nls",
        "python -m pip install --no-deps attrs==24.2.0\n",
        "python -m pip install --no-deps attrs==24.2.0 # note",
        "python -m pip install --no-deps attrs==24.2.0 > log",
        "python -m pip install --no-deps attrs==$VERSION",
        'python -m pip install --no-deps "attrs==$(cat version)"',
        "python -m pip install --no-deps attrs==`cat version`",
        "python -m pip install --no-deps attrs==24.2.\\0",
        "python -m pip install --no-deps attrs==24.2.0 '",
        "python -m pip install --no-deps 'attrs==24.2.0",
        # letters and digits that are not ASCII
        "python -m pip install --no-deps attrs==\uff12\uff14",
        "python -m pip install --no-deps \u0430ttrs==24.2.0",
        "",
    ],
)
def test_other_commands_are_not_pinned_installs(command: str) -> None:
    assert pinned_installs([command]) == 0


@given(st.text(alphabet="pi =-'\"[]e.1+a\n;$", max_size=40))
def test_any_text_is_accepted(text: str) -> None:
    """No text raises an exception."""
    assert pinned_installs([f"pip install --no-deps a==1 {text}"]) in (0, 1)
