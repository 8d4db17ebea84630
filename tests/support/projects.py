"""Writes projects to serve."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

__all__ = ["make_project"]


def make_project(root: Path, source: str | Mapping[str, str], *, single_file: bool = False) -> Path:
    """Write a project into `root` and return `root`.

    A text becomes `_qk/__init__.py`, or `_qk.py` with `single_file`; a mapping names files relative to `root`.
    Sources are dedented, so that a test can write them in place.
    """
    if isinstance(source, str):
        source = {"_qk.py" if single_file else "_qk/__init__.py": source}
    root.mkdir(parents=True, exist_ok=True)
    for name, text in source.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return root
