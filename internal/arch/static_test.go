package arch

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The binary runs wherever its kernel does: no C library, no interpreter.
func TestBinaryIsStatic(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/trinity") {
		require.NotEqual(t, "runtime/cgo", p.ImportPath)
		require.Empty(t, p.CgoFiles, "%s needs cgo", p.ImportPath)
	}
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("ELF files are made on Linux, and -short builds nothing")
	}
	file := filepath.Join(t.TempDir(), "trinity")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/trinity")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := elf.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the binary asks for a dynamic linker")
	}
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}
