// Package durable writes files and folders that are there whole or not at all, also after a power failure.
package durable

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile replaces the file at path by what write produces: into a temporary file beside it, synced, then renamed.
// After an error path is as it was, and nothing is left beside it.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err := write(w); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MakeDir replaces the folder at path by what fill puts into an empty one beside it, path with ".partial" behind, which is
// synced and renamed. After an error path is as it was and the other is gone. A killed process can leave the other, and
// where path was there already, it alone: the next MakeDir clears it.
func MakeDir(path string, fill func(temp string) error) (err error) {
	temp := path + Partial
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if err := fill(temp); err != nil {
		return err
	}
	if err := syncAll(temp); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Partial ends the name of a folder that MakeDir has not finished.
const Partial = ".partial"

// syncAll makes everything in dir, and their names, durable.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return SyncDir(path)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// SyncDir makes the names of new and renamed files in dir durable, where the system can sync a folder.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && runtime.GOOS != "windows" {
		return err
	}
	return nil
}
