"""Which variables are secret."""

import pytest

from qk_mcp.interpreters.secrets import find_secrets, redact_for_log
from qk_mcp.redact import NO_SECRETS


@pytest.mark.parametrize(
    "name",
    ["GH_TOKEN", "token", "MY_TOKENS_2", "AppSecretKey", "DB_PASSWORD", "PASSWORDS", "API_KEY", "Creds_credential"],
)
def test_names_of_secrets_are_recognized_in_any_case(name: str) -> None:
    assert find_secrets({name: "12345678"}, ()).names == (name,)


@pytest.mark.parametrize("name", ["KEY", "KEYS", "PASSWD", "API_KEY_FILE", "MONKEY", "HOME"])
def test_other_names_are_not_secret(name: str) -> None:
    assert find_secrets({name: "12345678"}, ()) is find_secrets({}, ())


def test_a_project_adds_globs_or_switches_redaction_off() -> None:
    variables = {"STRIPE_ID": "12345678", "PIN": "1234", "API_KEY": "abcdefgh"}
    assert find_secrets(variables, ["stripe_*", "pin"]).names == ("API_KEY", "STRIPE_ID")
    assert find_secrets(variables, None) is NO_SECRETS


def test_the_log_knows_the_secrets_of_all_projects() -> None:
    find_secrets({"ONE_TOKEN": "the-first-token"}, ())
    find_secrets({"TWO_TOKEN": "the-second-token"}, ())
    assert redact_for_log("the-first-token, the-second-token") == "[ONE_TOKEN], [TWO_TOKEN]"
