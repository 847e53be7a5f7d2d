package safetensors

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading a file leaves none of it in the process's memory: a checkpoint of 16 GB would count twice otherwise.
func TestReadPagesAreLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.safetensors")
	data := make([]float32, 3*chunk+5)
	for i := range data {
		data[i] = float32(i % 251)
	}
	require.NoError(t, Write(path, []Tensor{{"a", F32, []int{len(data)}, data}, {"b", BF16, []int{len(data)}, data}}, nil))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	for range 2 { // what was let go can be read again
		for _, name := range []string{"a", "b"} {
			got, err := f.Float32(name)
			require.NoError(t, err)
			require.Equal(t, data, got)
		}
		require.Less(t, resident(t, path), 512, "KiB, of %d", len(data)*6>>10)
	}
}

// resident is how much of a mapped file is in memory, in KiB.
func resident(t *testing.T, path string) int {
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	found, within := -1, false
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.Contains(s.Text(), path) {
			within = true
		} else if n := 0; within && strings.HasPrefix(s.Text(), "Rss:") {
			_, err := fmt.Sscanf(s.Text(), "Rss: %d kB", &n)
			require.NoError(t, err)
			found, within = max(found, 0)+n, false
		}
	}
	require.GreaterOrEqual(t, found, 0, "the file is mapped")
	return found
}
