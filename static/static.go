// Package static holds the browser's files: styles, one ES module with its siblings, and a vendored copy of ECharts.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed *.css *.js *.svg vendor/*
var files embed.FS

// Root is where Handler is to be mounted.
const Root = "/static/"

// Files serves the embedded files under a prefix that is a hash of them all. So modules import their siblings by plain
// relative names, and a browser may keep every file for ever: a changed file has another address.
type Files struct {
	prefix string
	server http.Handler
}

// New hashes the embedded files.
func New() (*Files, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n", path, len(content))
		sum.Write(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read embedded static files: %w", err)
	}
	prefix := Root + hex.EncodeToString(sum.Sum(nil))[:12] + "/"
	return &Files{prefix: prefix, server: http.StripPrefix(prefix, http.FileServerFS(files))}, nil
}

// Prefix is the URL of the files' folder, with a trailing slash.
func (f *Files) Prefix() string { return f.prefix }

// ServeHTTP serves a file under Prefix; anything else under Root, also a folder, is not found.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, f.prefix) || strings.HasSuffix(r.URL.Path, "/") {
		http.NotFound(w, r)
		return
	}
	if _, err := fs.Stat(files, strings.TrimPrefix(r.URL.Path, f.prefix)); err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	f.server.ServeHTTP(w, r)
}
