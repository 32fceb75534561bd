package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/plugin"
)

// settings are the flags of the driver.
type settings struct {
	node, podUID       string
	daemon, tokenFile  string
	registry, plugins  string
	cdiDir, vendorDirs string
	isolation          string
	quarantine         string
	listen             string
	kubeconfig         string
	logLevel           string
	level              slog.Level
	help               bool
}

// parse reads the flags. A missing flag comes from the environment, as BERTH_DRA_ and its
// name: --cdi-dir is BERTH_DRA_CDI_DIR.
func parse(args []string, env func(string) string) (*settings, error) {
	s := new(settings)
	flags := flag.NewFlagSet("berth-dra", flag.ContinueOnError)
	text := func(to *string, name, value, usage string) {
		variable := "BERTH_DRA_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if set := env(variable); set != "" {
			value = set
		}
		flags.StringVar(to, name, value, usage+" ("+variable+")")
	}
	text(&s.node, "node", env("NODE_NAME"), "name of the node; default: NODE_NAME")
	text(&s.podUID, "pod-uid", env("POD_UID"), "UID of the driver's pod, which lets a new driver start before the old one ends; default: POD_UID")
	text(&s.daemon, "daemon", "unix:///run/berth/berth.sock", "socket or URL of berth's daemon")
	text(&s.tokenFile, "token-file", "", "file with the token that the driver shows the daemon, which it reads again when it changes")
	text(&s.registry, "kubelet-registry", "/var/lib/kubelet/plugins_registry", "kubelet's folder for registration sockets")
	text(&s.plugins, "kubelet-plugins", "/var/lib/kubelet/plugins", "kubelet's folder for the data of plugins")
	text(&s.cdiDir, "cdi-dir", "/var/run/cdi", "folder for the CDI files of leases")
	text(&s.vendorDirs, "vendor-cdi-dirs", "/etc/cdi,/var/run/cdi", "folders with the CDI files of GPU vendors, separated by commas")
	text(&s.isolation, "isolation", cdi.Vendor, "what keeps a container from the GPUs of others: vendor, the CDI files of the vendor; or env, variables alone. Simulated GPUs always have env")
	text(&s.quarantine, "quarantine-effect", string(resourcev1.DeviceTaintEffectNoExecute), "taint of a GPU in quarantine: NoExecute, NoSchedule or None")
	text(&s.listen, "listen", ":9480", "address of /metrics, /healthz, /readyz and /node")
	text(&s.kubeconfig, "kubeconfig", "", "file with the address of the API server; default: that of the cluster the driver runs in")
	text(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		s.help = true
		return s, nil
	} else if err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q; berth-dra --help lists the flags", flags.Arg(0))
	}
	return s, s.check()
}

func (s *settings) check() error {
	if s.node == "" {
		return errors.New("the name of the node is missing: set --node, or NODE_NAME by the downward API")
	}
	if !slices.Contains([]string{cdi.Vendor, cdi.Env}, s.isolation) {
		return fmt.Errorf("--isolation must be vendor or env, not %q", s.isolation)
	}
	if !slices.Contains([]string{"NoExecute", "NoSchedule", "None"}, s.quarantine) {
		return fmt.Errorf("--quarantine-effect must be NoExecute, NoSchedule or None, not %q", s.quarantine)
	}
	if err := s.level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return fmt.Errorf("--log-level must be debug, info, warn or error, not %q", s.logLevel)
	}
	for name, dir := range map[string]string{"kubelet-registry": s.registry, "kubelet-plugins": s.plugins, "cdi-dir": s.cdiDir} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("--%s must be an absolute path, not %q", name, dir)
		}
	}
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return fmt.Errorf("--listen must be an address such as :9480, not %q", s.listen)
	}
	return nil
}

// daemonTimeout limits calls to the daemon that have no other limit.
const daemonTimeout = 30 * time.Second

// options connects the parts of the driver.
func (s *settings) options(log *slog.Logger, metrics *export.Metrics) (plugin.Options, error) {
	o := plugin.Options{
		Node: s.node, PodUID: s.podUID, Version: version,
		Registry: s.registry, Plugins: s.plugins,
		Address:    s.daemon,
		CDI:        cdi.Folder{Dirs: s.cdiDirs()},
		Isolation:  s.isolation,
		Quarantine: resourcev1.DeviceTaintEffect(s.quarantine),
		Metrics:    metrics, Log: log,
	}
	where := client.Options{Timeout: daemonTimeout}
	if path, ok := strings.CutPrefix(s.daemon, "unix://"); ok || filepath.IsAbs(s.daemon) {
		where.Socket = path
		o.Socket, o.Address = path, path
		anybody, err := client.New(client.Options{Socket: path, Timeout: daemonTimeout})
		if err != nil {
			return o, err
		}
		o.Anybody = anybody
	} else {
		where.URL = s.daemon
	}
	if s.tokenFile != "" {
		if _, err := client.ReadToken(s.tokenFile); err != nil {
			return o, err
		}
		where.TokenFile = s.tokenFile
	}
	daemon, err := client.Find(where, os.Getenv) // uses BERTH_CA and others for https
	if err != nil {
		return o, err
	}
	o.Daemon = daemon
	config, err := s.cluster()
	if err != nil {
		return o, fmt.Errorf("find the API server: %w", err)
	}
	config.UserAgent = "berth-dra/" + version
	config.QPS, config.Burst = 50, 100
	config.ContentType = runtime.ContentTypeProtobuf // which keeps the parameters of claims as they were written
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	o.Kube, err = kubernetes.NewForConfig(config)
	return o, err
}

func (s *settings) cluster() (*rest.Config, error) {
	if s.kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	}
	return rest.InClusterConfig()
}

// cdiDirs returns the folders of CDI files, our own first.
func (s *settings) cdiDirs() []string {
	dirs := []string{s.cdiDir}
	for dir := range strings.SplitSeq(s.vendorDirs, ",") {
		if dir = strings.TrimSpace(dir); dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
