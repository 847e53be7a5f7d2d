package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/trinity-lab/trinity/server/pglocal"
)

type doctorCmd struct {
	serverFlags
	modelFlags
}

// check is one line of the doctor's report.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning, missing or error
	Found  string `json:"found"`
	Mend   string `json:"mend,omitempty"`
}

// Run looks at what trinity needs. It fails where something that every run needs is missing.
func (cmd doctorCmd) Run(c *Context) error {
	if cmd.Model != "" {
		return cmd.inspect(c)
	}
	checks := []check{cmd.database(c.Ctx), cmd.disk(), memory(), processor(), gpu()}
	failed := 0
	for _, k := range checks {
		if k.Status == "error" {
			failed++
		}
	}
	if c.JSON {
		if err := json.NewEncoder(c.Stdout).Encode(map[string]any{"ok": failed == 0, "checks": checks}); err != nil {
			return err
		}
	} else {
		for _, k := range checks {
			fmt.Fprintf(c.Stdout, "%-8s %-9s %s\n", k.Status, k.Name, k.Found)
			if k.Mend != "" {
				fmt.Fprintf(c.Stdout, "%-18s -> %s\n", "", k.Mend)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed; the report says how to mend them", failed, len(checks))
	}
	return nil
}

// database looks for a Postgres to use, without starting one.
func (cmd doctorCmd) database(ctx context.Context) check {
	k := check{Name: "postgres", Status: "ok"}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if cmd.DatabaseURL != "" {
		conn, err := pgx.Connect(ctx, cmd.DatabaseURL)
		if err != nil {
			return check{k.Name, "error", fmt.Sprintf("DATABASE_URL is set, but: %v", err), "correct DATABASE_URL, or unset it to use a private Postgres"}
		}
		defer conn.Close(ctx)
		k.Found = "DATABASE_URL answers, Postgres " + conn.PgConn().ParameterStatus("server_version")
		return k
	}
	found := pglocal.Find(ctx)
	if len(found) == 0 {
		missing := &pglocal.MissingError{Install: pglocal.InstallCommand(0)}
		return check{k.Name, "error", "not installed", missing.Install}
	}
	names := make([]string, len(found))
	for i, in := range found {
		names[i] = in.Version + " in " + in.Bin
	}
	k.Found = strings.Join(names, ", ")
	return k
}

// disk checks that the data directory can be written and has room.
func (cmd doctorCmd) disk() check {
	k := check{Name: "disk", Status: "ok"}
	dir, err := filepath.Abs(cmd.Data)
	if err != nil {
		return check{k.Name, "error", err.Error(), "choose another data directory with --data"}
	}
	existing := dir
	for {
		if _, err := os.Stat(existing); err == nil || !errors.Is(err, os.ErrNotExist) || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	if err := unix.Access(existing, unix.W_OK|unix.X_OK); err != nil {
		return check{k.Name, "error", fmt.Sprintf("%s can't be written: %v", existing, err), "choose another data directory with --data"}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(existing, &fs); err != nil {
		return check{k.Name, "warning", fmt.Sprintf("free space in %s is unknown: %v", existing, err), ""}
	}
	free := float64(fs.Bavail) * float64(fs.Bsize) / (1 << 30)
	k.Found = fmt.Sprintf("%.1f GiB free for %s", free, dir)
	if free < 2 {
		k.Status, k.Mend = "warning", "free some space; a run with its database takes about 1 GiB"
	}
	return k
}

func memory() check {
	k := check{Name: "memory", Status: "ok", Found: "unknown"}
	total, available := machineMemory()
	if total == 0 {
		return k
	}
	k.Found = fmt.Sprintf("%s, %s available", binarySize(total), binarySize(available))
	if available < 1<<30 {
		k.Status, k.Mend = "warning", "close other programs; the wind tunnel takes about 1 GiB"
	}
	return k
}

// machineMemory is in bytes; zeros where it is unknown.
func machineMemory() (total, available int) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	kib := map[string]int{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")); err == nil {
			kib[name] = n
		}
	}
	return kib["MemTotal"] << 10, kib["MemAvailable"] << 10
}

func processor() check {
	k := check{Name: "cpu", Status: "ok"}
	features := "no AVX2"
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		features = "AVX2 and FMA"
	} else if runtime.GOARCH == "arm64" {
		features = "arm64"
	}
	k.Found = fmt.Sprintf("%d cores, %s (%s/%s)", runtime.NumCPU(), features, runtime.GOOS, runtime.GOARCH)
	if features != "AVX2 and FMA" {
		k.Status, k.Mend = "warning", "training on this CPU takes the portable path, several times slower"
	}
	return k
}

// gpu looks for NVIDIA's driver without loading it.
func gpu() check {
	k := check{Name: "gpu", Status: "ok", Found: "none; runs use the CPU"}
	b, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return k
	}
	first, _, _ := strings.Cut(string(b), "\n")
	cards, err := os.ReadDir("/proc/driver/nvidia/gpus")
	if err != nil || len(cards) == 0 {
		return check{k.Name, "warning", "NVIDIA's driver is loaded, but shows no GPU", "look at nvidia-smi"}
	}
	k.Found = fmt.Sprintf("%d NVIDIA GPU(s), %s", len(cards), strings.TrimSpace(first))
	return k
}
