// Package live sends the feeds of runs to websocket clients, without gaps and in order.
package live

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
)

// Store is the feed's source.
type Store interface {
	Run(ctx context.Context, id string) (experiment.Run, error)
	// Events returns up to limit events with Seq > after, ascending and without gaps.
	Events(ctx context.Context, run string, after int64, limit int) ([]experiment.Event, error)
	// Listen calls fn with a run's id after commits to its feed, and with "" when any may have been missed.
	Listen(ctx context.Context, fn func(run string)) error
}

const (
	pageSize  = 500              // events read at once
	ringSize  = 1024             // newest events of a run kept for its clients
	recheck   = 15 * time.Second // a client looks at the database even when nothing was heard
	reconnect = time.Second
)

// Hub wakes clients when their run's feed has grown. What they are sent comes from the database by sequence number, so
// a lost notification delays an event and never loses it.
type Hub struct {
	store Store
	log   *slog.Logger

	mu    sync.Mutex
	feeds map[string]*feed
}

// feed is a run that somebody watches.
type feed struct {
	clients int
	grown   chan struct{} // closed and replaced when the run's feed may have grown

	read sync.Mutex         // one reader fetches for all
	ring []experiment.Event // the newest events, without gaps
}

// NewHub returns a Hub; Run makes it listen.
func NewHub(store Store, log *slog.Logger) *Hub {
	return &Hub{store: store, log: log, feeds: map[string]*feed{}}
}

// Run listens for commits until ctx ends, and connects again where the connection is lost.
func (h *Hub) Run(ctx context.Context) {
	for {
		err := h.store.Listen(ctx, h.wake)
		if ctx.Err() != nil {
			return
		}
		h.log.Warn("lost the database's notifications; connecting again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnect):
		}
	}
}

// wake tells the clients of a run, or all for "".
func (h *Hub) wake(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, f := range h.feeds {
		if run == "" || id == run {
			close(f.grown)
			f.grown = make(chan struct{})
		}
	}
}

// join counts a client in.
func (h *Hub) join(run string) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[run]
	if f == nil {
		f = &feed{grown: make(chan struct{})}
		h.feeds[run] = f
	}
	f.clients++
	return f
}

func (h *Hub) leave(run string, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.clients--; f.clients == 0 {
		delete(h.feeds, run)
	}
}

// growth returns the channel that the next wake closes. Take it before reading, so that no wake falls between.
func (h *Hub) growth(f *feed) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f.grown
}

// next returns events behind after: from the ring where it reaches back far enough, else from the database.
func (h *Hub) next(ctx context.Context, run string, f *feed, after int64) ([]experiment.Event, error) {
	f.read.Lock()
	defer f.read.Unlock()
	if events, ok := f.behind(after); ok && len(events) > 0 {
		return events, nil
	}
	events, err := h.store.Events(ctx, run, after, pageSize)
	if err != nil {
		return nil, err
	}
	f.add(events)
	return events, nil
}

// behind returns what the ring holds behind after; ok is false where older events are missing from it.
func (f *feed) behind(after int64) ([]experiment.Event, bool) {
	if len(f.ring) == 0 || after < f.ring[0].Seq-1 {
		return nil, false
	}
	skip := min(after-f.ring[0].Seq+1, int64(len(f.ring)))
	events := f.ring[skip:]
	return append([]experiment.Event(nil), events[:min(len(events), pageSize)]...), true
}

// add keeps events that continue the ring; a client far behind doesn't disturb it.
func (f *feed) add(events []experiment.Event) {
	if len(events) == 0 {
		return
	}
	first, last := events[0].Seq, events[len(events)-1].Seq
	switch {
	case len(f.ring) == 0:
		f.ring = append(f.ring, events...)
	case first == f.ring[len(f.ring)-1].Seq+1:
		f.ring = append(f.ring, events...)
	case last > f.ring[len(f.ring)-1].Seq:
		f.ring = append(f.ring[:0], events...)
	default:
		return
	}
	if over := len(f.ring) - ringSize; over > 0 {
		f.ring = append([]experiment.Event(nil), f.ring[over:]...)
	}
}
