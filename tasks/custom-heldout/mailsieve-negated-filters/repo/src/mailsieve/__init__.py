"""Search expressions for messages, typed or saved."""

from mailsieve.errors import QueryError
from mailsieve.query import Query
from mailsieve.saved import SavedSearches

__all__ = ["Query", "QueryError", "SavedSearches"]
