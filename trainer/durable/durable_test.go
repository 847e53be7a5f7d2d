package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

var errFull = errors.New("no space left")

func text(s string, err error) func(io.Writer) error {
	return func(w io.Writer) error {
		_, failed := io.WriteString(w, s)
		return errors.Join(failed, err)
	}
}

func TestWriteFileReplacesWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, s := range []string{"one", "two, longer"} {
		require.NoError(t, WriteFile(path, text(s, nil)))
		require.ErrorIs(t, WriteFile(path, text("half", errFull)), errFull)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, s, string(got))
		require.Equal(t, []string{"a"}, names(t, dir))
	}
	require.Error(t, WriteFile(filepath.Join(dir, "none", "a"), text("", nil)))
}

func TestMakeDirReplacesWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	require.NoError(t, os.MkdirAll(filepath.Join(path+Partial, "left by a killed process"), 0o755))
	fill := func(name string, err error) func(string) error {
		return func(temp string) error {
			inner := filepath.Join(temp, "inner")
			return errors.Join(os.Mkdir(inner, 0o755), os.WriteFile(filepath.Join(inner, name), []byte("x"), 0o644), err)
		}
	}
	for _, name := range []string{"one", "two"} {
		require.NoError(t, MakeDir(path, fill(name, nil)))
		require.ErrorIs(t, MakeDir(path, fill("half", errFull)), errFull)
		require.Equal(t, []string{name}, names(t, filepath.Join(path, "inner")))
		require.Equal(t, []string{"d"}, names(t, dir))
	}
}
