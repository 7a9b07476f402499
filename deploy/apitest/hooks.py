"""Media types that schemathesis cannot send by itself: uploads of bulk jobs."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson", "text/csv")
def serialize_rows(ctx, value):
    """Returns the text of an upload, or, for bodies that are no text, JSON."""
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()
