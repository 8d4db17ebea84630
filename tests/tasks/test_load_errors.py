"""The error of a project that cannot be loaded: the place, the interpreter, the next step."""

import sys
from importlib.util import find_spec

import pytest

from qk_mcp.errors import ProjectBroken
from tests.tasks.conftest import Describe


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"_qk.py": "import not_there.part\n"},
            "if 'not_there' is not a typing error, ask the user which package provides it",
        ),
        ({"_qk.py": "import yaml\n"} if find_spec("yaml") is None else {"_qk.py": "import cv2\n"}, "-m pip install "),
        ({"_qk/__init__.py": "import beside\n", "beside.py": ""}, "move beside into "),
        ({"_qk/__init__.py": "from .absent import x\n"}, "fix the project's code at the place shown"),
        ({"_qk/other.py": ""}, "_qk/__init__.py"),
        ({"_qk.py": "def broken(:\n    pass\n"}, "_qk.py:1: def broken(:"),
        ({"_qk.py": "import sys\nsys.exit(3)\n"}, "sys.exit(3)"),
        ({"_qk.py": "def outer():\n    inner()\ndef inner():\n    1 / 0\nouter()\n"}, "_qk.py:2: inner()"),
        (
            {"_qk.py": "try:\n    {}['key']\nexcept KeyError as e:\n    raise ValueError('x') from e\n"},
            "caused by KeyError",
        ),
    ],
)
def test_an_error_says_what_to_fix(files: dict[str, str], expected: str, described: Describe) -> None:
    with pytest.raises(ProjectBroken) as failure:
        described(files)
    text = str(failure.value)
    assert expected in text
    assert sys.executable in text
    assert "hint: " in text
    assert "importlib" not in text
