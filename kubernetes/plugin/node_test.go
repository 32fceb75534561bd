package plugin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/plugin"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// driverVariable has the settings of a driver that the test binary runs as.
const driverVariable = "BERTH_TEST_DRIVER"

type driverSettings struct {
	Dir, Cluster, Token string
	Daemon              string
	Isolation           string
	Pace                plugin.Pace
}

func TestMain(m *testing.M) {
	if text := os.Getenv(driverVariable); text != "" {
		if err := runDriver(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runDriver is the driver in a process of its own. After each step it tells the test,
// and waits for a byte.
func runDriver(text string) error {
	var s driverSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	daemon, err := client.New(client.Options{Socket: s.Dir + s.Daemon, Token: s.Token, Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: s.Cluster, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		return err
	}
	said, heard := os.NewFile(3, "said"), os.NewFile(4, "heard")
	metrics := export.New()
	d, err := plugin.New(plugin.Options{
		Node: node, Version: "test", Registry: s.Dir + "/r", Plugins: s.Dir + "/p",
		Daemon: daemon, Address: s.Dir + "/d", Kube: kube, Socket: s.Dir + "/d",
		CDI: cdi.Folder{Dirs: []string{s.Dir + "/cdi", s.Dir + "/vendor"}}, Isolation: s.Isolation,
		Metrics: metrics, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Pace: s.Pace,
		Step: func(step string) {
			fmt.Fprintln(said, step)
			_, _ = heard.Read(make([]byte, 1))
		},
	})
	if err != nil {
		return err
	}
	page, err := net.Listen("unix", s.Dir+"/page.new")
	if err != nil {
		return err
	}
	if err := os.Rename(s.Dir+"/page.new", s.Dir+"/page"); err != nil {
		return err
	}
	go func() { _ = http.Serve(page, export.Handler(metrics, d)) }()
	return d.Run(context.Background())
}

const (
	node      = "node-1"
	namespace = "shop"
)

// machine is a node: a daemon with simulated GPUs, a driver, and the test as kubelet
// and API server.
type machine struct {
	t       *testing.T
	dir     string
	cluster *apiServer
	admin   *client.Client // root on the socket
	token   string
	config  string // of the daemon
	devices string
	paces   plugin.Pace
	behind  string // what the driver takes for the daemon's socket

	daemon   *exec.Cmd
	driver   *exec.Cmd
	driving  sync.WaitGroup // reads the steps of the driver
	heard    *os.File
	log      *safeBuffer
	register *grpc.ClientConn
	dra      *grpc.ClientConn

	mu   sync.Mutex
	step func(step string) // called with mu after each step, before the driver goes on
}

// safeBuffer keeps what processes log.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fast is a pace at which a test need not wait.
var fast = plugin.Pace{Poll: 2 * time.Second, Reconcile: 200 * time.Millisecond, Join: 100 * time.Millisecond}

// newMachine starts a node.
func newMachine(t *testing.T, devices string, change ...func(*machine)) *machine {
	t.Helper()
	if os.Getenv("BERTH_SERVE") == "" {
		t.Skip("make test-kubernetes runs this test, with the daemon that BERTH_SERVE names")
	}
	dir, err := os.MkdirTemp("", "dra") // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machine{t: t, dir: dir, cluster: newAPIServer(t), devices: devices, paces: fast, behind: "/d", log: new(safeBuffer)}
	m.config = "gpu:\n  monitor_interval: 0.1\n  max_pipelines: 4\n"
	for _, c := range change {
		c(m)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text := m.log.String()
			t.Log("the daemon and the driver said:\n" + text[max(0, len(text)-12000):])
		}
	})
	if err := os.WriteFile(m.path("berth.yaml"), []byte(m.config), 0o600); err != nil {
		t.Fatal(err)
	}
	if m.admin, err = client.New(client.Options{Socket: m.path("d"), Timeout: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	m.startDaemon()
	t.Cleanup(func() { m.kill(&m.daemon) })
	made, err := m.admin.CreateToken(t.Context(), api.TokenRequest{Name: "kubernetes", Role: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	m.token = made.Secret
	m.startDriver()
	t.Cleanup(m.killDriver)
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// startDaemon starts the daemon and waits until it says that it is ready.
func (m *machine) startDaemon() {
	m.t.Helper()
	_ = os.Remove(m.path("n"))
	notify, err := net.ListenPacket("unixgram", m.path("n"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer notify.Close()
	m.daemon = exec.Command(os.Getenv("BERTH_SERVE"), "serve", "--devices", m.devices, "--listen", "",
		"--state-dir", m.path("state"), "--socket", m.path("d"), "--config", m.path("berth.yaml"))
	m.daemon.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.path("n"))
	m.daemon.Stdout, m.daemon.Stderr = m.log, m.log
	if err := m.daemon.Start(); err != nil {
		m.t.Fatal(err)
	}
	_ = notify.SetReadDeadline(time.Now().Add(time.Minute))
	for buffer := make([]byte, 4096); ; {
		n, _, err := notify.ReadFrom(buffer)
		if err != nil {
			m.t.Fatalf("the daemon does not start: %v", err)
		}
		if strings.Contains(string(buffer[:n]), "READY=1") {
			return
		}
	}
}

// kill ends a process with -9 and waits for its end.
func (m *machine) kill(process **exec.Cmd) {
	if *process != nil {
		_ = (*process).Process.Kill()
		_ = (*process).Wait()
		*process = nil
	}
}

// startDriver starts the driver and registers it, as kubelet does.
func (m *machine) startDriver() {
	m.t.Helper()
	settings, err := json.Marshal(driverSettings{Dir: m.dir, Cluster: m.cluster.URL, Daemon: m.behind, Token: m.token, Pace: m.paces})
	if err != nil {
		m.t.Fatal(err)
	}
	saidHere, said, err := os.Pipe()
	if err != nil {
		m.t.Fatal(err)
	}
	heard, heardHere, err := os.Pipe()
	if err != nil {
		m.t.Fatal(err)
	}
	m.driver = exec.Command(os.Args[0])
	m.driver.Env = append(os.Environ(), driverVariable+"="+string(settings))
	m.driver.Stdout, m.driver.Stderr = m.log, m.log
	m.driver.ExtraFiles = []*os.File{said, heard}
	if err := m.driver.Start(); err != nil {
		m.t.Fatal(err)
	}
	_, _ = said.Close(), heard.Close()
	m.heard = heardHere
	m.driving.Go(func() {
		defer saidHere.Close()
		defer heardHere.Close()
		for lines := bufio.NewScanner(saidHere); lines.Scan(); {
			m.mu.Lock()
			if m.step != nil {
				m.step(lines.Text())
			}
			m.mu.Unlock()
			_, _ = heardHere.Write([]byte("g"))
		}
	})
	m.registerDriver()
}

// killDriver ends the driver with -9.
func (m *machine) killDriver() {
	for _, c := range []*grpc.ClientConn{m.register, m.dra} {
		if c != nil {
			_ = c.Close()
		}
	}
	m.register, m.dra = nil, nil
	m.kill(&m.driver)
	m.driving.Wait()
}

// dial connects to a socket as soon as somebody listens there.
func (m *machine) dial(path string) *grpc.ClientConn {
	m.t.Helper()
	soon := backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: time.Second}))
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// registerDriver does what kubelet does when it finds the registration socket.
func (m *machine) registerDriver() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	m.register = m.dial(m.path("r/" + words.Driver + "-reg.sock"))
	r := registration.NewRegistrationClient(m.register)
	info, err := r.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		m.t.Fatal(err)
	}
	if info.Name != words.Driver || !slices.Contains(info.SupportedVersions, drav1.DRAPluginService) {
		m.t.Fatalf("the driver registers as %+v", info)
	}
	if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		m.t.Fatal(err)
	}
	m.dra = m.dial(info.Endpoint)
}

// at calls f after each step of the driver, before it goes on; nil: nothing.
func (m *machine) at(f func(step string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step = f
}

func named(claims []*resourcev1.ResourceClaim) []*drav1.Claim {
	var all []*drav1.Claim
	for _, c := range claims {
		all = append(all, &drav1.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)})
	}
	return all
}

// prepare calls NodePrepareResources as kubelet does, once.
func (m *machine) prepare(claims ...*resourcev1.ResourceClaim) ([]*drav1.Device, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 45*time.Second)
	defer cancel()
	got, err := drav1.NewDRAPluginClient(m.dra).NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: named(claims)})
	if err != nil {
		return nil, err
	}
	var devices []*drav1.Device
	for _, c := range claims {
		one := got.Claims[string(c.UID)]
		if one == nil {
			return nil, errors.New("the answer leaves out claim " + c.Name)
		}
		if one.Error != "" {
			err = errors.Join(err, errors.New(one.Error))
		}
		devices = append(devices, one.Devices...)
	}
	return devices, err
}

