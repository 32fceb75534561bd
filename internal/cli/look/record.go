package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/device/trace"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

type recordOptions struct {
	*console.Console
	file     string
	gpu      string
	devices  string
	length   console.Seconds // absent to record until interrupted
	interval console.Seconds // absent to record every sample
	force    bool
}

func newRecord(con *console.Console) *cobra.Command {
	o := &recordOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "record FILE",
		Short: "Record what a GPU does",
		Long: `Write temperature, power, load, memory, clock, fan and energy of one GPU to a
CSV file, a row for each sample, until --for is over or you interrupt the
command. Each row is written at once: what was recorded stays if the command is
killed. "-" writes to standard output. While the GPU or the daemon is away there
are no rows, and the command says so at the end.

"berth serve --devices sim:trace=FILE" simulates a GPU that does the same.`,
		Example: `  berth record day.csv
  berth record burst.csv --gpu 1 --for 5m
  berth record slow.csv --interval 10s --for 1d
  berth record - --for 10s | cut -d, -f1-3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.gpu, "gpu", "", "record this `GPU` (index or UUID; default: the first)")
	flags.Var(&o.length, "for", "record for this `TIME`, as in 5m\n(default: until interrupted)")
	flags.Var(&o.interval, "interval", "write at most one row in this `TIME`\n(default: every sample)")
	flags.BoolVar(&o.force, "force", false, "write over a file that is there")
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	console.DevicesFlag(cmd, &o.devices)
	return cmd
}

// longestPoll is the longest time between two questions for new samples. The daemon
// keeps the samples of ten minutes.
const longestPoll = time.Second

func (o *recordOptions) run(ctx context.Context) error {
	switch {
	case o.length.Known() && o.length.Duration() <= 0:
		return console.Usage("--for must be longer than 0 s")
	case o.interval.Known() && o.interval.Duration() <= 0:
		return console.Usage("--interval must be longer than 0 s")
	case o.file == "-" && o.JSON:
		return console.Usage("--json needs a file: with - the rows are on standard output")
	}
	v, err := o.Look(ctx, o.devices)
	if err != nil {
		return err
	}
	defer v.Close()
	about, err := o.choose(ctx, v)
	if err != nil {
		return err
	}
	out, err := o.open()
	if err != nil {
		return err
	}
	r := &recorder{recordOptions: o, source: v, about: about, out: trace.NewWriter(out), live: term.NewLive(o.Err), begun: o.Now()}
	err = errors.Join(r.record(ctx), out.Close())
	r.live.Draw()
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return r.sumUp()
}

// choose returns the device to record, and names it if there are several.
func (o *recordOptions) choose(ctx context.Context, v *console.Source) (gpu.Device, error) {
	if o.gpu != "" {
		one, err := v.Status(ctx, o.gpu)
		return one.Device, err
	}
	all, err := v.StatusAll(ctx)
	if err != nil {
		return gpu.Device{}, err
	}
	if len(all.GPUs) == 0 {
		return gpu.Device{}, console.Hinted(errors.New("record: there is no GPU"), "berth doctor says why; to try it: berth record FILE --devices sim:1")
	}
	first := all.GPUs[0].Device
	if n := len(all.GPUs); n > 1 {
		fmt.Fprintf(o.Err, "berth: recording GPU %d, the first of %d; choose with --gpu\n", first.Index, n)
	}
	return first, nil
}

// open opens the destination of the rows.
func (o *recordOptions) open() (io.WriteCloser, error) {
	if o.file == "-" {
		return standardOutput{o.Out}, nil
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(o.file, how, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, console.Hinted(fmt.Errorf("record: %s exists", term.Clean(o.file)), "name another file, or write over it with --force")
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return f, nil
}

// standardOutput is not closed with a recording.
type standardOutput struct{ io.Writer }

func (standardOutput) Close() error { return nil }

// recorder writes samples of a device as they come.
type recorder struct {
	*recordOptions
	source *console.Source
	about  gpu.Device
	out    *trace.Writer
	live   *term.Live
	begun  time.Time

	first, last time.Time // times of the samples seen
	rows        int
	written     time.Duration // time of the last row, since the first
	temperature span
	power       span
}

// span is the range of measured values.
type span struct {
	known     bool
	low, high float64
}

func (s *span) take(v float64, known bool) {
	switch {
	case known && !s.known:
		*s = span{true, v, v}
	case known:
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
}

// record asks for samples repeatedly until it is interrupted or --for is over.
func (r *recorder) record(ctx context.Context) error {
	poll := longestPoll
	if r.interval.Known() {
		poll = min(poll, max(r.interval.Duration(), longestPoll/10))
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var over <-chan time.Time // stays nil if only an interrupt ends it
	if r.length.Limit().Known() {
		over = time.After(r.length.Duration())
	}
	for last := false; ; {
		err := r.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, which is how a recording ends
		case err != nil || last:
			return err
		}
		r.draw()
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			last = true
		case <-tick.C:
		}
	}
}

// take writes the samples since the last call. The first call begins with the newest
// sample.
func (r *recorder) take(ctx context.Context) error {
	q := client.HistoryQuery{GPU: r.about.UUID, Since: r.last}
	if r.last.IsZero() {
		q.Limit = 1
	}
	found, err := r.source.History(ctx, q)
	if err != nil {
		if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status == 404 {
			return nil // the device is away
		}
		if !r.source.Local && ctx.Err() == nil && r.Lost(err) {
			return nil
		}
		return err
	}
	r.Back()
	for i := range found.Samples {
		if err := r.write(&found.Samples[i]); err != nil {
			return err
		}
	}
	return nil
}

// write writes a sample, unless one was written too shortly before.
func (r *recorder) write(s *gpu.Sample) error {
	if !s.Time.After(r.last) {
		return nil
	}
	if r.last = s.Time; r.first.IsZero() {
		r.first = s.Time
	}
	p := pointOf(s, r.first)
	early := r.interval.Duration() / 20 // so that a clock that ticks a little early loses no sample
	if r.rows > 0 && p.At < r.written+r.interval.Duration()-early {
		return nil
	}
	if err := r.out.Write(p); err != nil {
		return err
	}
	r.written = p.At
	r.rows++
	celsius, known := p.Temperature.Get()
	r.temperature.take(float64(celsius), known)
	watts, known := p.Power.Get()
	r.power.take(float64(watts), known)
	return nil
}

// pointOf returns the part of a sample that a recording holds.
func pointOf(s *gpu.Sample, begin time.Time) trace.Point {
	reasons := make([]string, len(s.Throttle))
	for i, reason := range s.Throttle {
		reasons[i] = string(reason)
	}
	return trace.Point{
		At: s.Time.Sub(begin), Temperature: s.Temperature, Power: s.Power, Utilization: s.Utilization,
		MemoryUsed: s.MemoryUsed, MemoryTotal: s.MemoryTotal, MemoryTemperature: s.MemoryTemperature,
		ClockSM: s.ClockSM, Fan: s.Fan, Energy: s.Energy, Throttle: strings.Join(reasons, " "),
	}
}

// draw shows the progress of the recording. Rows on a terminal show it themselves.
func (r *recorder) draw() {
	width, ok := r.LiveWidth()
	if !ok || r.file == "-" {
		return
	}
	const interrupt = 3 // the terminal writes ^C after the line
	r.live.Draw(term.Cut(fmt.Sprintf("recording GPU %d, %s: %s", r.about.Index, words.Age(r.Now().Sub(r.begun)), r.measured()), width-interrupt))
}

// measured summarizes the values that were written.
func (r *recorder) measured() string {
	text := words.Count(r.rows, "row")
	if r.temperature.known {
		text += fmt.Sprintf(", %.0f to %.0f °C", r.temperature.low, r.temperature.high)
	}
	if r.power.known {
		text += fmt.Sprintf(", %.0f to %.0f W", r.power.low, r.power.high)
	}
	return text
}

// recordSummary is the answer of the command record in JSON.
type recordSummary struct {
	File    string      `json:"file"`
	GPU     string      `json:"gpu"`
	Rows    int         `json:"rows"`
	Seconds float64     `json:"seconds"`
	Gaps    []recordGap `json:"gaps"`
}

type recordGap struct {
	At      float64 `json:"at_seconds"`
	Seconds float64 `json:"seconds"`
}

// sumUp says what was recorded, and where something is missing.
func (r *recorder) sumUp() error {
	answer := recordSummary{File: r.file, GPU: r.about.UUID, Rows: r.rows, Seconds: r.written.Seconds(), Gaps: []recordGap{}}
	lines := []string{fmt.Sprintf("%s: GPU %d (%s), %s, %s", term.Clean(r.file), r.about.Index, term.Clean(r.about.Name), words.Age(r.written), r.measured())}
	for _, gap := range r.out.Gaps() {
		answer.Gaps = append(answer.Gaps, recordGap{gap.At.Seconds(), gap.For.Seconds()})
		lines = append(lines, term.Clean(r.file)+": "+gap.String())
	}
	if r.file == "-" {
		_, err := fmt.Fprintln(r.Err, "berth: "+strings.Join(lines, "\nberth: "))
		return err
	}
	return r.Answer(answer, lines...)
}
