package engine

import "context"

// setTopdirFlags does nothing: it is specific to ext4.
func setTopdirFlags(context.Context, string) error { return nil }
