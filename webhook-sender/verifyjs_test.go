//go:build node

package webhook_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	webhook "muster/webhook-sender"
)

// verification is one input line of verifyjs/verify.mjs.
type verification struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`

	name     string
	accepted bool
}

// newVerification returns the verification of a received request.
func newVerification(name string, r received, secret string, accepted bool) verification {
	headers := make(map[string]string)
	for _, h := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		headers[h] = r.header.Get(h)
	}
	return verification{Secret: secret, Headers: headers, Body: bytes.Clone(r.body), name: name, accepted: accepted}
}

// The npm package standardwebhooks accepts deliveries under both secrets during a rotation, and
// rejects tampered ones.
func TestService_StandardWebhooksJavaScriptAcceptsSignatures(t *testing.T) {
	c := newCluster(t)
	first := c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	c.start(t, nil)
	c.send(t, task("before", "org1", r.URL))
	c.awaitAttempts(t, "before", 1)

	s, err := webhook.OpenSecrets(t.Context(), webhook.SecretsConfig{Bus: c.bus, Key: key()})
	require.NoError(t, err)
	rotated, err := s.Rotate(t.Context(), "org1", time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	second := rotated.Secret
	rotationID := ""
	// Wait until the sender has the new secret.
	for n := 0; rotationID == ""; n++ {
		require.Less(t, n, 200, "the sender does not use the new secret")
		id := fmt.Sprintf("during-%d", n)
		c.send(t, task(id, "org1", r.URL))
		c.awaitAttempts(t, id, 1)
		if strings.Contains(r.requestsFor(id)[0].header.Get("webhook-signature"), " ") {
			rotationID = id
		}
	}

	before, rotating := r.requestsFor("before")[0], r.requestsFor(rotationID)[0]
	cases := []verification{
		newVerification("before", before, first, true),
		newVerification("before, new secret", before, second, false),
		newVerification("rotating, old secret", rotating, first, true),
		newVerification("rotating, new secret", rotating, second, true),
		newVerification("other secret", rotating, "whsec_"+strings.Repeat("A", 43)+"=", false),
	}
	for name, change := range map[string]func(*verification){
		"body":         func(v *verification) { v.Body[len(v.Body)/2] ^= 1 },
		"shorter body": func(v *verification) { v.Body = v.Body[:len(v.Body)-1] },
		"id":           func(v *verification) { v.Headers["webhook-id"] += "x" },
		"timestamp": func(v *verification) {
			v.Headers["webhook-timestamp"] = fmt.Sprint(time.Now().Add(time.Second * 7).Unix())
		},
		"old timestamp": func(v *verification) {
			v.Headers["webhook-timestamp"] = fmt.Sprint(time.Now().Add(-time.Hour).Unix())
		},
		"signature": func(v *verification) {
			v.Headers["webhook-signature"] = "v1,AAAA" + v.Headers["webhook-signature"][7:47]
		},
		"no signature": func(v *verification) { delete(v.Headers, "webhook-signature") },
		"another scheme": func(v *verification) {
			v.Headers["webhook-signature"] = strings.ReplaceAll(v.Headers["webhook-signature"], "v1,", "v0,")
		},
	} {
		v := newVerification("tampered "+name, rotating, second, false)
		change(&v)
		cases = append(cases, v)
	}

	var input bytes.Buffer
	for _, v := range cases {
		line, err := json.Marshal(v)
		require.NoError(t, err)
		input.Write(append(line, '\n'))
	}
	cmd := exec.CommandContext(t.Context(), "node", "verify.mjs")
	cmd.Dir = "verifyjs"
	cmd.Stdin = &input
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, complaints.String())
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, answers, len(cases))
	for i, v := range cases {
		require.Equal(t, v.accepted, answers[i] == "accepted", "%s: %s", v.name, answers[i])
	}
}
