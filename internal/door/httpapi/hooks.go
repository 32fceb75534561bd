package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

func registerHooks(s *server) {
	serve(s, on("GET /api/hooks", "events", "hooks", "The hooks, and what came of them", "Addresses, secrets and commands are not in the answer."), s.hooks)
	serve(s, on("POST /api/hooks/{name}/test", "events", "hook-test", "Send a test to a hook",
		"One event with the code hook goes to the hook at once, in the way of every other. It is not tried again. The answer says what came of it.",
		http.StatusNotFound), s.testHook)
}

func (s *server) hooks(context.Context, *struct{}) (*answer[api.Hooks], error) {
	out := api.Hooks{Hooks: []api.Hook{}}
	for _, r := range s.hookReports() {
		h := api.Hook{Name: r.Hook.Name, Kind: hookKind(&r.Hook), Codes: []string{}, Severity: r.Hook.Severity, Waiting: r.Waiting}
		for _, code := range r.Hook.Codes {
			h.Codes = append(h.Codes, string(code))
		}
		if !r.Last.Time.IsZero() {
			last := deliveryOf(&r.Last)
			h.Last = &last
		}
		out.Hooks = append(out.Hooks, h)
	}
	return ok(out)
}

func (s *server) hookReports() []hooks.Report {
	if s.Hooks == nil {
		return nil
	}
	return s.Hooks.Reports()
}

func hookKind(h *hooks.Hook) string {
	if h.URL != "" {
		return "url"
	}
	return "command"
}

func deliveryOf(a *hooks.Attempt) api.HookDelivery {
	d := api.HookDelivery{Time: a.Time.UTC(), Event: a.Event, Code: a.Code, Status: string(a.Status), TookSeconds: a.Took.Seconds()}
	if a.Err != nil {
		d.Error = a.Err.Error()
	}
	return d
}

type hookQuery struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the hook in the configuration."`
}

func (s *server) testHook(ctx context.Context, in *hookQuery) (*answer[api.HookTest], error) {
	var names []string
	for _, r := range s.hookReports() {
		if names = append(names, r.Hook.Name); r.Hook.Name != in.Name {
			continue
		}
		attempt, err := s.Hooks.Test(ctx, in.Name, lease.ByOf(identityOf(ctx).Actor))
		if errors.Is(err, hooks.ErrNoHook) {
			break // the hook no longer exists
		}
		if err != nil {
			return nil, err
		}
		return ok(api.HookTest{Hook: in.Name, Kind: hookKind(&r.Hook), HookDelivery: deliveryOf(&attempt)})
	}
	return nil, problems.New(http.StatusNotFound, "unknown_hook", "The configuration has no hook %s: %s", in.Name, words.Suggest(in.Name, names, "berth hooks (GET /api/hooks) lists them."))
}
