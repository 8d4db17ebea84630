"""Lets AI agents discover and run a project's quickie tasks over the Model Context Protocol."""

__all__ = ["__version__"]

__version__ = "0.1.0"
