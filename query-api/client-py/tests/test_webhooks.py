from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest

from muster_client import WebhookVerificationError, verify_webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret of some bytes").decode()
BODY = b'{"full_name": "Ada", "custom": {}, "confidence": {}}'


def signed(body: bytes, secret: str = SECRET, sent: float | None = None, name: str = "msg_1") -> dict[str, str]:
    """Headers of a delivery, as section "Signature scheme" of Standard Webhooks 1.0.0 describes them."""
    seconds = int(time.time() if sent is None else sent)
    key = base64.b64decode(secret[len("whsec_") :])
    signature = hmac.new(key, f"{name}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return {
        "Webhook-Id": name,
        "Webhook-Timestamp": str(seconds),
        "Webhook-Signature": "v1," + base64.b64encode(signature).decode(),
    }


def is_accepted(headers: dict[str, str], body: bytes) -> bool:
    try:
        verify_webhook(headers, body, SECRET)
    except WebhookVerificationError:
        return False
    return True


def test_signature_is_that_of_the_published_example() -> None:
    headers = signed(b'{"test": 2432232314}', sent=1614265330, name="msg_p5jXN8AQM9LWM0D4loKWxJek")
    assert headers["Webhook-Signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_delivery_has_profile_or_failure() -> None:
    delivery = verify_webhook(signed(BODY), BODY, SECRET)
    assert delivery.request_id == "msg_1"
    assert delivery.profile is not None
    assert delivery.profile["full_name"] == "Ada"
    failed = b'{"detail": "the task failed"}'
    delivery = verify_webhook(signed(failed), failed, SECRET)
    assert (delivery.profile, delivery.failure) == (None, "the task failed")


def test_any_secret_and_any_signature_fits() -> None:
    headers = signed(BODY)
    assert verify_webhook(headers, BODY, OTHER, SECRET).profile
    headers["Webhook-Signature"] = signed(BODY, OTHER)["Webhook-Signature"] + " " + headers["Webhook-Signature"]
    assert verify_webhook(headers, BODY, SECRET).profile


def test_body_that_is_not_ascii_is_verified() -> None:
    body = '{"full_name": "Žofia 李"}'.encode()
    delivery = verify_webhook(signed(body), body, SECRET)
    assert delivery.profile is not None
    assert delivery.profile["full_name"] == "Žofia 李"


def test_other_deliveries_are_rejected() -> None:
    good = signed(BODY)
    rejected = {
        "no headers": ({}, BODY),
        "changed body": (good, BODY + b" "),
        "changed ID": ({**good, "Webhook-Id": "msg_2"}, BODY),
        "changed time": ({**good, "Webhook-Timestamp": str(int(time.time()) + 1)}, BODY),
        "other secret": (signed(BODY, OTHER), BODY),
        "too old": (signed(BODY, sent=time.time() - 301), BODY),
        "too new": (signed(BODY, sent=time.time() + 310), BODY),
        "no time": ({**good, "Webhook-Timestamp": "now"}, BODY),
        "infinite time": ({**good, "Webhook-Timestamp": "inf"}, BODY),
        "other version": ({**good, "Webhook-Signature": "v2" + good["Webhook-Signature"][2:]}, BODY),
        "no version": ({**good, "Webhook-Signature": good["Webhook-Signature"][3:]}, BODY),
        "no base64": ({**good, "Webhook-Signature": "v1,A"}, BODY),
        "empty signature": ({**good, "Webhook-Signature": "v1,"}, BODY),
        "no UTF-8": (signed(b"\xff"), b"\xff"),
    }
    for name, (headers, body) in rejected.items():
        assert not is_accepted(headers, body), name
    with pytest.raises(WebhookVerificationError, match="no secret"):
        verify_webhook(good, BODY)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!", "whsec_é", "whsec_A"])
def test_invalid_secret_is_an_error_without_the_secret(secret: str) -> None:
    with pytest.raises(ValueError, match="^invalid webhook secret: it must be whsec_ and base64$"):
        verify_webhook(signed(BODY), BODY, secret)


def test_verified_body_must_be_an_object() -> None:
    for body in (b"[]", b"x"):
        with pytest.raises(ValueError, match="decode webhook|Expecting value"):
            verify_webhook(signed(body), body, SECRET)
