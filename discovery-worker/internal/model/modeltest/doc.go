// Package modeltest serves the chat-completions protocol from a script, over real
// HTTP, and misbehaves where the script says so.
package modeltest
