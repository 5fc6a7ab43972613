"""Every error code has one text, and the page of codes is that text."""

import importlib
from pathlib import Path

import pytest

from qss_core import errors
from qss_core.codes.catalogue import CHAPTERS, EXPLANATIONS, code_of_text, type_of
from qss_core.codes.page import page_of_codes, text_of
from qss_core.errors import KeyNotFoundError, OverloadedError, StoreError
from qss_core.wire.messages import Problem, decode, encode, error_of, problem_of

PAGE = Path(__file__).parents[4] / "store-pod" / "docs" / "errors.md"
# The modules whose codes a person meets: in an answer of a pod, or at the end of a command.
OF_PEOPLE = (
    "qss_core.errors",
    "qss_client.cli.program",
    "qss_client.kube.kubectl",
    "qss_operator.errors",
    "qss_spark.state.errors",
)


def codes_of(module: str) -> set[str]:
    """The codes that the classes of a module have."""
    members = vars(importlib.import_module(module)).values()
    return {
        one.code
        for one in members
        if isinstance(one, type) and issubclass(one, StoreError) and one.__module__ == module
    }


def test_every_code_of_the_core_has_a_text() -> None:
    assert codes_of(errors.__name__) - set(EXPLANATIONS) == set()


def test_every_text_has_a_code_and_every_code_that_a_person_meets_a_text() -> None:
    assert set().union(*map(codes_of, OF_PEOPLE)) == set(EXPLANATIONS)


def test_a_code_stands_in_one_chapter() -> None:
    assert sum(map(len, CHAPTERS.values())) == len(EXPLANATIONS)


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_a_text_is_made_of_sentences(code: str) -> None:
    text = EXPLANATIONS[code]
    for part in (text.meaning, text.cause, text.remedy):
        assert part[0].isupper() or part[0] in "`k"
        assert part.endswith((".", "`."))
        assert part.count("`") % 2 == 0
        assert "  " not in part


def test_the_page_is_the_text() -> None:
    assert PAGE.read_text() == page_of_codes()


def test_the_type_of_a_problem_leads_to_its_code() -> None:
    problem = decode(encode(problem_of(KeyNotFoundError("no such key"))), Problem)
    assert problem.type == "tag:queryablestate.dev,2026:error:KEY_NOT_FOUND"
    assert code_of_text(problem.type) == "KEY_NOT_FOUND"
    assert isinstance(error_of(problem), KeyNotFoundError)


@pytest.mark.parametrize("text", ["NOT_READY", "not_ready", "not-ready", type_of("NOT_READY")])
def test_a_code_may_be_given_in_several_ways(text: str) -> None:
    assert code_of_text(text) == "NOT_READY"


def test_the_text_of_a_code_has_each_status_of_it() -> None:
    told = " ".join(text_of(OverloadedError.code, 200).split())
    assert "413: not to be repeated unchanged" in told
    assert "429: the same request may succeed later" in told


def test_the_text_of_a_code_fits_its_columns() -> None:
    assert max(map(len, text_of("NOT_READY", 60).splitlines())) <= 60
