// Package windtunnel draws small figures from real public tables and knows the truth about them: a question grammar over four difficulty
// levels with exact answers and chains of reasoning, an oracle that measures the roles of a run, and the supervised turns that
// teach a tiny vision-language model to speak each role's format. Every random choice comes from the generator that is passed in.
package windtunnel
