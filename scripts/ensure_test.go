// Package scripts tests the shell scripts beside it by running them.
package scripts

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/pglocal"
)

// machine is a make-believe system: PATH holds what a test puts into bin and nothing else, the system's folders lie
// under root, and package managers write down how they were called.
type machine struct {
	t         *testing.T
	bin, root string
	log       string
	uid       string
}

func newMachine(t *testing.T, uid string) *machine {
	_, err := os.Stat("ensure.sh") // so that go test knows that a change of it needs another run
	require.NoError(t, err)
	dir := t.TempDir()
	m := &machine{t: t, bin: filepath.Join(dir, "bin"), root: filepath.Join(dir, "root"), log: filepath.Join(dir, "log"), uid: uid}
	for _, name := range []string{"env", "cat"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(m.bin, 0o755))
		require.NoError(t, os.Symlink(path, filepath.Join(m.bin, name)))
	}
	m.program("id", "echo "+uid)
	return m
}

// program puts a shell script on PATH.
func (m *machine) program(name, body string) { m.programAt(filepath.Join(m.bin, name), body) }

func (m *machine) programAt(path, body string) {
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// postgres puts a server of a version into a folder.
func (m *machine) postgres(dir, version string) {
	m.programAt(filepath.Join(dir, "initdb"), "exit 0")
	m.programAt(filepath.Join(dir, "postgres"), "echo 'postgres (PostgreSQL) "+version+"'")
}

// manager puts a package manager on PATH; "install" copies the programs of stock, if any.
func (m *machine) manager(name, stock string) {
	body := `echo ` + name + ` "$@" >>` + m.log
	if stock != "" {
		cp, err := exec.LookPath("cp")
		require.NoError(m.t, err)
		body += "\ncase \" $* \" in *' update '*) exit 1 ;; esac\n" + cp + " " + stock + "/* " + m.bin
	}
	m.program(name, body)
}

func (m *machine) run(args ...string) (code int, stderr string) {
	cmd := exec.Command("/bin/sh", append([]string{"ensure.sh"}, args...)...)
	cmd.Env = []string{"PATH=" + m.bin, "ENSURE_ROOT=" + m.root}
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	if err != nil {
		require.ErrorAs(m.t, err, new(*exec.ExitError))
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (m *machine) calls() string {
	b, err := os.ReadFile(m.log)
	if !os.IsNotExist(err) {
		require.NoError(m.t, err)
	}
	return string(b)
}

func TestFindsPostgresWherePackagersPutIt(t *testing.T) {
	for _, place := range []string{
		"/usr/lib/postgresql/15/bin", "/usr/libexec/postgresql17", "/usr/pgsql-16/bin", "/opt/homebrew/opt/postgresql@17/bin",
		"/Applications/Postgres.app/Contents/Versions/17/bin",
	} {
		m := newMachine(t, "1000")
		m.postgres(m.root+place, "15.8 (Debian 15.8-0+deb12u1)")
		code, stderr := m.run("postgres")
		require.Zero(t, code, "%s: %s", place, stderr)
		require.Empty(t, stderr)
	}
}

func TestRefusesPrograms(t *testing.T) {
	m := newMachine(t, "1000")
	m.postgres(m.root+"/usr/lib/postgresql/13/bin", "13.16")
	m.program("postgres", "echo 'postgres (PostgreSQL) 17.0'") // no initdb beside it
	m.program("go", "echo go version go1.19.8 linux/amd64")
	code, stderr := m.run("go", "postgres", "chromium")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "Go 1.21 or newer is missing")
	require.Contains(t, stderr, "Install PostgreSQL 14 or newer, or set DATABASE_URL")
	require.Contains(t, stderr, "Install Chromium or Google Chrome")

	code, stderr = m.run("rustc")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, `what is "rustc"?`)
	code, stderr = m.run()
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "usage:")
}

func TestAcceptsGo(t *testing.T) {
	for _, version := range []string{"go1.21.0", "go1.26.8", "go2.0"} {
		m := newMachine(t, "1000")
		m.program("go", "echo go version "+version+" linux/amd64")
		code, stderr := m.run("go")
		require.Zero(t, code, "%s: %s", version, stderr)
	}
}

// Root installs at once, also where the package lists cannot be refreshed.
func TestInstallsAsRoot(t *testing.T) {
	m := newMachine(t, "0")
	stock := t.TempDir()
	m.postgres(stock, "16.4")
	m.programAt(filepath.Join(stock, "chromium"), "exit 0")
	m.manager("apt-get", stock)
	code, stderr := m.run("postgres", "chromium")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "postgres is missing; installing it: apt-get install -y --no-install-recommends postgresql")
	// One visit brought both, so Chromium needed no second.
	require.Equal(t, "apt-get update -q\napt-get install -y --no-install-recommends postgresql\n", m.calls())
}

func TestInstallsWithSudoThatAsksNothing(t *testing.T) {
	m := newMachine(t, "1000")
	stock := t.TempDir()
	m.postgres(stock, "16.4")
	m.manager("dnf", stock)
	m.program("sudo", `[ "$1" = -n ] && shift && [ "$1" = true ] && exit 0; echo sudo >>`+m.log+`; exec "$@"`)
	code, stderr := m.run("postgres")
	require.Zero(t, code, stderr)
	require.Equal(t, "sudo\ndnf install -y postgresql-server\n", m.calls())
}

func TestSaysTheOneCommandWhereItMayNot(t *testing.T) {
	for manager, want := range map[string]string{
		"apt-get": "  sudo apt-get install -y --no-install-recommends postgresql\n",
		"dnf":     "  sudo dnf install -y postgresql-server\n",
		"pacman":  "  sudo pacman -S --noconfirm --needed postgresql\n",
		"apk":     "  sudo apk add postgresql\n",
		"zypper":  "  sudo zypper --non-interactive install postgresql-server\n",
	} {
		m := newMachine(t, "1000")
		m.manager(manager, "")
		m.program("sudo", "exit 1") // wants a password
		code, stderr := m.run("postgres")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, want)
		require.Empty(t, m.calls(), "nothing is installed without leave")
	}
}

func TestOwnsUpToAFailedInstallation(t *testing.T) {
	m := newMachine(t, "0")
	m.manager("apk", "")
	code, stderr := m.run("chromium")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "chromium is still missing")
	require.Equal(t, "apk add chromium font-liberation\n", m.calls())
}

// The places of the script are those of the server.
func TestAgreesWithTheServerAboutPostgres(t *testing.T) {
	if len(pglocal.Find(context.Background())) == 0 {
		t.Skip("no Postgres here, and running the script could install one")
	}
	cmd := exec.Command("/bin/sh", "ensure.sh", "postgres")
	cmd.Env = append(os.Environ(), "ENSURE_ROOT=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, out)
}
