package trainer

import (
	"fmt"
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
		images: c,
		at: func(i int) (trinity.Image, error) {
			im, err := c.At(i)
			return trinity.Image{SHA256: im.SHA256, Bytes: im.Bytes}, err
		},
		oracle: c,
		name:   fmt.Sprintf("%d wind-tunnel figures", c.Len()),
		close:  func() {},
	}, nil
}
