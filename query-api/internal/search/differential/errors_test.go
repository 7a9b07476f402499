package differential_test

import (
	"errors"

	"muster/query-api/internal/search/opensearch"
)

func asStatus(err error, target **opensearch.StatusError) bool { return errors.As(err, target) }
