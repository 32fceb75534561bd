// Package agents lets programs that act for people, such as coding assistants, look at
// GPUs and jobs by the Model Context Protocol.
//
// An agent has the rights of the user who started it, and no others. It may act only if
// that user said so, and the daemon notes with each act which program asked.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
)

const instructions = `berth manages the GPUs of this machine: leases, a queue, and jobs.
Look with status, waiting, explain, jobs, job and log before you act. Memory is written
like 8GiB, lengths of time like 90s, 30m, 4h or 2d. Ids are exact, as in train-17 or
train-17.3 for one task.`

// largestAnswer is the most text in one answer, which an agent has to read whole.
const largestAnswer = 64 << 10

// agent serves one session.
type agent struct {
	*console.Console
	daemon *client.Client
	acts   bool
}

// Serve speaks the Model Context Protocol on In and Out until In ends. With acts, the
// other end may also submit and cancel jobs.
func Serve(ctx context.Context, con *console.Console, acts bool) error {
	return con.With(ctx, func(daemon *client.Client) error {
		a := &agent{Console: con, daemon: daemon, acts: acts}
		pipe := &mcp.IOTransport{Reader: io.NopCloser(con.In), Writer: unclosed{con.Out}}
		err := a.server().Run(ctx, pipe)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	})
}

// unclosed is a writer that the protocol does not close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func (a *agent) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "berth", Title: "berth, the GPU resource manager", Version: a.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // no logging, and always the same tools
	})
	look(s, a, "status", "Every GPU: state, load, memory, temperature, who holds it, and what needs a person", (*agent).status)
	look(s, a, "waiting", "Who waits for a GPU, since when, and what stands in the way of each", (*agent).waiting)
	look(s, a, "explain", "Whether a request for GPU memory would be granted now, what is in its way on each GPU, and what smaller request would be granted", (*agent).explain)
	look(s, a, "query", "Ask about measurements of GPUs, now or over the last hours, in PromQL; gpu_temperature_celsius, gpu_utilization_percent and gpu_memory_usage_mb are some of the names", (*agent).query)
	look(s, a, "jobs", "Jobs and how they stand, the newest first", (*agent).jobs)
	look(s, a, "job", "One job with its tasks, or one task: what it waits for, or how it ended and why", (*agent).job)
	look(s, a, "log", "The last lines of the log of a job or a task", (*agent).log)
	if a.acts {
		add(s, a, &mcp.Tool{
			Name: "submit", Description: "Run a command in the background under a GPU lease, as the user of this session, in the folder and the environment of this session",
			InputSchema: submitSchema(),
			Annotations: &mcp.ToolAnnotations{DestructiveHint: new(bool)},
		}, (*agent).submit)
		add(s, a, &mcp.Tool{Name: "cancel", Description: "Cancel a job or a task: what waits never starts, what runs is ended", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, (*agent).cancel)
	}
	return s
}

// look adds a tool that changes nothing.
func look[In any](s *mcp.Server, a *agent, name, what string, do func(*agent, context.Context, In) (any, error)) {
	add(s, a, &mcp.Tool{Name: name, Description: what, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}}, do)
}

