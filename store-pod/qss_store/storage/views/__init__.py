"""Reads one state of one partition: layers that each look like one column family.

1. `family_names` takes a view of each family of the partition, all of one moment, and builds layers
   over them: `converted` joins rows of an older format with newer ones, while a migration moves
   them. Over that come `segmented`, which joins the segments of a Window or Session partition,
   `versioned`, which has the latest versions and their history, or `indexed`, rows with their index
   rows.
2. `replicas.views.view_maker` puts the result into a `read_view.ReadView`, with the sequence,
   position and stream time that belong to exactly this state.
3. A reader of uncommitted rows gets `overlaid`: staged rows in memory over the committed ones,
   where None hides a row.

`row_digest` makes digests of a view's rows, by which replicas are compared.

Each layer has the methods of `engine.FamilyView`. Where `reads.scans` needs more (times, history,
index rows), it expects a `SegmentedView`, a `VersionedView` or an `IndexedView`.

A layer that owns its views closes them; a converted or overlaid copy of a layer owns nothing. A
closed view serves no new reads, but a running scan and a `reader` keep their hold. `pin` fixes the
rows before the next write to a family. Retention hides rows that are still on disk.

`read_view` gives each view a token object of its own: caches recognize a view by it. The package
imports `engine` and `stretches`, and no replica. Tests: `test_segmented`, `test_versions`,
`test_indexed_stores` and `test_migration` in `tests/contract`.
"""
