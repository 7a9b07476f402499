package signature

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

// ErrNoSecret says that there is nothing to sign with.
var ErrNoSecret = errors.New("the organization has no webhook secret")

// The headers' names as net/http writes them; case does not matter on the wire.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// version is that of the signature scheme.
const version = "v1"

// Bounds of a secret's key in bytes (Standard Webhooks 1.0.0, "Signature scheme").
const (
	minKey = 24
	maxKey = 64
)

// Headers returns the headers of one try at a time: webhook-id, webhook-timestamp
// and webhook-signature with one signature a secret. Secrets are whsec_ and
// base64 of 24 to 64 bytes. The error never shows a secret.
func Headers(secrets []string, id string, at time.Time, body []byte) (http.Header, error) {
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	if id == "" || strings.Contains(id, ".") {
		return nil, errors.New("sign webhook: an id must not be empty or contain a point")
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		encoded, ok := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("sign webhook: secret %d is not whsec_ and base64 of %d to %d bytes", i+1, minKey, maxKey)
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

// sign makes one signature (Standard Webhooks 1.0.0, "Signature scheme"). The
// library's Sign gives the same, and formats the whole body to get there.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return version + "," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
