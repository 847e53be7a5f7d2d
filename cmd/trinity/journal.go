package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/trinity-lab/trinity/trainer/journal"
	"github.com/trinity-lab/trinity/trainer/spec"
)

type journalCmd struct {
	Cat    journalCatCmd    `cmd:"" help:"Print the records as JSON lines."`
	Digest journalDigestCmd `cmd:"" help:"Print the SHA-256 of what the run computed: equal for equal seeds, whatever was killed and resumed."`
	Verify journalVerifyCmd `cmd:"" help:"Check every record."`

	Windows journalWindowsCmd `cmd:"" help:"Print means of the metrics over windows of steps, as a Markdown table."`
}

type journalCatCmd struct {
	Dir       string      `arg:"" name:"rundir" help:"Run directory."`
	After     uint64      `help:"Start behind this sequence number."`
	Kind      []spec.Kind `help:"Only these kinds of records."`
	Committed bool        `help:"Leave out what was not committed or was rewound."`
	Follow    bool        `help:"Wait for further records until interrupted."`
}

// Run prints a journal.
func (cmd journalCatCmd) Run(c *Context) error {
	if err := cmd.check(); err != nil {
		return usage(err)
	}
	enc := json.NewEncoder(c.Stdout)
	enc.SetEscapeHTML(false)
	show := func(r spec.Record) error {
		if r.Seq <= cmd.After || len(cmd.Kind) > 0 && !slices.Contains(cmd.Kind, r.Kind) {
			return nil
		}
		return enc.Encode(r)
	}
	if cmd.Follow {
		err := journal.Follow(c.Ctx, cmd.Dir, journal.Position{Seq: cmd.After}, journal.FollowOptions{}, func(batch []spec.Record, _ journal.Position) error {
			for _, r := range batch {
				if err := show(r); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	records := journal.Read(cmd.Dir, cmd.After)
	if cmd.Committed {
		records = journal.ReadCommitted(cmd.Dir)
	}
	for r, err := range records {
		if err != nil {
			return found(cmd.Dir, err)
		}
		if err := show(r); err != nil {
			return err
		}
	}
	return nil
}

func (cmd journalCatCmd) check() error {
	if cmd.Follow && cmd.Committed {
		return errors.New("journal cat: --follow and --committed exclude each other; a record is committed only later")
	}
	for _, k := range cmd.Kind {
		if _, err := spec.NewData(k); err != nil {
			return fmt.Errorf("journal cat: --kind %q is unknown; use run, phase, candidate, judgement, rollout, dispute, step, checkpoint, rewind, end or log", k)
		}
	}
	return nil
}

type journalDigestCmd struct {
	Dir string `arg:"" name:"rundir" help:"Run directory."`
}

// Run prints a digest.
func (cmd journalDigestCmd) Run(c *Context) error {
	digest, err := journal.Digest(cmd.Dir)
	if err != nil {
		return found(cmd.Dir, err)
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(map[string]string{"digest": digest})
	}
	_, err = fmt.Fprintln(c.Stdout, digest)
	return err
}

type journalVerifyCmd struct {
	Dir string `arg:"" name:"rundir" help:"Run directory."`
}

// Run checks a journal.
func (cmd journalVerifyCmd) Run(c *Context) error {
	sum, err := journal.Verify(cmd.Dir)
	if err != nil {
		return found(cmd.Dir, err)
	}
	if c.JSON {
		return json.NewEncoder(c.Stdout).Encode(sum)
	}
	fmt.Fprintf(c.Stdout, "%d records, %d committed steps, %d bytes: all readable\n", sum.Records, sum.Steps, sum.Bytes)
	if sum.Torn > 0 {
		fmt.Fprintf(c.Stdout, "%d bytes of an unfinished record follow; trinity resume cuts them off\n", sum.Torn)
	}
	return nil
}

// found turns a missing journal into a usage error.
func found(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return usage(fmt.Errorf("%q holds no run: %w", dir, err))
	}
	return err
}
