package pglocal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// minimumMajor is the oldest Postgres with everything the migrations use.
const minimumMajor = 14

// Installation is a folder with Postgres programs.
type Installation struct {
	Bin     string // folder of initdb and postgres
	Major   int
	Version string // as printed, such as "15.13"
}

// patterns are where packagers put the programs, beside PATH.
var patterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/lib/postgresql*/bin",
	"/usr/libexec/postgresql*",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/usr/local/opt/postgresql*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/opt/local/lib/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/run/current-system/sw/bin",
}

// Find lists the usable installations, newest first. It is empty where Postgres is not installed.
func Find(ctx context.Context) []Installation {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, p := range patterns {
		matches, _ := filepath.Glob(p) // the patterns are constant and well formed
		dirs = append(dirs, matches...)
	}
	var found []Installation
	seen := map[string]bool{}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || !executable(filepath.Join(dir, "initdb")) || !executable(filepath.Join(dir, "postgres")) {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if in, err := inspect(ctx, dir); err == nil && in.Major >= minimumMajor {
			found = append(found, in)
		}
	}
	slices.SortStableFunc(found, func(a, b Installation) int { return b.Major - a.Major })
	return found
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var versionPattern = regexp.MustCompile(`PostgreSQL\) (\d+)(\S*)`)

func inspect(ctx context.Context, dir string) (Installation, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return Installation{}, err
	}
	m := versionPattern.FindStringSubmatch(string(out))
	if m == nil {
		return Installation{}, fmt.Errorf("%s/postgres --version printed %q", dir, out)
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return Installation{}, err
	}
	return Installation{Bin: dir, Major: major, Version: m[1] + m[2]}, nil
}

// MissingError says that no usable Postgres is installed, and the command that installs one.
type MissingError struct {
	Major   int    // needed by an existing cluster, or 0 for any
	Install string // the command
}

func (e *MissingError) Error() string {
	what := fmt.Sprintf("Postgres %d or newer is not installed", minimumMajor)
	if e.Major != 0 {
		what = fmt.Sprintf("the data directory was made by Postgres %d, which is not installed", e.Major)
	}
	return fmt.Sprintf("%s: run %q, or set DATABASE_URL to a database of yours", what, e.Install)
}

// InstallCommand is the one command that installs Postgres on this system.
func InstallCommand(major int) string {
	version := ""
	if major != 0 {
		version = strconv.Itoa(major)
	}
	if runtime.GOOS == "darwin" {
		if version == "" {
			version = "17"
		}
		return "brew install postgresql@" + version
	}
	release, _ := os.ReadFile("/etc/os-release")
	return installFor(string(release), version)
}

// installFor picks the package manager by /etc/os-release.
func installFor(release, version string) string {
	ids := " "
	for line := range strings.Lines(release) {
		for _, key := range []string{"ID=", "ID_LIKE="} {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), key); ok {
				ids += strings.Trim(value, `"`) + " "
			}
		}
	}
	dash := version
	if version != "" {
		dash = "-" + version
	}
	has := func(id string) bool { return strings.Contains(ids, " "+id+" ") }
	switch {
	case has("alpine"):
		return "sudo apk add postgresql" + version
	case has("arch"):
		return "sudo pacman -S postgresql"
	case has("fedora"), has("rhel"):
		return "sudo dnf install postgresql" + version + "-server"
	case has("suse"), has("opensuse"):
		return "sudo zypper install postgresql" + version + "-server"
	default:
		return "sudo apt-get install postgresql" + dash
	}
}
