"""Records as a table of pandas. It needs the extra `pandas`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import pandas


def to_dataframe(
    records: Iterable[Mapping[str, Any]], entries: Optional[str] = None, keep: Sequence[str] = ("profile_id",)
) -> pandas.DataFrame:
    """
    Returns a table with one row per record, such as the results of people.

    Nested objects become columns named by their path, such as profile.full_name. Lists stay lists. With entries, such
    as "experience", there is one row per entry of that list instead, with the fields of the record named in keep.
    """
    import pandas

    rows = list(records) if entries is None else [row for record in records for row in _entries(record, entries, keep)]
    return pandas.json_normalize([dict(row) for row in rows])


def _entries(record: Mapping[str, Any], entries: str, keep: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    kept = {name: record.get(name) for name in keep}
    for entry in record.get(entries, ()):
        yield {**kept, **(entry if isinstance(entry, Mapping) else {entries: entry})}
