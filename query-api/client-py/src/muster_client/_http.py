"""What both clients share: requests, responses, errors, and when a call is retried."""

from __future__ import annotations

import datetime
import email.utils
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Optional, TypeVar, Union, cast
from urllib.parse import quote

import httpx

from .models import ContextProfile, DryRun

__version__ = "0.1.0"
"""Version of muster that the client was generated for."""

DEFAULT_TIMEOUT = httpx.Timeout(150, connect=10)
"""Timeout of the default HTTP client, in seconds: a context call may take 120."""

FIRST_PAUSE = 0.25
"""Wait after the first broken connection, in seconds. It doubles with each retry."""

MAX_BULK_PAUSE = 5.0
"""Longest pause between two looks at a bulk job, in seconds."""

T = TypeVar("T")


@dataclass(frozen=True)
class RateLimit:
    """The state of the rate limit of a key."""

    limit: int
    """Requests per minute of the plan."""
    remaining: int
    """Requests allowed now."""
    reset: Optional[datetime.datetime]
    """Time when the full limit is available again."""


@dataclass(frozen=True)
class Quota:
    """The credits of the plan in this month (UTC)."""

    used: int
    limit: int
    remaining: int


@dataclass(frozen=True)
class Metadata:
    """The status of a response and its headers. Values of absent headers are 0, empty or None."""

    status: int
    headers: httpx.Headers = field(repr=False)
    request_id: str
    """Identifies the call in support requests (X-Request-Id)."""
    credits_charged: int
    """Credits charged for the call (X-Credits-Charged)."""
    rate_limit: RateLimit
    """State of the key's rate limit (X-RateLimit-*)."""
    quota: Quota
    """State of the plan's credits, in responses to a search (X-Quota-*)."""
    miss_reason: str
    """
    Why the response has no record (X-Miss-Reason): "not_found", "below_confidence", or "must_have: " and the missing
    fields. Empty for lists.
    """
    degraded: tuple[str, ...]
    """Stages without a complete result (X-Degraded)."""
    as_of: Optional[datetime.datetime]
    """Time as of which the data has every published record (X-Data-As-Of)."""
    age: datetime.timedelta
    """Age of a stored result of discover_person."""
    replayed: bool
    """Whether the response was stored for the Idempotency-Key and not charged (Idempotent-Replayed)."""


@dataclass(frozen=True)
class Response(Generic[T]):
    """The response to a call."""

    metadata: Metadata
    dry_run: Optional[DryRun]
    """Maximum cost of a call with dry_run, else None."""
    body: Optional[T]
    """Decoded body, None after a dry run."""

    @property
    def value(self) -> T:
        """Decoded body. It raises ValueError after a dry run."""
        if self.body is None:
            raise ValueError("the response to a dry run has no value: see dry_run")
        return self.body


@dataclass(frozen=True)
class ContextResult:
    """The state of a context call."""

    profile: Optional[ContextProfile]
    """None while the task is in progress."""
    request_id: str
    """Identifies the call for get_context and in its webhook."""


class ApiError(Exception):
    """A response with a status other than 2xx."""

    def __init__(self, metadata: Metadata, detail: str, retry_after: Optional[float]) -> None:
        super().__init__(f"{metadata.status}: {detail}")
        self.metadata = metadata
        self.status = metadata.status
        self.detail = detail
        """The problem and how to fix it."""
        self.retry_after = retry_after
        """Wait before a retry that the service requests, in seconds; None if it requests none."""


@dataclass(frozen=True)
class Call:
    """A call to be sent."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    content: Optional[bytes] = None
    idempotency_key: str = ""
    content_type: str = "application/json"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the call itself."""
        headers = {"Content-Type": self.content_type} if self.content is not None else {}
        if self.idempotency_key:
            headers["Idempotency-Key"] = self.idempotency_key
        return headers

    @property
    def repeatable(self) -> bool:
        """Whether a repeated call is not charged again."""
        return self.method != "POST" or self.idempotency_key != ""


def get(path: str, params: Optional[Mapping[str, object]] = None) -> Call:
    """Returns a GET request, without the parameters that are None, False or empty."""
    return Call("GET", path, texts_of(params or {}))


def texts_of(params: Mapping[str, object]) -> dict[str, str]:
    """Returns the texts of parameters, without those that are None, False or empty."""
    texts: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, cast("Sequence[object]", value)))
        if value is not None and value is not False and value != "":
            texts[name] = "true" if value is True else str(value)
    return texts


def get_by_id(path: str, identifier: str, suffix: str = "") -> Call:
    """Returns a GET request for what a path has of a call or a job."""
    return get(by_id(path, identifier, suffix))


def by_id(path: str, identifier: str, suffix: str = "") -> str:
    """Returns the path of what a path has of an identifier."""
    return path + quote(identifier, safe="") + suffix


