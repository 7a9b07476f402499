package account

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// A valid key must not be refused as unknown while a service starts.
func TestAuthenticate_ReturnsErrLoadingUntilAccountsAreRead(t *testing.T) {
	d := NewDirectory()
	loaded := make(chan struct{})
	d.loaded = loaded
	key, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(t, err)
	authorization := []string{"Bearer " + key.Reveal()}

	_, err = d.Authenticate(authorization, time.Now())
	require.ErrorIs(t, err, ErrLoading)
	var unauthorized *Unauthorized
	_, err = d.Authenticate(nil, time.Now())
	require.ErrorAs(t, err, &unauthorized, "a missing key is rejected immediately")

	close(loaded)
	_, err = d.Authenticate(authorization, time.Now())
	require.ErrorAs(t, err, &unauthorized)
}
