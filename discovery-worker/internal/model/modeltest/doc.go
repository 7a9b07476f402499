// Package modeltest provides a scripted chat-completions server over real HTTP, which can also
// misbehave.
package modeltest
