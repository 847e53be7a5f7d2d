// Package config holds the settings of a server.
package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// DefaultAddr is loopback: nothing outside this machine reaches it.
const DefaultAddr = "127.0.0.1:8080"

// DefaultData is the data directory's default, in the working directory: a checkout or project keeps its runs with it.
const DefaultData = ".trinity"

// Config are a server's settings.
type Config struct {
	Addr        string   // host:port to listen on; port 0 takes a free one
	Data        string   // data directory; made absolute by Check
	DatabaseURL string   // empty starts a private Postgres
	AllowRemote bool     // an address other than loopback was asked for with open eyes
	Hosts       []string // further names in Host headers
	Parallel    int      // runs at work at once; 0 means 1
}

// Check completes the settings and refuses dangerous or impossible ones.
func (c *Config) Check() error {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.Data == "" {
		c.Data = DefaultData
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("address %q: use host:port, such as %s", c.Addr, DefaultAddr)
	}
	if !Loopback(host) && !c.AllowRemote {
		return fmt.Errorf("address %q can be reached from other machines, and whoever reaches it may start runs and read all data: "+
			"use %s and a tunnel (ssh -L), or add --allow-remote", c.Addr, DefaultAddr)
	}
	for i, name := range c.Hosts {
		c.Hosts[i] = strings.ToLower(strings.TrimSpace(name))
	}
	if c.Parallel < 0 {
		return errors.New("parallel runs: use 1 or more")
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// Loopback reports whether a listening host is reached from this machine alone.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
