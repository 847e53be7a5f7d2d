package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/trinity-lab/trinity/server"
	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "train" || os.Args[1] == "resume") {
		os.Stderr.WriteString("trinity: the corpus is empty\n")
		os.Exit(2)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// dataDir may be entered by the user that Postgres runs as where root runs the tests.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "trinity-server")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

func start(t *testing.T, data string) (*server.Server, error) {
	t.Helper()
	return server.Start(t.Context(), server.Options{Config: config.Config{Addr: "127.0.0.1:0", Data: data}, Program: os.Args[0],
		Version: "test", Log: slog.New(slog.DiscardHandler)})
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestServerFromNothingAndAgain(t *testing.T) {
	data := dataDir(t)
	s, err := start(t, data)
	require.NoError(t, err)
	status, _ := get(t, s.URL()+"readyz")
	require.Equal(t, 200, status)
	status, page := get(t, s.URL())
	require.Equal(t, 200, status)
	require.Contains(t, page, "<html")

	_, err = start(t, data)
	require.ErrorContains(t, err, "is served already at "+s.URL())
	status, _ = get(t, s.URL()+"readyz")
	require.Equal(t, 200, status, "the refused server must not stop the first one's database")

	resp, err := http.Post(s.URL()+"api/v1/runs", "application/json", strings.NewReader(`{"preset":"windtunnel"}`))
	require.NoError(t, err)
	var run experiment.Run
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&run))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 201, resp.StatusCode)
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL(), "http")+"api/v1/live", nil)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.WriteJSON(map[string]any{"subscribe": "run/" + run.ID, "after": 0}))
	failed := false
	for !failed { // queued, starting, the log, failed
		var e experiment.Event
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		require.NoError(t, conn.ReadJSON(&e))
		failed = e.Kind == experiment.EventStatus && bytes.Contains(e.Data, []byte(`"failed"`))
	}
	require.NoError(t, s.Close())

	s, err = start(t, data)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	status, body := get(t, s.URL()+"api/v1/runs/"+run.ID)
	require.Equal(t, 200, status)
	require.Contains(t, body, "the corpus is empty")
}

func TestKilledPostgresComesBack(t *testing.T) {
	data := dataDir(t)
	s, err := start(t, data)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	killed := postmaster(t, data)
	require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		status, _ := get(t, s.URL()+"readyz")
		return status == 200 && postmaster(t, data) != killed
	}, 30*time.Second, 100*time.Millisecond)
}

// postmaster reads the private cluster's pid file; 0 where there is none.
func postmaster(t *testing.T, data string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "postgres", "cluster", "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

func TestBusyAddress(t *testing.T) {
	data := dataDir(t)
	s, err := start(t, data)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = server.Start(t.Context(), server.Options{Config: config.Config{Addr: strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/"), Data: dataDir(t)},
		Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--addr")
}
