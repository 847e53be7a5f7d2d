package pglocal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	superuser   = "trinity"
	database    = "trinity"
	socketLimit = 100 // bytes of a socket's path: the kernel's limit is 107 on Linux, 103 on macOS
)

// Options change how a cluster is run.
type Options struct {
	Log  *slog.Logger // nil is silent
	Fast bool         // no fsync: for tests, whose data may be lost
}

// Cluster is a running private Postgres.
type Cluster struct {
	place  place
	in     Installation
	socket string
	lock   *os.File      // held by the process that stops the cluster; nil for a guest
	pid    int           // of the postmaster, where this process owns it
	exited chan struct{} // closed when a postmaster that is our child has ended; nil where it was adopted
	log    *slog.Logger
	fast   bool
}

// Open runs dataDir's cluster, making it on the first call, and waits until it accepts connections. Where another live
// process runs it already, Open is a guest: it uses the cluster and leaves stopping to that process. A postmaster whose
// process was killed is taken over. A *MissingError says that Postgres is not installed.
func Open(ctx context.Context, dataDir string, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dataDir, err := prepare(dataDir)
	if err != nil {
		return nil, err
	}
	installations := Find(ctx)
	if len(installations) == 0 {
		return nil, &MissingError{Install: InstallCommand(0)}
	}
	c := &Cluster{in: installations[0], log: o.Log, fast: o.Fast}
	if c.place, err = locateLocked(ctx, dataDir, c.in); err != nil {
		return nil, err
	}
	if err := c.matchVersion(installations); err != nil {
		return nil, err
	}
	if c.lock, err = acquire(filepath.Join(c.place.base, "lock")); err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// prepare makes the data directory and returns its absolute path without symbolic links. Root's may be entered (not
// read) by others, because the cluster's user has to.
func prepare(dataDir string) (string, error) {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dataDir, mode); err != nil {
		return "", fmt.Errorf("make the data directory: %w", err)
	}
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// locateLocked keeps two first starts at the same time from choosing two passwords.
func locateLocked(ctx context.Context, dataDir string, in Installation) (place, error) {
	dir, err := os.Open(dataDir)
	if err != nil {
		return place{}, fmt.Errorf("open the data directory: %w", err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return place{}, fmt.Errorf("lock the data directory: %w", err)
	}
	return locate(ctx, dataDir, in)
}

// acquire takes the lock file. It is nil where another process holds it.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database's lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// matchVersion picks the installation whose major version made the cluster.
func (c *Cluster) matchVersion(all []Installation) error {
	b, err := os.ReadFile(filepath.Join(c.place.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the cluster's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("the cluster's PG_VERSION holds %q; restore it from a backup", b)
	}
	for _, in := range all {
		if in.Major == major {
			c.in = in
			return nil
		}
	}
	return &MissingError{Major: major, Install: InstallCommand(major)}
}

// socketDir is inside the cluster's folder where the path is short enough for the kernel, otherwise a folder of the
// owner's under the temporary directory, named by the cluster's path.
func (c *Cluster) socketDir() (string, error) {
	dir := filepath.Join(c.place.base, "socket")
	if len(dir)+len("/.s.PGSQL.5432.lock") <= socketLimit {
		return dir, c.place.makeOwned(dir)
	}
	sum := sha256.Sum256([]byte(c.place.base))
	name := "trinity-pg-" + hex.EncodeToString(sum[:8])
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir = filepath.Join(parent, name)
		if len(dir)+len("/.s.PGSQL.5432.lock") > socketLimit {
			continue
		}
		p := place{base: dir, owner: c.place.owner}
		if err := p.makeBase(); err != nil {
			return "", fmt.Errorf("make the folder of the database's socket: %w", err)
		}
		if c.place.canRun(context.Background(), c.in, dir) == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the path %s is too long for a socket and no temporary folder serves: set TMPDIR to a short path", c.place.base)
}

// run brings the cluster up or joins it.
func (c *Cluster) run(ctx context.Context) error {
	if c.lock == nil {
		if err := c.waitReady(ctx, 60*time.Second); err != nil {
			return fmt.Errorf("another trinity process runs the database in %s, but it does not answer: %w", c.place.base, err)
		}
		return nil
	}
	if c.adopt(ctx) {
		if err := c.createDatabase(ctx); err != nil {
			return err
		}
		c.log.Info("took over a running Postgres", "pid", c.pid)
		return nil
	}
	socket, err := c.socketDir()
	if err != nil {
		return err
	}
	c.socket = socket
	if err := c.clear(); err != nil {
		return err
	}
	if err := c.initialise(ctx); err != nil {
		return err
	}
	if err := c.start(); err != nil {
		return err
	}
	if err := c.waitReady(ctx, 5*time.Minute); err != nil {
		err = errors.Join(err, c.stop())
		return fmt.Errorf("start Postgres (see %s): %w%s", c.place.log(), err, c.logTail())
	}
	return c.createDatabase(ctx)
}

// adopt reports whether a postmaster of this cluster already runs and answers.
func (c *Cluster) adopt(ctx context.Context) bool {
	pid := postmasterPID(c.place.data())
	if pid == 0 || !alive(pid) {
		return false
	}
	if !slices.Contains(members(c.place.data()), pid) || c.waitReady(ctx, 20*time.Second) != nil {
		return false
	}
	c.pid = pid
	return true
}

// clear ends what is left of a crashed postmaster and removes its pid and socket files, so that a process number used
// again by someone else doesn't stop Postgres from starting.
func (c *Cluster) clear() error {
	list := func() []int { return members(c.place.data()) }
	if !signalAndWait(list, 0, 2*time.Second) && !signalAndWait(list, syscall.SIGQUIT, 10*time.Second) &&
		!signalAndWait(list, syscall.SIGKILL, 10*time.Second) {
		return fmt.Errorf("processes %v still use the database in %s and can't be ended; end them by hand", list(), c.place.data())
	}
	for _, path := range []string{
		filepath.Join(c.place.data(), "postmaster.pid"),
		filepath.Join(c.socket, ".s.PGSQL.5432"),
		filepath.Join(c.socket, ".s.PGSQL.5432.lock"),
	} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a crashed Postgres's file: %w", err)
		}
	}
	return nil
}

// initialise makes the cluster under another name first, so that an interrupted initdb leaves nothing half made.
func (c *Cluster) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.place.data(), "PG_VERSION")); err == nil {
		return nil
	}
	fresh := filepath.Join(c.place.base, "cluster.new")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove a half-made cluster: %w", err)
	}
	password := filepath.Join(c.place.base, "password")
	if err := os.WriteFile(password, []byte(c.place.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	defer os.Remove(password)
	if c.place.owner != nil {
		if err := os.Lchown(password, int(c.place.owner.Uid), int(c.place.owner.Gid)); err != nil {
			return err
		}
	}
	args := []string{"-D", fresh, "-U", superuser, "--pwfile=" + password, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"}
	if c.fast {
		args = append(args, "--no-sync")
	}
	out, err := c.place.command(ctx, c.in, c.place.base, "initdb", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the database with %s/initdb: %w\n%s", c.in.Bin, err, bytes.TrimSpace(out))
	}
	return os.Rename(fresh, c.place.data())
}

// settings of the postmaster: local only, and no shared memory segments beyond the main one, which small containers lack.
func (c *Cluster) settings() []string {
	all := []string{
		"listen_addresses=", "port=5432", "unix_socket_directories=" + c.socket, "unix_socket_permissions=0700",
		"logging_collector=off", "log_destination=stderr", "log_min_messages=warning", "log_line_prefix=%m [%p] ",
		"timezone=UTC", "log_timezone=UTC", "jit=off", "max_parallel_workers_per_gather=0", "max_wal_size=512MB",
		"idle_in_transaction_session_timeout=10min",
	}
	if c.fast {
		all = append(all, "fsync=off", "full_page_writes=off")
	}
	return all
}

func (c *Cluster) start() error {
	if info, err := os.Stat(c.place.log()); err == nil && info.Size() > 16<<20 {
		_ = os.Rename(c.place.log(), c.place.log()+".1") // best effort: a long log is no reason not to start
	}
	logFile, err := os.OpenFile(c.place.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open Postgres's log: %w", err)
	}
	defer logFile.Close()
	args := []string{"-D", c.place.data()}
	for _, s := range c.settings() {
		args = append(args, "-c", s)
	}
	cmd := c.place.command(context.Background(), c.in, c.place.base, "postgres", args...)
	cmd.Cancel = nil // outlives every context; Close ends it
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s/postgres: %w", c.in.Bin, err)
	}
	c.pid, c.exited = cmd.Process.Pid, make(chan struct{})
	go reap(cmd, c.exited)
	return nil
}

func reap(cmd *exec.Cmd, exited chan struct{}) {
	_ = cmd.Wait() // the exit status is in Postgres's log
	close(exited)
}

// waitReady connects until it works. It gives up early where the postmaster has ended.
func (c *Cluster) waitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if dir := postmasterSocket(c.place.data()); dir != "" && c.exited == nil {
			c.socket = dir // that of a postmaster started with another TMPDIR
		}
		conn, err := pgx.Connect(ctx, c.dsn("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code != "57P03" && refused.Code != "53300" { // starting up, or full
			return fmt.Errorf("log in to Postgres: %w", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-c.exited: // nil, so never, for one that is not our child
			return errors.New("Postgres ended at once")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.dsn("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private Postgres: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}

func (c *Cluster) logTail() string {
	b, err := os.ReadFile(c.place.log())
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// DSN is the connection string of the database trinity.
func (c *Cluster) DSN() string { return c.dsn(database) }

// DSNOf is the connection string of another database of the cluster.
func (c *Cluster) DSNOf(name string) string { return c.dsn(name) }

func (c *Cluster) dsn(name string) string {
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	return fmt.Sprintf("host=%s port=5432 user=%s password=%s dbname=%s sslmode=disable",
		quote(c.socket), superuser, quote(c.place.password), quote(name))
}

// Version is that of the installation, such as "15.13"; Dir is the folder of the cluster.
func (c *Cluster) Version() string { return c.in.Version }

// Dir is the folder that holds the cluster.
func (c *Cluster) Dir() string { return c.place.base }

// Owned reports whether Close stops the cluster.
func (c *Cluster) Owned() bool { return c.lock != nil }

// Keep starts the cluster again whenever it has ended unasked, and takes it over where Open was a guest and the process
// that ran it has ended, until ctx ends. Call Close only after it has returned.
func (c *Cluster) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if c.lock == nil {
			lock, err := acquire(filepath.Join(c.place.base, "lock"))
			if err != nil || lock == nil {
				continue
			}
			c.lock = lock
		} else if !c.ended() {
			continue
		}
		c.log.Warn("Postgres is no longer run by anyone; taking it over", "log", c.place.log())
		if err := c.run(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("Postgres could not be started again; trying once more", "error", err)
		}
	}
}

// Close stops the cluster (a fast shutdown: transactions are rolled back, data is flushed) unless another process runs it.
func (c *Cluster) Close() error {
	if c.lock == nil {
		return nil
	}
	defer c.release()
	return c.stop()
}

// stop tries a fast shutdown, then an immediate one (recovered from the log at the next start), then kills.
func (c *Cluster) stop() error {
	list := func() []int {
		if c.ended() {
			return nil
		}
		return []int{c.pid}
	}
	if c.exited != nil {
		defer func() { <-c.exited }()
	}
	if signalAndWait(list, syscall.SIGINT, 60*time.Second) || signalAndWait(list, syscall.SIGQUIT, 10*time.Second) {
		return nil
	}
	all := func() []int { return append(list(), members(c.place.data())...) }
	if !signalAndWait(all, syscall.SIGKILL, 10*time.Second) {
		return fmt.Errorf("stop Postgres in %s: processes %v do not end", c.place.data(), all())
	}
	return nil
}

// ended reports whether the postmaster is gone.
func (c *Cluster) ended() bool {
	if c.exited == nil {
		return !slices.Contains(members(c.place.data()), c.pid)
	}
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

func (c *Cluster) release() {
	if c.lock != nil {
		c.lock.Close() // frees the lock
		c.lock = nil
	}
}
