package desk

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
)

// A token with a service acts for that service and for no other, whatever is asked
// for.
func TestTokenWithAService(t *testing.T) {
	o := open(t, "1xrtx-4060")
	o.parts.Operations = throughput.New(func(service, _ string) string { return service })
	o.remake()
	actor := access.Actor{User: "token:embedder", UID: access.NoUID, Token: "embedder", Door: access.TCP, Role: access.User, Service: "embedding-service"}
	by := Caller{Actor: actor, Holder: lease.Holder{User: actor.User, UID: actor.UID}}
	asks := map[string]func(service string) (got string, err error){
		"lease": func(service string) (string, error) {
			l, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{Service: service, Slots: gpu.Some(0), Memory: 1, Timeout: gpu.Some(0.0)})
			return l.Holder.Service, err
		},
		"allocate": func(service string) (string, error) {
			l, err := o.Leases.Allocate(t.Context(), by, api.Allocate{ID: "a" + service, Service: service, Memory: 1, Binding: "named"})
			return l.Holder.Service, err
		},
		"explain": func(service string) (string, error) {
			e, err := o.Leases.Explain(by, api.LeaseRequest{Service: service, Slots: gpu.Some(0), Memory: 1})
			if err != nil {
				return "", err
			}
			return e.Grant.Holder.Service, nil
		},
		"operations": func(service string) (string, error) {
			if service == "" {
				return actor.Service, nil // the path names one
			}
			c, err := o.Services.CountOperations(by, service, api.Operations{Count: 1})
			return c.Service, err
		},
		"adopt": func(service string) (string, error) {
			_, err := o.Leases.Adopt(t.Context(), by, api.Adopt{PID: 1, Service: service})
			if r := (*Refusal)(nil); errors.As(err, &r) && r.Code == "not_yours" {
				return actor.Service, nil // as far as the service goes it is right
			}
			return "", err
		},
	}
	for name, ask := range asks {
		for _, service := range []string{"", "embedding-service", "embedding_service"} {
			if got, err := ask(service); err != nil || got != actor.Service {
				t.Errorf("%s for %q is for %q, %v", name, service, got, err)
			}
		}
		_, err := ask("other")
		if r := (*Refusal)(nil); !errors.As(err, &r) || r.Kind != Forbidden || r.Code != "other_service" || !strings.Contains(r.Detail, "embedding-service") {
			t.Errorf("%s for another service: %v", name, err)
		}
	}
}
