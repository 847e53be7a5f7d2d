package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pure packages compute: equal arguments give equal results, and nothing outside is read or changed.
var pure = []string{"trainer/reward", "trainer/policy", "trainer/answer", "trainer/parse"}

// innocent is all that pure packages may import.
var innocent = []string{
	"bytes", "cmp", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/big", "math/bits", "math/rand/v2",
	"regexp", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/...", "golang.org/x/text/unicode/norm",
	"trainer/spec",
}

// stateful names of otherwise innocent packages: clocks, timers, the terminal. Of math/rand/v2 all functions draw from a
// global source but those that make one of their own, so there the rule is turned round.
var stateful = map[string]func(name string) bool{
	"time": func(name string) bool {
		return slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Local", "LoadLocation"}, name)
	},
	"fmt": func(name string) bool { return strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Scan") },
	"math/rand/v2": func(name string) bool {
		return !strings.HasPrefix(name, "New") && !slices.Contains([]string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}, name)
	},
}

func TestPurePackages(t *testing.T) {
	for _, p := range list(t, prefixed("./", pure)...) {
		for _, i := range p.Imports {
			if !matches(i, innocent) && !matches(i, pure) {
				t.Errorf("%s imports %s: it is meant to compute and nothing else", p.ImportPath, i)
			}
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, use := range statefulUses(fset, f) {
				t.Error(use)
			}
		}
	}
}

// statefulUses lists where a file uses a stateful name.
func statefulUses(fset *token.FileSet, f *ast.File) []string {
	local := map[string]string{} // name in the file to import path
	for _, i := range f.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil || stateful[imported] == nil {
			continue
		}
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if i.Name != nil {
			name = i.Name.Name
		}
		local[name] = imported
	}
	var uses []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && local[x.Name] != "" && stateful[local[x.Name]](s.Sel.Name) {
			uses = append(uses, fmt.Sprintf("%s: %s.%s is not pure", fset.Position(s.Pos()), local[x.Name], s.Sel.Name))
		}
		return true
	})
	if i := local["."]; i != "" {
		uses = append(uses, fmt.Sprintf("%s: a dot import of %s hides what is used of it", fset.Position(f.Pos()), i))
	}
	return uses
}

func prefixed(prefix string, names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = prefix + out[i]
	}
	return out
}

func TestStatefulUses(t *testing.T) {
	for _, c := range []struct {
		imports, body string
		want          int
	}{
		{`"time"`, `_ = time.Now()`, 1},
		{`"time"`, `_ = time.Second; var _ time.Time`, 0},
		{`clock "time"`, `_ = clock.Since`, 1},
		{`. "time"`, `_ = Now()`, 1},
		{`"math/rand/v2"`, `_ = rand.IntN(3)`, 1},
		{`"math/rand/v2"`, `r := rand.New(rand.NewPCG(1, 2)); _ = r.IntN(3)`, 0},
		{`"fmt"`, `fmt.Println()`, 1},
		{`"fmt"`, `_ = fmt.Sprint()`, 0},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "f.go", "package p\nimport "+c.imports+"\nfunc f() { "+c.body+" }", parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, statefulUses(fset, f), c.want, "import %s: %s", c.imports, c.body)
	}
}
