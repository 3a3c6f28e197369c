from pathlib import Path

import pytest

from pressroom import DirectorySource, Engine, IncludeCycle, MemorySource, TemplateNotFound, UndefinedVariable


def test_variables() -> None:
    engine = Engine(MemorySource({"page": "{{ a }}, {{ b | two }}"}))
    assert engine.render("page", {"a": "<1>"}) == "&lt;1&gt;, two"
    assert engine.render("page", {"a": 1, "b": 2}) == "1, 2"


def test_includes() -> None:
    source = MemorySource({"page": '[{% include "part" %}]{% include "none" optional %}', "part": "{{ a }}"})
    assert Engine(source).render("page", {"a": 1}) == "[1]"


def test_errors() -> None:
    source = MemorySource({"page": '{% include "part" %}', "part": '{% include "page" %}', "open": "{{ a }}"})
    engine = Engine(source)
    with pytest.raises(IncludeCycle, match="page -> part -> page"):
        engine.render("page")
    with pytest.raises(UndefinedVariable, match="open: variable 'a'"):
        engine.render("open")
    with pytest.raises(TemplateNotFound, match="'none'"):
        engine.render("none")
    assert engine.render("open", {"a": 1}) == "1"


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "page.tmpl").write_text('{% include "part" %}', encoding="utf-8")
    (tmp_path / "part.tmpl").write_text("é", encoding="utf-8")
    engine = Engine(DirectorySource(tmp_path))
    assert engine.render("page") == "é"
    (tmp_path / "part.tmpl").write_text("è", encoding="utf-8")
    assert engine.render("page") == "è"
    with pytest.raises(TemplateNotFound):
        engine.render("../page")
