package windtunnel

import (
	"math/rand/v2"
	"slices"
)

// Figure geometry and ranges.
const (
	Width       = 128 // pixels
	Height      = 96  // pixels
	MaxValue    = 9   // values are integers 0..MaxValue in the figure's own unit
	MaxColumn   = 7   // scatter columns are 1..MaxColumn
	MinEntities = 3
	MaxEntities = 6
)

// Kind is a kind of figure.
type Kind int

// The kinds of figure. Their entities are called bars, points, dots and rows.
const (
	Bar Kind = iota
	Line
	Scatter
	Pictogram
	kinds
)

var (
	nouns   = [kinds]string{"bar", "point", "dot", "row"}
	plurals = [kinds]string{"bars", "points", "dots", "rows"}
)

// Noun is what the kind's entities are called in questions.
func (k Kind) Noun() string { return nouns[k] }

// Color is an index into the six colours.
type Color int

// Colors is the number of nameable colours.
const Colors = 6

var colorNames = [Colors]string{"red", "blue", "green", "orange", "purple", "black"}

func (c Color) String() string { return colorNames[c] }

// Entity is a bar, point, dot or row.
type Entity struct {
	Letter byte // 'A'.. in order from the left or the top; 0 in a scatter plot
	Color  Color
	Column int // 1..MaxColumn in a scatter plot, else 0
	Value  int // 0..MaxValue
}

// Scene is the hidden truth of a figure. Entities are ordered from the left or the top; their colours are distinct.
type Scene struct {
	Kind     Kind
	Entities []Entity
	Table    string    // where the numbers come from
	Columns  []string  // one column, or two for a scatter plot (horizontal, vertical)
	Rows     []string  // table rows, one an entity
	Bases    []float64 // table number where each column's axis starts
	Units    []float64 // table units a figure unit, one a column
}

// Name is how reasoning refers to an entity: its letter, or its colour in a scatter plot.
func (e Entity) Name() string {
	if e.Letter == 0 {
		return e.Color.String()
	}
	return string(e.Letter)
}

// Generate draws a figure's content from the tables: a table, a column (two for a scatter plot), a scale and 3 to 6 rows whose values, rounded
// to the figure's unit, cover 0..MaxValue evenly over many figures and are not all equal.
func Generate(rng *rand.Rand, tables []Table) Scene {
	kind := drawKind(rng)
	n := MinEntities + rng.IntN(MaxEntities-MinEntities+1)
	for range 1000 {
		if len(tables) == 0 {
			break
		}
		t := tables[rng.IntN(len(tables))]
		var s Scene
		var ok bool
		if kind == Scatter {
			s, ok = drawScatter(rng, t, n)
		} else {
			s, ok = drawLettered(rng, t, n)
		}
		if !ok {
			continue
		}
		s.Kind, s.Table = kind, t.Name
		colors := rng.Perm(Colors)
		for i := range s.Entities {
			s.Entities[i].Color = Color(colors[i])
			if kind != Scatter {
				s.Entities[i].Letter = byte('A' + i)
			}
		}
		return s
	}
	// Only tables without any usable column come here; a plain figure keeps the caller free of an error path.
	return Scene{Kind: Bar, Entities: []Entity{{'A', 0, 0, 1}, {'B', 1, 0, 2}, {'C', 2, 0, 3}}}
}

// drawKind favours bars, the easiest to learn from, over the others.
func drawKind(rng *rand.Rand) Kind {
	switch x := rng.IntN(10); {
	case x < 4:
		return Bar
	case x < 6:
		return Line
	case x < 8:
		return Scatter
	}
	return Pictogram
}

func drawLettered(rng *rand.Rand, t Table, n int) (Scene, bool) {
	c := t.Columns[rng.IntN(len(t.Columns))]
	unit := c.scale(rng, MaxValue)
	rows := pickRows(rng, c, unit, n)
	if t.Series {
		slices.Sort(rows)
	}
	s := Scene{Columns: []string{c.Name}, Bases: []float64{unit.base}, Units: []float64{unit.per}}
	for _, row := range rows {
		s.Rows = append(s.Rows, t.Rows[row])
		s.Entities = append(s.Entities, Entity{Value: c.drawn(row, unit, MaxValue)})
	}
	return s, len(rows) == n && varied(s.Entities)
}

// pickRows aims each pick at a value drawn evenly from 0..MaxValue, so that skewed tables still show every height.
func pickRows(rng *rand.Rand, c Column, unit scale, n int) []int {
	var out []int
	order := rng.Perm(len(c.Values))
	for range n {
		target, best, bestGap := rng.IntN(MaxValue+1), -1, 3
		for _, row := range order {
			v := c.drawn(row, unit, MaxValue)
			if gap := max(v-target, target-v); v >= 0 && gap < bestGap && !slices.Contains(out, row) {
				best, bestGap = row, gap
			}
		}
		if best < 0 {
			return nil
		}
		out = append(out, best)
	}
	return out
}

func drawScatter(rng *rand.Rand, t Table, n int) (Scene, bool) {
	if len(t.Columns) < 2 {
		return Scene{}, false
	}
	pick := rng.Perm(len(t.Columns))
	cx, cy := t.Columns[pick[0]], t.Columns[pick[1]]
	dx, dy := cx.scale(rng, MaxColumn), cy.scale(rng, MaxValue)
	type dot struct {
		row string
		e   Entity
	}
	var dots []dot
	taken := [MaxColumn + 1]bool{}
	for range n {
		target, best, bestGap := rng.IntN(MaxValue+1), -1, MaxValue+1
		for _, row := range rng.Perm(len(t.Rows)) {
			x, y := cx.drawn(row, dx, MaxColumn), cy.drawn(row, dy, MaxValue)
			if x < 1 || y < 0 || taken[x] {
				continue
			}
			if gap := max(y-target, target-y); gap < bestGap {
				best, bestGap = row, gap
			}
		}
		if best < 0 {
			return Scene{}, false
		}
		x := cx.drawn(best, dx, MaxColumn)
		taken[x] = true
		dots = append(dots, dot{t.Rows[best], Entity{Column: x, Value: cy.drawn(best, dy, MaxValue)}})
	}
	slices.SortFunc(dots, func(a, b dot) int { return a.e.Column - b.e.Column })
	s := Scene{Columns: []string{cx.Name, cy.Name}, Bases: []float64{dx.base, dy.base}, Units: []float64{dx.per, dy.per}}
	for _, d := range dots {
		s.Rows = append(s.Rows, d.row)
		s.Entities = append(s.Entities, d.e)
	}
	return s, varied(s.Entities)
}

func varied(entities []Entity) bool {
	for _, e := range entities[1:] {
		if e.Value != entities[0].Value {
			return true
		}
	}
	return false
}

// find returns the entity that a reference names.
func (s Scene) find(r Ref) (Entity, bool) {
	for _, e := range s.Entities {
		if r.Letter != 0 && e.Letter == r.Letter || r.Letter == 0 && e.Color == r.Color {
			return e, true
		}
	}
	return Entity{}, false
}
