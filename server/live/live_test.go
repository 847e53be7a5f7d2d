package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/httpd"
	"github.com/trinity-lab/trinity/server/live"
	"github.com/trinity-lab/trinity/server/postgres"
	"github.com/trinity-lab/trinity/server/servertest"
)

var pg servertest.Postgres

func TestMain(m *testing.M) { pg.Main(m) }

// serve runs a hub over a store and returns the websocket's address.
func serve(t *testing.T, store live.Store) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	hub := live.NewHub(store, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		defer close(done)
		hub.Run(ctx)
	}()
	server := httptest.NewServer(hub.Handler(ctx, httpd.SameOrigin))
	t.Cleanup(func() {
		cancel()
		<-done
		server.Close()
	})
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func dial(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial(address, nil)
	require.NoError(t, err)
	resp.Body.Close()
	t.Cleanup(func() { conn.Close() })
	return conn
}

func subscribe(t *testing.T, conn *websocket.Conn, run string, after int64) {
	t.Helper()
	require.NoError(t, conn.WriteJSON(map[string]any{"subscribe": "run/" + run, "after": after}))
}

func receive(t *testing.T, conn *websocket.Conn) experiment.Event {
	t.Helper()
	var e experiment.Event
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	require.NoError(t, conn.ReadJSON(&e))
	return e
}

// chatter appends n log lines, a few a transaction.
func chatter(store *postgres.Store, run string, n int) error {
	at := int64(0)
	for said := 0; said < n; {
		var lines []experiment.LogLine
		for range min(1+rand.IntN(5), n-said) {
			said++
			lines = append(lines, experiment.LogLine{Message: fmt.Sprint(said)})
		}
		if err := store.AppendLog(context.Background(), run, at, at+1, lines); err != nil {
			return err
		}
		at++
	}
	return nil
}

// Clients that disconnect at random and come back with their last sequence number miss nothing and see nothing twice.
func TestReconnectingClientsSeeEveryEventOnce(t *testing.T) {
	const lines = 1500
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	address := serve(t, store)
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			var seen int64
			for seen < lines+1 {
				n, err := watchFor(address, run.ID, seen, 1+rand.IntN(100+400*client))
				if err != nil {
					t.Error(err)
					return
				}
				seen = n
			}
		})
	}
	require.NoError(t, chatter(store, run.ID, lines))
	wg.Wait()
}

// watchFor reads up to most events behind after, checks their order and drops the connection.
func watchFor(address, run string, after int64, most int) (int64, error) {
	conn, resp, err := websocket.DefaultDialer.Dial(address, nil)
	if err != nil {
		return after, err
	}
	resp.Body.Close()
	defer conn.Close()
	if err := conn.WriteJSON(map[string]any{"subscribe": "run/" + run, "after": after}); err != nil {
		return after, err
	}
	for range most {
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		var e experiment.Event
		if err := conn.ReadJSON(&e); err != nil {
			return after, err
		}
		if e.Seq != after+1 || e.Run != run {
			return after, fmt.Errorf("event %d of run %s follows %d", e.Seq, e.Run, after)
		}
		if after = e.Seq; after == 1501 {
			break
		}
	}
	return after, nil
}

func TestShapeOfAnEvent(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	conn := dial(t, serve(t, store))
	subscribe(t, conn, run.ID, 0)
	_, message, err := conn.ReadMessage()
	require.NoError(t, err)
	var e map[string]any
	require.NoError(t, json.Unmarshal(message, &e))
	require.Equal(t, float64(1), e["seq"])
	require.Equal(t, run.ID, e["run"])
	require.Equal(t, "status", e["kind"])
	require.Equal(t, "queued", e["data"].(map[string]any)["status"])

	_, err = store.SetStatus(t.Context(), run.ID, experiment.Running, "")
	require.NoError(t, err)
	require.Equal(t, int64(2), receive(t, conn).Seq)
	subscribe(t, conn, run.ID, 0) // starts over
	require.Equal(t, int64(1), receive(t, conn).Seq)
	require.Equal(t, int64(2), receive(t, conn).Seq)
}

func TestBadRequestsAreAnsweredAndTheConnectionStays(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	conn := dial(t, serve(t, store))
	for message, code := range map[string]string{
		`not json`:                                  "invalid",
		`{"subscribe":"everything"}`:                "invalid",
		`{"subscribe":"run/x","after":-1}`:          "invalid",
		`{"subscribe":"run/0000000000000000"}`:      "not_found",
		`{"subscribe":"run/../../../etc/passwd"}`:   "not_found",
		`{"subscribe":"run/a","unsubscribe":"run"}`: "invalid",
	} {
		require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(message)))
		var answer struct {
			Error struct {
				Code string `json:"code"`
			} `json:"error"`
		}
		require.NoError(t, conn.ReadJSON(&answer))
		require.Equal(t, code, answer.Error.Code, message)
	}
	subscribe(t, conn, run.ID, 0)
	require.Equal(t, int64(1), receive(t, conn).Seq)
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, make([]byte, 5000)))
	_, _, err := conn.ReadMessage()
	require.Error(t, err, "too long a message ends the connection")
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	address := serve(t, pg.Store(t))
	_, resp, err := websocket.DefaultDialer.Dial(address, http.Header{"Origin": {"https://evil.example"}})
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	conn, resp, err := websocket.DefaultDialer.Dial(address, http.Header{"Origin": {"http" + strings.TrimPrefix(address, "ws")}})
	require.NoError(t, err)
	resp.Body.Close()
	require.NoError(t, conn.Close())
}

// deaf is a store whose notifications never come: the feed must still arrive, from the database.
type deaf struct{ *postgres.Store }

func (deaf) Listen(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestEventsThatAreThereNeedNoNotification(t *testing.T) {
	store, run := pg.Store(t), servertest.Run(t, 9)
	require.NoError(t, store.CreateRun(t.Context(), run))
	require.NoError(t, chatter(store, run.ID, 1200))
	conn := dial(t, serve(t, deaf{store}))
	subscribe(t, conn, run.ID, 100)
	for seq := int64(101); seq <= 1201; seq++ {
		require.Equal(t, seq, receive(t, conn).Seq)
	}
}

// endless is a feed of large events that never ends.
type endless struct{}

func (endless) Run(context.Context, string) (experiment.Run, error) { return experiment.Run{}, nil }
func (endless) Events(_ context.Context, run string, after int64, limit int) ([]experiment.Event, error) {
	events := make([]experiment.Event, limit)
	data, err := json.Marshal(strings.Repeat("x", 100_000))
	for i := range events {
		events[i] = experiment.Event{Seq: after + int64(i) + 1, Run: run, Kind: experiment.EventLog, Data: data}
	}
	return events, err
}
func (endless) Listen(ctx context.Context, _ func(string)) error { <-ctx.Done(); return ctx.Err() }

// A client that doesn't read is dropped after the write limit, and others are served meanwhile.
func TestClientThatDoesNotReadIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the write limit")
	}
	address := serve(t, endless{})
	stuck := dial(t, address)
	subscribe(t, stuck, "aaaa", 0)
	quick := dial(t, address)
	subscribe(t, quick, "bbbb", 0)
	for seq := int64(1); seq < 200; seq++ {
		require.Equal(t, seq, receive(t, quick).Seq)
	}
	time.Sleep(12 * time.Second)
	require.NoError(t, stuck.SetReadDeadline(time.Now().Add(60*time.Second)))
	var err error
	for err == nil { // what the kernel had taken, then the end
		_, _, err = stuck.ReadMessage()
	}
	require.False(t, isTimeout(err), "the server must have closed the connection: %v", err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
