"""Prefixes of a column's records (`sarameya.registry.wire`). Read from Arrow columns, with no object per record. Pure.

A batch has few different prefixes, and each is parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sarameya.registry.wire import HEADER, IncompletePrefixError, Prefix, PrefixError, read_prefix

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.frozen(slots=True, eq=False)
class PrefixSurvey:
    """Prefixes of a column's records.

    Attributes:
        codes: Prefix bytes of each record; null for a null record.
        prefixes: Prefixes that can be read, by their bytes.
        problems: Reasons why other prefixes cannot be read, by their bytes.
    """

    codes: pa.DictionaryArray
    prefixes: Mapping[bytes, Prefix]
    problems: Mapping[bytes, str]

    def rows_of(self, problems: Mapping[bytes, str]) -> list[tuple[int, str]]:
        """Return the index and the problem of each row whose prefix has one of these problems."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not problems:
            return []
        known: list[bytes] = self.codes.dictionary.to_pylist()
        bad = pa.array([n for n, code in enumerate(known) if code in problems], pa.int32())
        rows = pc.indices_nonzero(pc.is_in(self.codes.indices, value_set=bad))
        return [(row, problems[known[self.codes.indices[row].as_py()]]) for row in rows.to_pylist()]

    def prefix_of(self, offset: int, offsets: pa.ChunkedArray) -> Prefix:
        """Return the prefix of the record at an offset. The prefix must be a readable one."""
        import pyarrow.compute as pc

        return self.prefixes[self.codes[pc.index(offsets, offset).as_py()].as_py()]


def survey(values: pa.ChunkedArray, *, with_message: bool) -> PrefixSurvey:
    """Return the prefixes of a binary column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = HEADER + with_message
    codes = pc.binary_slice(values, 0, size)
    prefixes: dict[bytes, Prefix] = {}
    problems: dict[bytes, str] = {}
    unread = _distinct(codes)
    while unread:
        longer = []
        for code in unread:
            try:
                prefixes[code], _ = read_prefix(code, with_message=with_message)
            except IncompletePrefixError as error:
                if len(code) < size:
                    problems[code] = str(error)
                else:
                    longer.append(code)
            except PrefixError as error:
                problems[code] = str(error)
        if longer:
            size += 1  # byte by byte, to read no more than the prefix: the bytes after it differ in each record
            more = pc.is_in(codes, value_set=pa.array(longer, codes.type))
            codes = pc.if_else(more, pc.binary_slice(values, 0, size), codes)
        unread = _distinct(codes.filter(more)) if longer else []
    return PrefixSurvey(_encoded(codes), prefixes, problems)


def _distinct(codes: Any) -> list[bytes]:
    return [code for code in codes.unique().to_pylist() if code is not None]


def _encoded(codes: pa.ChunkedArray) -> pa.DictionaryArray:
    import pyarrow as pa

    combined = codes.combine_chunks()
    # combine_chunks returns one array; older pyarrow versions return a chunked array with a single chunk.
    array = combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
    return array.dictionary_encode()
