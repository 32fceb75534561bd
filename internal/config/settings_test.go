package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
)

// equal compares configurations, with the optional values in them.
var equal = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Celsius]{}, gpu.Opt[gpu.Percent]{}, gpu.Opt[gpu.Watts]{}, gpu.Opt[float64]{}, gpu.Opt[time.Duration]{}),
}

func must(t testing.TB, s *config.Settings, err error) *config.Settings {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefault(t *testing.T) {
	want := config.Config{
		Daemon: config.Daemon{Devices: "auto", Listen: "127.0.0.1:8000", Insecure: "false", ContainerCallers: "uid", TCPCallers: "uid", ClusterAccount: "berth-system:berth-dra", LogLevel: "info"},
		GPU: config.GPU{
			Thresholds:       gpu.DefaultThresholds(),
			ThrottleCooldown: 30 * time.Second, CriticalPause: time.Minute, Recover: "steps",
			Quarantine: time.Minute, Probation: 5 * time.Minute, SlotReturn: 5 * time.Minute,
			MemoryReserve: 512, MonitorInterval: time.Second, HistorySize: 200,
			OverLimit: "warn", Foreign: "show", Overheat: "tell", Context: 600, MPS: "off", Isolation: "env", Plain: "whole",
			Forecast: "on", Throttle: "slots", Check: "on", Scrub: "off",
		},
		Optimization: config.Optimization{
			Interval: 5 * time.Minute, MemoryThreshold: 0.85,
			AllocationTimeout: 30 * time.Second, DeallocationTimeout: 10 * time.Second,
			Orphans: "name", TrimTimeout: 10 * time.Second, ParkIdleAfter: time.Minute, ParkGrace: 5 * time.Second, Keep: time.Minute, TimeSlice: 5 * time.Minute, HugePages: "leave",
		},
		UnknownServices: "serve", Jobs: "on", Queue: config.Queue{Unknown: "pass"},
		Energy:  config.Energy{Currency: "EUR"},
		Audit:   config.Audit{MaxSize: 16, Files: 10},
		Past:    config.Past{Store: "on", Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 1024},
		Alerts:  config.Alerts{Evaluate: "on", Interval: 30 * time.Second, Shipped: "on"},
		Metrics: config.Metrics{Compat: "off"},
	}
	if diff := cmp.Diff(want, config.Default(), equal); diff != "" {
		t.Error(diff)
	}
	s, err := config.Merge()
	if diff := cmp.Diff(want, must(t, s, err).Config, equal); diff != "" {
		t.Errorf("merging nothing: %s", diff)
	}
}

const everything = `
daemon:
  devices: sim:4
  state_dir: /s
  socket: /s/b.sock
  listen: "[::1]:0"
  token: hush-hush
  log_level: debug
gpu:
  temp_optimal: 60.5
  throttle_cooldown_seconds: 500ms
  critical_pause_seconds: 1m30s
  recover: direct
  quarantine_seconds: 20
  probation_seconds: 0
  slot_return_seconds: 1s
  memory_limit_mb: 4GiB
  memory_reserve_mb: 0
  max_pipelines: 3
  extra_slots: 2
  monitor_interval: 0.1
  over_limit: revoke
  foreign: kill_orphans
  overheat: revoke
  context_mb: 1GiB
  mps: on
  isolation: cgroup
  plain: slot
  forecast: off
  throttle: pace
  power_least_watts: 150
  fan_curve: "50:30,85:100"
  check: off
  scrub: on
  devices:
    GPU-1:
      temp_critical: 95
      memory_optimal: 50
      critical_pause_seconds: 5
      memory_limit_mb: 1024
      max_pipelines: null
      throttle: advise
      power_least_watts: 200
      fan_curve: "40:100"
    GPU-2:
optimization: {interval: 1h, memory_threshold: 1, longest_wait: 20s, huge_pages: while_moving}
unknown_services: refuse
jobs: off
queue: {unknown: hold}
services:
  embedder:
    min_memory_mb: 1GiB
    max_memory_mb: 1024
    preferred_device: GPU-1
    affinity: together
    priority: -3
    quota: {memory_mb: 8192, slots: 2}
    users: [alice, 1000]
    over_limit: warn
    throttle: exempt
    compute: 30
    match: {unit: embedder.service, cgroup: /system.slice, program: embed.py, user: alice}
    command: embed-server --name "the embedder" --port ${PORT}
    user: embed
    directory: /srv/embed
    env: {HF_TOKEN: hush-hush, PORT: "${PORT}"}
    port: 9001
    ready: /health
    memory: 12GiB
    gpus: 2
    start: always
    start_timeout: 5m
    restart: false
    idle_after: 0
    away: sleep
    sleep: [{path: /sleep, body: '{"level": 1}'}]
    wake: [{method: PUT, path: /wake_up}, {path: /warm}]
    default: true
    models: [bge-m3, "bge-*"]
    hosts: [embed.example.com, "embed:8080"]
    ignore: [/favicon.ico, "/assets/*"]
    max_open: 64
  plain:
front: {listen: "127.0.0.1:8080", tls_cert: /c, tls_key: /k, user: web}
energy: {price_per_kwh: 0.32, currency: CHF}
audit: {max_mb: 64, files: 3}
past: {recent: 2d, long: 30d, size_mb: 300}
alerts: {evaluate: off, interval: 1m, shipped: off, rules: [/etc/berth/my.rules.yml]}
metrics: {compat: dcgm}
hooks:
  pager:
    url: https://example.com/hush-hush
    secret: hush-hush
    codes: [device_lost, critical]
  mail:
    command: [mail, -s, "GPU of rack 4", root, root]
    severity: critical
    timeout_seconds: 1m
`

func TestEverythingInAFile(t *testing.T) {
	thresholds := gpu.DefaultThresholds()
	thresholds.TempOptimal = 60.5
	want := config.Config{
		Daemon: config.Daemon{Devices: "sim:4", StateDir: "/s", Socket: "/s/b.sock", Listen: "[::1]:0", Token: "hush-hush", Insecure: "false", ContainerCallers: "uid", TCPCallers: "uid", ClusterAccount: "berth-system:berth-dra", LogLevel: "debug"},
		GPU: config.GPU{
			Thresholds:       thresholds,
			ThrottleCooldown: 500 * time.Millisecond, CriticalPause: 90 * time.Second, Recover: "direct",
			Quarantine: 20 * time.Second, Probation: 0, SlotReturn: time.Second,
			MemoryLimit: gpu.Some[gpu.MiB](4096), MaxPipelines: gpu.Some(3), ExtraSlots: 2,
			MonitorInterval: 100 * time.Millisecond, HistorySize: 200,
			OverLimit: "revoke", Foreign: "kill_orphans", Overheat: "revoke", Context: 1024, MPS: "on", Isolation: "cgroup", Plain: "slot",
			Forecast: "off", Throttle: "pace", PowerLeast: gpu.Some[gpu.Watts](150), FanCurve: "50:30,85:100", Check: "off", Scrub: "on",
			Devices: map[string]config.DeviceOverride{
				"GPU-1": {
					TempCritical: gpu.Some[gpu.Celsius](95), MemoryOptimal: gpu.Some[gpu.Percent](50),
					CriticalPause: gpu.Some(5 * time.Second), MemoryLimit: gpu.Some[gpu.MiB](1024),
					Throttle: "advise", PowerLeast: gpu.Some[gpu.Watts](200), FanCurve: "40:100",
				},
				"GPU-2": {},
			},
		},
		Optimization: config.Optimization{
			Interval: time.Hour, MemoryThreshold: 1,
			AllocationTimeout: 30 * time.Second, DeallocationTimeout: 10 * time.Second,
			Orphans: "name", TrimTimeout: 10 * time.Second, ParkIdleAfter: time.Minute, ParkGrace: 5 * time.Second, Keep: time.Minute, TimeSlice: 5 * time.Minute, HugePages: "while_moving", LongestWait: gpu.Some(20 * time.Second),
		},
		UnknownServices: "refuse", Jobs: "off", Queue: config.Queue{Unknown: "hold"},
		Services: map[string]config.Service{
			"embedder": {
				MinMemory: gpu.Some[gpu.MiB](1024), MaxMemory: gpu.Some[gpu.MiB](1024), PreferredDevice: "GPU-1", Affinity: "together", Priority: -3,
				Quota: config.Quota{Memory: gpu.Some[gpu.MiB](8192), Slots: gpu.Some(2)}, Users: []string{"alice", "1000"},
				OverLimit: "warn", Throttle: "exempt", Compute: gpu.Some[gpu.Percent](30), Match: config.Match{Unit: "embedder.service", Cgroup: "/system.slice", Program: "embed.py", User: "alice"},
				Program: config.Program{
					Command: []string{"embed-server", "--name", "the embedder", "--port", "${PORT}"}, User: "embed", Directory: "/srv/embed",
					Env: config.Variables{"HF_TOKEN": "hush-hush", "PORT": "${PORT}"}, Port: gpu.Some(9001), Ready: config.Ready{Path: "/health"},
					Memory: gpu.Some[gpu.MiB](12288), GPUs: gpu.Some(2), Start: "always", StartTimeout: gpu.Some(5 * time.Minute), Restart: "false",
					IdleAfter: gpu.Some(time.Duration(0)), Away: "sleep", Sleep: []config.Call{{Method: "POST", Path: "/sleep", Body: `{"level": 1}`}},
					Wake: []config.Call{{Method: "PUT", Path: "/wake_up"}, {Method: "POST", Path: "/warm"}}, Default: "true",
					Models: []string{"bge-m3", "bge-*"}, Hosts: []string{"embed.example.com", "embed:8080"}, Ignore: []string{"/favicon.ico", "/assets/*"}, MaxOpen: gpu.Some(64),
				},
			},
			"plain": {Affinity: "apart"},
		},
		Front:   config.Front{Listen: "127.0.0.1:8080", TLSCert: "/c", TLSKey: "/k", User: "web"},
		Energy:  config.Energy{Price: gpu.Some(0.32), Currency: "CHF"},
		Audit:   config.Audit{MaxSize: 64, Files: 3},
		Past:    config.Past{Store: "on", Recent: 48 * time.Hour, Long: 30 * 24 * time.Hour, Size: 300},
		Alerts:  config.Alerts{Evaluate: "off", Interval: time.Minute, Shipped: "off", Rules: []string{"/etc/berth/my.rules.yml"}},
		Metrics: config.Metrics{Compat: "dcgm"},
		Hooks: map[string]config.Hook{
			"pager": {
				URL: "https://example.com/hush-hush", Secret: "hush-hush", Codes: []string{"device_lost", "critical"},
				Severity: "warning", Timeout: 10 * time.Second,
			},
			"mail": {Command: []string{"mail", "-s", "GPU of rack 4", "root", "root"}, Severity: "critical", Timeout: time.Minute},
		},
	}
	s, err := merge(everything, "", nil, nil)
	if diff := cmp.Diff(want, must(t, s, err).Config, equal); diff != "" {
		t.Error(diff)
	}
}

// A single value in the place of a section that has a short form sets one of
// its settings.
func TestShortForm(t *testing.T) {
	s, err := merge("past: off\n", "", nil, nil)
	if got := must(t, s, err).Config.Past; got.Store != "off" || got.Recent != 48*time.Hour {
		t.Errorf("past: off is %+v", got)
	}
	if _, err := merge("past: sometimes\n", "", nil, nil); err == nil || !strings.Contains(err.Error(), "berth.yaml:1: past.store: ") {
		t.Errorf("a wrong short form is refused with %v", err)
	}
}

// null means "not set" everywhere: every setting has its default, and every
// section is as if it were not there.
func TestNullIsNotSet(t *testing.T) {
	const nothing = `
daemon: {devices: null, state_dir: null, socket: ~, listen: null, token: null, log_level: }
gpu: {temp_optimal: null, memory_limit_mb: null, monitor_interval: ~, over_limit: , devices: {GPU-1: {temp_optimal: null}, GPU-2: null}}
optimization: {interval: null, allocation_timeout: null}
services:
  a: {min_memory_mb: null, max_memory_mb: null, preferred_device: null, priority: null, quota: null, users: null, over_limit: null}
  b: {quota: {memory_mb: null, slots: null}}
  c: null
hooks:
`
	want := config.Default()
	want.GPU.Devices = map[string]config.DeviceOverride{"GPU-1": {}, "GPU-2": {}}
	want.Services = map[string]config.Service{"a": {Affinity: "apart"}, "b": {Affinity: "apart"}, "c": {Affinity: "apart"}}
	s, err := merge(nothing, "", nil, nil)
	if diff := cmp.Diff(want, must(t, s, err).Config, equal); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"services: null\ngpu: null", "gpu:\nservices:\nhooks: ~"} {
		s, err := merge(text, "", nil, nil)
		if diff := cmp.Diff(config.Default(), must(t, s, err).Config, equal); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// A service is one service, however its name is spelled.
func TestServiceNames(t *testing.T) {
	s, err := merge("services: {embedding_service: {max_memory_mb: 4GiB}, ocr-service: {priority: 2}}", "", nil, nil)
	c := must(t, s, err).Config.Services
	if len(c) != 2 || c["embedding-service"].MaxMemory.Or(0) != 4096 || c["ocr-service"].Priority != 2 {
		t.Errorf("services are %+v", c)
	}
	if got := s.Source("services.embedding-service.max_memory_mb"); got != "berth.yaml:1" {
		t.Errorf("it comes from %s", got)
	}
}

func TestPreferredDevice(t *testing.T) {
	for written, want := range map[string]string{"null": "", "0": "0", `"3"`: "3", "GPU-8d1f0a3c": "GPU-8d1f0a3c"} {
		s, err := merge("services: {a: {preferred_device: "+written+"}}", "", nil, nil)
		if got := must(t, s, err).Config.Services["a"].PreferredDevice; got != want {
			t.Errorf("preferred_device: %s is %q", written, got)
		}
	}
}

func TestStrongerSourcesWin(t *testing.T) {
	yaml := "gpu:\n  temp_optimal: 61\n  temp_normal: 71\n  temp_throttle: 81\n  temp_critical: 91\n  history_size: 10\n"
	saved := "gpu:\n  temp_normal: 72\n  temp_throttle: 82\n  temp_critical: 92\n"
	environ := []string{
		"BERTH_GPU_TEMP_THROTTLE=83", "BERTH_GPU_TEMP_CRITICAL=93", "BERTH_STATE_DIR=/env",
		"BERTH_GPU_HISTORY_SIZE=", "BERTH_URL=http://x", "BERTH_LEASE=1", "BERTH_PORT=tcp://1", "BERTH_GPU_SERVICE_HOST=1", "PATH=/bin",
	}
	flags := map[string]string{"gpu.temp_critical": "94", "daemon.listen": ""}
	s, err := merge(yaml, saved, environ, flags)
	must(t, s, err)
	var got strings.Builder
	for _, f := range s.All() {
		if s.Source(f.Name) != f.Source {
			t.Errorf("%s: listed as from %q, Source says %q", f.Name, f.Source, s.Source(f.Name))
		}
		if f.Source != "default" {
			fmt.Fprintf(&got, "%s = %s %s (%s)\n", f.Name, f.Value, f.Unit, f.Source)
		}
	}
	want := `daemon.state_dir = /env  (environment BERTH_STATE_DIR)
daemon.listen = none  (flag --listen)
gpu.temp_optimal = 61 °C (berth.yaml:2)
gpu.temp_normal = 72 °C (saved at run time)
gpu.temp_throttle = 83 °C (environment BERTH_GPU_TEMP_THROTTLE)
gpu.temp_critical = 94 °C (flag --gpu-temp-critical)
gpu.history_size = 10  (berth.yaml:6)
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAllListsDevicesAndServices(t *testing.T) {
	s, err := merge("gpu: {devices: {GPU-2: {temp_optimal: 60}, GPU-1: {memory_limit_mb: 4GiB}}}\nservices: {a: {users: [x, y]}}", "", nil, nil)
	var got []string
	for _, f := range must(t, s, err).All() {
		if strings.Count(f.Name, ".") > 1 {
			got = append(got, f.Name+" = "+f.Value)
		}
	}
	want := []string{"gpu.devices.GPU-1.memory_limit_mb = 4096", "gpu.devices.GPU-2.temp_optimal = 60", "services.a.users = [x, y]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	s, err := merge(everything, "", nil, nil)
	c := must(t, s, err).Config
	for _, text := range []string{fmt.Sprint(s.All()), fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%+v", &c)} {
		if strings.Contains(text, "hush") {
			t.Errorf("a secret is in %s", text)
		}
		if !strings.Contains(text, "set") {
			t.Errorf("nothing says that a secret is set: %s", text)
		}
	}
}

func TestListen(t *testing.T) {
	for listen, beyond := range map[string]bool{
		"127.0.0.1:8000": false, "127.9.9.9:1": false, "[::1]:8000": false, "localhost:0": false, "": false,
		"0.0.0.0:8000": true, "[::]:1": true, ":1": true, "gpu-box:8000": true, "192.168.0.7:1": true,
	} {
		flags := map[string]string{"daemon.listen": listen}
		if _, err := merge("", "", nil, flags); (err != nil) != beyond {
			t.Errorf("%q without TLS: %v", listen, err)
		}
		if _, err := merge("", "", []string{"BERTH_TOKEN=hush"}, flags); (err != nil) != beyond {
			t.Errorf("%q with a token and without TLS: %v", listen, err)
		}
		for _, text := range []string{"daemon: {tls_cert: /c, tls_key: /k}", "daemon: {insecure: true}"} {
			if _, err := merge(text, "", nil, flags); err != nil {
				t.Errorf("%q with %s: %v", listen, text, err)
			}
		}
	}
}

// The rules for thresholds are told to this package by tags; they must be the
// ones of gpu.
func TestThresholdsAgreeWithTheirOwnRules(t *testing.T) {
	keys := []string{"temp_optimal", "temp_normal", "temp_throttle", "temp_critical", "memory_optimal", "memory_normal", "memory_critical"}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int { return rapid.IntRange(-1, 16).Draw(t, "tens") * 10 }), 7, 7).Draw(t, "values")
		if rapid.Bool().Draw(t, "mostly sane") {
			values = []int{60, 70, 80, 90, 70, 80, 90}
			values[rapid.IntRange(0, 6).Draw(t, "which")] = rapid.IntRange(-5, 155).Draw(t, "value")
		}
		flags := map[string]string{}
		for i, key := range keys {
			flags["gpu."+key] = fmt.Sprint(values[i])
		}
		v := func(i int) float64 { return float64(values[i]) }
		rules := gpu.Thresholds{
			TempOptimal: gpu.Celsius(v(0)), TempNormal: gpu.Celsius(v(1)), TempThrottle: gpu.Celsius(v(2)), TempCritical: gpu.Celsius(v(3)),
			MemoryOptimal: gpu.Percent(v(4)), MemoryNormal: gpu.Percent(v(5)), MemoryCritical: gpu.Percent(v(6)),
		}.Validate()
		if _, err := merge("", "", nil, flags); (err == nil) != (rules == nil) {
			t.Fatalf("config says %v\ngpu says %v", err, rules)
		}
	})
}

func TestDefaultPaths(t *testing.T) {
	for _, c := range []struct {
		name          string
		root          bool
		env           map[string]string
		state, socket string
	}{
		{"root", true, map[string]string{"HOME": "/root", "XDG_STATE_HOME": "/x", "XDG_RUNTIME_DIR": "/r"}, "/var/lib/berth", "/run/berth/berth.sock"},
		{"user", false, map[string]string{"HOME": "/home/a", "XDG_RUNTIME_DIR": "/run/user/1"}, "/home/a/.local/state/berth", "/run/user/1/berth/berth.sock"},
		{"user with a state folder", false, map[string]string{"HOME": "/home/a", "XDG_STATE_HOME": "/x"}, "/x/berth", "/x/berth/berth.sock"},
		{"relative folders do not count", false, map[string]string{"HOME": "/home/a", "XDG_STATE_HOME": "x", "XDG_RUNTIME_DIR": "r"}, "/home/a/.local/state/berth", "/home/a/.local/state/berth/berth.sock"},
		{"nobody", false, nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, socket := config.DefaultPaths(c.root, func(name string) string { return c.env[name] })
			if state != c.state || socket != c.socket {
				t.Errorf("got %q, %q, want %q, %q", state, socket, c.state, c.socket)
			}
		})
	}
}
