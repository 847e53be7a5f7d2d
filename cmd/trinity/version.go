package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the module version, the revision it was built from and the toolchain.
func (versionCmd) Run(c *Context) error {
	v := buildVersion()
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(v)
	}
	_, err := fmt.Fprintf(c.Stdout, "trinity %s (%s, %s)\n", v.Version, v.Revision, v.Go)
	return err
}

type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func buildVersion() version {
	v := version{Version: "devel", Revision: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}
