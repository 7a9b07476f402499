package engine

import "errors"

// sandbox is not supported.
func sandbox(string, string) error { return errors.ErrUnsupported }
