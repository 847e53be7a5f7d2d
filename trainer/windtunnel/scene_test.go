package windtunnel

import (
	"bytes"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/configs"
)

func TestScenesAreWellFormed(t *testing.T) {
	held, err := LoadTables(HeldOut)
	require.NoError(t, err)
	splits := [][]Table{Training: testTables(t), HeldOut: held}
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawScene(t, splits[rapid.IntRange(0, 1).Draw(t, "split")])
		n := len(s.Entities)
		require.NotEmpty(t, s.Table)
		require.True(t, n >= MinEntities && n <= MaxEntities)
		require.Len(t, s.Rows, n)
		require.Len(t, s.Columns, len(s.Units))
		require.Len(t, s.Bases, len(s.Units))
		require.True(t, varied(s.Entities))
		colors := map[Color]bool{}
		for i, e := range s.Entities {
			require.False(t, colors[e.Color])
			colors[e.Color] = true
			require.True(t, e.Value >= 0 && e.Value <= MaxValue)
			if s.Kind == Scatter {
				require.Zero(t, e.Letter)
				require.True(t, e.Column >= 1 && e.Column <= MaxColumn)
				require.True(t, i == 0 || e.Column > s.Entities[i-1].Column)
			} else {
				require.Equal(t, byte('A'+i), e.Letter)
			}
		}
	})
}

func TestGenerateWithoutUsableTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tables := range [][]Table{nil, {{Rows: []string{"a"}, Columns: []Column{{"x", []float64{1}}}}}} {
		require.Equal(t, "A red 1. B blue 2. C green 3.", Generate(rng, tables).ReadTurn().Completion)
	}
}

func TestScenesCoverTheRange(t *testing.T) {
	tables := testTables(t)
	rng := rand.New(rand.NewPCG(4, 4))
	var byKind [kinds]int
	var byValue [MaxValue + 1]int
	var byColumn [MaxColumn + 1]int
	bySize, byTable := map[int]int{}, map[string]int{}
	const n = 20000
	total := 0
	for range n {
		s := Generate(rng, tables)
		byKind[s.Kind]++
		bySize[len(s.Entities)]++
		byTable[s.Table]++
		for _, e := range s.Entities {
			byValue[e.Value]++
			byColumn[e.Column]++
			total++
		}
	}
	t.Logf("kinds %v, entities %v, values %v, columns %v, tables %v", byKind, bySize, byValue, byColumn, byTable)
	for _, c := range byKind {
		require.Greater(t, c, n/10)
	}
	for v, c := range byValue {
		require.Greater(t, c, total/25, "value %d", v)
	}
	for size := MinEntities; size <= MaxEntities; size++ {
		require.Greater(t, bySize[size], n/7)
	}
	require.Len(t, byTable, len(tables))
}

func TestTables(t *testing.T) {
	train, err := LoadTables(Training)
	require.NoError(t, err)
	held, err := LoadTables(HeldOut)
	require.NoError(t, err)
	files, err := fs.Glob(configs.Tables, "tables/*.csv")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 24)
	row := map[string]bool{}
	for _, table := range train {
		require.GreaterOrEqual(t, len(table.Rows), 5, table.Name)
		for _, r := range table.Rows {
			require.False(t, row[table.Name+"/"+r], "%s: %s twice", table.Name, r)
			row[table.Name+"/"+r] = true
		}
	}
	shared, own := 0, 0
	for _, table := range held {
		inBoth := false
		for _, other := range train {
			inBoth = inBoth || other.Name == table.Name
		}
		if inBoth {
			shared++
		} else {
			own++
		}
		for _, r := range table.Rows {
			require.False(t, row[table.Name+"/"+r], "%s: %s is in both splits", table.Name, r)
		}
	}
	require.GreaterOrEqual(t, own, 4)
	require.GreaterOrEqual(t, shared, 4)
	t.Logf("%d files; training draws from %d tables, held-out from %d, %d of them its own", len(files), len(train), len(held), own)
}

func TestReadTablesRefuses(t *testing.T) {
	const head = "# title: t\n# source: s\n# units: x=m\n"
	for name, c := range map[string]struct{ text, want string }{
		"no title":   {"a,x\nb,1\n", "title and a source"},
		"no unit":    {"# title: t\n# source: s\na,x\nb,1\n", "no unit"},
		"bad number": {head + "a,x\nb,one\n", `row "b", column "x"`},
		"no rows":    {head + "a,x\n", "needs a heading"},
		"bad header": {"# colour: red\n" + head + "a,x\nb,1\n", `header "colour"`},
		"ragged":     {head + "a,x\nb,1,2\n", "wrong number of fields"},
	} {
		_, err := ReadTables(fstest.MapFS{"t/x.csv": {Data: []byte(c.text)}}, "t", Training)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "t/x.csv", name)
	}
	_, err := ReadTables(fstest.MapFS{}, "t", Training)
	require.ErrorContains(t, err, "no tables")
}

func TestFiguresAreDeterministic(t *testing.T) {
	a, err := NewCorpus(11, 40)
	require.NoError(t, err)
	b, err := NewCorpus(11, 40)
	require.NoError(t, err)
	other, err := NewCorpus(12, 40)
	require.NoError(t, err)
	held, err := NewHeldOutCorpus(11, 40)
	require.NoError(t, err)
	for i := range a.Len() {
		x, err := a.At(i)
		require.NoError(t, err)
		y, err := b.At(i)
		require.NoError(t, err)
		require.Equal(t, x, y)
		for _, c := range []*Corpus{other, held} {
			z, err := c.At(i)
			require.NoError(t, err)
			require.NotEqual(t, x.SHA256, z.SHA256)
		}
		img, err := png.Decode(bytes.NewReader(x.Bytes))
		require.NoError(t, err)
		require.Equal(t, Width, img.Bounds().Dx())
		require.Equal(t, Height, img.Bounds().Dy())
	}
	_, err = a.At(40)
	require.ErrorContains(t, err, "outside the corpus of 40")
	_, err = a.At(-1)
	require.Error(t, err)
}

func TestCorpusKnowsItsScenes(t *testing.T) {
	c, err := NewCorpus(1, 30)
	require.NoError(t, err)
	resumed, err := NewCorpus(1, 30)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range c.Len() {
		wg.Go(func() {
			image, err := c.At(i)
			if err != nil {
				t.Error(err)
				return
			}
			want, _ := c.SceneAt(i)
			for _, from := range []*Corpus{c, resumed} {
				if got, ok := from.Scene(image.SHA256); !ok || got.ReadTurn() != want.ReadTurn() {
					t.Errorf("figure %d: scene %v, want %v", i, got, want)
				}
			}
		})
	}
	wg.Wait()
	_, ok := c.Scene("none")
	require.False(t, ok)
}

// TestColorsStayApart checks that style never carries a colour closer to another's name.
func TestColorsStayApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		st := drawStyle(rng)
		for c, ink := range st.inks {
			nearest, best := -1, 9.0
			for other, p := range palette {
				d := 0.0
				for i := range p {
					d += (p[i] - ink[i]) * (p[i] - ink[i])
				}
				if d < best {
					nearest, best = other, d
				}
			}
			require.Equal(t, c, nearest)
		}
	}
}

func BenchmarkFigure(b *testing.B) {
	c, err := NewCorpus(1, 1<<30)
	require.NoError(b, err)
	for i := range b.N {
		if _, err := c.At(i); err != nil {
			b.Fatal(err)
		}
	}
}
