package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// Daemon has the driver's calls to berth's daemon. A [client.Client] is one.
type Daemon interface {
	Acquire(ctx context.Context, r api.LeaseRequest) (api.Lease, error)
	Resume(ctx context.Context, id string, r api.Resume) (api.Lease, error)
	Release(ctx context.Context, id string, fence uint64) (api.Ended, error)
	Rescope(ctx context.Context, id string, r api.Rescope) (api.Lease, error)
	Leases(ctx context.Context) (api.Leases, error)
	StatusAllWithLeases(ctx context.Context) (api.StatusAll, error)
	Available(ctx context.Context) (api.Available, error)
	EventsWhere(ctx context.Context, q client.EventQuery) iter.Seq2[gpu.Event, error]
	Config(ctx context.Context) (json.RawMessage, error)
	OpenAPI(ctx context.Context) (json.RawMessage, error)
}

var _ Daemon = (*client.Client)(nil)

// askTimeout limits one call to the daemon. Kubelet gives up after 45 seconds.
const askTimeout = 10 * time.Second

// The codes of the daemon that the driver decides on.
const (
	codeUnknown   = "unknown_allocation"
	codeStale     = "stale_fence"
	codeDuplicate = "duplicate_allocation"
	codeAmbiguous = "ambiguous_id"
	codeParked    = "parked"
)

// problemCode returns the code of a refusal by the daemon, or "" for any other error.
func problemCode(err error) string {
	var p *api.Problem
	if errors.As(err, &p) && p.Status != 0 && p.Status < http.StatusInternalServerError {
		return p.Code
	}
	return ""
}

// release ends the lease of a claim. A lease that does not exist is no error. If the
// lease was granted again under another fence, release ends that one: only the driver
// asks for leases with the id of a claim, and it holds the lock. Users of the node may
// give their leases the same id; those are not the claim's.
func (d *Driver) release(ctx context.Context, uid string, fence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := d.o.Daemon.Release(ctx, uid, fence)
	if code := problemCode(err); code == codeStale || code == codeAmbiguous {
		_, err = d.o.Daemon.Release(ctx, uid, 0) // the driver's own, if it has one
	}
	if code := problemCode(err); code == codeUnknown || code == codeAmbiguous {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release the lease of claim %s: %w", uid, err)
	}
	return nil
}

// needs names the release of berth that the driver needs.
const needs = "berth with exact leases (field parts of POST /api/leases)"

// oldDaemonError means that the daemon lacks what the driver needs.
type oldDaemonError struct{ version, address string }

func (e *oldDaemonError) Error() string {
	return fmt.Sprintf("the daemon %s at %s has no exact leases; this driver needs %s. Update the daemon of the node.", e.version, e.address, needs)
}

// exactLeases reports whether a description of the API has exact leases.
func exactLeases(openapi json.RawMessage) (bool, error) {
	var page struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi, &page); err != nil {
		return false, fmt.Errorf("read the daemon's /openapi.json: %w", err)
	}
	_, ok := page.Components.Schemas["LeaseRequest"].Properties["parts"]
	return ok, nil
}

// Anybody calls the daemon from the driver's container without a token.
type Anybody interface {
	Whoami(ctx context.Context) (api.Whoami, error)
}

// closedSocket returns an error unless the daemon turns away callers from containers
// without a token. A pod chooses its own user id: with the socket, it would be the user
// of that number on the node.
func (d *Driver) closedSocket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if d.o.Socket == "" || d.o.Anybody == nil {
		return refuse("no_socket", "the class gives pods the daemon's socket, and the driver speaks to the daemon at %s, which is none. Leave socket out of the class.", d.o.Address)
	}
	who, err := d.o.Anybody.Whoami(ctx)
	var p *api.Problem
	switch {
	case errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden):
		return nil
	case err != nil:
		return fmt.Errorf("ask the daemon whether it turns away callers from containers: %w", err)
	}
	return refuse("open_socket", "the class gives pods the daemon's socket, and the daemon serves callers from containers by their user id (here as %s, %s). Set daemon.container_callers to token on the node, or leave socket out of the class.", who.User, who.Role)
}
