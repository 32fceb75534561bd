package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/berth-gpu/berth/api"
)

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
