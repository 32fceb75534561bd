package view

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// someServices has a service in each state that people ask about.
func someServices() api.Services {
	took := func(seconds float64) api.ServiceTime {
		return api.ServiceTime{Seconds: seconds, Last: seconds + 1, Count: 3}
	}
	return api.Services{Services: []api.Service{
		{Name: "chat", Models: []string{"qwen3-8b", "gpt-*"}, User: "ada", State: "ready", Since: now.Add(-5 * time.Minute), Start: "on_demand", Away: "auto", Goes: "park",
			GoesWhy: "parking and the return take 34 s, a stop and a cold start 36 s", Lease: "chat-17", Devices: []string{"GPU-0"}, Memory: gpu.Some(gpu.MiB(12288)), Learned: true,
			Open: 2, Waiting: 1, LastAnswer: now.Add(-3 * time.Second), Requests: 12045, Failed: 3, Refused: 7, TokensIn: 900000, TokensOut: 12345678, Switches: 12,
			Took: api.ServiceTimes{Start: took(9), Stop: took(0.4), Park: took(27.3), Resume: took(7.2)},
			Port: 40001, PID: 4711, Command: []string{"llama-server", "--port", "${PORT}", "-m", "it's.gguf"}, Directory: "/srv/models", Log: "/var/lib/berth/services/chat.log"},
		{Name: "coder", Models: []string{"coder"}, User: "ada", State: "parked", Since: now.Add(-2 * time.Hour), Start: "always", Away: "park", Goes: "stop", GoesWhy: "the memory of the machine is full.",
			Devices: []string{"GPU-1"}, Memory: gpu.Some(gpu.MiB(20480)), Took: api.ServiceTimes{Park: took(10), Resume: took(5.1), Start: took(250)}},
		{Name: "draw", User: "bob", State: "failed", Since: now.Add(-time.Minute), Start: "on_demand", Away: "auto",
			Failure: &api.ServiceFailure{At: now.Add(-time.Minute), Why: "it ended with code 3 before it was ready", Count: 4, Next: now.Add(40 * time.Second), Log: []string{"loading", "no such file: \x1b[2J"}}},
		{Name: "embed", User: "bob", State: "asleep", Since: now.Add(-time.Hour), Start: "never", Away: "sleep", Goes: "sleep", Devices: []string{"GPU-9"}, Memory: gpu.Some(gpu.MiB(1024)), Took: api.ServiceTimes{Sleep: took(1.5), Wake: took(0.8)}},
		{Name: "old\x1b[2J", User: "ada", State: "stopped", Since: now.Add(-26 * time.Hour), Start: "on_demand", Away: "stop", Goes: "stop",
			Stopped: &api.FrontStopped{By: "root", Why: "new weights.", At: now.Add(-26 * time.Hour)}},
		{Name: "rank", User: "ada", State: "waiting", Since: now.Add(-time.Second), Start: "on_demand", Away: "auto", Waiting: 3, Why: "chat has 2 open requests",
			Callers: []api.ServiceCaller{{Open: 1}, {User: "bob", Waiting: 2, Used: 0.4321}, {User: "token:app", Open: 1, Waiting: 1}}},
		{Name: "talk", User: "ada", State: "away", Start: "on_demand", Away: "auto"},
	}}
}

func TestServiceViews(t *testing.T) {
	gpus := GPUsOf(someStatus())
	all := someServices()
	compareViews(t, map[string]func(to term.Screen) []string{
		"services":      (&Services{Services: all, GPUs: gpus}).Lines,
		"services-none": (&Services{}).Lines,
		"service": func(to term.Screen) (lines []string) {
			for _, s := range all.Services {
				lines = append(append(lines, (&Service{Service: s, Indexes: gpus}).Lines(to)...), "")
			}
			return lines
		},
		"service-said": func(to term.Screen) (lines []string) {
			for _, s := range all.Services[:3] {
				lines = append(lines, ServiceStarted(s, to), ServiceStopped(s, to), ServiceRestarted(s, to), ServiceMoved(s, "GPU 1"))
			}
			return lines
		},
	})
}

// At 80 columns the table is whole, and nothing that a terminal would act on gets through.
func TestServicesFit(t *testing.T) {
	gpus := GPUsOf(someStatus())
	for _, width := range []int{80, 60, 40} {
		for _, line := range (&Services{Services: someServices(), GPUs: gpus}).Lines(term.Screen{Width: width, Now: now}) {
			for one := range strings.SplitSeq(line, "\n") {
				if term.Columns(one) > width || strings.ContainsRune(one, '\x1b') {
					t.Errorf("%d columns: %q", width, one)
				}
			}
		}
	}
}

// Whoever starts a service reads what becomes of it, whatever it does now.
func TestServiceStarted(t *testing.T) {
	for state, want := range map[string]string{
		"ready": "chat is ready", "closing": "chat is on its way out, and comes back when it is gone", "leaving": "chat is on its way out, and comes back when it is gone",
		"waiting": "chat waits for room: train of ada holds 70 GiB; to see", "starting": "chat is on its way;", "returning": "chat is on its way;", "away": "chat starts as soon as there is room",
	} {
		if said := ServiceStarted(api.Service{Name: "chat", State: state, Why: "train of ada holds 70 GiB."}, term.Screen{}); !strings.HasPrefix(said, want) {
			t.Errorf("one that is %s: %s", state, said)
		}
	}
}
