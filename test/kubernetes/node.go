package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodes is how many nodes the cluster has.
const nodes = 2

// guests is the folder on a node in which processes say what they use of its
// simulated devices.
const guests = "/run/berth-guests"

// secret is the token that the drivers show to the daemons.
const secret = "e2e-0123456789abcdef0123456789abcdef"

// A Machine is a node with a daemon and a driver.
type Machine struct {
	Node    int
	Devices string // as after --devices; sim:1
	Script  string // a scenario of the simulator instead, in YAML
	Config  string // sections of berth.yaml but for daemon; default: gpu: {max_pipelines: 4}
	Class   string // a folder of the node that the daemon sees as /sys/class
}

// Node is a node of the cluster.
type Node struct {
	Name string

	h      *H
	class  string // of the Machine
	daemon *exec.Cmd
	ended  chan struct{} // closed when the daemon has ended
}

// Path returns the path by which the harness reaches a file of the node.
func (n *Node) Path(path string) string {
	holder, err := os.ReadFile(filepath.Join(n.h.run, n.Name, "pids", "holder"))
	if err != nil {
		n.h.Fail("the node %s does not run: %v", n.Name, err)
	}
	return filepath.Join("/proc", strings.TrimSpace(string(holder)), "root", path)
}

// Write writes a file of the node.
func (n *Node) Write(path, text string) {
	n.h.Must(os.MkdirAll(filepath.Dir(n.Path(path)), 0o755))
	n.h.Must(os.WriteFile(n.Path(path), []byte(text), 0o600))
}

// On returns a command that runs on the node, in its mount namespace and its control group.
func (n *Node) On(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(n.h.base, "bash", append([]string{n.h.scripts + "/on", n.Name}, args...)...)
	cmd.Env = append(os.Environ(), "BERTH_SOCKET=/run/berth/berth.sock")
	return cmd
}

// Daemon returns a client of the daemon of the node.
func (n *Node) Daemon() *client.Client {
	c, err := client.New(client.Options{Socket: n.Path("/run/berth/berth.sock"), Timeout: 10 * time.Second})
	n.h.Must(err)
	return c
}

// Begin starts the daemon of the node with an empty state.
func (n *Node) Begin(m Machine) {
	for _, dir := range []string{"/var/lib/berth", guests} {
		empty(n.Path(dir))
	}
	devices, config := m.Devices, m.Config
	n.class = m.Class
	if m.Script != "" {
		n.Write("/etc/berth/scenario.yaml", m.Script)
		devices = "sim:/etc/berth/scenario.yaml"
	}
	if config == "" {
		config = "gpu: {max_pipelines: 4}\n"
	}
	n.Write("/etc/berth/berth.yaml", fmt.Sprintf("daemon: {devices: %q, listen: \"\", container_callers: token}\n%s", devices, config))
	n.Start()
	c := n.Daemon()
	defer c.Close()
	_, err := c.CreateToken(n.h.ctx, api.TokenRequest{Name: "kubernetes", Role: "operator", Secret: secret})
	n.h.Must(err)
	n.h.guestFolders(n)
}

// guestFolders makes the folders in which processes say what they use of each device.
func (h *H) guestFolders(n *Node) {
	for _, d := range n.Devices() {
		h.Must(os.MkdirAll(n.Path(guests+"/"+d.UUID), 0o777))
		h.Must(os.Chmod(n.Path(guests+"/"+d.UUID), 0o1777))
	}
	h.Must(os.Chmod(n.Path(guests), 0o1777))
}

