package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Wire format: the chat completions of OpenAI's API, as far as compatible servers agree.
type (
	completionRequest struct {
		Model          string          `json:"model"`
		Messages       []message       `json:"messages"`
		Temperature    *float64        `json:"temperature,omitempty"`
		ResponseFormat *responseFormat `json:"response_format,omitempty"`
	}
	message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	responseFormat struct {
		Type       string       `json:"type"`
		JSONSchema outputSchema `json:"json_schema"`
	}
	outputSchema struct {
		Name   string         `json:"name"`
		Strict bool           `json:"strict"`
		Schema jsontext.Value `json:"schema"`
	}
	completion struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
)

// Parameters that not every server supports.
const (
	parameterFormat      = "response_format"
	parameterTemperature = "temperature"
)

// call requests one completion.
func (c *Client) call(ctx context.Context, r Request, messages []message) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, errTimeout)
	defer cancel()
	in := completionRequest{Model: c.cfg.Name, Messages: messages}
	if !c.isUnsupported(parameterTemperature) {
		in.Temperature = new(float64)
	}
	if !c.isUnsupported(parameterFormat) {
		in.ResponseFormat = &responseFormat{Type: "json_schema",
			JSONSchema: outputSchema{Name: r.Task, Strict: !r.Loose, Schema: r.Schema}}
	}
	out, err := c.post(ctx, in)
	if err != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			return "", fmt.Errorf("%w of %v", errTimeout, c.cfg.Timeout)
		}
		return "", err
	}
	c.metrics.tokens.WithLabelValues("prompt").Add(float64(max(0, out.Usage.PromptTokens)))
	c.metrics.tokens.WithLabelValues("completion").Add(float64(max(0, out.Usage.CompletionTokens)))
	if len(out.Choices) == 0 {
		return "", answerError{Invalid, "the response has no choices"}
	}
	choice := out.Choices[0]
	switch {
	case choice.Message.Refusal != "" || choice.FinishReason == "content_filter":
		return "", answerError{Refused, "the model refused to answer"}
	case choice.FinishReason == "length":
		return "", answerError{TooLarge, "the model's answer was cut off at its limit of tokens"}
	}
	return choice.Message.Content, nil
}

// post makes one HTTP call. Its errors contain neither the response nor the address.
func (c *Client) post(ctx context.Context, in completionRequest) (*completion, error) {
	body, err := json.Marshal(in, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: invalid URL", errConnection)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%w: %w", errConnection, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errConnection, err)
	case int64(len(answer)) > c.cfg.MaxAnswerBytes:
		return nil, answerError{TooLarge,
			fmt.Sprintf("the response is larger than %d bytes", c.cfg.MaxAnswerBytes)}
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, c.status(resp, answer)
	}
	out := new(completion)
	// The JSON of some servers is not strictly valid. The model's answer is validated later.
	if err := json.Unmarshal(answer, out, jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: the response is not a chat completion", errConnection)
	}
	return out, nil
}

// status classifies an unsuccessful HTTP status.
func (c *Client) status(resp *http.Response, body []byte) *statusError {
	out := &statusError{
		code: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After")),
		busy: resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable,
	}
	if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity {
		for name, pattern := range map[string]*regexp.Regexp{parameterFormat: formatPattern,
			parameterTemperature: temperaturePattern} {
			if pattern.Match(body) && !c.isUnsupported(name) {
				out.unsupported = name
			}
		}
	}
	return out
}

var (
	formatPattern      = regexp.MustCompile(`(?i)response_format|json_schema`)
	temperaturePattern = regexp.MustCompile(`(?i)temperature`)
)

// retryAfter parses a Retry-After header. It returns 0 if it is missing or invalid.
func retryAfter(header string) time.Duration {
	if n, err := strconv.ParseFloat(strings.TrimSpace(header), 64); err == nil && n > 0 && n < 1e6 {
		return time.Duration(n * float64(time.Second))
	}
	if t, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}