def encode(value: Mapping[str, object]) -> bytes:
    """Returns an object as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def post(path: str, body: Mapping[str, object], idempotency_key: Optional[str]) -> Call:
    """Returns a POST request with an Idempotency-Key, a random one if it is None."""
    return Call("POST", path, {}, encode(body), new_key(idempotency_key))


def post_rows(
    path: str,
    params: Mapping[str, object],
    rows: Union[bytes, Iterable[Mapping[str, object]]],
    csv: bool,
    idempotency_key: Optional[str],
) -> Call:
    """Returns a POST request of rows, which are CSV, or NDJSON in bytes or as objects."""
    content = rows if isinstance(rows, bytes) else b"".join(encode(row) + b"\n" for row in rows)
    kind = "text/csv" if csv else "application/x-ndjson"
    return Call("POST", path, texts_of(params), content, new_key(idempotency_key), kind)


def new_key(idempotency_key: Optional[str]) -> str:
    """Returns the key of a call, a random one if it is None."""
    return str(uuid.uuid4()) if idempotency_key is None else idempotency_key


def parse_base_url(base_url: str) -> str:
    """Returns the URL without a trailing slash. It raises ValueError if it is invalid."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"invalid base URL {base_url!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"invalid base URL {base_url!r}: it must start with http:// or https:// and a host")
    return str(url).rstrip("/")


def new_metadata(response: httpx.Response) -> Metadata:
    """Returns the metadata of a response."""
    headers = response.headers

    def number(name: str) -> int:
        text = headers.get(name, "")
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0

    reset = min(number("X-RateLimit-Reset"), 253402300799)  # the last second that a datetime can have
    return Metadata(
        status=response.status_code,
        headers=headers,
        request_id=headers.get("X-Request-Id", ""),
        credits_charged=number("X-Credits-Charged"),
        rate_limit=RateLimit(
            number("X-RateLimit-Limit"),
            number("X-RateLimit-Remaining"),
            datetime.datetime.fromtimestamp(reset, datetime.timezone.utc) if reset else None,
        ),
        quota=Quota(number("X-Quota-Used"), number("X-Quota-Limit"), number("X-Quota-Remaining")),
        miss_reason=headers.get("X-Miss-Reason", ""),
        degraded=tuple(stage.strip() for stage in headers.get("X-Degraded", "").split(",") if stage.strip()),
        as_of=parse_time(headers.get("X-Data-As-Of", "").split(";")[0]),
        age=datetime.timedelta(seconds=min(number("Age"), 10**9)),
        replayed=headers.get("Idempotent-Replayed") == "true",
    )


def parse_time(text: str) -> Optional[datetime.datetime]:
    """Returns the time of a text such as 2026-11-29T08:20:00Z, or None."""
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None


def check(response: httpx.Response) -> tuple[Metadata, bytes]:
    """Returns the metadata and the body of a response. It raises ApiError if the status is not 2xx."""
    metadata = new_metadata(response)
    if response.is_success:
        return metadata, response.content
    detail = ""
    try:
        body = json.loads(response.content)
        detail = str(body["detail"])
    except (ValueError, TypeError, KeyError):  # from a proxy, not the service
        detail = response.reason_phrase or "no detail"
    raise ApiError(metadata, detail, parse_retry_after(response.headers.get("Retry-After", "")))


def parse_retry_after(text: str) -> Optional[float]:
    """Returns the seconds of a Retry-After, which has seconds or, from a proxy, a date."""
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds())


def wait_before_retry(call: Call, error: Exception, attempt: int, retries: int, max_wait: float) -> Optional[float]:
    """Returns the seconds to wait before a call is repeated, or None if that is not safe or cannot help."""
    if attempt >= retries or not call.repeatable:
        return None
    if not isinstance(error, ApiError):  # a broken connection, or a truncated response
        return min(max_wait, FIRST_PAUSE * (1 << min(attempt, 10)))
    if error.status not in (409, 429, 500, 503) or error.retry_after is None or error.retry_after > max_wait:
        return None
    return error.retry_after


def decode(call: Call, body: bytes) -> Any:  # noqa: ANN401
    """Returns the decoded body of a response."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise ValueError(f"decode response to {call.method} {call.path}: {error}") from error


def new_response(call: Call, metadata: Metadata, body: bytes, dry_run: bool) -> Response[Any]:
    """Returns the response to a call."""
    value = decode(call, body)
    return Response(metadata, value, None) if dry_run else Response(metadata, None, value)


def new_context_response(response: Response[Any], request_id: str) -> Response[ContextResult]:
    """Returns the response to a context call, whose body is a profile, or a 202 without one."""
    if response.dry_run is not None:
        return Response(response.metadata, response.dry_run, None)
    if response.metadata.status == 202:
        return Response(response.metadata, None, ContextResult(None, request_id or response.value["request_id"]))
    return Response(response.metadata, None, ContextResult(response.value, request_id or response.metadata.request_id))


def new_rows(response: Response[str]) -> Iterator[dict[str, Any]]:
    """Returns the results of a bulk job that are NDJSON."""
    if response.metadata.headers.get("Content-Type", "").startswith("text/csv"):
        raise ValueError("the results are CSV, because the job has fields: call get_bulk_results")
    return (json.loads(line) for line in response.value.split("\n") if line)


def new_results(metadata: Metadata, body: bytes) -> Response[str]:
    """Returns the response with the results of a bulk job."""
    if metadata.status == 202:
        raise ValueError("the bulk job is not done: call wait_bulk")
    return Response(metadata, None, body.decode())
