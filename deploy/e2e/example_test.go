//go:build browser || clients || docs

package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exampleOf is the code-host username of somebody who is in both websets.
func exampleOf(t *testing.T, p *platform) string {
	t.Helper()
	_, rest, found := strings.Cut(p.out.String(), `"codehost":"`)
	require.True(t, found, "the welcome has an example")
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
