package pglocal

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("PGLOCAL_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	goleak.VerifyTestMain(m)
}

// hold opens a cluster and waits to be killed: the server that dies without stopping Postgres.
func hold(dir string) {
	if _, err := Open(context.Background(), dir, Options{Fast: true}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func open(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Open(t.Context(), dir, Options{Fast: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func exec1(t *testing.T, c *Cluster, sql string) string {
	t.Helper()
	return query(t, c.DSN(), sql)
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), sql)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(values, ",")
}

// reachable is a data directory that any user may enter, as t.TempDir is not when root runs the tests.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pglocal")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// forget removes a cluster that lies outside the test's folder.
func forget(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() { os.RemoveAll(dir) })
}

func TestStopAndStartKeepsData(t *testing.T) {
	dir := reachable(t)
	c := open(t, dir)
	require.Equal(t, filepath.Join(dir, "postgres"), c.Dir())
	exec1(t, c, "CREATE TABLE kept AS SELECT 'still here' AS word")
	pid := c.pid
	require.NoError(t, c.Close())
	require.False(t, alive(pid))
	require.Empty(t, members(c.place.data()))

	again := open(t, dir)
	require.Equal(t, "still here", exec1(t, again, "SELECT word FROM kept"))
	info, err := os.Stat(filepath.Join(dir, "postgres.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	base, err := os.Stat(again.Dir())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), base.Mode().Perm())
}

func TestWrongPasswordIsRefused(t *testing.T) {
	c := open(t, reachable(t))
	_, err := pgx.Connect(t.Context(), strings.Replace(c.DSN(), c.place.password, "guess", 1))
	require.ErrorContains(t, err, "password authentication failed")
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(reachable(t), strings.Repeat("a-long-folder-name/", 8), "data")
	c := open(t, dir)
	forget(t, c.socket)
	require.Greater(t, len(c.Dir()), 107)
	require.Less(t, len(c.socket), 80)
	require.Equal(t, "1", exec1(t, c, "SELECT '1'"))
}

func TestBesideAnotherPostgresOn5432(t *testing.T) {
	if l, err := net.Listen("tcp", "127.0.0.1:5432"); err == nil {
		defer l.Close()
	}
	first, second := open(t, reachable(t)), open(t, reachable(t))
	exec1(t, first, "CREATE TABLE only_here AS SELECT 1")
	require.Equal(t, "1", exec1(t, first, "SELECT count(*)::text FROM pg_class WHERE relname = 'only_here'"))
	require.Equal(t, "0", exec1(t, second, "SELECT count(*)::text FROM pg_class WHERE relname = 'only_here'"))
}

func TestStalePidFileOfAProcessNumberInUse(t *testing.T) {
	dir := reachable(t)
	c := open(t, dir)
	exec1(t, c, "CREATE TABLE kept AS SELECT 'committed' AS word")
	pidFile := filepath.Join(c.place.data(), "postmaster.pid")
	b, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.pid, syscall.SIGKILL))
	<-c.exited
	c.release()

	// A process of the same user now has the number that the pid file names.
	sleeper := c.place.command(t.Context(), c.in, "/", "postgres")
	sleeper.Path, sleeper.Args = "/bin/sleep", []string{"sleep", "60"}
	require.NoError(t, sleeper.Start())
	defer func() {
		require.NoError(t, sleeper.Process.Kill())
		sleeper.Wait()
	}()
	_, rest, _ := bytes.Cut(b, []byte("\n"))
	stale := append([]byte(strconv.Itoa(sleeper.Process.Pid)+"\n"), rest...)
	require.NoError(t, os.WriteFile(pidFile, stale, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.socket, ".s.PGSQL.5432.lock"), stale, 0o600))

	again := open(t, dir)
	require.Equal(t, "committed", exec1(t, again, "SELECT word FROM kept"))
	require.True(t, alive(sleeper.Process.Pid), "the innocent process must live")
}

func TestKilledServerLeavesAPostmasterThatIsTakenOver(t *testing.T) {
	dir := reachable(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PGLOCAL_TEST_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 64)
	n, _ := out.Read(line)
	require.Equal(t, "ready\n", string(line[:n]))

	guest := open(t, dir)
	require.False(t, guest.Owned())
	pid := postmasterPID(guest.place.data())
	require.NoError(t, guest.Close())
	require.True(t, alive(pid), "a guest must not stop the cluster")

	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	require.True(t, alive(pid), "the postmaster outlives its server")
	heir := open(t, dir)
	require.True(t, heir.Owned())
	require.Equal(t, pid, heir.pid)
	require.Equal(t, "1", exec1(t, heir, "SELECT '1'"))
	require.NoError(t, heir.Close())
	require.Eventually(t, func() bool { return !alive(pid) || len(members(heir.place.data())) == 0 }, 5*time.Second, 20*time.Millisecond)
}

// keptThrough wants c, while it keeps Postgres, to answer from another postmaster after the trouble, and returns what sql
// selects. Postgres may have been stopped when it returns: a start that isn't over when c keeps it no more is taken back.
func keptThrough(t *testing.T, c *Cluster, trouble func() error, sql string) string {
	t.Helper()
	before, dsn := postmasterPID(c.place.data()), c.DSN()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Keep(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	require.NoError(t, trouble())
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), dsn)
		return err == nil && conn.Close(t.Context()) == nil && postmasterPID(c.place.data()) != before
	}, 20*time.Second, 100*time.Millisecond)
	return query(t, dsn, sql)
}

