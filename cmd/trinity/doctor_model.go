package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/trinity-lab/trinity/trainer/config"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// modelFlags ask the doctor about a checkpoint.
type modelFlags struct {
	Model string   `placeholder:"DIR" help:"Report on a checkpoint instead: its parts, its files and the memory that training it takes. Its config.json suffices."`
	From  string   `short:"f" name:"from" default:"trinity-qwen3-vl-8b" placeholder:"PRESET|FILE" help:"Settings to plan for; default: ${default}."`
	Rank  int      `placeholder:"R" help:"LoRA rank to plan for; default: that of the settings."`
	Set   []string `sep:"none" placeholder:"KEY=VALUE" help:"Change a setting, such as threads=2. May be repeated."`
}

// checkpointReport is the --json output.
type checkpointReport struct {
	OK           bool           `json:"ok"` // everything that a run needs is there and fits
	Architecture string         `json:"architecture"`
	Parameters   map[string]int `json:"parameters"` // by part, and their total
	Train        trainReport    `json:"train"`
	Files        []check        `json:"files"`
	Memory       memoryReport   `json:"memory"`
}

type trainReport struct {
	Mode      string `json:"mode"`           // lora or full
	Rank      int    `json:"rank,omitempty"` // of the adapters
	Trainable int    `json:"trainable"`
}

// memoryReport is in bytes.
type memoryReport struct {
	Terms     []memoryTerm `json:"terms"`
	Total     int          `json:"total"`
	Available int          `json:"available,omitempty"` // on this machine; 0 where unknown
	Fits      bool         `json:"fits"`
}

type memoryTerm struct {
	Name    string `json:"name"`
	Formula string `json:"formula"`
	Bytes   int    `json:"bytes"`
}

// inspect reports on the checkpoint. It fails where its config.json cannot be used or a file is damaged; a missing file
// and a lack of memory are findings.
func (f modelFlags) inspect(c *Context) error {
	cfg, err := f.settings()
	if err != nil {
		return usage(err)
	}
	in, err := local.Inspect(f.Model, local.Options{Model: cfg.Model, Verifier: cfg.Verifier.Path, Optimizer: cfg.Optimizer, Threads: cfg.Threads})
	if err != nil {
		return usage(err)
	}
	r := newCheckpointReport(in, cfg)
	_, r.Memory.Available = machineMemory()
	r.Memory.Fits = r.Memory.Available == 0 || r.Memory.Total <= r.Memory.Available
	damaged := 0
	r.OK = r.Memory.Fits
	for _, k := range r.Files {
		r.OK = r.OK && k.Status != "missing" && k.Status != "error"
		if k.Status == "error" {
			damaged++
		}
	}
	if c.JSON {
		err = json.NewEncoder(c.Stdout).Encode(r)
	} else {
		err = r.write(c.Stdout)
	}
	if err == nil && damaged > 0 {
		err = fmt.Errorf("%d of %d files of %q cannot be used; the report says why", damaged, len(r.Files), f.Model)
	}
	return err
}

func (f modelFlags) settings() (spec.Config, error) {
	cfg, err := config.Load(f.From)
	if err == nil {
		err = config.Apply(&cfg, f.Set...)
	}
	if f.Rank != 0 {
		cfg.Model.Train, cfg.Model.LoRA.Rank = "lora", f.Rank
	}
	if err == nil {
		err = cfg.Validate()
	}
	return cfg, err
}

func newCheckpointReport(in *local.Inspection, cfg spec.Config) checkpointReport {
	p := in.Parameters
	r := checkpointReport{Architecture: in.Architecture, Train: trainReport{Mode: cfg.Model.Train, Trainable: in.Trainable},
		Parameters: map[string]int{"vision": p.Vision, "merger": p.Merger, "text": p.Text, "head": p.Head, "total": p.Total()}}
	if cfg.Model.Train == "lora" {
		r.Train.Rank = cfg.Model.LoRA.Rank
	}
	for _, f := range in.Files {
		k := check{Name: f.Name, Status: "ok", Found: f.Found}
		switch {
		case errors.Is(f.Err, fs.ErrNotExist) && f.Optional:
			k.Status, k.Found = "warning", f.Err.Error()
		case errors.Is(f.Err, fs.ErrNotExist):
			k.Status, k.Found, k.Mend = "missing", f.Err.Error(), "put it into the folder; a run needs it"
		case f.Err != nil:
			k.Status, k.Found = "error", f.Err.Error()
		}
		r.Files = append(r.Files, k)
	}
	r.Memory.Total = in.Memory.Bytes()
	for _, t := range in.Memory {
		var factors []string
		for _, x := range t.Factors {
			factors = append(factors, grouped(x.N)+" "+x.Unit)
		}
		r.Memory.Terms = append(r.Memory.Terms, memoryTerm{t.Name, strings.Join(factors, " x "), t.Bytes()})
	}
	return r
}

func (r checkpointReport) write(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s, %s parameters\n", r.Architecture, grouped(r.Parameters["total"]))
	for _, part := range []string{"vision", "merger", "text", "head"} {
		fmt.Fprintf(out, "  %-10s%15s\n", part, grouped(r.Parameters[part]))
	}
	if r.Train.Mode == "lora" {
		fmt.Fprintf(out, "  LoRA, rank %d: %s parameters to train\n", r.Train.Rank, grouped(r.Train.Trainable))
	} else {
		fmt.Fprintf(out, "  full fine-tuning: %s parameters to train\n", grouped(r.Train.Trainable))
	}
	fmt.Fprintln(out, "\nfiles")
	for _, k := range r.Files {
		fmt.Fprintf(out, "  %-8s %-24s  %s\n", k.Status, k.Name, strings.ReplaceAll(k.Found, "\n", "\n"+strings.Repeat(" ", 37)))
	}
	fmt.Fprintln(out, "\nmemory")
	for _, t := range r.Memory.Terms {
		fmt.Fprintf(out, "  %-12s%11s  %s\n", t.Name, binarySize(t.Bytes), t.Formula)
	}
	fmt.Fprintf(out, "  %-12s%11s  ", "total", binarySize(r.Memory.Total))
	switch {
	case r.Memory.Available == 0:
		fmt.Fprintln(out, "how much this machine has is unknown")
	case r.Memory.Fits:
		fmt.Fprintf(out, "fits: %s are available here\n", binarySize(r.Memory.Available))
	default:
		fmt.Fprintf(out, "does not fit: %s are available here\n", binarySize(r.Memory.Available))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// binarySize writes a number of bytes.
func binarySize(bytes int) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
