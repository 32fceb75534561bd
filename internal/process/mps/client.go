package mps

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/process/child"
)

const (
	answersWithin = time.Second // after that, the client is killed
	mostOutput    = 4 << 10     // bytes of the output of a client; the rest is dropped
)

// runClient sends a command to a daemon through NVIDIA's client. The client answers at
// once or not at all. It runs as the user too, because it opens files in the user's
// folder.
func runClient(ctx context.Context, d *daemon, command string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	out := &child.Head{Limit: mostOutput}
	cmd := exec.Command(control)
	cmd.Env, cmd.Dir = environ(d.dir, d.uuid), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(command+"\n"), out, out
	if err := child.Run(ctx, cmd, child.How{User: d.as}, 0); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
