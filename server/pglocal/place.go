package pglocal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// place is where a cluster lies and who runs it.
type place struct {
	base     string              // folder of cluster/, socket/, lock and postgres.log, mode 0700
	owner    *syscall.Credential // nil: the caller
	name     string              // of the owner, for messages
	password string
}

func (p place) data() string { return filepath.Join(p.base, "cluster") }
func (p place) log() string  { return filepath.Join(p.base, "postgres.log") }

// record is DATA/postgres.json.
type record struct {
	Base     string `json:"base"` // absolute, or relative to the data directory
	Password string `json:"password"`
}

// locate finds or makes the place of dataDir's cluster. in's programs are run once to learn what the owner may enter.
func locate(ctx context.Context, dataDir string, in Installation) (place, error) {
	recordPath := filepath.Join(dataDir, "postgres.json")
	var rec record
	b, err := os.ReadFile(recordPath)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &rec); err != nil || rec.Base == "" {
			return place{}, fmt.Errorf("read %s: it is damaged; restore it, or move the data directory away to start anew", recordPath)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return place{}, fmt.Errorf("read the cluster's record (the data directory may belong to another user; choose one with --data): %w", err)
	}
	p := place{password: rec.Password}
	if rec.Base != "" {
		p.base = rec.Base
		if !filepath.IsAbs(p.base) {
			p.base = filepath.Join(dataDir, p.base)
		}
		return p, p.adoptOwner(ctx, in)
	}
	if err := p.choose(ctx, dataDir, in); err != nil {
		return place{}, err
	}
	rec = record{Base: p.base, Password: rand.Text()}
	if rel, err := filepath.Rel(dataDir, p.base); err == nil && rel == "postgres" {
		rec.Base = rel
	}
	p.password = rec.Password
	return p, writeRecord(recordPath, rec)
}

func writeRecord(path string, rec record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, b, 0o600); err != nil {
		return fmt.Errorf("record the cluster's place: %w", err)
	}
	return os.Rename(temporary, path)
}

// choose picks the owner and the folder of a new cluster and makes the folder.
func (p *place) choose(ctx context.Context, dataDir string, in Installation) error {
	p.base = filepath.Join(dataDir, "postgres")
	if os.Geteuid() != 0 {
		return p.makeBase()
	}
	if err := p.unprivileged(); err != nil {
		return err
	}
	if err := p.canRun(ctx, in, "/"); err != nil {
		return fmt.Errorf("run %s/postgres as user %s (Postgres refuses root): %w", in.Bin, p.name, err)
	}
	if err := p.makeBase(); err == nil && p.canRun(ctx, in, p.base) == nil {
		return nil
	}
	os.Remove(p.base) // only if empty: the owner can't enter it
	sum := sha256.Sum256([]byte(dataDir))
	name := "trinity-" + hex.EncodeToString(sum[:6])
	var failures []error
	for _, parent := range []string{"/var/lib", "/var/tmp"} {
		p.base = filepath.Join(parent, name)
		err := p.makeBase()
		if err == nil {
			if err = p.canRun(ctx, in, p.base); err == nil {
				return nil
			}
		}
		failures = append(failures, err)
	}
	return fmt.Errorf("find a folder that user %s may enter for the database: %w", p.name, errors.Join(failures...))
}

// unprivileged picks the user that Postgres runs as for root.
func (p *place) unprivileged() error {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			p.owner, p.name = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, name
			return nil
		}
	}
	return errors.New("Postgres refuses to run as root and there is no user postgres or nobody to run it: run trinity as an ordinary user, or set DATABASE_URL")
}

// adoptOwner makes root run an existing cluster as the user who owns it.
func (p *place) adoptOwner(ctx context.Context, in Installation) error {
	info, err := os.Lstat(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		if os.Geteuid() == 0 {
			if err := p.unprivileged(); err != nil {
				return err
			}
		}
		return p.makeBase()
	}
	if err != nil {
		return fmt.Errorf("open the database's folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fmt.Errorf("the database's folder %s is not a folder", p.base)
	}
	if int(stat.Uid) != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("the database in %s belongs to user id %d: run trinity as that user or as root, or choose another folder with --data", p.base, stat.Uid)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if stat.Uid == 0 {
		if err := p.unprivileged(); err != nil {
			return err
		}
		return p.makeBase()
	}
	p.owner = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
	p.name = strconv.Itoa(int(stat.Uid))
	if err := p.canRun(ctx, in, p.base); err != nil {
		return fmt.Errorf("the database in %s can no longer be reached by its user %s: %w", p.base, p.name, err)
	}
	return nil
}

// makeBase makes the folder with mode 0700 for the owner. A folder that someone else owns is refused.
func (p *place) makeBase() error {
	if err := os.Mkdir(p.base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the database's folder: %w", err)
	}
	info, err := os.Lstat(p.base)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fmt.Errorf("%s is not a folder; move it away", p.base)
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	if p.owner != nil {
		uid, gid = p.owner.Uid, p.owner.Gid
	}
	if stat.Uid != uid && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user id %d; move it away", p.base, stat.Uid)
	}
	if err := os.Chmod(p.base, 0o700); err != nil {
		return err
	}
	if p.owner != nil {
		return os.Lchown(p.base, int(uid), int(gid))
	}
	return nil
}

// makeOwned makes a folder of the owner's inside base.
func (p *place) makeOwned(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if p.owner != nil {
		return os.Lchown(path, int(p.owner.Uid), int(p.owner.Gid))
	}
	return nil
}

// canRun reports whether the owner can execute Postgres with dir as working directory.
func (p *place) canRun(ctx context.Context, in Installation, dir string) error {
	return p.command(ctx, in, dir, "postgres", "--version").Run()
}

// command prepares a Postgres program to run as the owner, in a session of its own so that a Ctrl-C in the terminal
// reaches only the server, which then stops Postgres in order.
func (p *place) command(ctx context.Context, in Installation, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(in.Bin, program), args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + in.Bin + ":/usr/bin:/bin", "LC_ALL=C", "LANG=C", "PGTZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.owner}
	return cmd
}
