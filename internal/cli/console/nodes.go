package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/kubectl"
	"github.com/berth-gpu/berth/internal/text/words"
)

// atOnce limits the machines that are asked at the same time.
const atOnce = 8

// Nodes answers a command that shows several machines.
type Nodes struct {
	con     *Console
	cluster *kubectl.Cluster // nil to ask the daemons
	daemons []reached
	asked   atomic.Int64 // machines that have answered or failed to
	all     atomic.Int64 // number of machines; 0 if not known yet
}

// reached is a daemon that can be asked.
type reached struct {
	daemon
	*client.Client
}

// Nodes prepares to ask several machines. It does not ask them yet.
func (c *Console) Nodes(a Across) (*Nodes, error) {
	switch {
	case c.Socket != "" || c.URL != "":
		return nil, Usage("--socket and --url name one daemon: they are not for --kubernetes and --urls")
	case a.Kubernetes && len(a.URLs) > 0:
		return nil, Usage("give --kubernetes or --urls, not both")
	case !a.Kubernetes && (a.Context != "" || a.Namespace != ""):
		return nil, Usage("--context and --namespace are for --kubernetes")
	}
	n := &Nodes{con: c}
	if a.Kubernetes {
		cluster, err := kubectl.New(kubectl.Options{
			Program: c.Getenv("KUBECTL"), Context: a.Context, Namespace: a.Namespace, Environ: c.Environ, Patience: c.patience(),
		})
		n.cluster = cluster
		if bad := (*kubectl.NameError)(nil); errors.As(err, &bad) {
			return nil, Usage("%v", err)
		}
		return n, err
	}
	daemons, err := a.daemons()
	if err != nil {
		return nil, err
	}
	for _, d := range daemons {
		one, err := client.Find(client.Options{Socket: d.socket, URL: d.url, Timeout: c.patience()}, c.Getenv)
		if err != nil {
			return nil, Usage("%v", err)
		}
		n.daemons = append(n.daemons, reached{d, one})
	}
	return n, nil
}

// Close closes connections.
func (n *Nodes) Close() {
	for _, d := range n.daemons {
		d.Client.Close()
	}
}

// Doing describes what Ask is doing.
func (n *Nodes) Doing() string {
	how := ""
	if n.cluster != nil {
		how = " through kubectl"
	}
	if all := n.all.Load(); all > 0 {
		return fmt.Sprintf("asking %s%s, %d done", words.Count(all, "node"), how, n.asked.Load())
	}
	return "asking for the nodes" + how
}

// Ask asks all machines, several at a time. A machine that does not answer is among the
// answers, with the reason. An error means that no machine could be asked.
func (n *Nodes) Ask(ctx context.Context) (api.Nodes, error) {
	n.asked.Store(0)
	n.all.Store(0)
	var all []api.Node
	var err error
	if n.cluster != nil {
		all, err = n.askCluster(ctx)
	} else {
		all = each(ctx, n, n.daemons, func(d reached) string { return d.name }, n.askDaemon, func(error) {})
	}
	if ctx.Err() != nil {
		return api.Nodes{}, context.Cause(ctx)
	}
	fleet.Sort(all)
	return api.Nodes{Nodes: all}, err
}

// askCluster asks the driver on each node. If the user has no right to ask, it reports
// that once, not for each node.
func (n *Nodes) askCluster(ctx context.Context) ([]api.Node, error) {
	n.cluster.Begin()
	pods, err := n.cluster.Pods(ctx)
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	var refusal *kubectl.Error
	refused := 0
	all := each(ctx, n, pods, func(p kubectl.Pod) string { return p.Node }, n.cluster.Node, func(err error) {
		lock.Lock()
		defer lock.Unlock()
		if e := (*kubectl.Error)(nil); errors.As(err, &e) && (e.Code == "Forbidden" || e.Code == "Unauthorized") {
			refusal = e
			refused++
		}
	})
	if refused > 0 && refused == len(pods) {
		return nil, refusal
	}
	return all, nil
}

// askDaemon asks one daemon.
func (n *Nodes) askDaemon(ctx context.Context, d reached) (api.Node, error) {
	status, err := d.StatusAll(ctx)
	if err != nil {
		return api.Node{}, err
	}
	node := api.Node{Name: d.name, At: n.con.Now(), Status: &status, Leases: []api.PodLease{}}
	leases, err := d.Leases(ctx)
	if err != nil {
		node.Down = reason(err)
		return node, nil
	}
	for _, l := range leases.Leases {
		l.Processes = nil
		node.Leases = append(node.Leases, api.PodLease{Lease: l})
	}
	fleet.Shorten(&node)
	return node, nil
}

