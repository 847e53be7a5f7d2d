package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the formats that a corpus may hold
	_ "image/jpeg"
	_ "image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	_ "golang.org/x/image/webp" // a format that a corpus may hold

	"github.com/trinity-lab/trinity/server/experiment"
)

// MaxImageBytes bounds one image file.
const MaxImageBytes = 64 << 20

// Images keeps image files by their content: DIR/ab/abcdef... (SHA-256, hexadecimal).
type Images struct{ dir string }

// NewImages keeps images under dir.
func NewImages(dir string) *Images { return &Images{dir} }

var (
	hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
	idPattern   = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

func (s *Images) path(sha string) string { return filepath.Join(s.dir, sha[:2], sha) }

// Open returns an image's file. It returns ErrNotFound for what is not kept, also for text that is no hash.
func (s *Images) Open(sha string) (*os.File, error) {
	if !hashPattern.MatchString(sha) {
		return nil, fmt.Errorf("image %q: %w", sha, experiment.ErrNotFound)
	}
	f, err := os.Open(s.path(sha))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("image %s: %w", sha, experiment.ErrNotFound)
	}
	return f, err
}

// AddFromRun keeps the image that a run directory holds as images/SHA, with any extension.
func (s *Images) AddFromRun(runDir, sha string) (experiment.Image, error) {
	if !hashPattern.MatchString(sha) {
		return experiment.Image{}, fmt.Errorf("%q is not a SHA-256 in hexadecimal", sha)
	}
	if kept, err := s.Open(sha); err == nil {
		defer kept.Close()
		return s.read(kept, sha)
	}
	root, err := os.OpenRoot(filepath.Join(runDir, "images"))
	if err != nil {
		return experiment.Image{}, err
	}
	defer root.Close()
	for _, extension := range []string{"", ".png", ".jpg", ".jpeg", ".webp", ".gif"} {
		f, err := root.Open(sha + extension)
		if err != nil {
			continue
		}
		defer f.Close()
		return s.Add(sha, f)
	}
	return experiment.Image{}, fmt.Errorf("the run directory has no images/%s: %w", sha, experiment.ErrNotFound)
}

// Add keeps what r holds, if it is an image with that hash. Its pixels are not decoded, so a decompression bomb costs nothing.
func (s *Images) Add(sha string, r io.Reader) (experiment.Image, error) {
	if !hashPattern.MatchString(sha) {
		return experiment.Image{}, experiment.Invalid("sha256", "is not 64 lower-case hexadecimal digits")
	}
	b, err := io.ReadAll(io.LimitReader(r, MaxImageBytes+1))
	if err != nil {
		return experiment.Image{}, fmt.Errorf("read image %s: %w", sha, err)
	}
	info, err := describe(b, sha)
	if err != nil {
		return info, err
	}
	return info, s.write(sha, b)
}

func (s *Images) read(f *os.File, sha string) (experiment.Image, error) {
	b, err := io.ReadAll(io.LimitReader(f, MaxImageBytes+1))
	if err != nil {
		return experiment.Image{}, fmt.Errorf("read image %s: %w", sha, err)
	}
	return describe(b, sha)
}

func describe(b []byte, sha string) (experiment.Image, error) {
	if len(b) > MaxImageBytes {
		return experiment.Image{}, experiment.Invalid("image", "is larger than %d bytes", MaxImageBytes)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != sha {
		return experiment.Image{}, experiment.Invalid("image", "does not have the SHA-256 %s", sha)
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return experiment.Image{}, experiment.Invalid("image", "is no PNG, JPEG, GIF or WebP: %v", err)
	}
	return experiment.Image{SHA256: sha, MediaType: "image/" + format, Width: cfg.Width, Height: cfg.Height, Bytes: int64(len(b))}, nil
}

// write makes the file whole under another name first.
func (s *Images) write(sha string, b []byte) error {
	path := s.path(sha)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep image %s: %w", sha, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return fmt.Errorf("keep image %s: %w", sha, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("keep image %s: %w", sha, err)
	}
	return nil
}
