package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Digest is the SHA-256, hexadecimal, of what a run computed: the committed run, candidate, judgement, rollout, dispute
// and step records without sequence numbers, clock readings, the run's id, the program's version, the thread count and the decode batch.
// It is the same for a run that was stopped or killed and resumed as for one that never was.
func Digest(dir string) (string, error) { return DigestOf(ReadCommitted(dir)) }

// DigestOf is Digest over committed records from elsewhere, such as a database.
func DigestOf(committed iter.Seq2[spec.Record, error]) (string, error) {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	enc.SetEscapeHTML(false)
	for r, err := range committed {
		if err != nil {
			return "", err
		}
		data := timeless(r.Data)
		if data == nil {
			continue
		}
		line := struct {
			Kind spec.Kind `json:"kind"`
			Step int       `json:"step"`
			Data any       `json:"data"`
		}{r.Kind, r.Step, data}
		if err := enc.Encode(line); err != nil {
			return "", fmt.Errorf("digest record %d: %w", r.Seq, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// timeless returns a record's data without what differs between equal runs, or nil for kinds that describe the process.
func timeless(data any) any {
	switch d := data.(type) {
	case *spec.Run:
		c := *d
		c.ID, c.Version, c.Config.Threads, c.Config.Model.DecodeBatch, c.Config.Model.GradientCheckpointing = "", "", 0, 0, false
		return &c
	case *spec.Judgement:
		c := *d
		c.Latency = 0
		return &c
	case *spec.Candidate, *spec.Rollout, *spec.Dispute:
		return d
	case *spec.Step:
		c := spec.Step{Metrics: make(map[string]spec.Float, len(d.Metrics)), Tokens: d.Tokens}
		for name, x := range d.Metrics {
			if !strings.HasPrefix(name, spec.MetricSecondsPrefix) && !strings.HasPrefix(name, spec.MetricTokensPerSecondPrefix) {
				c.Metrics[name] = x
			}
		}
		return &c
	}
	return nil
}
