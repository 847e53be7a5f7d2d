// Package server assembles the experiment server: database, ingest, supervisor, feeds and HTTP.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/httpd"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/server/live"
	"github.com/trinity-lab/trinity/server/runner"
)

// Options are what a server takes from its process.
type Options struct {
	Config  config.Config
	Program string // trinity's executable, which trains
	Version string
	Log     *slog.Logger
}

// Server is a running server.
type Server struct {
	Service *experiment.Service

	lab      *Lab
	listener net.Listener
	http     *http.Server
	lock     *os.File
	cancel   context.CancelFunc // ends hub, supervisor, websockets and the watch over Postgres
	wg       sync.WaitGroup
	failed   chan error
}

// Start opens the data directory and the database and serves in the background. Close stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.Config.Check(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Config.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (another server may use it; choose another port with --addr): %w", o.Config.Addr, err)
	}
	s := &Server{listener: listener, failed: make(chan error, 1)}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	var err error
	if s.lab, err = OpenLab(ctx, o.Config, o.Log); err != nil {
		return err
	}
	if s.lock, err = lockServer(s.lab.Data, s.URL()); err != nil {
		return err
	}
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	supervisor := runner.New(runner.Options{Store: s.lab.Store, Ingester: s.lab.Ingester, RunsDir: s.lab.RunsDir(), Program: o.Program,
		Parallel: o.Config.Parallel, Log: o.Log})
	hub := live.NewHub(s.lab.Store, o.Log)
	s.Service = experiment.NewService(s.lab.Store, supervisor, presets{}, s.lab.RunsDir(), time.Now)
	s.wg.Go(func() { supervisor.Run(working) })
	s.wg.Go(func() { hub.Run(working) })
	s.wg.Go(func() { s.lab.keep(working) })
	handler := httpd.New(httpd.Options{
		Service: s.Service, Images: s.lab.Images, Live: hub.Handler(working, httpd.SameOrigin), Ready: s.lab.Store.Ping,
		Importer: &ingest.Uploads{Dir: filepath.Join(s.lab.Data, "imports"), Store: s.lab.Store, Ingester: s.lab.Ingester},
		Pages:    pages(s.Service, o),
		Hosts:    httpd.Hosts{Names: o.Config.Hosts, Addresses: o.Config.AllowRemote}, Version: o.Version, Log: o.Log,
	})
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	s.wg.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve on %s: %w", s.listener.Addr(), err)
		}
	})
	return nil
}

// lockServer makes sure that one server alone supervises a data directory.
func lockServer(data, address string) (*os.File, error) {
	path := filepath.Join(data, "server.lock")
	f, held, err := tryLock(path)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if held {
		var other struct {
			PID int    `json:"pid"`
			URL string `json:"url"`
		}
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &other) == nil {
			return nil, fmt.Errorf("the data directory %s is served already at %s by process %d: use that server, stop it, or choose another directory with --data", data, other.URL, other.PID)
		}
		return nil, fmt.Errorf("the data directory %s is served already: stop that server, or choose another directory with --data", data)
	}
	b, err := json.Marshal(map[string]any{"pid": os.Getpid(), "url": address})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return f, nil
}

// URL is where a browser finds the server.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return "http://" + s.listener.Addr().String() + "/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/"}
	return u.String()
}

// Wait returns nil when ctx ends, or the error that ended serving.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// Close answers what is being answered, then stops everything but the trainers, which the next server takes over.
func (s *Server) Close() error {
	var errs []error
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			errs = append(errs, s.http.Close())
		}
	} else {
		s.listener.Close()
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.wg.Wait()
	if s.lab != nil {
		errs = append(errs, s.lab.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Count returns how many episodes and judgements of a run count.
func (s *Server) Count(ctx context.Context, run string) (episodes, judgements int, err error) {
	return s.lab.Store.Count(ctx, run)
}