// each asks all, atOnce at a time, and returns the answers in the order of all.
func each[T any](ctx context.Context, n *Nodes, all []T, name func(T) string, ask func(context.Context, T) (api.Node, error), missed func(error)) []api.Node {
	n.all.Store(int64(len(all)))
	nodes := make([]api.Node, len(all))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(atOnce, len(all)) {
		asking.Go(func() {
			for i := range next {
				node, err := ask(ctx, all[i])
				if err != nil {
					missed(err)
					node = api.Node{Name: name(all[i]), Down: reason(err), Leases: []api.PodLease{}}
				}
				nodes[i] = node
				n.asked.Add(1)
			}
		})
	}
	for i := range all {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	asking.Wait()
	return nodes
}

// reason turns an error into a sentence.
func reason(err error) string {
	const longest = 1000
	return words.UpperFirst(words.Cut(strings.TrimSuffix(err.Error(), "."), longest)) + "."
}

// Missing returns the failure of a command that has shown several machines if some of
// them do not answer, or else nil.
func Missing(shown api.Nodes) error {
	if fleet.Add(shown.Nodes).Silent == 0 {
		return nil
	}
	return fmt.Errorf("some nodes do not answer: %w", ErrReported)
}

// TellNodes asks several machines and shows their answers, once or repeatedly. If it
// asks once, a machine that does not answer is a failure.
func (c *Console) TellNodes(ctx context.Context, every time.Duration, nodes *Nodes, show func(api.Nodes) Shown) error {
	done := c.SlowlyDoing(nodes.Doing)
	first, err := nodes.Ask(ctx)
	done()
	if err != nil {
		return err
	}
	if every != 0 {
		asked := false
		return c.repeat(ctx, every, func(ctx context.Context) (Shown, error) {
			all := first
			if asked {
				if all, err = nodes.Ask(ctx); err != nil {
					return Shown{}, err
				}
			}
			asked = true
			return show(all), nil
		})
	}
	shown := show(first)
	if err := c.Answer(shown.Answer, shown.Lines(c.Screen())...); err != nil {
		return err
	}
	return Missing(first)
}

// Across selects the machines that a command shows, if not this one alone.
type Across struct {
	Kubernetes         bool
	Context, Namespace string
	URLs               []string

	given func(flag string) bool // by the command line; nil if none is
}

// AcrossFlags adds the flags that let a read-only command show several machines.
func AcrossFlags(cmd *cobra.Command, a *Across) {
	flags := cmd.Flags()
	a.given = flags.Changed
	flags.BoolVar(&a.Kubernetes, "kubernetes", false, "show every node of a cluster, through kubectl")
	flags.StringVar(&a.Context, "context", "", "with --kubernetes: `NAME` of the context of kubectl")
	flags.StringVar(&a.Namespace, "namespace", "", "with --kubernetes: `NAME` of the namespace of the\ndriver (default "+kubectl.Namespace+")")
	flags.StringSliceVar(&a.URLs, "urls", nil, "show the daemons at these addresses (`URL,URL`), as\nin http://a:8000,unix:///run/b.sock")
}

// Live has the options of the live view.
type Live struct {
	Interval time.Duration // how often to ask
	GPU      string        // the only device to show; empty for all
	Devices  string        // devices to show without a daemon; empty to ask a daemon
	Once     bool          // show one frame
	Across   Across
}

// Any reports whether the command shows several machines.
func (a *Across) Any() bool {
	return a.Kubernetes || a.given != nil && slices.ContainsFunc([]string{"urls", "context", "namespace"}, a.given)
}

// Interval returns how often to ask again, given how often the user wants it: through
// kubectl, which starts a program for each node, at most every five seconds.
func (a *Across) Interval(wanted time.Duration) time.Duration {
	const rarely = 5 * time.Second
	if a.Kubernetes && wanted != 0 {
		return max(wanted, rarely)
	}
	return wanted
}

// daemon is the address of one of several daemons, and the name that people use for it.
type daemon struct {
	name, host  string
	socket, url string
}

// daemons parses the addresses.
func (a *Across) daemons() ([]daemon, error) {
	if len(a.URLs) == 0 {
		return nil, Usage("--urls names no daemon")
	}
	var list []daemon
	hosts := map[string]int{}
	for _, text := range a.URLs {
		if path, unix := strings.CutPrefix(text, "unix://"); unix {
			if !strings.HasPrefix(path, "/") {
				return nil, Usage("%q is not the address of a socket: write it like unix:///run/berth/berth.sock", text)
			}
			list = append(list, daemon{name: path, socket: path})
			continue
		}
		whole := text
		if !strings.Contains(whole, "://") {
			whole = "http://" + whole
		}
		at, err := url.Parse(whole)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return nil, Usage("%q is not the address of a daemon: write it like http://host:8000", text)
		}
		hosts[at.Hostname()]++
		list = append(list, daemon{name: at.Host, host: at.Hostname(), url: whole})
	}
	seen := map[string]bool{}
	for i, d := range list {
		if hosts[d.host] == 1 {
			list[i].name = d.host
		}
		if seen[list[i].name] {
			return nil, Usage("--urls names %s twice", list[i].name)
		}
		seen[list[i].name] = true
	}
	return list, nil
}
