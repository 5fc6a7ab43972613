"""The operator's settings from flags and the environment."""

import json
import logging

import pytest

from qss_client.log_format import configure_log
from qss_operator.kubernetes.settings import parse_settings

IMAGE = {"QSS_STORE_IMAGE": "store:1"}


def test_names_and_the_user_of_pods_come_from_the_environment() -> None:
    told = {"QSS_STORE_IMAGE_PULL_SECRETS": "a,b", "QSS_STORE_USER": "", "QSS_NAMESPACES": "x"}
    settings = parse_settings([], {**IMAGE, **told})
    assert settings.namespaces == ("x",)
    assert settings.defaults.image_pull_secrets == ("a", "b")
    assert settings.defaults.user is None
    assert parse_settings([], IMAGE).defaults.user == 10001


def test_the_binding_of_reviews_is_the_charts_to_name() -> None:
    assert parse_settings([], IMAGE).reviews_binding == ""
    named = {**IMAGE, "QSS_REVIEWS_BINDING": "qss-store-pods"}
    assert parse_settings([], named).reviews_binding == "qss-store-pods"


def test_the_log_is_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_settings([], IMAGE).log_format == "text"
    assert parse_settings([], {**IMAGE, "QSS_LOG_FORMAT": "json"}).log_format == "json"
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        configure_log("json", "info")
        logging.getLogger("qss_operator").info("%s is gone", "shop/words")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"]) == ("INFO", "shop/words is gone")
