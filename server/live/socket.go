package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/trinity-lab/trinity/server/experiment"
)

const (
	maxClients       = 512
	maxSubscriptions = 32      // a client
	maxMessage       = 4 << 10 // bytes a client may send at once
	writeLimit       = 10 * time.Second
	pingEvery        = 20 * time.Second
	pongLimit        = 50 * time.Second
)

// request is what a client sends: {"subscribe":"run/ID","after":SEQ} or {"unsubscribe":"run/ID"}.
type request struct {
	Subscribe   string `json:"subscribe"`
	Unsubscribe string `json:"unsubscribe"`
	After       int64  `json:"after"`
}

// fault is an error sent to a client, in the shape of the API's errors.
type fault struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Handler upgrades requests to websockets. allowOrigin judges requests that carry an Origin; ctx ends all connections.
func (h *Hub) Handler(ctx context.Context, allowOrigin func(r *http.Request) bool) http.Handler {
	upgrader := websocket.Upgrader{CheckOrigin: allowOrigin, HandshakeTimeout: writeLimit, EnableCompression: true}
	seats := make(chan struct{}, maxClients)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case seats <- struct{}{}:
			defer func() { <-seats }()
		default:
			http.Error(w, "too many live connections; close some pages", http.StatusServiceUnavailable)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered
		}
		c := &client{hub: h, conn: conn, subs: map[string]context.CancelFunc{}}
		c.serve(ctx)
	})
}

// client is one connection. One goroutine reads; each subscription has one that writes; mu keeps writes apart.
type client struct {
	hub  *Hub
	conn *websocket.Conn

	mu   sync.Mutex // of writes
	subs map[string]context.CancelFunc
	wg   sync.WaitGroup
}

// serve reads requests until the connection or ctx ends. A client that doesn't take what it is sent within the write
// limit is dropped; it reconnects with its last sequence number and misses nothing.
func (c *client) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer c.wg.Wait()
	defer c.conn.Close()
	defer cancel()
	c.wg.Go(func() { c.ping(ctx, cancel) })
	c.wg.Go(func() { // a read doesn't notice ctx
		<-ctx.Done()
		c.conn.Close()
	})
	c.conn.SetReadLimit(maxMessage)
	c.conn.SetReadDeadline(time.Now().Add(pongLimit))
	c.conn.SetPongHandler(func(string) error { return c.conn.SetReadDeadline(time.Now().Add(pongLimit)) })
	for {
		kind, message, err := c.conn.ReadMessage()
		if err != nil {
			return
		}
		if kind != websocket.TextMessage {
			continue
		}
		if err := c.handle(ctx, cancel, message); err != nil && c.refuse(err) != nil {
			return
		}
	}
}

func (c *client) ping(ctx context.Context, cancel context.CancelFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(time.Second))
			return
		case <-tick.C:
			if err := c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeLimit)); err != nil {
				cancel()
				return
			}
		}
	}
}

// handle serves one request.
func (c *client) handle(ctx context.Context, drop context.CancelFunc, message []byte) error {
	var req request
	if err := json.Unmarshal(message, &req); err != nil {
		return experiment.Invalid("message", `is not JSON of the form {"subscribe":"run/ID","after":0}`)
	}
	name := req.Subscribe + req.Unsubscribe
	id, ok := strings.CutPrefix(name, "run/")
	if !ok || req.After < 0 || req.Subscribe != "" && req.Unsubscribe != "" {
		return experiment.Invalid("subscribe", `is not "run/ID" with an after of 0 or more`)
	}
	if end := c.subs[id]; end != nil { // a second subscription starts over
		end()
		delete(c.subs, id)
	}
	if req.Unsubscribe != "" {
		return nil
	}
	if len(c.subs) >= maxSubscriptions {
		return experiment.Invalid("subscribe", "would be the %dth subscription of this connection; open another", maxSubscriptions+1)
	}
	if _, err := c.hub.store.Run(ctx, id); err != nil {
		return err
	}
	subscription, end := context.WithCancel(ctx)
	c.subs[id] = end
	c.wg.Go(func() {
		if err := c.feed(subscription, id, req.After); err != nil {
			drop()
		}
	})
	return nil
}

// feed sends a run's events behind after as they come.
func (c *client) feed(ctx context.Context, run string, after int64) error {
	f := c.hub.join(run)
	defer c.hub.leave(run, f)
	for {
		grown := c.hub.growth(f)
		events, err := c.hub.next(ctx, run, f, after)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return nil
			}
			if e.Seq != after+1 {
				return fmt.Errorf("the feed of run %s jumps from %d to %d", run, after, e.Seq)
			}
			if err := c.send(ctx, e); err != nil {
				return err
			}
			after = e.Seq
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-time.After(recheck):
		case <-ctx.Done():
			return nil
		}
	}
}

// send writes v, unless ctx has ended meanwhile: nothing of an ended subscription follows the start of its successor.
func (c *client) send(ctx context.Context, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	c.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	return c.conn.WriteMessage(websocket.TextMessage, b)
}

// refuse tells the client why a request was not served.
func (c *client) refuse(err error) error {
	var f fault
	f.Error.Code, f.Error.Message = "unavailable", "the feed can't be read now; try again"
	switch {
	case errors.Is(err, experiment.ErrInvalid):
		f.Error.Code, f.Error.Message = "invalid", err.Error()
	case errors.Is(err, experiment.ErrNotFound):
		f.Error.Code, f.Error.Message = "not_found", "there is no such run"
	}
	return c.send(context.Background(), f)
}
