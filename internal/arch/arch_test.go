// Package arch keeps the import rules of docs/architecture.md: which package may know of which.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/trinity-lab/trinity/"
	root   = "../.."
)

// rule says that packages matching of never depend on those matching never, not even through others. Patterns are
// import paths, this module's without its name; "x/..." matches x and all below it.
type rule struct {
	name  string
	of    []string
	never []string
}

// adapters tie the domain to the world. Only server, which assembles them, and tests know more than one.
var adapters = []string{"server/postgres", "server/httpd", "server/live", "server/runner", "server/ingest", "server/export"}

// layers of the trainer, lowest first: a layer never knows a higher one.
var layers = [][]string{
	{"trainer/spec"}, {"trainer/backend/..."}, {"trainer/nn"}, {"trainer/model/..."}, {"trainer/sample"},
	{"trainer/engine/..."}, {"trainer/loop/..."}, {"trainer"},
}

func rules() []rule {
	all := []rule{
		{
			"the trainer runs without server, database or pages", []string{"trainer/..."},
			[]string{"server/...", "web/...", "migrations", "static", "github.com/go-chi/...", "github.com/jackc/...", "github.com/a-h/templ/...", "github.com/pressly/..."},
		},
		{"what a run's results rest on knows no network", []string{"trainer/loop/...", "trainer/journal", "trainer/spec"}, []string{"net/http"}},
		{
			"the loop knows engines by their interface alone", []string{"trainer/loop/..."},
			[]string{"trainer/engine/...", "trainer/model/...", "trainer/nn", "trainer/sample", "!trainer/engine"},
		},
		{
			"the domain knows no adapter", []string{"server/experiment", "server/account"},
			append([]string{"server/pglocal", "web/...", "migrations", "github.com/jackc/...", "github.com/go-chi/...", "github.com/a-h/templ/...", "net/http"}, adapters...),
		},
		{"pages know their own models, never the server", []string{"web/..."}, []string{"server/...", "migrations", "github.com/jackc/...", "github.com/pressly/..."}},
		{"adapters know nothing of the engine", adapters, []string{"trainer/engine/...", "trainer/model/...", "trainer/nn", "trainer/backend/...", "trainer/loop/..."}},
	}
	for i, a := range adapters {
		all = append(all, rule{"adapters never know each other", []string{a}, slices.Delete(slices.Clone(adapters), i, i+1)})
	}
	for i := range layers {
		if above := slices.Concat(layers[i+1:]...); len(above) > 0 {
			all = append(all, rule{"layers of the trainer", layers[i], above})
		}
	}
	return all
}

// matches says whether an import path matches any of the patterns and none of those that start with "!".
func matches(path string, patterns []string) bool {
	path = strings.TrimPrefix(path, module)
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		below, tree := strings.CutSuffix(p, "/...")
		if path != p && !(tree && (path == below || strings.HasPrefix(path, below+"/"))) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Imports    []string // direct, without those of tests
	Deps       []string // all
	GoFiles    []string
	CgoFiles   []string
	Standard   bool
}

// list runs go list in the module's root, as a static build sees it.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	watch(t)
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Imports,Deps,GoFiles,CgoFiles,Standard"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// watch looks at every Go file, so that go test does not take these tests' last results for good after one has changed:
// it notes the files that a test itself looks at, not those that the go command reads for it.
func watch(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."), d.IsDir() && path == filepath.Join(root, "bin"):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			_, err = os.Stat(path)
		}
		return err
	}))
}

// broken lists what packages do against r.
func (r rule) broken(packages []listed) []string {
	var out []string
	for _, p := range packages {
		if !matches(p.ImportPath, r.of) {
			continue
		}
		for _, d := range p.Deps {
			if matches(d, r.never) {
				out = append(out, fmt.Sprintf("%s must not depend on %s (%s)", strings.TrimPrefix(p.ImportPath, module), strings.TrimPrefix(d, module), r.name))
			}
		}
	}
	return out
}

func TestImportRules(t *testing.T) {
	packages := list(t, "./...")
	require.Greater(t, len(packages), 30)
	for _, r := range rules() {
		for _, b := range r.broken(packages) {
			t.Error(b)
		}
	}
}

// A misspelt pattern would keep a rule for ever. Packages that are planned but not there yet are named here.
func TestRulesNameWhatExists(t *testing.T) {
	planned := []string{"server/export", "server/account"}
	packages := list(t, "./...")
	for _, r := range rules() {
		for _, p := range slices.Concat(r.of, r.never) {
			p = strings.TrimPrefix(p, "!")
			if slices.Contains(planned, p) || strings.Contains(strings.Split(p, "/")[0], ".") || p == "net/http" {
				continue
			}
			require.True(t, slices.ContainsFunc(packages, func(l listed) bool { return matches(l.ImportPath, []string{p}) }), "no package matches %q", p)
		}
	}
}

func TestRulesBite(t *testing.T) {
	at := func(path string, deps ...string) listed {
		return listed{ImportPath: module + path, Deps: deps}
	}
	for _, p := range []listed{
		at("trainer/journal", module+"server/postgres"),
		at("trainer/loop/trinity", module+"trainer/engine/local"),
		at("trainer/backend/cpu", module+"trainer/nn"),
		at("trainer/engine/local", module+"trainer"),
		at("server/experiment", "github.com/jackc/pgx/v5"),
		at("server/ingest", module+"server/postgres"),
		at("web/page", module+"server/experiment"),
	} {
		var broken []string
		for _, r := range rules() {
			broken = append(broken, r.broken([]listed{p})...)
		}
		require.NotEmpty(t, broken, "%s importing %v", p.ImportPath, p.Deps)
	}
	for _, p := range []listed{
		at("trainer/loop/trinity", module+"trainer/engine", module+"trainer/spec"),
		at("server", module+"server/ingest", module+"server/postgres"),
		at("trainer/engineering", module+"trainer/loop/trinity"), // a prefix is not a path
	} {
		for _, r := range rules() {
			require.Empty(t, r.broken([]listed{p}))
		}
	}
}
