package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// errNoSecret is returned if there is no secret to sign with.
var errNoSecret = errors.New("the organization has no webhook secret")

// Header names in canonical form; HTTP header names are case-insensitive.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// schemeVersion is the version of the signature scheme.
const schemeVersion = "v1"

// Limits of a secret's key in bytes (Standard Webhooks 1.0.0, "Signature scheme").
const (
	minKeyBytes = 24
	maxKeyBytes = 64
)

// signatureHeaders returns the headers of one attempt according to Standard Webhooks 1.0.0:
// webhook-id, webhook-timestamp, and webhook-signature with one signature for each secret, newest
// first. The signed content is the delivery ID, the Unix timestamp of the attempt in seconds and the
// exact body, joined by dots. A secret is "whsec_" followed by base64 of 24 to 64 bytes. It returns
// errNoSecret if there is none. Errors never contain a secret.
func signatureHeaders(secrets []string, id string, at time.Time, body []byte) (http.Header, error) {
	if len(secrets) == 0 {
		return nil, errNoSecret
	}
	if id == "" || strings.Contains(id, ".") {
		return nil, errors.New("sign webhook: the ID must not be empty or contain a dot")
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		encoded, ok := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minKeyBytes || len(key) > maxKeyBytes {
			return nil, fmt.Errorf("sign webhook: invalid secret %d: must be \"whsec_\" and base64 of %d to %d bytes",
				i+1, minKeyBytes, maxKeyBytes)
		}
		signatures[i] = sign(key, id, timestamp, body)
	}
	values := [...]string{id, timestamp, strings.Join(signatures, " ")}
	return http.Header{
		headerID:        values[0:1:1],
		headerTimestamp: values[1:2:2],
		headerSignature: values[2:3:3],
	}, nil
}

// sign returns one signature (Standard Webhooks 1.0.0, "Signature scheme"). It equals that of the
// library's Sign, without formatting the whole body.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return schemeVersion + "," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
