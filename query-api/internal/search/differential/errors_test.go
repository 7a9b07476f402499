//go:build opensearch

package differential_test

import (
	"errors"

	"muster/query-api/opensearch"
)

func asStatus(err error, target **opensearch.StatusError) bool { return errors.As(err, target) }
