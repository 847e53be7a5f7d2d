package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type entry struct {
	kind spec.Kind
	step int
	data any
}

func candidate(step int, text string) entry {
	c := &spec.Candidate{G: 1, Question: text}
	c.Slot, c.Image, c.Text = 2, "ab", text
	return entry{spec.KindCandidate, step, c}
}

func commit(step int, loss float64) entry {
	return entry{spec.KindStep, step, &spec.Step{
		Metrics: map[string]spec.Float{spec.MetricLoss: spec.Float(loss), "perf/seconds/solver": spec.Float(time.Now().Nanosecond())},
		Tokens:  map[string]int{"solver": 5},
	}}
}

func line(text string) entry {
	return entry{spec.KindLog, 0, &spec.Log{Level: "info", Message: text}}
}

func run(id string) entry {
	return entry{spec.KindRun, 0, &spec.Run{ID: id, Version: "v" + id, Config: spec.Config{Name: "n", Seed: 7, Threads: len(id)}}}
}

func checkpoint(step int) entry {
	return entry{spec.KindCheckpoint, step, &spec.Checkpoint{Path: "checkpoints/x", Next: step + 1}}
}
func rewind(to int) entry { return entry{spec.KindRewind, to, &spec.Rewind{ToStep: to}} }
func ended(status string) entry {
	return entry{spec.KindEnd, 0, &spec.End{Status: status}}
}
func phase(step int) entry { return entry{spec.KindPhase, step, &spec.Phase{Name: "solver"}} }

func write(t testing.TB, dir string, entries ...entry) {
	t.Helper()
	w, err := Create(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, w.Append(e.kind, e.step, e.data))
	}
	require.NoError(t, w.Close())
}

func read(t testing.TB, dir string) []spec.Record {
	t.Helper()
	var out []spec.Record
	for r, err := range Read(dir, 0) {
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

func TestRecordsComeBackAsWritten(t *testing.T) {
	dir := t.TempDir()
	hostile := "</script>\n\x00\u2028 \\ \" é 雪 <think>"
	entries := []entry{run("1"), candidate(0, hostile), commit(0, math.NaN()), checkpoint(0), ended("completed")}
	write(t, dir, entries...)
	got := read(t, dir)
	require.Len(t, got, len(entries))
	for i, r := range got {
		require.Equal(t, uint64(i+1), r.Seq)
		require.Equal(t, entries[i].kind, r.Kind)
		require.Equal(t, entries[i].step, r.Step)
		require.WithinDuration(t, time.Now(), r.Time, time.Minute)
		require.Empty(t, cmp.Diff(entries[i].data, r.Data, cmp.Comparer(sameFloat)))
	}
	var after []uint64
	for r, err := range Read(dir, 3) {
		require.NoError(t, err)
		after = append(after, r.Seq)
	}
	require.Equal(t, []uint64{4, 5}, after)
}

func sameFloat(a, b spec.Float) bool {
	return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
}

func TestCreateRefusesAnExistingJournal(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, run("1"))
	_, err := Create(dir)
	require.ErrorIs(t, err, ErrExists)
	require.True(t, Exists(dir))
}

// A process killed before or within its first record leaves nothing to continue, and nothing that bars a new start.
func TestCreateTakesOverAJournalWithoutARecord(t *testing.T) {
	for _, left := range []string{"", "1234", "12345678 {\"seq\":1"} {
		dir := t.TempDir()
		require.False(t, Exists(dir))
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(left), 0o644))
		require.False(t, Exists(dir))
		write(t, dir, run("1"))
		require.Len(t, read(t, dir), 1)
		require.True(t, Exists(dir))
	}
}

func TestOneWriterAtATime(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	_, err = Open(dir)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, w.Close())
	w, err = Open(dir)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Append(spec.KindLog, 0, &spec.Log{}), os.ErrClosed)
}

// A write torn at any byte of the last record loses that record alone; the next writer continues from the one before.
func TestTornWriteAtEveryByte(t *testing.T) {
	whole := t.TempDir()
	write(t, whole, line("first"), line("é second"), line("third 雪"))
	b, err := os.ReadFile(filepath.Join(whole, FileName))
	require.NoError(t, err)
	ends := lineEnds(b)
	for cut := 0; cut <= len(b); cut++ {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), b[:cut], 0o644))
		complete := 0
		for complete < len(ends) && ends[complete] <= cut {
			complete++
		}
		require.Len(t, read(t, dir), complete, "cut at %d", cut)
		w, err := Open(dir)
		require.NoError(t, err, "cut at %d", cut)
		last := 0
		if complete > 0 {
			last = ends[complete-1]
		}
		require.Equal(t, int64(cut-last), w.Torn())
		require.NoError(t, w.Append(spec.KindLog, 0, &spec.Log{Message: "resumed"}))
		require.NoError(t, w.Close())
		got := read(t, dir)
		require.Len(t, got, complete+1)
		require.Equal(t, "resumed", got[complete].Data.(*spec.Log).Message)
		sum, err := Verify(dir)
		require.NoError(t, err)
		require.Zero(t, sum.Torn)
	}
}

