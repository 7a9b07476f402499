package opensearch

import (
	"context"
	"fmt"
	"net/http"
)

// ItemResult is the outcome of one item of a bulk request.
type ItemResult struct {
	Status int
	// Type is the type of the item's error, "" if it succeeded.
	Type string
}

// IsTransient reports whether the same item may succeed later.
func (r ItemResult) IsTransient() bool {
	return r.Status == http.StatusTooManyRequests || r.Status >= http.StatusInternalServerError
}

// Bulk sends a bulk request, NDJSON of actions and documents, and returns the results of its n items in their order.
// The actions must name aliases: an index that does not exist is not created.
func (c *Client) Bulk(ctx context.Context, body []byte, n int) ([]ItemResult, error) {
	var res struct {
		Items []map[string]struct {
			Status int `json:"status"`
			Error  *struct {
				Type string `json:"type"`
			} `json:"error"`
		} `json:"items"`
	}
	const path = "/_bulk?require_alias=true&filter_path=items.*.status,items.*.error.type"
	if err := c.Do(ctx, http.MethodPost, path, body, &res); err != nil {
		return nil, err
	}
	if len(res.Items) != n {
		return nil, fmt.Errorf("opensearch: a bulk response has %d items, not %d", len(res.Items), n)
	}
	out := make([]ItemResult, n)
	for i, item := range res.Items {
		for _, r := range item {
			out[i].Status = r.Status
			if r.Error != nil {
				out[i].Type = r.Error.Type
			}
		}
	}
	return out, nil
}
