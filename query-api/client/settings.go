package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
)

// GetWebhook returns the webhook settings of the organization, without the text of secrets (GET /v1/webhook).
func (c *Client) GetWebhook(ctx context.Context) (*Response[Webhook], error) {
	return call[Webhook](ctx, c, newGet("/v1/webhook", nil), false)
}

// SetWebhook sets the endpoint for events (PUT /v1/webhook). The response has the text of the first webhook secret, if
// this call created it.
func (c *Client) SetWebhook(ctx context.Context, address string) (*Response[Webhook], error) {
	body, err := json.Marshal(WebhookRequest{URL: address})
	if err != nil {
		return nil, err
	}
	return call[Webhook](ctx, c, &request{method: http.MethodPut, path: "/v1/webhook", body: body}, false)
}

// DeleteWebhook removes the endpoint for events (DELETE /v1/webhook).
func (c *Client) DeleteWebhook(ctx context.Context) (*Response[Webhook], error) {
	return call[Webhook](ctx, c, &request{method: http.MethodDelete, path: "/v1/webhook"}, false)
}

// RotateWebhookSecret creates a webhook secret, whose text only this response has (POST /v1/webhook/secret/rotate).
func (c *Client) RotateWebhookSecret(
	ctx context.Context, rotation RotateWebhookSecretRequest, options ...CallOption,
) (*Response[Webhook], error) {
	return callPost[Webhook](ctx, c, "/v1/webhook/secret/rotate", rotation, false, options)
}

// TestWebhook sends a test event to the endpoint for events (POST /v1/webhook/test).
func (c *Client) TestWebhook(ctx context.Context, options ...CallOption) (*Response[WebhookQueued], error) {
	return callPost[WebhookQueued](ctx, c, "/v1/webhook/test", struct{}{}, false, options)
}

// ListWebhookDeliveries returns a page of the organization's deliveries, newest first (GET /v1/webhook/deliveries).
// [Client.WebhookDeliveries] iterates over all.
func (c *Client) ListWebhookDeliveries(
	ctx context.Context, p ListWebhookDeliveriesParams,
) (*Response[WebhookDeliveries], error) {
	query := url.Values{}
	if p.Status != "" {
		query.Set("status", string(p.Status))
	}
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	return call[WebhookDeliveries](ctx, c, newGet("/v1/webhook/deliveries", query), false)
}

// WebhookDeliveries iterates over the deliveries of the organization, page by page. An error ends the iteration.
func (c *Client) WebhookDeliveries(
	ctx context.Context, p ListWebhookDeliveriesParams,
) iter.Seq2[WebhookDelivery, error] {
	return func(yield func(WebhookDelivery, error) bool) {
		for {
			page, err := c.ListWebhookDeliveries(ctx, p)
			if err != nil {
				yield(WebhookDelivery{}, err)
				return
			}
			for _, d := range page.Value.Deliveries {
				if !yield(d, nil) {
					return
				}
			}
			if p.Cursor = page.Value.NextCursor; p.Cursor == "" {
				return
			}
		}
	}
}

// GetWebhookDelivery returns a delivery with its attempts (GET /v1/webhook/deliveries/{delivery_id}).
func (c *Client) GetWebhookDelivery(ctx context.Context, deliveryID string) (*Response[WebhookDelivery], error) {
	return call[WebhookDelivery](ctx, c, newGet("/v1/webhook/deliveries/"+url.PathEscape(deliveryID), nil), false)
}

// ResendWebhookDelivery sends a delivery of the last seven days again
// (POST /v1/webhook/deliveries/{delivery_id}/resend).
func (c *Client) ResendWebhookDelivery(
	ctx context.Context, deliveryID string, options ...CallOption,
) (*Response[WebhookQueued], error) {
	return callPost[WebhookQueued](ctx, c, "/v1/webhook/deliveries/"+url.PathEscape(deliveryID)+"/resend", struct{}{},
		false, options)
}

// RotateKey creates a key that replaces one, by its public part (POST /v1/keys/{key_id}/rotate). Only this response has
// the new key.
func (c *Client) RotateKey(
	ctx context.Context, keyID string, rotation RotateKeyRequest, options ...CallOption,
) (*Response[RotatedKey], error) {
	return callPost[RotatedKey](ctx, c, "/v1/keys/"+url.PathEscape(keyID)+"/rotate", rotation, false, options)
}
