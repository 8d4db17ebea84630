"""Reading Goose's YAML."""

from pathlib import Path

from qk_mcp.clients.entries import launch_of
from qk_mcp.clients.files import read_servers
from qk_mcp.clients.known import find_client


def test_the_servers_of_a_file_that_goose_wrote(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "GOOSE_MODEL: m\nextensions:\n  developer:\n    bundled: true\n    type: builtin\n"
        "  qk-mcp:\n    args:\n    - -m\n    - qk_mcp\n    - serve\n    cmd: /usr/bin/python3\n    enabled: true\n"
        "    env_keys:\n    - TOKEN\n    envs: {}\n    type: stdio\nGOOSE_PROVIDER: p\n"
    )
    goose = find_client("goose")
    found = read_servers(goose, file)
    assert list(found) == ["developer", "qk-mcp"]
    assert launch_of(goose, found["qk-mcp"]) == ["/usr/bin/python3", "-m", "qk_mcp", "serve"]
