package main

// How to add a scenario
//
// A scenario is a row of a table (scenarios.go): its number, what it does, what it
// expects, and a function that gets an *H. The function first says which machines it
// wants, then does what a user would do, and asserts in the container (h.Report), in
// the ledger (h.Node(1).Lease) and in the API server (h.Cluster). It cleans nothing up.
//
//	func twoPods(h *H) {
//		h.Machines(Machine{Node: 1, Devices: "sim:1"})
//		h.Step("two pods, 60 GiB each")
//		a, b := h.Create(Pod{Name: "a", Memory: "60Gi"}), h.Create(Pod{Name: "b", Memory: "60Gi"})
//		h.Within(5*time.Second, "both run", h.Running(a, b))
//		h.Books()
//	}
//
// What H offers:
//
//   - h.Machines starts a daemon on each node that it names, in the way of a host
//     (berth-serve in the node's namespaces, simulated devices, container_callers:
//     token), and runs the DaemonSet of kubernetes/deploy on those nodes only. Each
//     scenario begins with empty daemons and new driver pods.
//   - h.Step prints what happens next. h.Within waits for a condition, prints how long
//     it took, and fails after ten times the expected time; h.Eventually waits without an
//     expectation; h.Holds fails if a condition ends within a time.
//   - Conditions are functions that return nil or what is missing: h.Running(pods…),
//     h.Pending(pod), h.Gone(pod), h.Leases(node, n), or one of your own.
//   - h.Create makes a pod of the workload image, with a claim template of the same name
//     where it asks for memory or slots; Pod has the knobs, and Pod.Change takes the rest.
//     h.Apply takes YAML. h.Kubectl runs kubectl.
//   - h.Report reads what a container sees; h.Use makes it use an amount of memory.
//   - h.Claim, h.Lease, h.Device, h.Slice, h.Events look at a pod's claim, its lease, and
//     so on. A *Node has the daemon (client, Kill, Start, Stop), files (Path, CDI, State),
//     Driver (its pod), Reboot, Kubelet, and On to run a command there.
//   - h.Books asserts that the leases of every node are the allocated claims there: ids,
//     MiB and device. The harness calls it at the end of each scenario, then deletes
//     everything and asserts that no lease, CDI file, state file and foreign process is left.
//   - h.Fail and h.Must end the scenario. h.Note adds a measured number to the table.

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// H is one scenario that runs.
type H struct {
	Cluster kubernetes.Interface
	Space   string // the namespace of the scenario

	ctx     context.Context // of the scenario
	base    context.Context // of all: daemons outlive their scenario
	config  *rest.Config
	scripts string // the folder of the scripts of the cluster
	run     string // the folder of the cluster
	deploy  string // the folder of the manifests
	out     io.Writer
	began   time.Time
	nodes   map[int]*Node
	slots   int // of guests that were given out
	notes   []string
}

// failure is what ends a scenario.
type failure struct{ error }

// open returns what all scenarios of a cluster share.
func open(ctx context.Context, scripts, run, deploy string, out io.Writer) (*H, error) {
	config, err := clientcmd.BuildConfigFromFlags("", run+"/admin.kubeconfig")
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	h := &H{Cluster: cluster, ctx: ctx, base: ctx, config: config, scripts: scripts, run: run, deploy: deploy, out: out, nodes: map[int]*Node{}}
	for n := 1; n <= nodes; n++ {
		h.nodes[n] = &Node{Name: fmt.Sprintf("node-%d", n), h: h}
	}
	return h, nil
}

// Node returns a node by its number.
func (h *H) Node(number int) *Node { return h.nodes[number] }

// Fail ends the scenario.
func (h *H) Fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Must ends the scenario if there is an error.
func (h *H) Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Step prints what the scenario does next.
func (h *H) Step(format string, args ...any) {
	fmt.Fprintf(h.out, "  %6.1fs  %s\n", time.Since(h.began).Seconds(), fmt.Sprintf(format, args...))
}

// Note adds a measured number to the line of the scenario in the table.
func (h *H) Note(format string, args ...any) { h.notes = append(h.notes, fmt.Sprintf(format, args...)) }

// Kubectl runs kubectl as the administrator and returns what it prints.
func (h *H) Kubectl(args ...string) (string, error) {
	return h.command("", os.Getenv("LAB")+"/bin/kubectl", append([]string{"--kubeconfig", h.run + "/admin.kubeconfig"}, args...)...)
}

// Apply applies objects, written in YAML, in the namespace of the scenario.
func (h *H) Apply(yaml string) {
	_, err := h.command(yaml, os.Getenv("LAB")+"/bin/kubectl", "--kubeconfig", h.run+"/admin.kubeconfig", "-n", h.Space, "apply", "-f", "-")
	h.Must(err)
}

// command runs a command and returns what it prints.
func (h *H) command(input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(h.ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return string(text), fmt.Errorf("%s: %w: %s", strings.Join(append([]string{name}, args...), " "), err, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
