package windtunnel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/trinity-lab/trinity/trainer/corpus"
)

// Corpus is a sequence of figures drawn on demand. The figures of a seed are the same each time; At may be called concurrently.
type Corpus struct {
	seed   uint64
	n      int
	stream uint64
	folder string
	tables []Table

	mu    sync.Mutex
	known map[string]int // SHA-256 of a figure to its index

	search sync.Mutex
	drawn  int // figures 0..drawn-1 are known; guarded by search
}

// Streams keep the random numbers of the two splits apart.
const (
	trainingStream = 0x7472_6169_6e00_0000
	heldOutStream  = 0x6865_6c64_0000_0000
)

// NewCorpus is a corpus of n training figures. It fails only if the embedded tables cannot be read.
func NewCorpus(seed uint64, n int) (*Corpus, error) { return newCorpus(seed, n, Training) }

// NewHeldOutCorpus is a corpus of n figures from rows and random streams that no training figure uses.
func NewHeldOutCorpus(seed uint64, n int) (*Corpus, error) { return newCorpus(seed, n, HeldOut) }

func newCorpus(seed uint64, n int, split Split) (*Corpus, error) {
	tables, err := LoadTables(split)
	if err != nil {
		return nil, fmt.Errorf("wind-tunnel corpus: %w", err)
	}
	c := &Corpus{seed: seed, n: n, stream: trainingStream, folder: "train", tables: tables, known: map[string]int{}}
	if split == HeldOut {
		c.stream, c.folder = heldOutStream, "held-out"
	}
	return c, nil
}

// Len is the number of figures.
func (c *Corpus) Len() int { return c.n }

// Draw returns the n figures of a step, as indices for At, drawn as those of a folder are.
func (c *Corpus) Draw(seed uint64, step, n int) []int { return corpus.Draw(c.n, seed, step, n) }

// SceneAt is the truth of figure i, and the generator that draws it from there on: its pixels, then anything about it.
func (c *Corpus) SceneAt(i int) (Scene, *rand.Rand) {
	rng := rand.New(rand.NewPCG(c.seed, c.stream+uint64(i)))
	return Generate(rng, c.tables), rng
}

// At draws figure i as a PNG.
func (c *Corpus) At(i int) (corpus.Image, error) {
	if i < 0 || i >= c.n {
		return corpus.Image{}, fmt.Errorf("figure %d is outside the corpus of %d", i, c.n)
	}
	scene, rng := c.SceneAt(i)
	b, err := scene.PNG(rng)
	if err != nil {
		return corpus.Image{}, fmt.Errorf("figure %d: %w", i, err)
	}
	digest := sha256.Sum256(b)
	sum := hex.EncodeToString(digest[:])
	c.mu.Lock()
	c.known[sum] = i
	c.mu.Unlock()
	return corpus.Image{SHA256: sum, Path: fmt.Sprintf("windtunnel/%s/%d/%06d.png", c.folder, c.seed, i), Bytes: b}, nil
}

// Scene is the truth of a figure by its SHA-256, for the oracle; false for an image that is not of this corpus. Figures are drawn in order
// until it is found, so that a resumed run knows those of its past.
func (c *Corpus) Scene(sum string) (Scene, bool) {
	if s, ok := c.lookUp(sum); ok {
		return s, true
	}
	c.search.Lock()
	defer c.search.Unlock()
	for ; c.drawn < c.n; c.drawn++ {
		if s, ok := c.lookUp(sum); ok {
			return s, true
		}
		if _, err := c.At(c.drawn); err != nil {
			return Scene{}, false
		}
	}
	return c.lookUp(sum)
}

func (c *Corpus) lookUp(sum string) (Scene, bool) {
	c.mu.Lock()
	i, ok := c.known[sum]
	c.mu.Unlock()
	if !ok {
		return Scene{}, false
	}
	s, _ := c.SceneAt(i)
	return s, true
}
