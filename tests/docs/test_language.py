"""Texts use the terms of the field, and none of the project's former private terms."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import agentbench_core

ROOT = Path(agentbench_core.__file__).parent.parent
PAGES = [  # the changelog quotes former names
    path
    for pattern in ("*.md", "docs/*.md", "tasks/*.md", "plugins/*/*.md", "examples/*/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
]
PACKAGES = [ROOT / "agentbench_core", *sorted(ROOT.glob("plugins/*/src")), *sorted(ROOT.glob("examples/*/src"))]
CODE = [path for package in PACKAGES for path in sorted(package.rglob("*.py*")) if path.suffix in (".py", ".pyi")]
PROMPTS = {  # only the newest version of each prompt, since older ones must not change
    re.sub(r"_v\d+$", "", path.stem): path
    for package in PACKAGES
    for path in sorted(package.rglob("prompts/*.txt"), key=lambda path: (len(path.name), path.name))
}
TEMPLATES = [
    *(path for package in PACKAGES for path in sorted(package.rglob("*")) if path.suffix in (".tmpl", ".j2")),
    *PROMPTS.values(),
]

TERMS = {
    "twins?": "mutated assertions",
    "cheaters?": "adversarial agent",
    "mend(s|ed|ing)?": "fix",
    "purses?": "budget",
    "hindsight": "name what is meant",
    "likeness(es)?": "similarity",
    "looking[ _]back": "name what is meant",
    "set-ups?": "setup (noun), set up (verb)",
    r"(?<!there\s)(is|are) no ([a-z]+ )?(directory|file|id|name|pass|Python|test|text)s?": "is not a ...",
    "(?<!:)nobody(?!:)": "name who or what; without colons, which the password file has around its user nobody",
    "whoever": "name who is meant",
    "(lies|lay) (in|inside|below|beside|beneath)": "is in",
    "(stands|stood) (in|inside|below|beside|beneath|behind)": "is in",
    "(goes|go|went) by": "uses, follows, is based on",
    "belongs? into": "belongs in",
    "small letters": "lowercase letters",
    "whole numbers?": "integer",
    "let(s)? at": "run against",
    "as everybody('s)?": "name who is meant",
    "what only": "name what is meant",
}
"""Patterns of private terms, with the term to use instead. A space matches any blanks, line breaks included."""

_PRIVATE = re.compile(rf"\b(?:{'|'.join(TERMS)})\b".replace(" ", r"\s+"), re.IGNORECASE)
_ORACLE = re.compile(r"\boracles?\b", re.IGNORECASE)
_CODE_IN_MARKDOWN = re.compile(r"^```.*?^```$|`[^`]+`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def private_terms(text: str, first_line: int = 1, terms: re.Pattern[str] = _PRIVATE) -> Iterator[str]:
    """Each private term in a text, with its line."""
    for match in terms.finditer(text):
        yield f"{first_line + text.count(chr(10), 0, match.start())}: {' '.join(match[0].split())}"


def prose(page: str) -> str:
    """Remove code and link targets from a page, and keep its line numbers."""
    return _CODE_IN_MARKDOWN.sub(lambda code: "\n" * code[0].count("\n"), page)


def texts_of_code(source: str) -> Iterator[tuple[int, str]]:
    """Strings, docstrings, comments and split names in Python code, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    comment, last = "", -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], re.sub(r"_+|(?<=[a-z])(?=[A-Z])", " ", token.string)
        elif token.type == tokenize.COMMENT:  # consecutive comment lines are one text
            text = token.string.lstrip("#").strip()
            if token.start[0] != last + 1:
                yield last - comment.count("\n"), comment
                comment = text
            else:
                comment += f"\n{text}"
            last = token.start[0]
    yield last - comment.count("\n"), comment


def fail_with(terms: Iterable[str]) -> None:
    """Fail with one term per line, if there are any."""
    if listed := "\n".join(terms):
        pytest.fail(f"{listed}\nSee `TERMS` in {Path(__file__).name} for the terms to use instead.", pytrace=False)


@pytest.mark.parametrize("path", [*PAGES, *TEMPLATES], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_templates_have_no_private_terms(path: Path) -> None:
    fail_with(private_terms(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_call_the_oracle_a_reference_solution(path: Path) -> None:
    """``oracle`` is only the name of a label, a key and a capability, and thus in backticks."""
    fail_with(private_terms(prose(path.read_text(encoding="utf-8")), terms=_ORACLE))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_has_no_private_terms(package: Path) -> None:
    """In messages, help, docstrings, comments and names."""
    terms = [
        f"{path.relative_to(ROOT)}:{term}"
        for path in CODE
        if path.is_relative_to(package)
        for line, text in texts_of_code(path.read_text(encoding="utf-8"))
        for term in private_terms(text, line)
    ]
    fail_with(dict.fromkeys(terms))


def test_there_are_texts_to_check() -> None:
    assert len(PAGES) > 30
    assert len(CODE) > 200
    assert len(TEMPLATES) > 40


PLANTED = {
    "message": 'raise InputError(f"{path} is no run "\n    "directory")\n',
    "docstring": 'def f():\n    """A file that nobody\n    reads."""\n',
    "comment": "x = 1  # whoever reads this\n",
    "long comment": "# it lies\n# in tasks\n",
    "name": "def mended_file(): ...\n",
    "class": "class BestLikeness: ...\n",
}


@pytest.mark.parametrize("source", PLANTED.values(), ids=PLANTED)
def test_a_private_term_in_code_is_reported(source: str) -> None:
    assert [term for line, text in texts_of_code(source) for term in private_terms(text, line)]


def test_a_private_term_in_a_page_is_reported_with_its_line() -> None:
    text = "Install it.\n\nThe files of a set-up which\ngoes\nby rules. Nobody there is no longer.\n"
    assert list(private_terms(text)) == ["3: set-up", "4: goes by", "5: Nobody"]
    page = "`oracle` and\n```\noracle\n```\nthe oracle passes\n"
    assert list(private_terms(prose(page), terms=_ORACLE)) == ["5: oracle"]


def test_ordinary_words_are_allowed() -> None:
    assert list(private_terms("nobody:x:65534: set up, setup, lies, there is no file, recommends")) == []