func lineEnds(b []byte) []int {
	var ends []int
	for i, c := range b {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	return ends
}

// A crash of the machine can leave zeros, or other bytes, where the tail should be.
func TestGarbageTailIsCutOff(t *testing.T) {
	for name, tail := range map[string]string{
		"zeros":            strings.Repeat("\x00", 5000),
		"zeros and lines":  "\x00\x00\n\x00\n\n\n",
		"half a checksum":  "0123",
		"wrong checksum":   "00000000 {\"seq\":3}\n",
		"not hexadecimal":  "zzzzzzzz {\"seq\":3}\n",
		"larger than page": strings.Repeat("x", 200_000) + "\n" + strings.Repeat("y", 10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, run("1"), candidate(0, "q"))
			appendBytes(t, dir, []byte(tail))
			require.Len(t, read(t, dir), 2)
			w, err := Open(dir)
			require.NoError(t, err)
			require.Equal(t, int64(len(tail)), w.Torn())
			require.NoError(t, w.Append(spec.KindLog, 0, &spec.Log{}))
			require.NoError(t, w.Close())
			require.Len(t, read(t, dir), 3)
		})
	}
}

func appendBytes(t testing.TB, dir string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// One flipped bit in front of a valid record is reported with the damaged record's offset, by every reader. The last
// newline in front of it is left out: without it the valid record is part of the damage, a torn tail.
func TestFlippedBitAtEveryByteIsReported(t *testing.T) {
	whole := t.TempDir()
	write(t, whole, line("first"), line("second"), line("third"), commit(0, 1))
	b, err := os.ReadFile(filepath.Join(whole, FileName))
	require.NoError(t, err)
	ends := lineEnds(b)
	dir := t.TempDir()
	for i := 0; i < ends[2]-1; i++ {
		line, start := 0, 0
		for ends[line] <= i {
			start = ends[line]
			line++
		}
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if i < ends[line]-1 && bad[i] == '\n' || i >= start && i < start+8 && isHexCase(b[i], bad[i]) {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), bad, 0o644))
		_, err := Verify(dir)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, "byte %d", i)
		require.Equal(t, int64(start), corrupt.Offset, "byte %d", i)
		_, err = Open(dir)
		require.ErrorAs(t, err, &corrupt)
		_, err = Digest(dir)
		require.ErrorAs(t, err, &corrupt)
	}
}

// isHexCase says that two bytes are the same hexadecimal digit in different case.
func isHexCase(a, b byte) bool { return a != b && strings.EqualFold(string(a), string(b)) }

func TestMissingRecordIsReported(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, run("1"), candidate(0, "a"), candidate(0, "b"))
	name := filepath.Join(dir, FileName)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	ends := lineEnds(b)
	require.NoError(t, os.WriteFile(name, append(b[:ends[0]:ends[0]], b[ends[1]:]...), 0o644))
	_, err = Verify(dir)
	require.ErrorContains(t, err, "record 3 follows record 1")
}

func TestCommittedView(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []entry
		want    []int // indices kept
	}{
		{"provisional tail", []entry{run("1"), candidate(0, "a"), phase(0), commit(0, 1), candidate(1, "b")}, []int{0, 1, 3}},
		{"rewind to a checkpoint", []entry{run("1"), candidate(0, "a"), commit(0, 1), checkpoint(0), candidate(1, "b"), commit(1, 2), candidate(2, "c"), ended("stopped"),
			rewind(1), candidate(1, "d"), commit(1, 3), checkpoint(1), ended("completed")}, []int{0, 1, 2, 3, 9, 10, 11, 12}},
		{"two rewinds, the later deeper", []entry{run("1"), commit(0, 1), commit(1, 1), checkpoint(1), commit(2, 1), rewind(2), commit(2, 2), rewind(0), commit(0, 3)}, []int{0, 8}},
		{"two rewinds, the later shallower", []entry{run("1"), commit(0, 1), commit(1, 1), rewind(1), commit(1, 2), commit(2, 2), rewind(2), commit(2, 3)}, []int{0, 1, 4, 7}},
		{"stopped before any step", []entry{run("1"), candidate(0, "a"), ended("stopped")}, []int{0, 2}},
		{"rewound and not yet run again", []entry{run("1"), commit(0, 1), ended("failed"), rewind(0)}, []int{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, test.entries...)
			var got []int
			for _, r := range Committed(read(t, dir)) {
				got = append(got, int(r.Seq)-1)
			}
			require.Equal(t, test.want, got)
			var streamed []int
			for r, err := range ReadCommitted(dir) {
				require.NoError(t, err)
				streamed = append(streamed, int(r.Seq)-1)
			}
			require.Equal(t, test.want, streamed)
		})
	}
}

