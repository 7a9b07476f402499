package event_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// Errors do not contain the address.
func TestParseEndpoint_NormalizesAddressOrExplains(t *testing.T) {
	long := "https://h/" + strings.Repeat("x", event.MaxWebhookURL)
	for address, want := range map[string]string{
		"https://Hooks.Example":                "https://hooks.example:443/",
		"HTTPS://hooks.example./":              "https://hooks.example:443/",
		"https://hooks.example:443/?token=x":   "https://hooks.example:443/",
		"http://hooks.example/A%20b":           "http://hooks.example:80/A%20b",
		"https://hooks.example:8443/a":         "https://hooks.example:8443/a",
		"https://hooks.example:65535/":         "https://hooks.example:65535/",
		"https://hooks.example:1/":             "https://hooks.example:1/",
		"https://[2001:DB8:0:0::1]/":           "https://[2001:db8::1]:443/",
		long[:event.MaxWebhookURL]:             "https://h:443" + long[len("https://h"):event.MaxWebhookURL],
		"":                                     "is empty",
		long[:event.MaxWebhookURL+1]:           "is longer than",
		"https://[secret/":                     "is not a URL",
		"ftp://secret.example/":                "must begin with https://",
		"secret.example/hooks":                 "must begin with https://",
		"https://secret:secret@hooks.example/": "must not carry a user name",
		"https://secret.example/#":             "must not have a fragment",
		"https://secret.example/#x":            "must not have a fragment",
		"https:secret":                         "has no host",
		"https:///secret":                      "has no host",
		"https://:443/secret":                  "has no host",
		"https://secret.example:/":             "has an empty port",
		"https://secret.example:0/":            "has a port",
		"https://secret.example:65536/":        "has a port",
	} {
		e, err := event.ParseEndpoint("o", address)
		if !strings.HasPrefix(want, "http") {
			require.ErrorContains(t, err, "webhook address "+want)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		require.NoError(t, err, address)
		require.Equal(t, event.Endpoint{OrganizationID: "o", Address: want}, e)
	}
	_, err := event.ParseEndpoint("", "https://hooks.example/")
	require.ErrorContains(t, err, "without organization")
}

func TestValidDeliveryID_AllowsSafeCharactersOnly(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "_": true, "-": true,
		strings.Repeat("x", event.MaxDeliveryID): true, strings.Repeat("x", event.MaxDeliveryID+1): false,
		"": false, "a.b": false, "a/b": false, "a:b": false, "a@b": false, "a[b": false, "a`b": false, "a{b": false,
		"ä": false, "a\n": false,
	} {
		require.Equal(t, want, event.ValidDeliveryID(id), "%q", id)
	}
}
