"""The command ``logsluice``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from logsluice.config import ConfigError, load


def main(arguments: Sequence[str] | None = None) -> int:
    """Read lines of JSON, write those that a branch gives. 0, or 2 when the configuration is wrong."""
    parser = argparse.ArgumentParser(prog="logsluice", description="Log records, step by step, into branches.")
    parser.add_argument("config", type=Path)
    parser.add_argument("--branch", required=True)
    chosen = parser.parse_args(arguments)
    try:
        pipeline = load(chosen.config.read_text(encoding="utf-8"))
        if chosen.branch not in pipeline.branches:
            raise ConfigError(f"there is no branch {chosen.branch!r}")
    except ConfigError as error:
        print(f"logsluice: {error}", file=sys.stderr)
        return 2
    records = (json.loads(line) for line in sys.stdin if line.strip())
    for record in pipeline.run(records)[chosen.branch]:
        print(json.dumps(record, ensure_ascii=False))
    return 0
