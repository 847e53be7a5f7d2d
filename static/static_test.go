package static

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreServedForEverUnderAHash(t *testing.T) {
	f, err := New()
	require.NoError(t, err)
	require.Regexp(t, `^/static/[0-9a-f]{12}/$`, f.Prefix())
	for path, want := range map[string]int{
		f.Prefix() + "style.css":                 http.StatusOK,
		f.Prefix() + "app.js":                    http.StatusOK,
		f.Prefix() + "vendor/echarts.min.js":     http.StatusOK,
		f.Prefix() + "vendor/echarts.LICENSE":    http.StatusOK,
		f.Prefix() + "vendor/":                   http.StatusNotFound,
		f.Prefix() + "missing.js":                http.StatusNotFound,
		f.Prefix() + "../static.go":              http.StatusNotFound,
		"/static/000000000000/style.css":         http.StatusNotFound,
		f.Prefix() + "vendor":                    http.StatusMovedPermanently,
		strings.TrimSuffix(f.Prefix(), "/") + "": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if path == f.Prefix()+"vendor" { // http.FileServer points folders to their slash, which is not found
			require.NotEqual(t, http.StatusOK, w.Code)
			continue
		}
		require.Equal(t, want, w.Code, path)
		if want == http.StatusOK {
			require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		}
	}
}

// Model output reaches these scripts: nothing may turn text into markup or code.
func TestScriptsNeverMakeMarkupFromText(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|setAttribute\(["']style`)
	names, err := fs.Glob(files, "*.js")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := files.ReadFile(name)
		require.NoError(t, err)
		require.Empty(t, forbidden.FindString(string(text)), name)
		require.NotRegexp(t, `https?://`, string(text), "%s must work without the internet", name)
	}
	css, err := files.ReadFile("style.css")
	require.NoError(t, err)
	require.NotRegexp(t, `https?://|@import`, string(css))
}
