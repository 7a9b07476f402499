//go:build opensearch

package differential_test

import (
	"errors"

	"muster/query-api/opensearchtest"
)

func asStatus(err error, target **opensearchtest.StatusError) bool { return errors.As(err, target) }
