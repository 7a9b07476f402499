package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadLibraries_FindsTheNativeEngine(t *testing.T) {
	libraries, err := readLibraries("../..")
	require.NoError(t, err)
	require.NotEmpty(t, libraries)
}