func TestDigestIgnoresHowTheRunGotThere(t *testing.T) {
	digest := func(entries ...entry) string {
		dir := t.TempDir()
		write(t, dir, entries...)
		d, err := Digest(dir)
		require.NoError(t, err)
		require.Len(t, d, 64)
		return d
	}
	judged := func(latency, fact float64) entry {
		return entry{spec.KindJudgement, 1, &spec.Judgement{Judge: spec.JudgeScreening, Latency: latency, Fields: map[string]spec.Float{"fact_q": spec.Float(fact)}}}
	}
	straight := digest(run("1"), candidate(0, "a"), commit(0, 1), checkpoint(0), judged(.1, 1), commit(1, 2), ended("completed"))
	resumed := digest(run("22"), phase(0), candidate(0, "a"), commit(0, 1), checkpoint(0), judged(.7, 0), ended("stopped"),
		rewind(1), entry{spec.KindLog, 1, &spec.Log{Message: "resumed"}}, judged(.3, 1), commit(1, 2), checkpoint(1), ended("completed"))
	require.Equal(t, straight, resumed)
	require.NotEqual(t, straight, digest(run("1"), candidate(0, "b"), commit(0, 1), judged(.1, 1), commit(1, 2)))
	require.NotEqual(t, straight, digest(run("1"), candidate(0, "a"), commit(0, 1), judged(.1, 1), commit(1, 2.0000001)))
	require.NotEqual(t, straight, digest(run("1"), candidate(0, "a"), commit(0, 1), judged(.1, 0), commit(1, 2)))
}

func TestFollowSeesRecordsLiveAndResumes(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	errEnough := errors.New("enough")
	got := make(chan uint64, 100)
	done := make(chan error, 1)
	var last Position
	go func() {
		done <- Follow(ctx, dir, Position{}, FollowOptions{Poll: time.Millisecond}, func(batch []spec.Record, behind Position) error {
			last = behind
			for _, r := range batch {
				got <- r.Seq
			}
			if last.Seq == 3 {
				return errEnough
			}
			return nil
		})
	}()
	w, err := Create(dir)
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, w.Append(spec.KindLog, 0, &spec.Log{Message: fmt.Sprint(i)}))
		require.Equal(t, uint64(i+1), <-got)
	}
	require.ErrorIs(t, <-done, errEnough)
	require.Equal(t, w.Position(), last)

	require.NoError(t, w.Append(spec.KindLog, 0, &spec.Log{Message: "later"}))
	require.NoError(t, w.Close())
	appendBytes(t, dir, []byte("1234 half a rec"))
	for _, from := range []Position{last, {Seq: 3}} {
		err = Follow(ctx, dir, from, FollowOptions{Poll: time.Millisecond}, func(batch []spec.Record, behind Position) error {
			require.Len(t, batch, 1)
			require.Equal(t, "later", batch[0].Data.(*spec.Log).Message)
			return errEnough
		})
		require.ErrorIs(t, err, errEnough)
	}
	never := func([]spec.Record, Position) error { t.Error("nothing was appended"); return nil }
	idle := FollowOptions{Poll: time.Millisecond, Idle: func() error { return errEnough }}
	require.ErrorIs(t, Follow(ctx, dir, Position{Seq: 4}, idle, never), errEnough)
	require.ErrorIs(t, Follow(ctx, dir, Position{Seq: 9}, idle, never), ErrDiverged)
	require.ErrorIs(t, Follow(ctx, dir, Position{Seq: 3, Offset: last.Offset, Sum: last.Sum + 1}, idle, never), ErrDiverged)
	cancel()
	require.ErrorIs(t, Follow(ctx, dir, Position{}, FollowOptions{}, func([]spec.Record, Position) error { return nil }), context.Canceled)
}

// However a journal is cut and continued, each reader sees a prefix of what was appended, then what was appended later.
func TestCutAndContinue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		w, err := Create(dir)
		require.NoError(rt, err)
		var want []string
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 5).Draw(rt, "appends") {
				text := rapid.String().Draw(rt, "text")
				want = append(want, strings.ToValidUTF8(text, "\ufffd"))
				require.NoError(rt, w.Append(spec.KindLog, 0, &spec.Log{Message: text}))
			}
			require.NoError(rt, w.Close())
			info, err := os.Stat(path(dir))
			require.NoError(rt, err)
			cut := rapid.Int64Range(0, info.Size()).Draw(rt, "cut")
			require.NoError(rt, os.Truncate(path(dir), cut))
			w, err = Open(dir)
			require.NoError(rt, err)
			want = want[:w.Position().Seq]
		}
		require.NoError(rt, w.Close())
		var got []string
		for r, err := range Read(dir, 0) {
			require.NoError(rt, err)
			got = append(got, r.Data.(*spec.Log).Message)
		}
		require.Equal(rt, len(want), len(got))
		for i := range want {
			require.Equal(rt, want[i], got[i])
		}
	})
}

func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	write(f, dir, run("1"), candidate(0, "a"), commit(0, 1))
	b, err := os.ReadFile(filepath.Join(dir, FileName))
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte("00000000 \n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), b, 0o644))
		seq := uint64(0)
		for r, err := range Read(dir, 0) {
			if err == nil {
				seq++
				require.Equal(t, seq, r.Seq)
			}
		}
		_, _ = Digest(dir)
		_, _ = Verify(dir)
	})
}
