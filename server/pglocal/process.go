package pglocal

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmasterPID reads the pid file of a cluster. It is 0 where there is none or it is damaged.
func postmasterPID(data string) int {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// postmasterSocket reads the socket folder from the pid file.
func postmasterSocket(data string) string {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return ""
	}
	if lines := strings.Split(string(b), "\n"); len(lines) > 4 {
		return strings.TrimSpace(lines[4])
	}
	return ""
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// members lists the processes of a cluster: all of them keep its folder as working directory. Where there is no /proc,
// the pid file has to be believed.
func members(data string) []int {
	entries, err := os.ReadDir("/proc/self")
	if err != nil || len(entries) == 0 {
		if pid := postmasterPID(data); pid != 0 && alive(pid) {
			return []int{pid}
		}
		return nil
	}
	real, err := filepath.EvalSymlinks(data)
	if err != nil {
		return nil
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range procs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err == nil && cwd == real && isPostgres(e.Name()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isPostgres(pid string) bool {
	comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	return err == nil && strings.HasPrefix(string(comm), "postgres")
}

// signalAndWait sends sig to the pids and waits until list is empty or the time is over.
func signalAndWait(list func() []int, sig syscall.Signal, wait time.Duration) bool {
	for _, pid := range list() {
		syscall.Kill(pid, sig) // one that has just ended is what is wanted
	}
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if len(list()) == 0 {
			return true
		}
	}
	return len(list()) == 0
}
