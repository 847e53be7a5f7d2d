package windtunnel

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-lab/trinity/configs"
)

// Split says which rows of the tables a figure may use.
type Split int

// The two splits share no row.
const (
	Training Split = iota
	HeldOut
)

// Table is a public table. A blank cell is NaN.
type Table struct {
	Name    string // file name without its extension
	Title   string
	Source  string
	Units   map[string]string // by column
	Series  bool              // rows have a natural order, such as months
	Rows    []string          // row labels
	Columns []Column
}

// Column is a numeric column of a Table; Values has one entry a row.
type Column struct {
	Name   string
	Values []float64
}

const (
	reserveMinRows = 12 // shorter tables keep all their rows for training
	reserveEvery   = 3  // in longer ones, each third row is held out
)

// LoadTables reads the embedded tables and returns what the split may draw from: whole tables marked held-out, and every
// third row of the longer unordered ones, are kept from training.
func LoadTables(split Split) ([]Table, error) {
	return ReadTables(configs.Tables, "tables", split)
}

// ReadTables reads every CSV file of a folder, in the order of their names.
func ReadTables(fsys fs.FS, dir string, split Split) ([]Table, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.csv"))
	if err != nil {
		return nil, fmt.Errorf("list tables in %q: %w", dir, err)
	}
	slices.Sort(names)
	var out []Table
	for _, name := range names {
		f, err := fsys.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open table: %w", err)
		}
		t, heldOut, err := parseTable(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", name, err)
		}
		t.Name = strings.TrimSuffix(path.Base(name), ".csv")
		if t, ok := t.reserve(split, heldOut); ok {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no tables in %q: it must hold CSV files as described in configs/tables/README.md", dir)
	}
	return out, nil
}

func parseTable(r io.Reader) (t Table, heldOut bool, err error) {
	var body strings.Builder
	t.Units = map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		comment, ok := strings.CutPrefix(lines.Text(), "#")
		if !ok {
			body.WriteString(lines.Text() + "\n")
			continue
		}
		key, value, _ := strings.Cut(comment, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "title":
			t.Title = value
		case "source":
			t.Source = value
		case "series":
			t.Series = value == "yes"
		case "split":
			heldOut = value == "held-out"
		case "units":
			for pair := range strings.SplitSeq(value, ",") {
				column, unit, _ := strings.Cut(pair, "=")
				t.Units[strings.TrimSpace(column)] = strings.TrimSpace(unit)
			}
		default:
			return t, false, fmt.Errorf("header %q is unknown; use title, source, units, series or split", strings.TrimSpace(key))
		}
	}
	if err := lines.Err(); err != nil {
		return t, false, err
	}
	if t.Title == "" || t.Source == "" {
		return t, false, errors.New("the header must name a title and a source")
	}
	records, err := csv.NewReader(strings.NewReader(body.String())).ReadAll()
	if err != nil {
		return t, false, err
	}
	return t, heldOut, t.fill(records)
}

func (t *Table) fill(records [][]string) error {
	if len(records) < 2 || len(records[0]) < 2 {
		return errors.New("a table needs a heading, a label column and a numeric column")
	}
	for _, name := range records[0][1:] {
		if t.Units[name] == "" {
			return fmt.Errorf("column %q has no unit in the header", name)
		}
		t.Columns = append(t.Columns, Column{Name: name})
	}
	for _, record := range records[1:] {
		t.Rows = append(t.Rows, record[0])
		for i, cell := range record[1:] {
			v := math.NaN()
			if cell != "" {
				var err error
				if v, err = strconv.ParseFloat(cell, 64); err != nil {
					return fmt.Errorf("row %q, column %q: %w", record[0], t.Columns[i].Name, err)
				}
			}
			t.Columns[i].Values = append(t.Columns[i].Values, v)
		}
	}
	return nil
}

// reserve keeps the rows of the split; false when none are left to draw from.
func (t Table) reserve(split Split, heldOut bool) (Table, bool) {
	if heldOut || t.Series || len(t.Rows) < reserveMinRows {
		return t, heldOut == (split == HeldOut)
	}
	out := t
	out.Rows, out.Columns = nil, make([]Column, len(t.Columns))
	for i, row := range t.Rows {
		if (i%reserveEvery == reserveEvery-1) != (split == HeldOut) {
			continue
		}
		out.Rows = append(out.Rows, row)
		for c := range t.Columns {
			out.Columns[c].Name = t.Columns[c].Name
			out.Columns[c].Values = append(out.Columns[c].Values, t.Columns[c].Values[i])
		}
	}
	return out, true
}

// scale turns table numbers into figure units.
type scale struct {
	base float64 // where the figure's axis starts
	per  float64 // table units a figure unit
}

// scale draws a round unit by which one of the column's values comes close to top, from an axis that mostly starts at 0.
func (c Column) scale(rng *rand.Rand, top int) scale {
	out := scale{per: 1}
	if rng.IntN(5) < 2 {
		if low := c.Values[rng.IntN(len(c.Values))]; low > 0 {
			step := math.Pow(10, math.Floor(math.Log10(low)))
			out.base = math.Floor(low/step*2+rng.Float64()) / 2 * step
		}
	}
	for range 50 {
		v := c.Values[rng.IntN(len(c.Values))] - out.base
		if math.IsNaN(v) || v <= 0 {
			continue
		}
		raw := v / float64(top-rng.IntN(3))
		magnitude := math.Pow(10, math.Floor(math.Log10(raw)))
		for _, m := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
			if math.Round(v/(m*magnitude)) <= float64(top) {
				out.per = m * magnitude
				return out
			}
		}
	}
	return out
}

// drawn is a row's value in figure units, or -1 where it does not fit 0..top.
func (c Column) drawn(row int, s scale, top int) int {
	v := math.Round((c.Values[row] - s.base) / s.per)
	if math.IsNaN(v) || v < 0 || v > float64(top) {
		return -1
	}
	return int(v)
}
