package experiment

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Store keeps runs and what was ingested of them. Lookups of what is not there return ErrNotFound.
type Store interface {
	CreateRun(ctx context.Context, run Run) error
	Run(ctx context.Context, id string) (Run, error)
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	// SetStatus moves a run to a status if its current one is in from (empty: any), appends the status event in the same
	// transaction and returns the run. It returns ErrConflict where the current status is another.
	SetStatus(ctx context.Context, id string, to Status, reason string, from ...Status) (Run, error)
	Attempts(ctx context.Context, run string) ([]Attempt, error)
	Steps(ctx context.Context, run string) ([]StepMetrics, error)
	Episodes(ctx context.Context, run string, q EpisodeQuery) (EpisodePage, error)
	Episode(ctx context.Context, id int64) (Episode, error)
	Judgements(ctx context.Context, run string, q JudgementQuery) (JudgementPage, error)
	// Events returns up to limit events with Seq > after, ascending.
	Events(ctx context.Context, run string, after int64, limit int) ([]Event, error)
	// LastEvents returns up to limit newest events of the kinds (none: all), ascending.
	LastEvents(ctx context.Context, run string, limit int, kinds ...EventKind) ([]Event, error)
}

// Supervisor starts and stops the processes of runs. Both return at once.
type Supervisor interface {
	Wake()          // the queue may have changed
	Stop(id string) // the run was marked stopping
}

// Presets gives the shipped configurations and edits a configuration by dotted keys.
type Presets interface {
	Names() []string
	Load(name string) (spec.Config, error)
	// Set changes one setting; value is a JSON scalar or a string to be parsed by the field's type. Errors are FieldErrors.
	Set(c *spec.Config, key string, value any) error
}

// Service is what the pages and the API can do. Read methods go straight to the store.
type Service struct {
	Store
	supervisor Supervisor
	presets    Presets
	runsDir    string
	now        func() time.Time
}

// NewService returns a Service whose new runs get a directory under runsDir. supervisor may be nil where runs are only read.
func NewService(store Store, supervisor Supervisor, presets Presets, runsDir string, now func() time.Time) *Service {
	return &Service{Store: store, supervisor: supervisor, presets: presets, runsDir: runsDir, now: now}
}

// Presets lists the shipped configurations.
func (s *Service) Presets() ([]Preset, error) {
	var all []Preset
	for _, name := range s.presets.Names() {
		c, err := s.presets.Load(name)
		if err != nil {
			return nil, fmt.Errorf("preset %q: %w", name, err)
		}
		all = append(all, Preset{Name: name, Config: c})
	}
	return all, nil
}

// Resolve builds and validates a draft's configuration. Faults are an *InvalidError listing every field.
func (s *Service) Resolve(d Draft) (spec.Config, error) {
	var c spec.Config
	switch {
	case d.Config != nil && d.Preset != "":
		return c, Invalid("preset", "is given beside config; give one of them")
	case d.Config != nil:
		c = *d.Config
	case d.Preset == "":
		return c, Invalid("preset", "is empty; name a preset or give a config")
	default:
		var err error
		if c, err = s.presets.Load(d.Preset); err != nil {
			return c, Invalid("preset", "%q is unknown; use one of %v", d.Preset, s.presets.Names())
		}
	}
	var faults []spec.FieldError
	for key, value := range d.Set {
		if err := s.presets.Set(&c, key, value); err != nil {
			faults = append(faults, fieldsOr(err, key)...)
		}
	}
	if d.Name != "" {
		c.Name = d.Name
	}
	if len(c.Name) > 200 {
		faults = append(faults, spec.FieldError{Field: "name", Message: "is longer than 200 bytes; shorten it"})
	}
	if err := c.Validate(); err != nil && len(faults) == 0 {
		faults = append(faults, fieldsOr(err, "config")...)
	}
	if len(faults) > 0 {
		return c, &InvalidError{Fields: faults}
	}
	return c, nil
}

func fieldsOr(err error, field string) []spec.FieldError {
	if fields := FieldErrors(err); len(fields) > 0 {
		return fields
	}
	return []spec.FieldError{{Field: field, Message: err.Error()}}
}

// Create queues a run. Faults of the draft are an *InvalidError.
func (s *Service) Create(ctx context.Context, d Draft) (Run, error) {
	c, err := s.Resolve(d)
	if err != nil {
		return Run{}, err
	}
	id := NewRunID()
	run := Run{
		ID: id, Name: c.Name, Status: Queued, Config: c, ConfigHash: ConfigHash(c), Steps: c.Steps,
		Created: s.now().UTC(), Directory: filepath.Join(s.runsDir, id), Tags: d.Tags, Notes: d.Notes,
	}
	if run.Name == "" {
		run.Name = "run " + id[:6]
	}
	if err := s.CreateRun(ctx, run); err != nil {
		return Run{}, err
	}
	s.wake()
	return s.Run(ctx, id)
}

// Stop ends a run: a queued one at once, a working one by asking its process. It returns ErrConflict where it has ended.
func (s *Service) Stop(ctx context.Context, id string) (Run, error) {
	if run, err := s.SetStatus(ctx, id, Stopped, "stopped before it started", Queued); err == nil {
		return run, nil
	}
	run, err := s.SetStatus(ctx, id, Stopping, "", Starting, Running, Paused, Stopping)
	if err != nil {
		return run, err
	}
	if s.supervisor != nil {
		s.supervisor.Stop(id)
	}
	return run, nil
}

// Resume queues a stopped or failed run again; it goes on from its newest checkpoint.
func (s *Service) Resume(ctx context.Context, id string) (Run, error) {
	run, err := s.Run(ctx, id)
	if err != nil {
		return run, err
	}
	if run.Imported {
		return run, fmt.Errorf("run %s was imported, so its process is not this server's: use trinity resume %s: %w", id, run.Directory, ErrUnsupported)
	}
	if run, err = s.SetStatus(ctx, id, Queued, "", Stopped, Failed); err != nil {
		return run, err
	}
	s.wake()
	return run, nil
}

func (s *Service) wake() {
	if s.supervisor != nil {
		s.supervisor.Wake()
	}
}

// Metrics returns a run's curves.
func (s *Service) Metrics(ctx context.Context, id string, q MetricQuery) ([]Series, error) {
	if _, err := s.Run(ctx, id); err != nil {
		return nil, err
	}
	steps, err := s.Steps(ctx, id)
	if err != nil {
		return nil, err
	}
	return SeriesOf(steps, q), nil
}

// NewRunID returns 16 random hexadecimal digits.
func NewRunID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process where the system has no randomness
	return hex.EncodeToString(b[:])
}

// ConfigHash is the SHA-256 of a configuration's JSON, hexadecimal. Field order is fixed by the struct.
func ConfigHash(c spec.Config) string {
	b, err := json.Marshal(c)
	if err != nil { // a non-finite number, which Validate refuses
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
