"""The arguments that the command line of a pod accepts and refuses."""

import pytest

from qss_store.access.setup import identities_of
from qss_store.runtime.command_line import (
    SettingError,
    api_server_url,
    parse_arguments,
    settings_from,
    unknown_settings,
)

PLAIN = ["--store", "words", "--ordinal", "0", "--data-dir", "/data"]
ACCESS = [
    *("--authentication", "serviceaccount", "--namespace", "shop"),
    *("--peer-service-account", "qss-words", "--peer-token-file", "/t"),
    *("--kubernetes-api", "https://api"),
]

MIB = 1024 * 1024


def test_without_a_word_about_access_everybody_may_do_everything() -> None:
    given = parse_arguments(PLAIN)
    assert (given.authentication, given.tls_dir, given.peer_token_file) == ("none", None, None)
    assert (given.token_audience, given.common_audience) == (None, None)


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


def test_a_request_between_replicas_has_room_for_a_chunk() -> None:
    """No standby got a larger one, and the store took no batch after it."""
    assert settings_from({}).replication_bytes_max == 40 * MIB
    assert settings_from({"QSS_CHUNK_BYTES_MAX": f"{MIB}"}).replication_bytes_max == 40 * MIB
    large = {"QSS_CHUNK_BYTES_MAX": f"{64 * MIB}"}
    assert settings_from(large).replication_bytes_max == 72 * MIB
    told = f"QSS_REPLICATION_BYTES_MAX is at least {72 * MIB}, not {40 * MIB}: no standby would get"
    with pytest.raises(SettingError, match=told):
        settings_from({**large, "QSS_REPLICATION_BYTES_MAX": f"{40 * MIB}"})


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("QSS_CHUNK_BYTES_MAX", "4MB", "a whole number from 0, like 33554432, not '4MB'"),
        ("QSS_CHUNK_BYTES_MAX", "1.5", "a whole number"),
        ("QSS_STREAMS_MAX", "-1", "a whole number"),
        ("QSS_PEER_TIMEOUT_S", "soon", "a number from 0, like 30.0, not 'soon'"),
        ("QSS_PEER_TIMEOUT_S", "nan", "a number"),
        ("QSS_PEER_TIMEOUT_S", "", "a number"),
    ],
)
def test_a_bad_setting_is_named(variable: str, value: str, says: str) -> None:
    with pytest.raises(SettingError, match=f"^{variable} is {says}"):
        settings_from({variable: value})


def test_an_unknown_setting_is_warned_of_and_what_others_set_is_not() -> None:
    environment = {
        "QSS_STREAM_MAX": "5",
        "QSS_BLOCKCACHE_BYTES": "5",
        "QSS_FLUSHBYTES": "5",
        "QSS_COLOUR": "red",
        "QSS_STREAMS_MAX": "5",
        "QSS_STATE_DIR": "/tmp",
        "QSS_WORDS_SERVICE_HOST": "10.0.0.1",
        "QSS_WORDS_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "PATH": "/bin",
    }
    cache, colour, flush, stream = unknown_settings(environment)
    assert cache.endswith(": did you mean QSS_BLOCK_CACHE_BYTES?")
    assert colour == "QSS_COLOUR is no setting of a pod, and does nothing"
    assert flush == "QSS_FLUSHBYTES is no setting of a pod, and does nothing"
    assert stream == (
        "QSS_STREAM_MAX is no setting of a pod, and does nothing: did you mean QSS_STREAMS_MAX?"
    )


@pytest.mark.parametrize("ordinal", ["-1", "1.0", "x", "", "٣"])
def test_an_ordinal_that_is_none_is_refused(
    ordinal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["--store", "words", f"--ordinal={ordinal}", "--data-dir", "/data"])
    assert ended.value.code == 2
    assert f"{ordinal!r} is not a whole number from 0" in capsys.readouterr().err
