// Package view holds the pages' view models: what a page shows, already in words and figures. It knows nothing of storage.
package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Shell is what surrounds every page.
type Shell struct {
	Title   string
	Section string // navigation entry to mark: "runs" or "launch"
	Static  string // URL prefix of the static files, with a trailing slash
	Charts  bool   // the page draws charts
}

// Link is an anchor.
type Link struct{ Text, URL string }

// Time is a moment: for machines, and in words relative to now.
type Time struct {
	ISO   string
	Words string
}

// TimeOf puts t in words as seen at now.
func TimeOf(t, now time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{ISO: t.UTC().Format(time.RFC3339), Words: ago(t, now)}
}

func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	case t.Year() == now.Year():
		return t.UTC().Format("2 Jan 15:04")
	default:
		return t.UTC().Format("2 Jan 2006")
	}
}

// Duration is d with its two largest units.
func Duration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

// Mean is a metric at a table's precision: three decimals, or the name of a value that is not finite.
func Mean(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "−∞"
	}
	return minus(strconv.FormatFloat(x, 'f', 3, 64))
}

// Change is Mean with its sign always shown.
func Change(x float64) string {
	s := Mean(x)
	if x >= 0 && !math.IsInf(x, 0) {
		return "+" + s
	}
	return s
}

// Exact is x in the fewest digits that tell it from others, at most six after the point.
func Exact(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Mean(x)
	}
	s := strconv.FormatFloat(x, 'f', 6, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		s = "0"
	}
	return minus(s)
}

// minus puts the typographic minus sign, which has the width of tabular figures.
func minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// Short is the first n runes of s, with an ellipsis where it was cut.
func Short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return strings.TrimRight(string(runes[:n]), " ") + "…"
}

// Trouble is a request that can't be answered.
type Trouble struct {
	Shell
	Message string // what was wrong and how to mend it
}
