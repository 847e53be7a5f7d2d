package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-lab/trinity/trainer/engine"
)

// Settings that messages name.
const (
	urlField     = "verifier.endpoint.url"
	modelField   = "verifier.endpoint.model"
	keyField     = "verifier.endpoint.key_env"
	timeoutField = "verifier.endpoint.timeout"
)

// fault is a call that failed.
type fault struct {
	field   string // the setting to look at
	message string
	again   bool          // asking again may help
	wait    time.Duration // the server's wish
	refused bool          // the server works, but not on this prompt
}

func (f *fault) Error() string { return f.field + ": " + f.message }

// ask sends one request until it is answered.
func (c *Client) ask(ctx context.Context, body []byte) (engine.Completion, error) {
	for attempt := 1; ; attempt++ {
		done, f := c.try(ctx, body)
		switch {
		case f == nil:
			c.answered.Store(true)
			return done, nil
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		case f.refused:
			return done, f
		case !f.again:
			return done, fmt.Errorf("%w: %w", engine.ErrUnavailable, f)
		case attempt >= c.config.Attempts:
			f.message = fmt.Sprintf("%s; %d tries (verifier.endpoint.attempts)", f.message, attempt)
			return done, fmt.Errorf("%w: %w", engine.ErrUnavailable, f)
		}
		wait := backoff(attempt, f.wait)
		c.log.Warn("the Verifier's endpoint is asked again", "after", wait.Round(time.Millisecond), "attempt", attempt+1, "error", f)
		select {
		case <-ctx.Done():
			return done, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// backoff doubles from firstWait to longWait, less up to a half so that calls that failed together do not return together. A
// server's Retry-After is the least, up to maxWait.
func backoff(attempt int, asked time.Duration) time.Duration {
	wait := longWait
	if attempt < 7 {
		wait = min(longWait, firstWait<<(attempt-1))
	}
	wait = wait/2 + rand.N(wait/2)
	return max(wait, min(asked, maxWait))
}

// try sends one request.
func (c *Client) try(ctx context.Context, body []byte) (engine.Completion, *fault) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.config.URL, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return engine.Completion{}, c.fault(urlField, false, "%v", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return engine.Completion{}, c.network(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case response.StatusCode != http.StatusOK:
		return engine.Completion{}, c.status(response, reply)
	case err != nil:
		return engine.Completion{}, c.network(err)
	case len(reply) > maxReply:
		return engine.Completion{}, c.fault(urlField, false, "the reply is longer than %d MiB; it is no server of chat completions, or verifier.thinking.max_tokens is far too high", maxReply>>20)
	}
	done, err := completion(reply)
	if err != nil {
		return done, c.fault(urlField, true, "%v", err)
	}
	return done, nil
}

// network explains an error without a reply.
func (c *Client) network(err error) *fault {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return c.fault(urlField, true, "no connection within verifier.endpoint.connect_timeout: %v; is the server up, and the address right?", err)
		}
		return c.fault(timeoutField, true, "no complete reply within %s; set it higher, or ask for less at once (verifier.endpoint.concurrency)", c.http.Timeout)
	}
	return c.fault(urlField, true, "%v; is the server up, and the address right?", err)
}

// status explains a reply other than 200.
func (c *Client) status(r *http.Response, reply []byte) *fault {
	said := fmt.Sprintf("HTTP %d: %s", r.StatusCode, excerpt(reply))
	switch code := r.StatusCode; {
	case code == http.StatusTooManyRequests || code >= 500:
		f := c.fault(urlField, true, "%s", said)
		f.wait = retryAfter(r.Header.Get("Retry-After"), time.Now())
		return f
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		if c.key == "" {
			return c.fault(keyField, false, "%s; the server wants a key: put it into an environment variable and name that here", said)
		}
		return c.fault(keyField, false, "%s; the server does not take the key in %s", said, c.config.KeyEnv)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return c.fault(modelField, false, "%s; does the server have the model %q, and does verifier.endpoint.url end as its documentation says, mostly in /v1?", said, c.config.Model)
	case code >= 300 && code < 400:
		return c.fault(urlField, false, "HTTP %d: the server is elsewhere, at %q; give that address", code, r.Header.Get("Location"))
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		f := c.fault(modelField, false, "%s", said)
		f.refused = true
		return f
	}
	return c.fault(urlField, false, "%s", said)
}

// fault makes a message with the address and never the key, which some servers repeat.
func (c *Client) fault(field string, again bool, format string, args ...any) *fault {
	message := fmt.Sprintf(format, args...)
	if c.key != "" {
		message = strings.ReplaceAll(message, c.key, "[key]")
	}
	return &fault{field: field, message: c.config.URL + ": " + message, again: again}
}

// retryAfter reads seconds or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n >= 0 {
		return time.Duration(min(n, int(maxWait/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// excerpt is the beginning of what a server said, on one line.
func excerpt(reply []byte) string {
	const longest = 300
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(reply[:min(len(reply), 4*longest)]), "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
