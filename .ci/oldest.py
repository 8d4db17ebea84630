"""Print a constraint for each dependency of the given pyproject.toml: its oldest allowed version."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"]:
    match = re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9.]+),<[0-9]+", requirement)
    if match is None:
        sys.exit(f"not of the form NAME>=OLDEST,<NEXT: {requirement}")
    print(f"{match[1]}=={match[2]}")
