package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// What settings that are 0 stand for.
const (
	defaultConcurrency    = 8
	defaultTimeout        = 300 * time.Second
	defaultConnectTimeout = 10 * time.Second
	defaultAttempts       = 10
)

const (
	maxReply  = 8 << 20         // bytes of a reply that are read
	firstWait = time.Second / 2 // before the second try; it doubles from there on
	longWait  = 30 * time.Second
	maxWait   = 5 * time.Minute // the longest that a server's Retry-After is heeded
)

// Client is one model of a server. LoadImage and DropImages are called from one goroutine at a time, and not during Generate.
type Client struct {
	config   spec.EndpointConfig
	key      string // never part of a message
	log      *slog.Logger
	http     *http.Client
	images   map[string]string // data URLs
	answered atomic.Bool       // the server has completed something
}

// New prepares a client; nothing is sent yet. The key is read with getenv from the variable that config.KeyEnv names; the
// error is a spec.FieldError where it is not there or cannot be one. A nil log discards.
func New(config spec.EndpointConfig, getenv func(string) string, log *slog.Logger) (*Client, error) {
	c := &Client{config: config, log: log, images: map[string]string{}}
	if log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if config.KeyEnv != "" {
		c.key = strings.TrimSpace(getenv(config.KeyEnv))
		if c.key == "" {
			return nil, spec.FieldError{Field: keyField, Message: fmt.Sprintf("names the environment variable %s, which is empty; set it to the server's key", config.KeyEnv)}
		}
		if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, spec.FieldError{Field: keyField, Message: fmt.Sprintf("names the environment variable %s, which holds no key: it has spaces or other characters that a header cannot carry", config.KeyEnv)}
		}
	}
	if config.Concurrency == 0 {
		c.config.Concurrency = defaultConcurrency
	}
	if config.Attempts == 0 {
		c.config.Attempts = defaultAttempts
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: seconds(config.ConnectTimeout, defaultConnectTimeout), KeepAlive: 30 * time.Second}).DialContext
	transport.MaxIdleConnsPerHost = c.config.Concurrency
	c.http = &http.Client{
		Transport: transport,
		Timeout:   seconds(config.Timeout, defaultTimeout),
		// A redirect could carry images and key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func seconds(s float64, otherwise time.Duration) time.Duration {
	if s == 0 {
		return otherwise
	}
	return time.Duration(s * float64(time.Second))
}

// Close lets go of idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// LoadImage keeps an image under key, for prompts that name it. What a server may not read or may read otherwise than the
// policy does is sent as PNG: transparency, animations, WebP, photographs on their side. The error wraps imageproc's.
func (c *Client) LoadImage(ctx context.Context, key string, encoded []byte) error {
	if _, ok := c.images[key]; ok {
		return ctx.Err()
	}
	url, err := dataURL(encoded)
	if err != nil {
		return err
	}
	c.images[key] = url
	return ctx.Err()
}

// DropImages forgets all images but those in keep.
func (c *Client) DropImages(keep ...string) {
	kept := map[string]string{}
	for _, k := range keep {
		if url, ok := c.images[k]; ok {
			kept[k] = url
		}
	}
	c.images = kept
}

// call is one completion to ask for.
type call struct {
	request, sample int
	body            []byte
}

// Generate asks for every completion, several at once, and hands each to emit as soon as it is there. A server that is out of
// reach, overloaded or at fault is asked again, each time after a longer wait. The error wraps engine.ErrUnavailable where
// that was in vain or where asking again is of no use. A prompt that the server refuses, for example because it is too long,
// gives a completion with Refused set and no text, as long as the server has ever completed another.
func (c *Client) Generate(ctx context.Context, _ engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	var calls []call
	for i, r := range requests {
		for n := range r.N {
			body, err := c.body(r, n)
			if err != nil {
				return err
			}
			calls = append(calls, call{i, n, body})
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan call, len(calls))
	for _, k := range calls {
		queue <- k
	}
	close(queue)
	var wg sync.WaitGroup
	var mu sync.Mutex // of emit and refused
	var refused []engine.Completion
	var refusal error
	for range min(c.config.Concurrency, len(calls)) {
		wg.Go(func() {
			for k := range queue {
				if ctx.Err() != nil {
					return
				}
				done, err := c.ask(ctx, k.body)
				done.Request, done.Sample = k.request, k.sample
				var f *fault
				if errors.As(err, &f) && f.refused {
					mu.Lock()
					done.Refused = f.Error()
					refused, refusal = append(refused, done), err
					mu.Unlock()
					continue
				}
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				emit(done)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if refusal != nil && !c.answered.Load() {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, refusal)
	}
	for _, r := range refused {
		emit(r)
	}
	return nil
}
