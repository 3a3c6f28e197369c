"""Log records, step by step, into branches."""

from logsluice.config import ConfigError, build, load
from logsluice.pipeline import Pipeline

__all__ = ["ConfigError", "Pipeline", "build", "load"]
