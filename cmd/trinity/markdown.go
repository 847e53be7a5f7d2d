package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// markdown is a table that reads well in a terminal and in a page: columns are padded, those of figures to the left.
type markdown struct {
	header []string
	rows   [][]string
}

func (t *markdown) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *markdown) print(w io.Writer) error {
	widths := make([]int, len(t.header))
	words := make([]bool, len(t.header)) // columns with a cell that does not start as a figure does
	for i, row := range append([][]string{t.header}, t.rows...) {
		for j, cell := range row {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
			words[j] = words[j] || i > 0 && !strings.ContainsAny(cell[:min(1, len(cell))], "-0123456789")
		}
	}
	line := func(cells []string) error {
		var b strings.Builder
		for j, cell := range cells {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if words[j] {
				cell += pad
			} else {
				cell = pad + cell
			}
			b.WriteString("| " + cell + " ")
		}
		_, err := fmt.Fprintln(w, b.String()+"|")
		return err
	}
	if err := line(t.header); err != nil {
		return err
	}
	rule := make([]string, len(widths))
	for j, n := range widths {
		rule[j] = strings.Repeat("-", n)
		if !words[j] {
			rule[j] = strings.Repeat("-", n-1) + ":"
		}
	}
	if err := line(rule); err != nil {
		return err
	}
	for _, row := range t.rows {
		if err := line(row); err != nil {
			return err
		}
	}
	return nil
}
