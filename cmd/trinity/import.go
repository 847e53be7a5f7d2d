package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-lab/trinity/server"
	"github.com/trinity-lab/trinity/server/config"
	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/ingest"
	"github.com/trinity-lab/trinity/trainer/journal"
)

type importCmd struct {
	RunDir string `arg:"" name:"rundir" help:"Run directory made by trinity train."`
	Server string `placeholder:"URL" help:"Server to upload to, such as http://127.0.0.1:8080; default: the database of --data or --database-url."`
	serverFlags
}

// Run brings a run directory into a database. Repeating it adds what is new.
func (cmd importCmd) Run(c *Context) error {
	if _, err := os.Stat(filepath.Join(cmd.RunDir, journal.FileName)); err != nil {
		return usage(fmt.Errorf("import %q: there is no %s in it; name a run directory", cmd.RunDir, journal.FileName))
	}
	run, err := cmd.imported(c)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(map[string]any{"run": run.ID, "status": run.Status, "steps": run.Done})
	}
	_, err = fmt.Fprintf(c.Stdout, "imported run %s (%s): %s, %d of %d steps\n", run.ID, run.Name, run.Status, run.Done, run.Steps)
	return err
}

func (cmd importCmd) imported(c *Context) (experiment.Run, error) {
	if cmd.Server != "" {
		return upload(c.Ctx, cmd.Server, cmd.RunDir)
	}
	lab, err := server.OpenLab(c.Ctx, config.Config{Data: cmd.Data, DatabaseURL: cmd.DatabaseURL}, quietLog(c))
	if err != nil {
		return experiment.Run{}, err
	}
	run, err := ingest.Import(c.Ctx, lab.Store, lab.Ingester, cmd.RunDir)
	return run, errors.Join(err, lab.Close())
}

// upload sends the images, which the server keeps by their hash, and then the journal.
func upload(ctx context.Context, address, dir string) (experiment.Run, error) {
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return experiment.Run{}, usage(fmt.Errorf("server %q: use an address such as http://127.0.0.1:8080", address))
	}
	images, err := os.ReadDir(filepath.Join(dir, "images"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return experiment.Run{}, err
	}
	for _, entry := range images {
		sha, _, _ := strings.Cut(entry.Name(), ".")
		if !entry.Type().IsRegular() || len(sha) != 64 {
			continue
		}
		if err := send(ctx, http.MethodPut, base.JoinPath("api/v1/images", sha), filepath.Join(dir, "images", entry.Name()), nil); err != nil {
			return experiment.Run{}, err
		}
	}
	var run experiment.Run
	return run, send(ctx, http.MethodPost, base.JoinPath("api/v1/imports"), filepath.Join(dir, journal.FileName), &run)
}

// send uploads a file and decodes the answer.
func send(ctx context.Context, method string, to *url.URL, file string, answer any) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, method, to.String(), f)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("upload %s: %w", filepath.Base(file), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("upload %s: %w", filepath.Base(file), err)
	}
	if resp.StatusCode >= 300 {
		var refused struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(body, &refused) != nil || refused.Error.Message == "" {
			refused.Error.Message = resp.Status
		}
		return fmt.Errorf("the server at %s refused %s: %s", to.Host, filepath.Base(file), refused.Error.Message)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}