// Start starts the daemon of the node again, and returns when it answers.
func (n *Node) Start() {
	n.h.Must(os.MkdirAll(n.Path(guests), 0o777))
	log, err := os.OpenFile(filepath.Join(n.h.run, n.Name, "log", "berth.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	n.h.Must(err)
	defer log.Close()
	n.daemon = n.On(n.h.run+"/bin/berth-serve", "serve", "--config", "/etc/berth/berth.yaml")
	if n.class != "" {
		n.daemon = n.On("unshare", "-m", "bash", "-c", `mount --bind "$1" /sys/class && exec "$0" serve --config /etc/berth/berth.yaml`, n.h.run+"/bin/berth-serve", n.class)
	}
	n.daemon.Env = append(os.Environ(), "BERTH_SIM_GUESTS="+guests)
	n.daemon.Stdout, n.daemon.Stderr = log, log
	n.daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	n.h.Must(n.daemon.Start())
	n.h.Must(os.WriteFile(n.pidFile(), []byte(strconv.Itoa(n.daemon.Process.Pid)), 0o644))
	daemon, ended := n.daemon, make(chan struct{})
	n.ended = ended
	go func() { _ = daemon.Wait(); close(ended) }()
	c := n.Daemon()
	defer c.Close()
	n.h.wait(time.Minute, "the daemon on "+n.Name+" answers", func() error {
		select {
		case <-ended:
			n.h.Fail("the daemon on %s ended: see %s", n.Name, log.Name())
		default:
		}
		_, err := c.Ready(n.h.ctx)
		return err
	})
}

// Kill ends the daemon with SIGKILL.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop ends the daemon in order.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

func (n *Node) end(s syscall.Signal) {
	if n.daemon == nil {
		n.endOlder()
		return
	}
	_ = n.daemon.Process.Signal(s)
	<-n.ended
	n.daemon = nil
	_ = os.Remove(n.pidFile())
}

func (n *Node) pidFile() string { return filepath.Join(n.h.run, n.Name, "pids", "berth") }

// endOlder ends a daemon that an earlier run of this program has left.
func (n *Node) endOlder() {
	text, err := os.ReadFile(n.pidFile())
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(string(text))
	n.h.Must(err)
	n.h.wait(patience, "the daemon of an earlier run ends", func() error {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			return fmt.Errorf("process %d is there", pid)
		}
		return nil
	})
	_ = os.Remove(n.pidFile())
}

// Reboot cuts the power of the node and starts it again with another boot id, and
// with the daemon that it had.
func (n *Node) Reboot() {
	had := n.daemon != nil
	_, err := n.h.command("", "bash", n.h.scripts+"/node.sh", "reboot", n.Name)
	n.h.Must(err)
	if had {
		<-n.ended
		n.Start()
	}
}

// Kubelet ends the kubelet of the node in order, and starts it again.
func (n *Node) Kubelet() {
	_, err := n.h.command("", "bash", "-c", fmt.Sprintf(`pid=$(cat %[1]s/%[2]s/pids/kubelet); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done; exec bash %[3]s/node.sh kubelet %[2]s`,
		n.h.run, n.Name, n.h.scripts))
	n.h.Must(err)
}

// Devices returns the devices of the daemon.
func (n *Node) Devices() []gpu.Device {
	var list []gpu.Device
	for _, s := range n.Status() {
		list = append(list, s.Device)
	}
	return list
}

// Status returns the state of the devices of the daemon.
func (n *Node) Status() []api.Status {
	c := n.Daemon()
	defer c.Close()
	ctx, cancel := context.WithTimeout(n.h.ctx, 10*time.Second)
	defer cancel()
	all, err := c.StatusAllWithLeases(ctx)
	n.h.Must(err)
	return all.GPUs
}

// Leases returns the leases of the daemon.
func (n *Node) Leases() ([]api.Lease, error) {
	c := n.Daemon()
	defer c.Close()
	list, err := c.Leases(n.h.ctx)
	return list.Leases, err
}

// Lease returns a lease of the daemon by its id.
func (n *Node) Lease(id string) (api.Lease, error) {
	c := n.Daemon()
	defer c.Close()
	return c.Lease(n.h.ctx, id)
}

// Foreign returns the processes that use devices of the node under no lease.
func (n *Node) Foreign() ([]api.Stray, error) {
	c := n.Daemon()
	defer c.Close()
	list, err := c.Orphans(n.h.ctx)
	return slices.Concat(list.Orphans, list.Foreign), err
}

// CDI returns the names of our CDI files on the node.
func (n *Node) CDI() []string { return n.glob("/run/cdi/*") }

// State returns the names of the state files of the driver on the node.
func (n *Node) State() []string {
	return n.glob("/var/lib/kubelet/plugins/" + words.Driver + "/state/*")
}

func (n *Node) glob(pattern string) []string {
	found, err := filepath.Glob(n.Path(pattern))
	n.h.Must(err)
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// Driver returns the pod of the driver on the node that is not about to end.
func (n *Node) Driver() (*corev1.Pod, error) {
	list, err := n.h.Cluster.CoreV1().Pods("berth-system").List(n.h.ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=berth-dra", FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			return &p, nil
		}
	}
	return nil, errors.New("no driver runs on " + n.Name)
}

// empty removes everything in a folder.
func empty(dir string) {
	found, _ := filepath.Glob(dir + "/*")
	for _, f := range found {
		_ = os.RemoveAll(f)
	}
}
