// Package model asks a language model that speaks the chat-completions protocol
// of OpenAI (Ollama, llama.cpp, vLLM, hosted ones) for structured answers.
//
// [Client.Complete] returns JSON that is valid under the schema of the request, or
// an [AbstainError]: nothing that was not validated here ever comes out, whatever
// the server claims to enforce. An invalid answer is asked to be mended once.
//
// Data is hostile. Instructions are the caller's own; data is put in a message of its
// own between marks that nobody can foresee, with the order to follow nothing in
// it. The model is given no tools, and its answer is data as well.
//
// The server has one circuit breaker, a bound of calls at a time, a time limit for
// each call and a bound on the size of its answers. Neither data nor answers are
// logged.
package model
