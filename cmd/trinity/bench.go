package main

// benchCmd compares parts of trinity with references, in one run on the same machine.
type benchCmd struct {
	Engine benchEngineCmd `cmd:"" help:"Matrix products of the CPU engine beside OpenBLAS's."`
	Model  benchModelCmd  `cmd:"" help:"Generation and training steps beside those of PyTorch and transformers."`
	Memory benchMemoryCmd `cmd:"" help:"The most memory that generation and training steps hold, beside what they need."`
}
