package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFile is the process file's name inside a run directory.
const pidFile = "pid.json"

// process is a trainer's process. Born tells it from a later process with the same number.
type process struct {
	PID  int    `json:"pid"`
	Born string `json:"born"`

	ended chan string // for our own child: how it ended; nil for one taken over
}

// born identifies a process by when it started: boot id and start tick on Linux, ps's start time elsewhere. It is empty
// where there is no such process, and for a zombie.
func born(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, rest, ok := cutLast(string(stat), ") ") // the name before may hold anything
		fields := strings.Fields(rest)
		if !ok || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
			return ""
		}
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		return strings.TrimSpace(string(boot)) + "/" + fields[19]
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		return ""
	}
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	line := strings.TrimSpace(string(out))
	if err != nil || strings.HasPrefix(line, "Z") {
		return ""
	}
	return strings.TrimLeft(line, "RSDTIUXtsNWL<+ ")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (p process) alive() bool {
	return p.Born != "" && born(p.PID) == p.Born
}

// signal reaches the whole group: the trainer leads a session of its own.
func (p process) signal(sig syscall.Signal) {
	if p.alive() {
		syscall.Kill(-p.PID, sig) // one that has just ended is what is wanted
	}
}

// find returns the live process of a run directory: by its process file, or, where the server was killed before it
// wrote one, by its arguments.
func find(dir string) (process, bool) {
	var p process
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err == nil && json.Unmarshal(b, &p) == nil && p.PID > 1 && p.alive() {
		return p, true
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return process{}, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && isTrainer(args, dir) {
			if p := (process{PID: pid, Born: born(pid)}); p.Born != "" {
				return p, true
			}
		}
	}
	return process{}, false
}

// isTrainer recognises "trinity train ... DIR" and "trinity resume DIR".
func isTrainer(cmdline []byte, dir string) bool {
	args := bytes.Split(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0})
	if len(args) < 3 || string(args[1]) != "train" && string(args[1]) != "resume" {
		return false
	}
	return string(args[len(args)-1]) == dir
}

// spawn starts cmd in a session of its own with its output appended to the directory's log, and writes the process file.
func spawn(cmd *exec.Cmd, dir string) (process, error) {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return process{}, fmt.Errorf("open the run's log: %w", err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("start the trainer: %w", err)
	}
	p := process{PID: cmd.Process.Pid, Born: born(cmd.Process.Pid), ended: make(chan string, 1)}
	go func() { p.ended <- describe(cmd.Wait()) }()
	return p, p.write(dir)
}

// write replaces the process file whole.
func (p process) write(dir string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, pidFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write the run's process file: %w", err)
	}
	return os.Rename(path+".new", path)
}

func describe(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return fmt.Sprintf("was ended by signal %d (%s)", status.Signal(), status.Signal())
		}
		return fmt.Sprintf("ended with exit status %d", exit.ExitCode())
	}
	if err != nil {
		return err.Error()
	}
	return "ended with exit status 0"
}

// wait returns how the process ended, or false where stop was closed first.
func (p process) wait(stop <-chan struct{}) (string, bool) {
	if p.ended != nil {
		select {
		case how := <-p.ended:
			return how, true
		case <-stop:
			return "", false
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for p.alive() {
		select {
		case <-tick.C:
		case <-stop:
			return "", false
		}
	}
	return "ended while it was not this server's child", true
}
