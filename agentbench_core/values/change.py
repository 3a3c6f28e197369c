"""A path that differs between two trees: of use where changes are made, judged and audited."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class Change:
    """One path that differs. Modes are git's (100644, 100755, 120000), ids are blobs; empty where there is none.

    A link is a change with mode 120000 whose blob is its target.
    """

    path: str
    kind: Literal["added", "modified", "deleted"]
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""
