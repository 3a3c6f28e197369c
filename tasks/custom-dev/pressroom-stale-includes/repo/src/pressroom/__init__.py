"""Small templates with includes, and a cache of rendered text."""

from pressroom.engine import Engine
from pressroom.errors import IncludeCycle, PressroomError, TemplateNotFound, TemplateSyntaxError, UndefinedVariable
from pressroom.sources import DirectorySource, MemorySource, Source

__all__ = [
    "DirectorySource",
    "Engine",
    "IncludeCycle",
    "MemorySource",
    "PressroomError",
    "Source",
    "TemplateNotFound",
    "TemplateSyntaxError",
    "UndefinedVariable",
]
