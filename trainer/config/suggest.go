package config

import (
	"fmt"
	"strings"
)

// suggest returns "; did you mean X?" for the nearest of names, or nothing where none is near.
func suggest(name string, names []string) string {
	best, distance := "", len(name)/3+2
	for _, n := range names {
		if d := edits(strings.ToLower(name), n); d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// suggestKey is suggest over all dotted keys; it also finds a key by its last part, such as "clip_low".
func suggestKey(key string) string {
	for _, k := range keys() {
		if strings.HasSuffix(k, "."+key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return suggest(key, keys())
}

// edits is the Levenshtein distance in bytes, of inputs cut to 100.
func edits(a, b string) int {
	a, b = a[:min(len(a), 100)], b[:min(len(b), 100)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, substitute)
		}
	}
	return row[len(b)]
}
