package trainer

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/trinity-lab/trinity/trainer/endpoint"
	"github.com/trinity-lab/trinity/trainer/engine"
	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// verifier is a model other than the policy's that judges.
type verifier interface {
	LoadImage(ctx context.Context, key string, encoded []byte) error
	DropImages(keep ...string)
	Generate(ctx context.Context, slot engine.Slot, requests []engine.Request, emit func(engine.Completion)) error
	Close() error
}

// otherVerifier says whether the Verifier shares no weights with the policy.
func otherVerifier(cfg spec.Config) bool {
	return cfg.Verifier.Update == "endpoint" || cfg.Verifier.Update == "fixed" && cfg.Verifier.Path != ""
}

// checkVerifier looks for what the Verifier needs before anything is written.
func checkVerifier(cfg spec.Config) error {
	if cfg.Verifier.Update == "endpoint" {
		_, err := endpoint.New(cfg.Verifier.Endpoint, os.Getenv, nil)
		return err
	}
	if cfg.Verifier.Path == "" {
		return nil
	}
	return checkModel("verifier.path", cfg.Verifier.Path)
}

// openVerifier puts the run's other Verifier, if it has one, into the Verifier slot of e. A checkpoint may be of another size
// than the policy; it is opened for reading. The result closes e.
func openVerifier(dir string, cfg spec.Config, e engine.Engine, log *slog.Logger) (engine.Engine, error) {
	if !otherVerifier(cfg) {
		return e, nil
	}
	if cfg.Verifier.Update == "endpoint" {
		c, err := endpoint.New(cfg.Verifier.Endpoint, os.Getenv, log)
		if err != nil {
			return nil, err
		}
		return &judged{e, c}, nil
	}
	folder, err := modelFolder("verifier.path", cfg.Verifier.Path, filepath.Join(dir, VerifierDir))
	if err != nil {
		return nil, err
	}
	model := spec.ModelConfig{MinPixels: cfg.Model.MinPixels, MaxPixels: cfg.Model.MaxPixels, DecodeBatch: cfg.Model.DecodeBatch}
	v, err := local.Open(folder, local.Options{Model: model, Threads: cfg.Threads})
	if err != nil {
		return nil, fmt.Errorf("verifier.path: %w", err)
	}
	return &judged{e, policyOf{v}}, nil
}

// judged is an engine whose Verifier slot is another model.
type judged struct {
	engine.Engine
	verifier verifier
}

func (j *judged) LoadImage(ctx context.Context, key string, encoded []byte) error {
	if err := j.Engine.LoadImage(ctx, key, encoded); err != nil {
		return err
	}
	return j.verifier.LoadImage(ctx, key, encoded)
}

func (j *judged) DropImages(keep ...string) {
	j.Engine.DropImages(keep...)
	j.verifier.DropImages(keep...)
}

func (j *judged) Generate(ctx context.Context, slot engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	if slot == engine.Verifier {
		return j.verifier.Generate(ctx, slot, requests, emit)
	}
	return j.Engine.Generate(ctx, slot, requests, emit)
}

func (j *judged) Close() error {
	err := j.verifier.Close()
	if failed := j.Engine.Close(); failed != nil {
		return failed
	}
	return err
}

// policyOf judges with the weights that an engine was opened with.
type policyOf struct{ *local.Engine }

func (p policyOf) Generate(ctx context.Context, _ engine.Slot, requests []engine.Request, emit func(engine.Completion)) error {
	return p.Engine.Generate(ctx, engine.Policy, requests, emit)
}
