package trainer

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-lab/trinity/trainer/corpus"
	"github.com/trinity-lab/trinity/trainer/imageproc"
	"github.com/trinity-lab/trinity/trainer/loop/trinity"
	"github.com/trinity-lab/trinity/trainer/spec"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// source is a run's corpus, and its truth where there is one.
type source struct {
	images
	at      func(i int) (trinity.Image, error)
	oracle  trinity.Oracle // nil for a folder
	name    string
	skipped int
	keep    string // folder that receives every image used, by its hash; the run directory is complete without the corpus
	close   func()
}

// images is what both kinds of corpus share.
type images interface {
	Len() int
	Draw(seed uint64, step, n int) []int
}

// At implements trinity.Corpus.
func (s *source) At(i int) (trinity.Image, error) {
	im, err := s.at(i)
	if err != nil {
		return im, err
	}
	return im, keepImage(s.keep, im)
}

// keepImage writes an image to dir under its hash, whole or not at all, unless it is there.
func keepImage(dir string, im trinity.Image) error {
	path := filepath.Join(dir, im.SHA256)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep image: %w", err)
	}
	if err := os.WriteFile(path+".partial", im.Bytes, 0o644); err != nil {
		return fmt.Errorf("keep image: %w", err)
	}
	return os.Rename(path+".partial", path)
}

func openSource(cfg spec.Config) (*source, error) {
	if name, ok := strings.CutPrefix(cfg.Corpus.Path, spec.Builtin); ok {
		if name != "windtunnel" {
			return nil, fmt.Errorf("corpus.path: built-in corpus %q is unknown; use %swindtunnel or a folder", name, spec.Builtin)
		}
		return openWindtunnel(cfg)
	}
	c, err := corpus.Open(cfg.Corpus.Path, corpus.Options{Limits: imageproc.Limits{}})
	if err != nil {
		return nil, fmt.Errorf("corpus.path: %w", err)
	}
	return &source{
		images: c,
		at: func(i int) (trinity.Image, error) {
			im, err := c.At(i)
			return trinity.Image{SHA256: im.SHA256, Bytes: im.Bytes}, err
		},
		name:    fmt.Sprintf("%d images in %s", c.Len(), cfg.Corpus.Path),
		skipped: len(c.Skipped()),
		close:   func() { _ = c.Close() },
	}, nil
}

func openWindtunnel(cfg spec.Config) (*source, error) {
	c, err := windtunnel.NewCorpus(cfg.Seed, cfg.Corpus.Size)
	if err != nil {
		return nil, fmt.Errorf("corpus.path: %w", err)
	}
	return &source{
		images: figures(c.Len()),
		at: func(i int) (trinity.Image, error) {
			im, err := c.At(i)
			return trinity.Image{SHA256: im.SHA256, Bytes: im.Bytes}, err
		},
		oracle: truth{c},
		name:   fmt.Sprintf("%d wind-tunnel figures", c.Len()),
		close:  func() {},
	}, nil
}

// figures is a number of figures to draw from.
type figures int

func (f figures) Len() int { return int(f) }

// Draw takes figures from one permutation after another, so that none comes twice before the others have had their turn.
func (f figures) Draw(seed uint64, step, n int) []int {
	n = min(n, int(f))
	steps := int(f) / n
	key := sha256.Sum256(fmt.Appendf(nil, "figures\x00%d\x00%d", seed, step/steps))
	from := step % steps * n
	return rand.New(rand.NewChaCha8(key)).Perm(int(f))[from : from+n]
}

// truth is the wind tunnel's oracle.
type truth struct{ corpus *windtunnel.Corpus }

// Judge implements trinity.Oracle.
func (t truth) Judge(image, question, answer string) spec.OracleVerdict {
	scene, ok := t.corpus.Scene(image)
	if !ok {
		return spec.OracleVerdict{}
	}
	v := scene.Judge(question, answer)
	return spec.OracleVerdict{Parsed: v.Parsed, Grounded: v.Grounded, Right: v.AnswerRight, Level: v.Level, Answer: v.Answer}
}

// GradeReasoning implements trinity.Oracle.
func (t truth) GradeReasoning(image, question, reasoning string) (float64, bool) {
	scene, ok := t.corpus.Scene(image)
	if !ok {
		return 0, false
	}
	score, _, ok := scene.GradeReasoning(question, reasoning)
	return score, ok
}
