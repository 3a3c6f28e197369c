"""Convert a syntax tree to source that older Python versions can also parse."""

from __future__ import annotations

import ast


def unparse(tree: ast.AST) -> str:
    """The source of ``tree``, which is modified.

    ``ast.unparse`` of Python 3.12 reuses the quotes of an f-string inside its expressions, which Python 3.11 cannot
    parse. An f-string with a string in one of its expressions is therefore written as a call to ``str.format``.
    """
    return ast.unparse(ast.fix_missing_locations(_Formats().visit(tree)))


class _Formats(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        arguments: list[ast.expr] = []
        template = _template(node, arguments)
        if template is None or not any(map(_has_string, arguments)):
            return self.generic_visit(node)
        arguments = [self.visit(argument) for argument in arguments]
        return ast.Call(ast.Attribute(ast.Constant(template), "format", ast.Load()), arguments, [])


def _template(node: ast.JoinedStr, arguments: list[ast.expr], *, is_spec: bool = False) -> str | None:
    """The ``str.format`` template, adding expressions to ``arguments``; ``None`` if there is no equivalent."""
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text = str(part.value)
            if is_spec and set(text) & set("{}"):
                return None
            parts.append(text.replace("{", "{{").replace("}", "}}"))
        elif isinstance(part, ast.FormattedValue):
            arguments.append(part.value)
            field = "" if part.conversion == -1 else f"!{chr(part.conversion)}"
            if isinstance(part.format_spec, ast.JoinedStr):
                spec = _template(part.format_spec, arguments, is_spec=True)
                if spec is None:
                    return None
                field += f":{spec}"
            parts.append(f"{{{field}}}")
    return "".join(parts)


def _has_string(expression: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str | bytes) for each in ast.walk(expression))
