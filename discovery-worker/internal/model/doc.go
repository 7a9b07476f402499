// Package model requests structured answers from a language model that implements the
// chat-completions API of OpenAI (Ollama, llama.cpp, vLLM, hosted ones).
//
// [Client.Complete] returns JSON that is valid under the request's schema, or an [AbstainError].
// Every answer is validated here, whatever the server enforces. One repair of an invalid answer is
// requested.
//
// Data is untrusted. It is sent in a message separate from the instructions, between unpredictable
// delimiters, with the instruction not to follow it. The model has no tools, and its answer is
// untrusted data too.
//
// The server has one circuit breaker, and limits for concurrent calls, time per call and response
// size. Neither data nor answers are logged.
package model
