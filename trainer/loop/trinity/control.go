package trinity

import (
	"context"
	"sync"
)

// Control steers a run from other goroutines; all requests take effect between two steps. The zero value is ready.
type Control struct {
	mu         sync.Mutex
	resume     chan struct{} // open while paused
	checkpoint bool
	finish     bool
}

// Pause holds the run before its next step.
func (c *Control) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resume == nil {
		c.resume = make(chan struct{})
	}
}

// Resume lets a paused run go on.
func (c *Control) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resume != nil {
		close(c.resume)
		c.resume = nil
	}
}

// Paused says whether the run is held, or will be after the current step.
func (c *Control) Paused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resume != nil
}

// Checkpoint asks for a checkpoint after the current step.
func (c *Control) Checkpoint() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkpoint = true
}

// Finish stops the run after the current step, with a checkpoint.
func (c *Control) Finish() {
	c.mu.Lock()
	c.finish = true
	c.mu.Unlock()
	c.Resume()
}

// takeCheckpoint reports a request and forgets it. A nil Control asks for nothing.
func (c *Control) takeCheckpoint() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.checkpoint
	c.checkpoint = false
	return asked
}

// wait blocks while the run is paused and reports whether it should go on.
func (c *Control) wait(ctx context.Context) bool {
	if c == nil {
		return ctx.Err() == nil
	}
	c.mu.Lock()
	resume, finish := c.resume, c.finish
	c.mu.Unlock()
	if finish || ctx.Err() != nil {
		return false
	}
	if resume == nil {
		return true
	}
	select {
	case <-resume:
		return c.wait(ctx)
	case <-ctx.Done():
		return false
	}
}
