"""The row of one writer in `qss writers`."""

from qss_client.cli.writers import document_of
from qss_core.times import Times
from qss_core.wire.writer_reports import WriterReport


def test_a_time_that_an_accepted_loss_left_unknown_is_not_shown_as_1970() -> None:
    known, lost = (
        WriterReport(name="job", query_id="q", generation=1, opened_at_ms=one)
        for one in (1_700_000_000_000, 0)
    )
    times = next(iter(Times))
    assert document_of(known, times)["openedAt"] is not None
    assert document_of(lost, times)["openedAt"] is None


def test_a_silence_of_unknown_length_is_shown_as_the_least_that_it_may_be() -> None:
    times = next(iter(Times))
    shown = [
        document_of(
            WriterReport(
                name="job",
                query_id="q",
                generation=1,
                opened_at_ms=1,
                silent_s=12.4,
                is_heard_of=is_heard_of,
            ),
            times,
        )["state"]
        for is_heard_of in (True, False)
    ]
    assert shown == ["open, 12 s silent", "open, at least 12 s silent"]