// unprepare calls NodeUnprepareResources as kubelet does, once.
func (m *machine) unprepare(claims ...*resourcev1.ResourceClaim) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), 45*time.Second)
	defer cancel()
	got, err := drav1.NewDRAPluginClient(m.dra).NodeUnprepareResources(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: named(claims)})
	if err != nil {
		return err
	}
	for _, c := range claims {
		if one := got.Claims[string(c.UID)]; one == nil {
			return errors.New("the answer leaves out claim " + c.Name)
		} else if one.Error != "" {
			err = errors.Join(err, errors.New(one.Error))
		}
	}
	return err
}

// leases returns the leases of the daemon by id.
func (m *machine) leases() map[string]api.Lease {
	m.t.Helper()
	list, err := m.admin.Leases(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	all := map[string]api.Lease{}
	for _, l := range list.Leases {
		all[l.ID] = l
	}
	return all
}

// files returns the names of the files in a folder of the machine.
func (m *machine) files(dir string) []string {
	m.t.Helper()
	found, err := os.ReadDir(m.path(dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	var all []string
	for _, f := range found {
		all = append(all, f.Name())
	}
	return all
}

// page reads a page of the driver.
func (m *machine) page(path string) (int, string) {
	m.t.Helper()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.path("page"))
	}}}
	got, err := web.Get("http://driver" + path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// eventually waits until f returns "", and fails with what it returned last.
func (m *machine) eventually(what string, f func() string) {
	m.t.Helper()
	until, last := time.Now().Add(time.Minute), ""
	for time.Now().Before(until) {
		if last = f(); last == "" {
			return
		}
		select {
		case <-m.t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	m.t.Fatalf("%s: %s", what, last)
}
