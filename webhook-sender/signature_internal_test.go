package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// The vector is published with the Standard Webhooks libraries.
func TestSignatureHeaders_MatchPublishedVector(t *testing.T) {
	h, err := signatureHeaders([]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`))
	require.NoError(t, err)
	require.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", h.Get("webhook-id"))
	require.Equal(t, "1614265330", h.Get("webhook-timestamp"))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", h.Get("webhook-signature"))
}

// testSecret returns a whsec_ secret of n equal bytes.
func testSecret(b byte, n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, n))
}

// During a rotation a receiver with either secret accepts the headers, with the library and with
// the specification's formula. Tampered deliveries are rejected.
func TestSignatureHeaders_BothSecretsVerifyDuringRotation(t *testing.T) {
	now := time.Now()
	body := []byte("{\"a\": \"\u00e9\\n\"}\n ")
	older, newer := testSecret(1, 24), testSecret(2, 64)
	h, err := signatureHeaders([]string{newer, older}, "d-1_A", now, body)
	require.NoError(t, err)
	signatures := strings.Split(h.Get("webhook-signature"), " ")
	require.Len(t, signatures, 2)
	for i, s := range []string{newer, older} {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		require.NoError(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "."))
		mac.Write(body)
		require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), signatures[i])

		receiver, err := standardwebhooks.NewWebhook(s)
		require.NoError(t, err)
		require.NoError(t, receiver.Verify(body, h))
		require.Error(t, receiver.Verify(append([]byte(" "), body...), h))
		for name, value := range map[string]string{
			"webhook-id": "d-2", "webhook-timestamp": "1", "webhook-signature": "v1," +
				base64.StdEncoding.EncodeToString(make([]byte, 32)),
		} {
			tampered := h.Clone()
			tampered.Set(name, value)
			require.Error(t, receiver.Verify(body, tampered), name)
		}
	}
	stranger, err := standardwebhooks.NewWebhook(testSecret(3, 32))
	require.NoError(t, err)
	require.Error(t, stranger.Verify(body, h))
}

func TestSignatureHeaders_RejectsInvalidInput(t *testing.T) {
	_, err := signatureHeaders(nil, "a", time.Now(), nil)
	require.ErrorIs(t, err, errNoSecret)
	for _, bad := range []string{"", "whsec_", "whsec_%%%", testSecret(1, 23), testSecret(1, 65),
		strings.TrimPrefix(testSecret(1, 32), "whsec_")} {
		_, err := signatureHeaders([]string{bad}, "a", time.Now(), nil)
		require.ErrorContains(t, err, "invalid secret 1")
		if len(bad) > 12 {
			require.NotContains(t, err.Error(), bad[6:])
		}
	}
	for _, id := range []string{"", "a.b"} {
		_, err := signatureHeaders([]string{testSecret(1, 32)}, id, time.Now(), nil)
		require.Error(t, err)
	}
}
