"""The table of `qss status`, as the commands of pages and scripts read it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from qss_core.model import StoreName
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.status.view import Output, show_statuses
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Endpoints,
    StoreStatus,
)
from qss_testing.fakes.simulated_pod import STORE

ROOT = Path(__file__).parents[4]
QUERY = "http://127.0.0.1:22313"


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The output of `qss status NAME` for a store that runs."""
    state = StateDirectory(tmp_path)
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason="Serving",
        message="all 4 partitions are served",
        last_transition_time="2026-11-23T00:00:00Z",
        observed_generation=1,
    )
    status = StoreStatus(
        conditions=(ready,), ready="2/2", assigned="4/4", endpoints=Endpoints(query=QUERY)
    )
    with state.lock():
        state.write_resource(STORE, {"metadata": {"name": STORE}})
        state.write_status(STORE, status)
        state.write_holder([STORE])
        return show_statuses(state, STORE, Output.TABLE)


@pytest.mark.parametrize("page", ["README.md", "store-pod/docs/reads.md"])
def test_the_address_that_a_page_takes_from_the_status_is_the_endpoint(
    page: str, shown: str
) -> None:
    text = (ROOT / page).read_text()
    (program,) = re.findall(r"URL=\$\(.*qss status aircraft-stats \| awk '(.+)'\)", text)
    assert len(shown.splitlines()) > 2, "more lines follow the table"
    taken = subprocess.run(
        ["awk", program], input=shown, capture_output=True, text=True, check=True
    )
    assert taken.stdout == f"{QUERY}\n"


def test_a_store_with_a_damaged_file_hides_no_other_one(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    for name in (STORE, StoreName("words")):
        state.write_resource(name, {"metadata": {"name": name}})
        state.write_status(name, StoreStatus())
    (tmp_path / "words" / "status.yaml").write_text("{")
    table, error = show_statuses(state, None, Output.TABLE).rsplit("\n", 1)
    assert STORE in table
    assert error.startswith(f"words: {tmp_path / 'words' / 'status.yaml'} is damaged: ")
    items = json.loads(show_statuses(state, None, Output.JSON))["items"]
    assert [("error" in one, one["metadata"]["name"]) for one in items] == [
        (False, STORE),
        (True, "words"),
    ]
    with pytest.raises(StateDirectoryError, match="is damaged"):
        show_statuses(state, "words", Output.TABLE)
