// Package endpoint asks a vision-language model behind an OpenAI-compatible server, such as vLLM, SGLang, llama.cpp or Ollama,
// for completions. It can take the Verifier's place in a run: it neither scores nor trains.
package endpoint
