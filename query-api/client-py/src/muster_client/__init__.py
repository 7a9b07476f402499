"""
The Python client of the muster API.

Client and AsyncClient have one method per operation of the API description, with the fields of its request as
arguments. It returns a Response: the decoded body as a dict, typed by a TypedDict of muster_client.models, and what the
headers say of cost, rate limit and quota. verify_webhook verifies a webhook delivery, and to_dataframe makes records a
table of pandas.
"""

from standardwebhooks import WebhookVerificationError

from ._http import ApiError, ContextResult, Metadata, Quota, RateLimit, Response, __version__
from .async_client import AsyncClient
from .client import Client
from .frames import to_dataframe
from .webhooks import Delivery, verify_webhook

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "ContextResult",
    "Delivery",
    "Metadata",
    "Quota",
    "RateLimit",
    "Response",
    "WebhookVerificationError",
    "__version__",
    "to_dataframe",
    "verify_webhook",
]
