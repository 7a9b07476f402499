"""Verification of webhook deliveries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, cast

from standardwebhooks import Webhook, WebhookVerificationError

from .models import ContextProfile


@dataclass(frozen=True)
class Delivery:
    """The payload of a webhook: a profile, or why it failed."""

    request_id: str
    """Identifies the context call, the same for every attempt."""
    profile: Optional[ContextProfile]
    """None if the task failed."""
    failure: str
    """Detail of a failed task, else empty."""


def verify_webhook(headers: Mapping[str, str], body: bytes, *secrets: str) -> Delivery:
    """
    Verifies the signature and the age of a delivery (Standard Webhooks 1.0.0), and decodes it.

    body is the unparsed request body; secrets are the webhook secrets of the organization, two during a rotation.
    It raises WebhookVerificationError if no secret fits, and ValueError if a secret or a verified body is invalid.
    """
    plain = {name.lower(): value for name, value in headers.items()}
    rejection: Exception = WebhookVerificationError("no secret")
    for webhook in [_parse_secret(secret) for secret in secrets]:
        try:
            webhook.verify(body, plain, json_parse=False)
            break
        except (WebhookVerificationError, ValueError) as error:  # ValueError: malformed signature or body
            rejection = error
    else:
        raise WebhookVerificationError(f"verify webhook: {rejection}") from rejection
    payload: Any = json.loads(body)
    if not isinstance(payload, dict):
        raise ValueError("decode webhook: the body is no object")
    profile = cast(ContextProfile, payload)
    if isinstance(profile.get("detail"), str):
        return Delivery(plain["webhook-id"], None, profile["detail"])
    return Delivery(plain["webhook-id"], profile, "")


def _parse_secret(secret: str) -> Webhook:
    """Returns the verifier of a secret, without the secret in errors."""
    try:
        return Webhook(secret)
    except Exception as error:
        raise ValueError("invalid webhook secret: it must be whsec_ and base64") from error
