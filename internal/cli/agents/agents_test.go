package agents_test

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/agents"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// connect starts a daemon and an agent's session with it, by the client of the SDK.
func connect(t *testing.T, acts bool) (*mcp.ClientSession, *client.Client) {
	t.Helper()
	d, err := daemontest.Start(daemontest.Options{Devices: "sim:2xh200"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	fromAgent, toServer := io.Pipe()
	fromServer, toAgent := io.Pipe()
	con := &console.Console{Socket: d.Socket, Env: console.Env{
		In: fromAgent, Out: toAgent, Err: io.Discard, Getenv: func(string) string { return "" }, Now: time.Now, Version: daemontest.Version,
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agents.Serve(ctx, con, acts) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		cancel()
		<-ended
	})
	agent := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1.2"}, nil)
	s, err := agent.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := client.New(client.Options{Socket: d.Socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(daemon.Close)
	return s, daemon
}

// call calls a tool and returns its text, and whether the tool refused.
func call(t *testing.T, s *mcp.ClientSession, name string, arguments any) (text string, refused bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range r.Content {
		if said, is := c.(*mcp.TextContent); is {
			text += said.Text
		}
	}
	return text, r.IsError
}

func TestLook(t *testing.T) {
	t.Parallel()
	s, daemon := connect(t, false)
	for _, id := range []string{"one", "two"} {
		if _, err := daemon.Allocate(t.Context(), api.Allocate{ID: id, Memory: 70 << 10, Binding: "named"}); err != nil {
			t.Fatal(err)
		}
	}
	waits, stop := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = daemon.Acquire(waits, api.LeaseRequest{ID: "third", Memory: 80 << 10, Timeout: gpu.Some(600.0)})
	}()
	t.Cleanup(func() { stop(); <-left })
	if _, err := daemontest.Await(t.Context(), daemon, gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventWaiting}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool      string
		arguments any
		says      []string
	}{
		{"status", nil, []string{`"gpus"`, `"one"`}},
		{"waiting", nil, []string{`"third"`, `"why":"`}},
		{"explain", map[string]any{"memory": "80GiB"}, []string{`"fits":false`}},
		{"explain", map[string]any{"memory": "1GiB"}, []string{`"behind":["third"]`}},
		{"query", map[string]any{"expression": "1 + 1"}, []string{`2`}},
	} {
		text, refused := call(t, s, c.tool, c.arguments)
		for _, w := range c.says {
			if refused || !strings.Contains(text, w) {
				t.Errorf("%s %v: no %s in %s", c.tool, c.arguments, w, text)
			}
		}
	}
	for _, c := range []struct {
		tool      string
		arguments any
		says      string
	}{
		{"explain", map[string]any{"memory": "much"}, "much"},
		{"query", map[string]any{"expression": "sum("}, "parse"},
		{"query", map[string]any{"expression": "1", "hours": -1}, "hours must be"},
		{"log", map[string]any{"id": "train-17", "lines": -4}, "lines must be"},
		{"log", map[string]any{"id": ""}, "There is no such job"},
		{"job", map[string]any{"id": ""}, "There is no such job"},
	} {
		if text, refused := call(t, s, c.tool, c.arguments); !refused || !strings.Contains(text, c.says) {
			t.Errorf("%s %v is refused: %v, %s", c.tool, c.arguments, refused, text)
		}
	}
}

// What a session may do is said when it begins: tools that stay the same, and no logging.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, true)
	said, err := json.Marshal(s.InitializeResult().Capabilities)
	if err != nil || string(said) != `{"tools":{}}` {
		t.Errorf("the capabilities are %s, %v", said, err)
	}
}

// An empty id is that of no job, and not the path of all of them.
func TestCancelOfNothing(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, true)
	if text, refused := call(t, s, "cancel", map[string]any{"id": ""}); !refused || !strings.Contains(text, "There is no such job: the id is empty") {
		t.Errorf("cancel of an empty id is refused: %v, %s", refused, text)
	}
	if text, refused := call(t, s, "cancel", map[string]any{}); !refused || !strings.Contains(text, "id") {
		t.Errorf("cancel of no id is refused: %v, %s", refused, text)
	}
}

// The schema of submit says that there is a command, and that it is no null.
func TestSubmitTakesACommand(t *testing.T) {
	t.Parallel()
	s, _ := connect(t, true)
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if tool.Name != "submit" {
			continue
		}
		schema := tool.InputSchema.(map[string]any)
		command := schema["properties"].(map[string]any)["command"].(map[string]any)
		if command["type"] != "array" || command["minItems"] != 1.0 || !slices.Contains(schema["required"].([]any), any("command")) {
			t.Errorf("the schema of submit is %v", schema)
		}
		return
	}
	t.Error("there is no tool submit")
}
