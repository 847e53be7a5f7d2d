package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

//go:embed bench_torch.py
var torchScript string

// errNoTorch says how to get the reference; the benchmark goes on without it.
var errNoTorch = errors.New("PyTorch and transformers were not found, so only our own figures are shown; for the comparison " +
	"give --python an interpreter that has them: python3 -m venv DIR && DIR/bin/pip install torch transformers peft")

// torch is a Python process that runs PyTorch and transformers on our workloads.
type torch struct {
	versions string
	process  *python
}

// startTorch returns errNoTorch where Python or a package is missing. The process ends with ctx or Close.
func startTorch(ctx context.Context, interpreter string) (*torch, error) {
	p, greeting, err := startPython(ctx, interpreter, torchScript, os.Environ())
	if err != nil {
		return nil, errNoTorch
	}
	var hello struct{ Found string }
	if err := json.Unmarshal([]byte(greeting), &hello); err != nil || hello.Found == "" {
		p.close()
		return nil, errNoTorch
	}
	return &torch{hello.Found, p}, nil
}

// torchPicture is an image as the model reads it: float32 patches, little endian, in base64, and how they lie.
type torchPicture struct {
	Pixels []byte `json:"pixels"`
	Grid   [3]int `json:"grid"` // frames, rows and columns of patches
}

// torchSequence is a prompt of Prompt tokens followed by a completion.
type torchSequence struct {
	IDs     []int32       `json:"ids"`
	Prompt  int           `json:"prompt"`
	Picture *torchPicture `json:"picture,omitempty"`
}

// torchOpen loads a checkpoint. Train is "full", "lora" or, for inference, empty.
type torchOpen struct {
	Op        string  `json:"op"`
	Dir       string  `json:"dir"`
	Threads   int     `json:"threads"`
	Attention string  `json:"attention"` // "eager" or "sdpa"
	Train     string  `json:"train"`
	Rank      int     `json:"rank"`
	Rate      float64 `json:"rate"`
}

// torchGenerate completes a prompt N times by New tokens.
type torchGenerate struct {
	Op      string        `json:"op"`
	IDs     []int32       `json:"ids"`
	Picture *torchPicture `json:"picture"`
	N       int           `json:"n"`
	New     int           `json:"new"`
}

// torchStep does one optimiser update over the sequences, as one padded batch.
type torchStep struct {
	Op        string          `json:"op"`
	Sequences []torchSequence `json:"sequences"`
}

type torchAnswer struct {
	Seconds   float64
	Loss      float64
	Trainable int
	Error     string
}

// ask sends a request and waits for its answer, and then for the reference's idle threads to fall asleep.
func (t *torch) ask(request any) (torchAnswer, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return torchAnswer{}, err
	}
	text, err := t.process.ask(string(line))
	if err != nil {
		return torchAnswer{}, fmt.Errorf("ask PyTorch: %w", err)
	}
	var a torchAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("ask PyTorch: unexpected answer %q", text)
	}
	if a.Error != "" {
		return a, fmt.Errorf("PyTorch failed: %s", a.Error)
	}
	time.Sleep(250 * time.Millisecond)
	return a, nil
}

// Close ends the process.
func (t *torch) Close() { t.process.close() }
