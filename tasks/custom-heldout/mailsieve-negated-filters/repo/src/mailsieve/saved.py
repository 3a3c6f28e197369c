"""Named queries, kept as text."""

from __future__ import annotations

from mailsieve.query import Query


class SavedSearches(dict[str, Query]):
    """Queries by name."""

    @classmethod
    def loads(cls, text: str) -> SavedSearches:
        """Read what ``dumps`` wrote. Empty lines, and lines that start with ``#``, are skipped."""
        searches = cls()
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                name, separator, expression = line.partition("=")
                if not separator:
                    raise ValueError(f"expected 'name = expression', not {line!r}")
                searches[name.strip()] = Query.parse(expression)
        return searches

    def dumps(self) -> str:
        """One line for each query, in the order of their names."""
        return "".join(f"{name} = {self[name]}\n" for name in sorted(self))
