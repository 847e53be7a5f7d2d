// Package corpus is a folder of images as the training loop's only input.
package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-lab/trinity/trainer/imageproc"
)

// Errors that Open and At return, or note in a Skip.
var (
	ErrEmpty     = errors.New("no images")
	ErrDuplicate = errors.New("same content as another file")
	ErrChanged   = errors.New("file changed since the corpus was opened")
	ErrNotFile   = errors.New("not a regular file inside the folder")
)

// extensions returns those of the files that are looked at, in lower case.
func extensions() []string { return []string{".png", ".jpg", ".jpeg", ".webp", ".gif"} }

// Options adjust Open.
type Options struct {
	Limits      imageproc.Limits      // of each image
	HeadersOnly bool                  // check only that a file begins as an image: faster, but a cut file is found late
	Progress    func(done, total int) // called now and then by Open itself
}

// Skip is a file that was left out, and why.
type Skip struct {
	Path string // relative to the folder, with forward slashes
	Err  error
}

// Image is a file of the corpus.
type Image struct {
	SHA256 string // of Bytes, lower-case hex
	Path   string // relative to the folder, with forward slashes
	Bytes  []byte // the file as it is; imageproc.Decode reads it
}

// Corpus is an opened folder. It may be used by several goroutines.
type Corpus struct {
	dir     string
	root    *os.Root
	limit   int64   // bytes of a file
	images  []Image // without Bytes
	skipped []Skip
}

// Open lists the PNG, JPEG, WebP and GIF files in dir and its folders, sorted
// by path, and reads each once. Files that are no image, exceed the limits,
// repeat another's content, or are links out of the folder are left out and
// noted in Skipped; hidden files are passed over. It returns ErrEmpty where
// nothing is left. Close releases the folder.
func Open(dir string, opts Options) (*Corpus, error) {
	if opts.Limits.MaxBytes == 0 {
		opts.Limits.MaxBytes = imageproc.DefaultMaxBytes
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open corpus %q (a folder of images): %w", dir, err)
	}
	c := &Corpus{dir: dir, root: root, limit: opts.Limits.MaxBytes}
	paths, others, err := c.list()
	if err == nil {
		err = c.readAll(paths, opts)
	}
	if err == nil && len(c.images) == 0 {
		err = c.emptyError(others)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open corpus %q: %w", dir, err)
	}
	return c, nil
}

// list returns the paths to read, sorted, and the number of other files. What
// is named like an image but is no file goes to skipped.
func (c *Corpus) list() (paths []string, others int, err error) {
	err = fs.WalkDir(c.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && p == ".":
			return err
		case err != nil: // a folder that may not be read
			c.skipped = append(c.skipped, Skip{p, err})
			return nil //nolint:nilerr // noted; the others can be read
		case p != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !slices.Contains(extensions(), strings.ToLower(path.Ext(p))):
			others++
			return nil
		}
		if err := c.checkFile(p, d); err != nil {
			c.skipped = append(c.skipped, Skip{p, err})
		} else {
			paths = append(paths, p)
		}
		return nil
	})
	slices.Sort(paths)
	return paths, others, err
}

// checkFile says why a path cannot be read as a file. Root refuses links that
// lead out. A pipe is never opened: it would block.
func (c *Corpus) checkFile(p string, d fs.DirEntry) error {
	st, err := c.root.Stat(p)
	switch {
	case err != nil && d.Type()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %w", ErrNotFile, err)
	case err == nil && !st.Mode().IsRegular():
		return ErrNotFile
	}
	return err
}

// readAll hashes and checks the files, a few at a time.
func (c *Corpus) readAll(paths []string, opts Options) error {
	hashes, faults := make([]string, len(paths)), make([]error, len(paths))
	var group errgroup.Group
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4)) // an image may decode to hundreds of megabytes
	for i, p := range paths {
		group.Go(func() error {
			hashes[i], faults[i] = c.check(p, opts)
			return nil
		})
		if opts.Progress != nil && i%64 == 0 {
			opts.Progress(i, len(paths))
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if opts.Progress != nil {
		opts.Progress(len(paths), len(paths))
	}
	first := map[string]string{}
	for i, p := range paths {
		if twin, ok := first[hashes[i]]; ok && faults[i] == nil {
			faults[i] = fmt.Errorf("%w: %s", ErrDuplicate, twin)
		}
		if faults[i] != nil {
			c.skipped = append(c.skipped, Skip{p, faults[i]})
			continue
		}
		first[hashes[i]] = p
		c.images = append(c.images, Image{SHA256: hashes[i], Path: p})
	}
	slices.SortStableFunc(c.skipped, func(a, b Skip) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// check returns the hash of a file and whether it is an image.
func (c *Corpus) check(p string, opts Options) (string, error) {
	b, err := c.read(p)
	if err != nil {
		return "", err
	}
	if opts.HeadersOnly {
		err = imageproc.Check(bytes.NewReader(b), opts.Limits)
	} else {
		_, err = imageproc.Decode(bytes.NewReader(b), opts.Limits)
	}
	return hash(b), err
}

func (c *Corpus) read(p string) ([]byte, error) {
	f, err := c.root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, c.limit+1))
	if err == nil && int64(len(b)) > c.limit {
		err = fmt.Errorf("%w: the file exceeds %d bytes", imageproc.ErrTooLarge, c.limit)
	}
	return b, err
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (c *Corpus) emptyError(others int) error {
	err := fmt.Errorf("%w: looked for %s files in it and the folders below, found %d other files", ErrEmpty, strings.Join(extensions(), ", "), others)
	if len(c.skipped) > 0 {
		err = fmt.Errorf("%w and %d that cannot be used, the first %q: %w", err, len(c.skipped), c.skipped[0].Path, c.skipped[0].Err)
	}
	return err
}

// Len is the number of images, at least 1.
func (c *Corpus) Len() int { return len(c.images) }

// Skipped lists the files left out, sorted by path.
func (c *Corpus) Skipped() []Skip { return slices.Clone(c.skipped) }

// At reads image i of 0 to Len()-1 from the folder. It returns ErrChanged if
// the file no longer has the content that was checked.
func (c *Corpus) At(i int) (Image, error) {
	if i < 0 || i >= len(c.images) {
		return Image{}, fmt.Errorf("corpus %q: no image %d among %d", c.dir, i, len(c.images))
	}
	img := c.images[i]
	b, err := c.read(img.Path)
	if err == nil && hash(b) != img.SHA256 {
		err = ErrChanged
	}
	if err != nil {
		return Image{}, fmt.Errorf("corpus %q: read %q: %w", c.dir, img.Path, err)
	}
	img.Bytes = b
	return img, nil
}

// Close releases the folder; At fails after it.
func (c *Corpus) Close() error { return c.root.Close() }
