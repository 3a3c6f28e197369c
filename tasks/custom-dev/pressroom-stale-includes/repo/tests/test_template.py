import pytest

from pressroom import TemplateSyntaxError
from pressroom.template import Include, Text, Variable, parse


def test_nodes() -> None:
    template = parse("page", 'a{{ b }}c{{d|e f}}{% include "g" %}\n{%include "h" optional%}')
    assert template.nodes == (
        Text("a"),
        Variable("b"),
        Text("c"),
        Variable("d", "e f"),
        Include("g"),
        Text("\n"),
        Include("h", optional=True),
    )


@pytest.mark.parametrize("tag", ["{% includes %}", "{{ a b }}", "{% include g %}", '{% include "g" maybe %}'])
def test_unknown_tags_name_the_line(tag: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="page, line 3"):
        parse("page", f"one\ntwo\n{tag}")