// add adds a tool. What it refuses is an answer for the agent to read, and not an error
// of the protocol.
func add[In any](s *mcp.Server, a *agent, t *mcp.Tool, do func(*agent, context.Context, In) (any, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		asking := *a
		asking.daemon = a.daemon.For(nameOf(r.Session))
		answer, err := do(&asking, ctx, in)
		if err != nil {
			return nil, nil, explained(err)
		}
		text, err := textOf(answer)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

// nameOf returns what the other end says that it is.
func nameOf(s *mcp.ServerSession) string {
	p := s.InitializeParams()
	if p == nil || p.ClientInfo == nil {
		return "an agent without a name"
	}
	return strings.TrimSpace(p.ClientInfo.Name + " " + p.ClientInfo.Version)
}

// explained adds the next step to an error.
func explained(err error) error {
	if hint, has := errors.AsType[interface {
		error
		Hint() string
	}](err); has {
		return fmt.Errorf("%w. Next: %s", err, hint.Hint())
	}
	return err
}

// textOf returns an answer as the agent reads it: text as it is, all else as JSON.
func textOf(answer any) (string, error) {
	text, is := answer.(string)
	if !is {
		b, err := json.Marshal(answer)
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	if len(text) > largestAnswer {
		return "", fmt.Errorf("the answer has %d KiB, and %d are the most: ask for less", len(text)>>10, largestAnswer>>10)
	}
	return text, nil
}

// nothing is the input of a tool that needs none.
type nothing struct{}

func (a *agent) status(ctx context.Context, _ nothing) (any, error) {
	return a.daemon.StatusAllWithLeases(ctx)
}

// mostExplained is how many waiting requests are explained in one answer.
const mostExplained = 10

// waitingRequest is a request in the queue with what is in its way.
type waitingRequest struct {
	api.Waiting
	Why string `json:"why,omitempty"`
}

func (a *agent) waiting(ctx context.Context, _ nothing) (any, error) {
	all, err := a.daemon.Leases(ctx)
	if err != nil {
		return nil, err
	}
	queue := make([]waitingRequest, len(all.Waiting))
	for i, w := range all.Waiting {
		queue[i].Waiting = w
		if i >= mostExplained {
			continue
		}
		if e, err := a.daemon.Of(w.Holder.User).ExplainWaiting(ctx, w.ID); err == nil { // it may have been granted meanwhile
			queue[i].Why = e.Text
		}
	}
	return map[string]any{"waiting": queue}, nil
}

// wanted describes a lease.
type wanted struct {
	Memory string `json:"memory,omitempty" jsonschema:"GPU memory on each device, as in 8GiB; leave it out for a slot alone"`
	GPUs   int    `json:"gpus,omitempty" jsonschema:"how many devices; 1 if left out"`
	GPU    string `json:"gpu,omitempty" jsonschema:"index or UUID of the device to use and no other"`
	Where  string `json:"where,omitempty" jsonschema:"what the device must be like, as in name~H200,memory>=40GiB"`
}

func (w wanted) request() (api.LeaseRequest, error) {
	r := api.LeaseRequest{GPUs: w.GPUs, GPU: gpu.Ref(w.GPU), Where: w.Where}
	if w.Memory == "" {
		return r, nil
	}
	var err error
	r.Memory, err = gpu.ParseMiB(w.Memory)
	return r, err
}

func (a *agent) explain(ctx context.Context, in wanted) (any, error) {
	r, err := in.request()
	if err != nil {
		return nil, err
	}
	return a.daemon.Explain(ctx, r)
}

// question is a question in PromQL.
type question struct {
	Expression string  `json:"expression" jsonschema:"PromQL"`
	Hours      float64 `json:"hours,omitempty" jsonschema:"over the last hours, in 60 steps; now if left out"`
}

func (a *agent) query(ctx context.Context, in question) (any, error) {
	switch {
	case in.Hours < 0 || in.Hours > 24*90:
		return nil, fmt.Errorf("hours must be from 0 to %d, not %g", 24*90, in.Hours)
	case in.Hours == 0:
		return a.daemon.Query(ctx, in.Expression, time.Time{})
	}
	span, now := time.Duration(in.Hours*float64(time.Hour)), a.Now()
	return a.daemon.QueryRange(ctx, in.Expression, client.QueryRange{From: now.Add(-span), To: now, Step: max(span/60, time.Second)})
}

// jobsWanted selects jobs.
type jobsWanted struct {
	User  string `json:"user,omitempty" jsonschema:"only the jobs of this user"`
	State string `json:"state,omitempty" jsonschema:"only jobs in this state: held, waiting, running, done, failed, cancelled, timed_out or lost"`
	Most  int    `json:"most,omitempty" jsonschema:"how many at most; 20 if left out"`
}

func (a *agent) jobs(ctx context.Context, in jobsWanted) (any, error) {
	q := client.JobQuery{User: in.User, Limit: cmp.Or(in.Most, 20)}
	if in.State != "" {
		q.States = []string{in.State}
	}
	return a.daemon.Jobs(ctx, q)
}

// named names a job or a task.
type named struct {
	ID string `json:"id" jsonschema:"the exact id, as in train-17, or train-17.3 for a task"`
}

func (a *agent) job(ctx context.Context, in named) (any, error) { return a.daemon.Job(ctx, in.ID) }

// logWanted selects the end of a log.
type logWanted struct {
	named
	Lines  int  `json:"lines,omitempty" jsonschema:"how many lines at most; 50 if left out"`
	Errors bool `json:"errors,omitempty" jsonschema:"the log of errors, if the job has one of its own"`
}

func (a *agent) log(ctx context.Context, in logWanted) (any, error) {
	if in.Lines < 0 {
		return nil, fmt.Errorf("lines must be 1 or more, not %d; 50 if left out", in.Lines)
	}
	var text strings.Builder
	err := a.daemon.JobLog(ctx, in.ID, client.LogQuery{Lines: cmp.Or(in.Lines, 50), Errors: in.Errors}, &text)
	return text.String(), err
}

// jobWanted describes a job.
type jobWanted struct {
	wanted
	Command   []string `json:"command" jsonschema:"the program and its arguments, each by itself"`
	Name      string   `json:"name,omitempty" jsonschema:"what the id begins with; everybody can read it"`
	Directory string   `json:"directory,omitempty" jsonschema:"where it runs; the folder of this session if left out"`
	Time      string   `json:"time,omitempty" jsonschema:"how long it may run, as in 4h"`
	After     []string `json:"after,omitempty" jsonschema:"ids of jobs that must succeed before it"`
	Hold      bool     `json:"hold,omitempty" jsonschema:"it does not begin until a person releases it"`
	Comment   string   `json:"comment,omitempty" jsonschema:"a note for people, on one line"`
}

// submitSchema describes what submit takes: a command, which null is not, although a list
// in Go may be nil.
func submitSchema() *jsonschema.Schema {
	s, err := jsonschema.For[jobWanted](nil)
	if err != nil {
		panic(err) // cannot happen: a test lists the tools
	}
	command := s.Properties["command"]
	command.Types, command.Type, command.MinItems = nil, "array", jsonschema.Ptr(1)
	return s
}

func (a *agent) submit(ctx context.Context, in jobWanted) (any, error) {
	lease, err := in.request()
	if err != nil {
		return nil, err
	}
	lease.Comment = in.Comment
	if in.Time != "" {
		var limit console.Seconds
		if err := limit.Set(in.Time); err != nil {
			return nil, err
		}
		lease.TimeLimit = limit.Opt
	}
	if in.Directory == "" {
		if in.Directory, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	return a.daemon.Submit(ctx, api.JobRequest{
		Command: in.Command, Name: in.Name, Directory: in.Directory, Environment: console.OwnEnviron(a.Environ), After: in.After, Hold: in.Hold, Lease: lease,
	})
}

func (a *agent) cancel(ctx context.Context, in named) (any, error) {
	return a.daemon.CancelJob(ctx, in.ID, "")
}
