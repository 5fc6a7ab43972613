"""What the command line of a pod takes and refuses."""

import pytest

from qss_store.arguments import api_server_url, parse_arguments, settings_from
from qss_store.protection import identities_of

PLAIN = ["--store", "words", "--ordinal", "0", "--data-dir", "/data"]
ACCESS = [
    *("--authentication", "serviceaccount", "--namespace", "shop"),
    *("--peer-service-account", "qss-words", "--peer-token-file", "/t"),
    *("--kubernetes-api", "https://api"),
]


def test_without_a_word_about_access_everybody_may_do_everything() -> None:
    given = parse_arguments(PLAIN)
    assert (given.authentication, given.tls_dir, given.peer_token_file) == ("none", None, None)
    assert given.token_audience == "queryablestate.dev"


def test_service_accounts_are_named_as_reviews_name_them() -> None:
    operator = ["--operator-service-account", "qss-system/operator"]
    identities = identities_of(parse_arguments([*PLAIN, *ACCESS, *operator]))
    assert identities.pods == "system:serviceaccount:shop:qss-words"
    assert identities.operator == "system:serviceaccount:qss-system:operator"
    assert identities_of(parse_arguments([*PLAIN, *ACCESS])).operator is None


@pytest.mark.parametrize("flag", ["--namespace", "--peer-service-account", "--peer-token-file"])
def test_authentication_without_what_it_needs_is_refused(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ACCESS.index(flag)
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*PLAIN, *ACCESS[:at], *ACCESS[at + 2 :]])
    assert ended.value.code == 2
    assert f"--authentication serviceaccount needs {flag}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--operator-service-account", "operator"],
        ["--operator-service-account", "a/b/c"],
        ["--namespace", "Shop"],
        ["--namespace", "shop:admin"],
        ["--authentication", "token"],
    ],
)
def test_names_that_are_none_are_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*PLAIN, *ACCESS, *wrong])
    assert wrong[0] in capsys.readouterr().err


def test_a_pod_finds_the_api_server_as_kubernetes_tells_it() -> None:
    told = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert api_server_url(told) == "https://10.0.0.1:443"
    assert api_server_url({**told, "KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:443"
    assert api_server_url({}) is None


def test_settings_come_from_the_environment() -> None:
    settings = settings_from({"QSS_ACCESS_POSITIVE_S": "1.5", "QSS_ACCESS_TOKENS_MAX": "7"})
    assert (settings.access_positive_s, settings.access_tokens_max) == (1.5, 7)
