package client

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Delivery is the payload of a webhook: a profile, or why it failed.
type Delivery struct {
	// RequestID identifies the context call, the same for every attempt.
	RequestID string
	// Profile is nil if the task failed.
	Profile *ContextProfile
	// Failure is the detail of a failed task.
	Failure string
}

// VerifyWebhook verifies the signature and the age of a delivery (Standard Webhooks 1.0.0) and decodes it. body is the
// unparsed request body; secrets are the webhook secrets of the organization, two during a rotation.
func VerifyWebhook(header http.Header, body []byte, secrets ...string) (*Delivery, error) {
	err := errors.New("no secret")
	for _, secret := range secrets {
		w, invalid := standardwebhooks.NewWebhook(secret)
		if invalid != nil {
			return nil, fmt.Errorf("parse webhook secret: %w", invalid)
		}
		if err = w.Verify(body, header); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("verify webhook: %w", err)
	}
	d := &Delivery{RequestID: header.Get(standardwebhooks.HeaderWebhookID)}
	var failed Error
	if json.Unmarshal(body, &failed) == nil && failed.Detail != "" {
		d.Failure = failed.Detail
		return d, nil
	}
	if err := json.Unmarshal(body, &d.Profile); err != nil {
		return nil, fmt.Errorf("decode webhook: %w", err)
	}
	return d, nil
}
