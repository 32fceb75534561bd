package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
)

// mostNode limits the answer of one node, and mostTogether the answers of all nodes in
// one round, in bytes: a node with 8 devices and 100 leases takes about 100 KiB.
const (
	mostNode     = 4 << 20
	mostTogether = 256 << 20
)

// mostValues limits the values in the answer of one node: 1,000 leases take about half
// of it. A value of two bytes, such as 0 where a lease belongs, takes 500 in memory.
// Every lease is compared with every device, so both have limits.
const (
	mostValues  = 100_000
	mostDevices = 512
	mostLeases  = 10_000
)

// budget counts the bytes of one round.
type budget struct{ spent atomic.Int64 }

// Begin begins a round of questions.
func (c *Cluster) Begin() { c.budget.spent.Store(0) }

// Node asks the driver on a node. The name of the node is the one that the API server
// gave: a node cannot speak for another.
func (c *Cluster) Node(ctx context.Context, p Pod) (api.Node, error) {
	if p.Away != "" {
		return api.Node{}, &Error{Text: p.Away}
	}
	if c.budget.spent.Load() >= mostTogether {
		return api.Node{}, &Error{Text: fmt.Sprintf("not asked: the answers of other nodes are larger than %d MiB together", mostTogether>>20)}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/node", c.Namespace, p.Name, p.Port)
	said, err := c.run(ctx, mostNode, "get", "--raw", path)
	if err != nil {
		return api.Node{}, err
	}
	c.budget.spent.Add(int64(len(said)))
	return read(said, p)
}

// read parses the answer of a pod.
func read(said []byte, p Pod) (api.Node, error) {
	var n api.Node
	if bytes.Count(said, []byte(",")) > mostValues {
		return n, &Error{Text: fmt.Sprintf("the answer of pod %s has more than %d values", p.Name, mostValues)}
	}
	if err := json.Unmarshal(said, &n); err != nil || n.Name == "" {
		return api.Node{}, &Error{Text: fmt.Sprintf("pod %s answered with something else than what a driver knows about its node", p.Name)}
	}
	if len(n.Leases) > mostLeases || n.Status != nil && len(n.Status.GPUs) > mostDevices {
		return api.Node{}, &Error{Text: fmt.Sprintf("pod %s lists more than %d devices or %d leases", p.Name, mostDevices, mostLeases)}
	}
	fleet.Shorten(&n)
	n.Name = p.Node
	if n.Leases == nil {
		n.Leases = []api.PodLease{}
	}
	return n, nil
}
