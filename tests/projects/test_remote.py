import shlex
import subprocess

from qk_mcp.projects.remote import Remote

WORDS = ["serve", "--project", "app:~/a b/$HOME/'c'", "", "*", "-x"]


def test_each_word_reaches_the_shell_of_the_other_machine_as_it_is() -> None:
    argv = Remote(host="ann@box", command=("printf", "%s\\n")).argv(WORDS)
    assert argv[0] == "ssh"
    assert argv[-3:-1] == ["--", "ann@box"]
    shell = subprocess.run(["sh", "-c", argv[-1]], capture_output=True, text=True, check=True)
    assert shell.stdout.split("\n")[:-1] == WORDS


def test_a_command_gets_the_words_as_they_are() -> None:
    remote = Remote(via=("docker", "exec", "-i", "app"), command=("python3", "-m", "qk_mcp"))
    assert remote.argv(WORDS) == ["docker", "exec", "-i", "app", "python3", "-m", "qk_mcp", *WORDS]
    assert remote.place == shlex.join(remote.via)