func TestKilledPostmasterIsStartedAgain(t *testing.T) {
	c := open(t, reachable(t))
	exec1(t, c, "CREATE TABLE kept AS SELECT 'committed' AS word")
	kill := func() error { return syscall.Kill(postmasterPID(c.place.data()), syscall.SIGKILL) }
	require.Equal(t, "committed", keptThrough(t, c, kill, "SELECT word FROM kept"))
}

func TestGuestTakesOverFromAnOwnerThatStops(t *testing.T) {
	dir := reachable(t)
	owner, guest := open(t, dir), open(t, dir)
	require.False(t, guest.Owned())
	require.Equal(t, "1", keptThrough(t, guest, owner.Close, "SELECT '1'"))
	require.True(t, guest.Owned())
}

func TestInterruptedInitdbIsMadeAnew(t *testing.T) {
	dir := reachable(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres", "cluster.new", "base"), 0o755))
	c := open(t, dir)
	require.Equal(t, "1", exec1(t, c, "SELECT '1'"))
}

func TestCancelledStartLeavesNothingRunning(t *testing.T) {
	dir := reachable(t)
	require.NoError(t, open(t, dir).Close())
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	c, err := Open(ctx, dir, Options{Fast: true})
	if err == nil { // a fast machine
		require.NoError(t, c.Close())
	}
	require.Empty(t, members(filepath.Join(dir, "postgres", "cluster")))
}

func TestRootWithAClosedHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	home := filepath.Join(reachable(t), "home")
	require.NoError(t, os.MkdirAll(home, 0o700))
	dir := filepath.Join(home, "checkout", ".trinity")
	c := open(t, dir)
	forget(t, c.Dir())
	require.Regexp(t, `^/var/lib/trinity-[0-9a-f]{12}$`, c.Dir())
	info, err := os.Stat(c.Dir())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NotZero(t, info.Sys().(*syscall.Stat_t).Uid)
	exec1(t, c, "CREATE TABLE kept AS SELECT 'there' AS word")
	require.NoError(t, c.Close())

	moved := filepath.Join(home, "moved")
	require.NoError(t, os.Rename(filepath.Join(home, "checkout"), moved))
	again := open(t, filepath.Join(moved, ".trinity"))
	require.Equal(t, "there", exec1(t, again, "SELECT word FROM kept"), "the record moves with the data directory")
}

// TestAsOrdinaryUser runs the other tests again as nobody.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runs as an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "pglocal-nobody")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	binary, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	program := filepath.Join(dir, "pglocal.test")
	require.NoError(t, os.WriteFile(program, binary, 0o755))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "Stop|Long|Beside|Stale|Killed|Interrupted|Belongs")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.GreaterOrEqual(t, strings.Count(string(out), "--- PASS"), 7, "%s", out)
	t.Logf("%s", out)
}

func TestClusterThatBelongsToSomeoneElse(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may use every cluster")
	}
	dir := reachable(t)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, writeRecord(filepath.Join(dir, "postgres.json"), record{Base: "/var/lib", Password: "x"}))
	_, err := Open(t.Context(), dir, Options{})
	require.ErrorContains(t, err, "belongs to user id 0")
}

func TestMissingPostgresNamesTheCommand(t *testing.T) {
	for _, c := range []struct{ release, version, want string }{
		{"ID=debian\n", "", "sudo apt-get install postgresql"},
		{"ID=ubuntu\nID_LIKE=debian\n", "15", "sudo apt-get install postgresql-15"},
		{"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "", "sudo dnf install postgresql-server"},
		{"ID=alpine\n", "16", "sudo apk add postgresql16"},
		{"ID=arch\n", "", "sudo pacman -S postgresql"},
		{"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "", "sudo zypper install postgresql-server"},
	} {
		require.Equal(t, c.want, installFor(c.release, c.version))
	}
	require.ErrorContains(t, &MissingError{Install: "sudo apt-get install postgresql"}, "is not installed: run")
}
