package main

// benchCmd compares parts of trinity with references, in one run on the same machine.
type benchCmd struct {
	Engine  benchEngineCmd  `cmd:"" help:"Matrix products of the CPU engine beside OpenBLAS's."`
	Model   benchModelCmd   `cmd:"" help:"Generation and training steps beside those of PyTorch and transformers."`
	Context benchContextCmd `cmd:"" help:"Time a token beside the number of tokens before it."`
	Prefix  benchPrefixCmd  `cmd:"" help:"Prompt tokens computed, of those asked for, in steps of the wind tunnel."`
	Memory  benchMemoryCmd  `cmd:"" help:"The most memory that generation and training steps hold, beside what they need."`
	All     benchAllCmd     `cmd:"" help:"Everything, as one page in Markdown."`
}
