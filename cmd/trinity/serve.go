package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/trinity-lab/trinity/server"
	"github.com/trinity-lab/trinity/server/config"
)

// serverFlags are shared by the commands that open the data directory.
type serverFlags struct {
	Data        string `default:".trinity" env:"TRINITY_DATA" placeholder:"DIR" help:"Data directory: runs, images and the private database. Default: .trinity in the working directory."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" help:"Postgres to use instead of a private one, as postgres://user:password@host:5432/name."`
}

// listenFlags are shared by serve and demo.
type listenFlags struct {
	Addr        string   `default:"127.0.0.1:8080" env:"TRINITY_ADDR" placeholder:"HOST:PORT" help:"Address to listen on."`
	AllowRemote bool     `help:"Listen on an address that other machines reach. Whoever reaches it may start runs and read all data."`
	Host        []string `placeholder:"NAME" help:"Further host name by which the server may be asked for. May be repeated."`
	serverFlags
}

func (f listenFlags) config() config.Config {
	return config.Config{Addr: f.Addr, Data: f.Data, DatabaseURL: f.DatabaseURL, AllowRemote: f.AllowRemote, Hosts: f.Host}
}

type serveCmd struct {
	listenFlags
	Parallel int `default:"1" help:"Runs at work at once; others wait in the queue."`
}

// Run serves until it is interrupted. Running trainers go on without it, and the next serve takes them over.
func (cmd serveCmd) Run(c *Context) error {
	cfg := cmd.config()
	cfg.Parallel = cmd.Parallel
	s, err := startServer(c, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(c.Stdout).Encode(map[string]string{"url": s.URL()})
	} else {
		_, err = fmt.Fprintf(c.Stdout, "Trinity Lab is at %s (stop with Ctrl-C; runs go on and are taken over by the next start)\n", s.URL())
	}
	if err == nil {
		err = s.Wait(c.Ctx)
	}
	return errors.Join(err, s.Close())
}

// startServer starts a server whose trainers are this program.
func startServer(c *Context, cfg config.Config) (*server.Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, usage(err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start trainers with: %w", err)
	}
	log := slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	return server.Start(c.Ctx, server.Options{Config: cfg, Program: program, Version: buildVersion().Version, Log: log})
}

// quietLog reports warnings only, for commands whose output is something else.
func quietLog(c *Context) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// afterwards is a context for cleaning up behind an interrupted command.
func afterwards(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
