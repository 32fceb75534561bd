// Package config defines the settings of berth: their meaning, their defaults, and which
// values it refuses.
//
// It reads text, not files: the daemon decides where the text comes from.
//
// The structs in this file are the only description of every setting. Their tags drive
// the parsers of YAML, environment and flags, the JSON of the gpu section, the list of
// sources and the documentation, so a new setting is one new field:
//
//	key      its name in berth.yaml and JSON (without one: the json tag)
//	default  what it is when nobody set it, written as in berth.yaml
//	min, max, over    the range; over is a minimum that is itself too small
//	above, from       the setting of the same section it must be above, or at least
//	oneof, check      for text: the words allowed, or the rule it follows
//	empty    "no" for text that must not be empty
//	absent   for documentation: what it means that there is no value
//	env      a second, shorter variable; the long one is always there
//	short    for a section: the setting that a single value in its place sets
//	secret   "yes" for a value that is never shown, "file" for one that others must
//	         not read in berth.yaml, "hide" for one that is never shown and that
//	         others may read there
//	sight    "operator" for a value that only operators see
//	split    "shell" for a list that may also be one text, with quotes as in a shell
//	set      "socket" for what is changed at run time only on the Unix socket, and without
//	         a token
//	role     the least role that may change it at run time (without one: admin)
//	doc      what it does, for people
//
// Each source is parsed into a layer, and Merge merges the layers. Every layer keeps its
// complaints, so that Merge can report all mistakes at once:
//
//	file, _ := config.ParseYAML("berth.yaml", text)
//	env, _ := config.ParseEnv(os.Environ())
//	settings, err := config.Merge(file, env)
//
// Pure: no clock, no I/O.
package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Config has all settings.
type Config struct {
	Daemon       Daemon       `key:"daemon" doc:"Where the daemon listens and keeps its files. The daemon reads this section once, when it starts; the other settings can change while it runs."`
	GPU          GPU          `key:"gpu" doc:"How berth measures and judges devices."`
	Optimization Optimization `key:"optimization" doc:"How long requests may take, and when berth wins memory back."`

	UnknownServices string `key:"unknown_services" default:"serve" oneof:"serve,refuse" doc:"What berth does with a request in the name of a service that is not under services: it serves the request without limits of a service, or refuses it. Requests that name no service are always served."`

	Jobs string `key:"jobs" default:"on" oneof:"on,off" doc:"Whether berth runs programs for users who submit them (berth submit). off: it takes no job and starts none; jobs that run go on."`

	Services map[string]Service `key:"services" names:"NAME" check:"service" doc:"Limits and priorities of single services, and the programs that berth runs for them. berth help running-services says more."`
	Front    Front              `key:"front" doc:"Where requests for services come in. berth help running-services says more."`
	Users    map[string]User    `key:"users" names:"NAME" check:"account" doc:"Roles and limits of single users, by login name or user id, and of tokens and client certificates (token:NAME, cert:NAME). The entry default is for everybody who has none. berth help access says more."`
	Groups   map[string]Group   `key:"groups" names:"NAME" check:"group" doc:"Roles and limits of the members of groups, by name or group id. Of several groups of a user, the highest role and the largest limit hold; an entry of the user is stronger."`
	Queue    Queue              `key:"queue" doc:"How requests wait for each other."`
	Energy   Energy             `key:"energy" doc:"What energy costs, for reports."`
	Audit    Audit              `key:"audit" doc:"How much of the audit log berth keeps. berth help access says what is in it."`
	Past     Past               `key:"past" short:"store" doc:"What berth remembers of its devices and leases, for graphs, reports and alerts. past: off keeps nothing. berth help past says more."`
	Alerts   Alerts             `key:"alerts" doc:"The rules by which berth raises alerts without another server. berth help alerting says more."`
	Metrics  Metrics            `key:"metrics" doc:"What the page for Prometheus shows."`
	Hooks    map[string]Hook    `key:"hooks" names:"NAME" check:"hook" doc:"Where to send events. Each hook has either a url or a command. berth help events-and-hooks says more."`
}

// Daemon has the settings of the daemon itself, which reads them once, at the start.
type Daemon struct {
	Devices  string `key:"devices" default:"auto" env:"BERTH_DEVICES" empty:"no" doc:"Which devices to manage: auto, nvml, amd, intel, sim:4, sim:rtx-4060, sim:dgx-h200, sim:FILE (a scenario), or several separated by commas."`
	StateDir string `key:"state_dir" env:"BERTH_STATE_DIR" empty:"no" absent:"/var/lib/berth as root, else $XDG_STATE_HOME/berth or ~/.local/state/berth" doc:"Folder in which the daemon keeps what must survive a restart."`
	Socket   string `key:"socket" env:"BERTH_SOCKET" empty:"no" check:"socket" absent:"/run/berth/berth.sock as root, else $XDG_RUNTIME_DIR/berth/berth.sock or berth.sock in the state directory" doc:"Unix socket that the daemon listens on."`
	Listen   string `key:"listen" default:"127.0.0.1:8000" env:"BERTH_LISTEN" check:"listen" absent:"none" doc:"TCP address that the daemon listens on for HTTP. Empty: none. Any address but loopback needs TLS, and its callers a token or a certificate."`
	Token    string `key:"token" env:"BERTH_TOKEN" check:"token" secret:"yes" absent:"not set" doc:"Secret that HTTP clients over TCP must send as a bearer token. With one, every caller over TCP must show a token or a certificate. Without one, callers from this machine are known by their user id. berth token makes others."`

	TokenFile   string `key:"token_file" check:"path" absent:"none" doc:"File that holds the token, instead of token. Only its owner may read it."`
	TLSCert     string `key:"tls_cert" check:"path" absent:"none" doc:"File with the certificate, and the chain above it, that the daemon shows on TCP. Needs tls_key. The daemon reads both files again when the configuration is reloaded."`
	TLSKey      string `key:"tls_key" check:"path" absent:"none" doc:"File with the private key of tls_cert. Only its owner may read it."`
	TLSClientCA string `key:"tls_client_ca" check:"path" absent:"none" doc:"File with the certificates that client certificates must be signed by. The common name of a client certificate is an identity: users.cert:NAME gives it a role."`
	Insecure    string `key:"insecure" default:"false" oneof:"true,false" doc:"Whether the daemon listens beyond this machine without TLS. Tokens and data can then be read on the way."`

	SocketGroup      string `key:"socket_group" check:"group" absent:"the daemon's own" doc:"Group that owns the Unix socket, by name or id."`
	SocketMode       string `key:"socket_mode" check:"mode" absent:"0666 for a daemon of root, else 0600" doc:"Permissions of the Unix socket, in octal digits. With 0660, only members of socket_group can call."`
	ContainerCallers string `key:"container_callers" default:"uid" oneof:"uid,token" doc:"How callers from other PID and user namespaces are known: by their user id, or only by a token."`
	TCPCallers       string `key:"tcp_callers" default:"uid" oneof:"uid,token" doc:"How callers over TCP from this machine are known: by their user id, or only by a token or a certificate, as those from other machines are. kubectl port-forward comes from this machine, for whoever may use it."`

	ClusterKeys    string `key:"cluster_keys" check:"path" absent:"none" doc:"File with the public keys of a Kubernetes cluster, as kubectl get --raw /openid/v1/jwks prints them. With it, a token that the cluster issued for a pod of cluster_account on cluster_node, with the audience berth, is the token kubernetes with the role operator. The daemon reads the file again when it does not know the key of a token."`
	ClusterAccount string `key:"cluster_account" default:"berth-system:berth-dra" check:"podaccount" doc:"Service account of the driver in the cluster: its namespace and its name."`
	ClusterNode    string `key:"cluster_node" absent:"the name of the machine" doc:"Name of this machine as a node of the cluster."`

	LogLevel string `key:"log_level" default:"info" oneof:"debug,info,warn,error" doc:"Least level of the messages that the daemon logs."`
}

// String leaves out the token, so that a printed or logged configuration never shows it.
func (d Daemon) String() string {
	if d.Token != "" {
		d.Token = "set"
	}
	type plain Daemon
	return fmt.Sprintf("%+v", plain(d))
}

// GoString returns String, for %#v.
func (d Daemon) GoString() string { return d.String() }

// GPU says how berth measures and judges devices. It can change at run time.
type GPU struct {
	gpu.Thresholds

	ThrottleCooldown time.Duration    `key:"throttle_cooldown_seconds" role:"operator" default:"30" min:"0" max:"86400" doc:"How long the readings of a device must be better before it enters a better state."`
	CriticalPause    time.Duration    `key:"critical_pause_seconds" role:"operator" default:"60" min:"0" max:"86400" doc:"How long the readings of a device must be better before it leaves CRITICAL."`
	Recover          string           `key:"recover" role:"operator" default:"steps" oneof:"steps,direct" doc:"How a device gets from THROTTLED to OPTIMAL. steps: it is NORMAL in between, for throttle_cooldown_seconds. direct: in one step."`
	Quarantine       time.Duration    `key:"quarantine_seconds" role:"operator" default:"60" min:"1" max:"86400" doc:"How long berth grants nothing on a device after a fault of its own; twice as long for each further fault within a day."`
	Probation        time.Duration    `key:"probation_seconds" role:"operator" default:"300" min:"0" max:"86400" doc:"How long a device has half its slots after its quarantine."`
	SlotReturn       time.Duration    `key:"slot_return_seconds" role:"operator" default:"300" min:"1" max:"86400" doc:"How long memory must not run out before a device gets back a slot that it lost because its memory ran out."`
	MemoryLimit      gpu.Opt[gpu.MiB] `key:"memory_limit_mb" role:"operator" min:"1" absent:"all of it" doc:"How much of a device's memory berth may lease."`
	MemoryReserve    gpu.MiB          `key:"memory_reserve_mb" role:"operator" default:"512" min:"0" doc:"How much of that memory berth never leases."`
	MaxPipelines     gpu.Opt[int]     `key:"max_pipelines" role:"operator" min:"1" max:"10000" absent:"CPUs / devices, rounded up" doc:"How many pipelines a device runs at the same time: its slots."`
	ExtraSlots       int              `key:"extra_slots" role:"operator" default:"0" min:"0" max:"10000" doc:"How many slots a device gets beyond max_pipelines, one after the other, while all its slots are taken and it computes less than half of the time."`
	MonitorInterval  time.Duration    `key:"monitor_interval" role:"operator" default:"1" min:"0.1" max:"3600" doc:"Time from one sample to the next."`
	HistorySize      int              `key:"history_size" role:"operator" default:"200" min:"1" max:"100000" doc:"How many samples of each device berth keeps. It never keeps less than ten minutes."`

	OverLimit string  `key:"over_limit" default:"warn" oneof:"warn,stop,revoke" doc:"What berth does about a lease whose processes use more memory than it holds: it reports it, and with stop ends the processes, and with revoke the lease too. A service can have its own over_limit."`
	Foreign   string  `key:"foreign" default:"show" oneof:"show,kill_orphans,kill" doc:"What berth does about processes that use a GPU under no lease: it shows them, or ends them. Orphans are processes whose lease has ended."`
	Overheat  string  `key:"overheat" default:"tell" oneof:"tell,revoke" doc:"What berth does about leases on a device above temp_critical: it tells their holders to stop; with revoke, it also revokes the leases if the device stays that hot."`
	Context   gpu.MiB `key:"context_mb" role:"operator" default:"600" min:"0" doc:"How much memory of a lease a CUDA context takes. berth sets the limits of libraries lower by this amount."`
	MPS       string  `key:"mps" default:"off" oneof:"off,on" doc:"Whether the driver enforces leases of memory on one NVIDIA GPU, through an MPS daemon per GPU and user. berth help enforcement says what that costs."`

	Isolation string `key:"isolation" default:"env" oneof:"env,cgroup" doc:"What keeps programs that berth starts from GPUs they have not leased, unless they ask for the other. env: variables, which a program can change. cgroup: a control group in which other NVIDIA GPUs cannot be opened; berth refuses a program that it cannot isolate so."`

	Plain string `key:"plain" role:"operator" default:"whole" oneof:"whole,slot" doc:"What a program gets that berth starts without --memory and --slots, and of which no size was learned. whole: a GPU alone, as with --exclusive. slot: one slot and no memory."`

	Forecast   string             `key:"forecast" role:"operator" default:"on" oneof:"on,off" doc:"Whether berth slows work on a device down before its temperature crosses a threshold, if the forecast is sure that it will."`
	Throttle   string             `key:"throttle" default:"slots" oneof:"advise,slots,pace,power" doc:"What berth does by itself about a device that should run slower. advise: it tells. slots: the device has fewer slots, and batches are smaller. pace: berth also stops and continues the processes of leases in short cycles. power: berth also lowers the power limit of the device. Each does what the ones before do."`
	PowerLeast gpu.Opt[gpu.Watts] `key:"power_least_watts" min:"1" absent:"the lowest that the driver takes" doc:"Lowest power limit that berth sets on a device, with throttle: power."`
	FanCurve   string             `key:"fan_curve" check:"curve" absent:"the driver's own" doc:"Fan speed by temperature, in °C and %, such as 50:30,70:60,85:100. berth sets the fan only where the driver takes it."`
	Check      string             `key:"check" default:"on" oneof:"on,off" doc:"Whether a device has to pass berth check before it leaves its quarantine. A device that cannot be checked leaves it by time. berth help health says more."`
	Scrub      string             `key:"scrub" default:"off" oneof:"off,on" doc:"Whether berth overwrites the free memory of a device before a lease of another user is answered, where the driver is not known to clear it. Leases say what was done (cleared_by). berth help enforcement says more."`

	// Devices holds the settings that differ for single devices, by UUID.
	Devices map[string]DeviceOverride `key:"devices" names:"UUID" check:"uuid" doc:"Settings that differ for single devices."`
}

// DeviceOverride has the settings that differ for one device; absent fields follow the
// section around it. The field of GPU with the same name describes each of them.
type DeviceOverride struct {
	TempOptimal    gpu.Opt[gpu.Celsius]
	TempNormal     gpu.Opt[gpu.Celsius]
	TempThrottle   gpu.Opt[gpu.Celsius]
	TempCritical   gpu.Opt[gpu.Celsius]
	MemoryOptimal  gpu.Opt[gpu.Percent]
	MemoryNormal   gpu.Opt[gpu.Percent]
	MemoryCritical gpu.Opt[gpu.Percent]

	ThrottleCooldown gpu.Opt[time.Duration]
	CriticalPause    gpu.Opt[time.Duration]
	MemoryLimit      gpu.Opt[gpu.MiB]
	MemoryReserve    gpu.Opt[gpu.MiB]
	MaxPipelines     gpu.Opt[int]
	Throttle         string
	PowerLeast       gpu.Opt[gpu.Watts]
	FanCurve         string
}

// Optimization says when berth reclaims memory, and how long requests may take.
type Optimization struct {
	Interval            time.Duration `key:"interval" role:"operator" default:"300" min:"1" max:"86400" doc:"Time from one optimization to the next. berth optimizes by itself only on devices that are fuller than memory_threshold. It then releases what the dead hold, names orphans and asks programs for caches; it shrinks and parks only leases of services that allow it."`
	MemoryThreshold     float64       `key:"memory_threshold" role:"operator" default:"0.85" over:"0" max:"1" doc:"Share of a device's memory above which berth wins memory back by itself."`
	AllocationTimeout   time.Duration `key:"allocation_timeout" role:"operator" default:"30" min:"0" max:"86400" doc:"How long a request waits unless it says otherwise."`
	DeallocationTimeout time.Duration `key:"deallocation_timeout" default:"10" min:"0" max:"86400" doc:"How long the processes of a lease may take to end before berth kills them."`

	Orphans       string                 `key:"orphans" default:"name" oneof:"name,end" doc:"What an optimization does with processes that go on using a device after their lease has ended: it names them, or ends them."`
	TrimTimeout   time.Duration          `key:"trim_timeout" role:"operator" default:"10" min:"0.1" max:"600" doc:"How long an optimization waits for programs to give back what their libraries keep for later."`
	ParkIdleAfter time.Duration          `key:"park_idle_after" role:"operator" default:"60" min:"1" max:"86400" doc:"How long the processes of a lease must not have used their device, nor changed what they hold there, until the lease counts as idle."`
	ParkGrace     time.Duration          `key:"park_grace_seconds" role:"operator" default:"5" min:"0" max:"3600" doc:"How long before it parks a lease by itself berth tells the holder."`
	Keep          time.Duration          `key:"keep_seconds" role:"operator" default:"60" min:"0" max:"86400" doc:"How long a lease keeps its devices at least, after its grant and after each return, before berth parks it by itself."`
	TimeSlice     time.Duration          `key:"time_slice_seconds" role:"operator" default:"300" min:"1" max:"86400" doc:"How long a lease that may be parked keeps its devices while others wait for them, also if it uses them."`
	LongestWait   gpu.Opt[time.Duration] `key:"longest_wait" role:"operator" min:"1" max:"86400" absent:"no limit; for a program that berth runs, 4 times what its switch takes, at most 10 s" doc:"How long others wait at most until berth makes a lease leave its devices that is idle, or that has kept them for keep_seconds. Once they have waited this long, an idle lease does not keep its devices for keep_seconds, nor one in use for time_slice_seconds."`
	ParkHost      gpu.Opt[gpu.MiB]       `key:"park_host_mb" role:"operator" min:"0" absent:"half of the machine's memory" doc:"Most memory of the machine that parked leases take together. 0: nothing is parked."`
	HugePages     string                 `key:"huge_pages" default:"leave" oneof:"leave,while_moving" doc:"Whether berth sets the transparent huge pages of the kernel to always while it parks and resumes leases, which is faster. It concerns all programs of the machine for that time. leave: berth leaves them as they are."`
}

// For returns the settings with what differs for one service.
func (o Optimization) For(s Service) Optimization {
	o.Keep = s.Keep.Or(o.Keep)
	o.TimeSlice = s.TimeSlice.Or(o.TimeSlice)
	if s.LongestWait.Known() {
		o.LongestWait = s.LongestWait
	}
	return o
}

// Queue says how requests wait for each other.
type Queue struct {
	Unknown string `key:"unknown" role:"operator" default:"pass" oneof:"pass,hold" doc:"What later requests do while nobody knows when the one ahead can start, because it waits for a lease without a time limit. pass: they are granted before it, within limits that keep its wait finite. hold: they wait behind it, even beside idle GPUs. berth help leases says more."`
}

// Energy says how much energy costs.
type Energy struct {
	Price    gpu.Opt[float64] `key:"price_per_kwh" role:"operator" min:"0" max:"1000000" absent:"costs are not shown" doc:"Price of a kilowatt-hour."`
	Currency string           `key:"currency" role:"operator" default:"EUR" check:"currency" doc:"Currency of that price, such as EUR."`
}

// Audit says how much of the audit log berth keeps.
type Audit struct {
	MaxSize gpu.MiB `key:"max_mb" default:"16" min:"1" max:"4096" doc:"Size at which berth begins another file of the audit log."`
	Files   int     `key:"files" default:"10" min:"2" max:"1000" doc:"How many files of the audit log berth keeps. It removes the oldest."`
}

// Past says how much of the past berth keeps. The short form past: off sets store.
type Past struct {
	Store  string        `key:"store" default:"on" oneof:"on,off" doc:"Whether berth remembers what it measured. off: graphs, reports and alerts have nothing to show."`
	Recent time.Duration `key:"recent" default:"48h" min:"3600" max:"2592000" doc:"How long berth keeps every sample."`
	Long   time.Duration `key:"long" default:"90d" min:"86400" max:"157680000" doc:"How long berth keeps the average, the least and the most of each half-minute."`
	Size   gpu.MiB       `key:"size_mb" default:"1024" min:"64" max:"1048576" doc:"Most space on disk that the past takes. berth removes the oldest when there is more."`
}

// Alerts says which alert rules berth evaluates.
type Alerts struct {
	Evaluate string        `key:"evaluate" default:"on" oneof:"on,off" doc:"Whether berth evaluates alert rules itself. Set off where a Prometheus evaluates the same rules."`
	Interval time.Duration `key:"interval" default:"30" min:"1" max:"3600" doc:"Time from one evaluation to the next, for rule groups that do not say."`
	Shipped  string        `key:"shipped" default:"on" oneof:"on,off" doc:"Whether the rules that come with berth are evaluated."`
	Rules    []string      `key:"rules" set:"socket" check:"path" absent:"none" doc:"Files with your own rules, in the format of Prometheus."`
}

// Metrics says what the page for Prometheus shows.
type Metrics struct {
	Compat string `key:"compat" default:"off" oneof:"off,dcgm" doc:"dcgm: show the devices also under the names of dcgm-exporter, so that dashboards made for it work."`
}

// Service has the limits and priorities of one service.
type Service struct {
	MinMemory       gpu.Opt[gpu.MiB]       `key:"min_memory_mb" min:"0" absent:"none" doc:"Least memory of a request. berth raises a request for less, and refuses an exact one."`
	MaxMemory       gpu.Opt[gpu.MiB]       `key:"max_memory_mb" min:"1" from:"min_memory_mb" absent:"none" doc:"Most memory of a request. berth refuses a request for more."`
	PreferredDevice string                 `key:"preferred_device" role:"operator" check:"device" absent:"none" doc:"Index or UUID of the device that berth tries first. An index may mean another device after the next boot."`
	Affinity        string                 `key:"affinity" role:"operator" default:"apart" oneof:"apart,together" doc:"Where berth puts a lease of the service that has others: on a device with fewer of them (apart), or beside them (together)."`
	Priority        int                    `key:"priority" role:"operator" default:"0" min:"-1000" max:"1000" doc:"Priority among requests that wait. The highest goes first."`
	Quota           Quota                  `key:"quota" doc:"What all leases of the service may hold together."`
	Users           []string               `key:"users" check:"caller" absent:"everybody" doc:"Users who may ask in the name of the service, and send it requests: login names, user ids, token:NAME and cert:NAME."`
	Namespaces      []string               `key:"namespaces" check:"namespace" absent:"none" doc:"Namespaces of a Kubernetes cluster whose claims may name the service. A device class may name every service."`
	OverLimit       string                 `key:"over_limit" oneof:"warn,stop,revoke" absent:"that of gpu" doc:"What berth does about a lease of the service whose processes use more memory than it holds."`
	Throttle        string                 `key:"throttle" role:"operator" oneof:"exempt,advise,slots,pace,power" absent:"that of the device" doc:"What berth does by itself about leases of the service on a device that should run slower, as gpu.throttle. exempt: nothing, and it does not lower the power limit of a device with such a lease either."`
	Compute         gpu.Opt[gpu.Percent]   `key:"compute" role:"operator" min:"5" max:"100" absent:"no limit" doc:"Share of its devices that a lease of the service may compute on. The driver enforces it where MPS enforces the lease; elsewhere berth stops and continues the processes in short cycles. Leases with a scope are not held to it."`
	Parkable        string                 `key:"parkable" role:"operator" oneof:"true,false,unshared" absent:"as the request says" doc:"Whether berth may move the memory of a lease of the service to the memory of the machine while others wait for its device. Only a lease with one process on the GPU is parked, unless you say unshared: its processes share no GPU memory. false: nobody parks such a lease, also not by hand."`
	Shrinkable      string                 `key:"shrinkable" role:"operator" oneof:"true,false" absent:"false" doc:"Whether an optimization may shrink a lease of the service to what its processes used at most. The lease gets its size back when its program asks for it, before others are served."`
	Keep            gpu.Opt[time.Duration] `key:"keep_seconds" role:"operator" min:"0" max:"86400" absent:"that of optimization" doc:"How long a lease of the service keeps its devices at least, after its grant and after each return, before berth parks it or sends its program away."`
	LongestWait     gpu.Opt[time.Duration] `key:"longest_wait" role:"operator" min:"1" max:"86400" absent:"that of optimization" doc:"How long others wait at most until berth makes a lease of the service leave its devices that is idle, or that has kept them for keep_seconds."`
	TimeSlice       gpu.Opt[time.Duration] `key:"time_slice_seconds" role:"operator" min:"1" max:"86400" absent:"that of optimization" doc:"How long a lease of the service keeps its devices while others wait for them, also if it uses them."`
	Stays           string                 `key:"keep" role:"operator" oneof:"true,false" absent:"false" doc:"true: berth never parks a lease of the service, nor sends its program away, by itself. People still can."`
	Match           Match                  `key:"match" doc:"Which processes belong to the leases of the service that no process holds. All that is given must be true of a process."`
	Program
}

// Program has the settings of the program that berth runs for a service. Without a
// command, berth runs none.
type Program struct {
	Command   []string     `key:"command" set:"socket" check:"argument" split:"shell" sight:"operator" absent:"berth runs no program for the service" doc:"Program, and its arguments, that berth runs for the service. ${PORT} in it is the port that the server must listen on, at 127.0.0.1. No shell runs it."`
	User      string       `key:"user" set:"socket" check:"user" absent:"the user of a daemon that is not root; a daemon of root needs it" doc:"User that the program runs as, by login name. Not root."`
	Directory string       `key:"directory" set:"socket" check:"path" sight:"operator" absent:"the home of the user" doc:"Folder that the program runs in."`
	Env       Variables    `key:"env" set:"socket" check:"variable" secret:"hide" sight:"operator" absent:"none" doc:"Variables of the program, beside those that every program of the user has. ${PORT} in a value is the port. berth does not show them."`
	Port      gpu.Opt[int] `key:"port" set:"socket" min:"1024" max:"65535" absent:"one that is free" doc:"Port that the server listens on, at 127.0.0.1. berth writes it into the command as ${PORT}."`
	Ready     Ready        `key:"ready" short:"path" doc:"How the server shows that it takes requests. Without it, the server accepts connections."`

	Memory       gpu.Opt[gpu.MiB]       `key:"memory" role:"operator" min:"64" absent:"learned; a whole device the first time" doc:"Memory that the program gets on each of its devices, such as 12GiB."`
	GPUs         gpu.Opt[int]           `key:"gpus" role:"operator" min:"1" max:"64" absent:"1" doc:"How many devices the program gets."`
	Start        string                 `key:"start" role:"operator" oneof:"on_demand,always,never" absent:"on_demand" doc:"When berth starts the program: when a request comes, as soon as there is room, or only when a person says so."`
	StartTimeout gpu.Opt[time.Duration] `key:"start_timeout" role:"operator" min:"1" max:"86400" absent:"600" doc:"How long the program may take from its start until it is ready, and how long a request waits for it."`
	Restart      string                 `key:"restart" role:"operator" oneof:"true,false" absent:"true" doc:"Whether berth starts the program again after it has ended, with start: always."`
	IdleAfter    gpu.Opt[time.Duration] `key:"idle_after" role:"operator" min:"0" max:"31536000" absent:"only if others need the room" doc:"How long after its last answer berth sends the service away. 0: at once."`
	Away         string                 `key:"away" role:"operator" oneof:"auto,park,sleep,stop" absent:"auto" doc:"How berth sends the service away: it parks its memory, has the server sleep, or stops the program. auto: the way whose next switch is shortest, as measured."`
	Sleep        []Call                 `key:"sleep" set:"socket" sight:"operator" absent:"the server cannot sleep" doc:"Requests that make the server give up its GPU memory, each with a method, a path and perhaps a body. berth refuses them from others."`
	Wake         []Call                 `key:"wake" set:"socket" sight:"operator" absent:"the server cannot sleep" doc:"Requests that make the server take its GPU memory again."`
	Default      string                 `key:"default" role:"operator" oneof:"true,false" absent:"false" doc:"true: the service comes back when nobody asks for another one."`

	Models  []string     `key:"models" check:"model" absent:"the name of the service" doc:"Names of models in requests that mean this service, beside its own name. * stands for any characters."`
	Hosts   []string     `key:"hosts" check:"host" absent:"none" doc:"Names of hosts in requests that mean this service."`
	Ignore  []string     `key:"ignore" role:"operator" check:"glob" absent:"none" doc:"Paths whose requests neither bring the service nor keep it, such as the pictures of a page. * stands for any characters."`
	MaxOpen gpu.Opt[int] `key:"max_open" role:"operator" min:"1" max:"100000" absent:"as many as the front takes" doc:"How many requests may be open or wait at a time, at most half of them of one user, unless users names no other. The front refuses more with 429."`
}

// Runs reports whether berth runs a program for the service.
func (p Program) Runs() bool { return len(p.Command) > 0 }

// Variables are variables of a program, by name. Their values may be secrets, and are not
// printed.
type Variables map[string]string

// String returns the names.
func (v Variables) String() string {
	return "{" + strings.Join(slices.Sorted(maps.Keys(v)), ", ") + "}"
}

// GoString returns String, for %#v.
func (v Variables) GoString() string { return v.String() }

// Ready says how a server shows that it takes requests. At most one field is set.
type Ready struct {
	Path string `key:"path" set:"socket" check:"urlpath" absent:"not asked" doc:"The server answers GET of this path with 200, such as /health."`
	TCP  string `key:"tcp" set:"socket" oneof:"true,false" absent:"true, without path and log" doc:"true: the server accepts connections."`
	Log  string `key:"log" set:"socket" absent:"not read" doc:"A line of the log of the program has this text."`
}

// Call is a request to the server of a service.
type Call struct {
	Method string `json:"method" yaml:"method"`
	Path   string `json:"path" yaml:"path"`
	Body   string `json:"body,omitempty" yaml:"body,omitempty"`
}

// Front says where requests for services come in.
type Front struct {
	Listen  string `key:"listen" set:"socket" check:"listen" absent:"none" doc:"TCP address that the front takes requests for services on, such as 127.0.0.1:8080. Empty: none."`
	TLSCert string `key:"tls_cert" set:"socket" check:"path" sight:"operator" absent:"none" doc:"File with the certificate that the front shows. Needs tls_key. Its user must be able to read both files."`
	TLSKey  string `key:"tls_key" set:"socket" check:"path" sight:"operator" absent:"none" doc:"File with the private key of tls_cert. Only its owner may read it."`
	User    string `key:"user" set:"socket" check:"user" sight:"operator" absent:"berth-front for a daemon of root, else the user of the daemon" doc:"User that the front runs as, by login name. Not root."`
}

// MayPark returns whether the leases of the service may be parked. It is absent if the
// request of each lease says so.
func (s Service) MayPark() gpu.Opt[bool] {
	if s.Parkable == "" {
		return gpu.Opt[bool]{}
	}
	return gpu.Some(s.Parkable != "false")
}

// Match describes the processes of a service. Empty fields do not matter.
type Match struct {
	Unit    string `key:"unit" check:"unit" absent:"any" doc:"Systemd unit, or id of the container, that the processes of the service run in. berth counts their memory under the lease of the service."`
	Cgroup  string `key:"cgroup" check:"cgroup" absent:"any" doc:"Path of the control group that the processes of the service are in, or of one around it."`
	Program string `key:"program" check:"program" absent:"any" doc:"Name of the program of the service, or of its script."`
	User    string `key:"user" check:"user" absent:"that of the lease" doc:"User that the processes of the service run as. Needs a unit, a cgroup or a program beside it."`
}

// Quota limits all leases of a service together. An absent field means no limit.
type Quota struct {
	Memory gpu.Opt[gpu.MiB] `key:"memory_mb" min:"1" absent:"no limit" doc:"Memory over all devices."`
	Slots  gpu.Opt[int]     `key:"slots" min:"1" max:"1000000" absent:"no limit" doc:"Slots over all devices."`
}

// User has the role and the limits of a user. For absent fields, those of the user's
// groups or of everybody apply.
type User struct {
	Role string `key:"role" oneof:"viewer,user,operator,admin" absent:"that of default, else user" doc:"What the user may do: viewer, user, operator or admin. Root and the user that the daemon runs as are always admin on the socket."`
	Limits
}

// Group has the role and the limits of the members of a group.
type Group struct {
	Role string `key:"role" oneof:"viewer,user,operator,admin" absent:"that of default, else user" doc:"What the members may do, if they call over the Unix socket."`
	Limits
	Together Together `key:"together" doc:"What all members of the group may hold together."`
}

// Limits says how much one user may have. An absent limit leaves the decision to a weaker
// entry.
type Limits struct {
	Memory      gpu.Opt[gpu.MiB]       `key:"memory_mb" min:"0" absent:"no limit" doc:"Memory of all leases of the user together."`
	Slots       gpu.Opt[int]           `key:"slots" min:"0" max:"1000000" absent:"no limit" doc:"Slots of all leases of the user together."`
	Leases      gpu.Opt[int]           `key:"leases" min:"0" max:"1000000" absent:"1024" doc:"How many leases the user may hold."`
	Waiting     gpu.Opt[int]           `key:"waiting" min:"0" max:"1000000" absent:"256" doc:"How many requests of the user may wait."`
	GPUs        gpu.Opt[int]           `key:"gpus" min:"0" max:"1000000" absent:"no limit" doc:"On how many devices all leases of the user together may be; two leases on one device count twice."`
	RunningJobs gpu.Opt[int]           `key:"running_jobs" min:"0" max:"1000000" absent:"no limit" doc:"How many jobs, or tasks of jobs, of the user may run at a time."`
	WaitingJobs gpu.Opt[int]           `key:"waiting_jobs" min:"0" max:"1000000" absent:"10000" doc:"How many jobs, or tasks of jobs, of the user may wait. At most 32 of them stand in the queue of leases and count as waiting requests there."`
	LongestWait gpu.Opt[time.Duration] `key:"longest_wait_seconds" min:"0" max:"31536000" absent:"no limit" doc:"How long a request may wait. berth shortens a longer wait."`
	LongestTTL  gpu.Opt[time.Duration] `key:"longest_ttl_seconds" min:"1" max:"31536000" absent:"no limit" doc:"How long a lease may last without a renewal. berth refuses a longer ttl."`
	LongestTime gpu.Opt[time.Duration] `key:"longest_time_seconds" min:"1" max:"31536000" absent:"no limit" doc:"How long a lease may last in all. berth ends it then, with its processes."`
	NamedLeases string                 `key:"named_leases" oneof:"true,false" absent:"true" doc:"Whether the user may hold leases that only a release ends."`
	Calls       gpu.Opt[float64]       `key:"calls_per_second" over:"0" max:"1000000" absent:"no limit" doc:"How many calls a second the daemon answers. It delays those beyond."`
	Connections gpu.Opt[int]           `key:"connections" min:"1" max:"1024" absent:"256" doc:"How many connections the user may have open."`
	Streams     gpu.Opt[int]           `key:"streams" min:"0" max:"10000" absent:"32" doc:"How many event streams the user may follow."`
	Service     string                 `key:"service" check:"service" absent:"none" doc:"Service of requests that name none."`
}

// Together limits all members of a group together.
type Together struct {
	Memory gpu.Opt[gpu.MiB] `key:"memory_mb" min:"0" absent:"no limit" doc:"Memory over all devices."`
	Slots  gpu.Opt[int]     `key:"slots" min:"0" max:"1000000" absent:"no limit" doc:"Slots over all devices."`
	Leases gpu.Opt[int]     `key:"leases" min:"0" max:"1000000" absent:"no limit" doc:"How many leases."`
}

// Hook says where to send events.
type Hook struct {
	URL      string        `key:"url" check:"address" secret:"yes" absent:"none" doc:"Address that berth sends events to, by POST. berth does not show it, because many services put a key into it."`
	Command  []string      `key:"command" set:"socket" check:"argument" secret:"file" absent:"none" doc:"Program, and its arguments, that berth runs for each event."`
	Codes    []string      `key:"codes" check:"code" absent:"all" doc:"Codes of the events that the hook gets."`
	Severity string        `key:"severity" default:"warning" oneof:"info,warning,critical" doc:"Least severity of the events that the hook gets."`
	Secret   string        `key:"secret" check:"token" secret:"yes" absent:"not signed" doc:"Secret with which berth signs deliveries to a url, so that the other side knows who sent them."`
	Timeout  time.Duration `key:"timeout_seconds" default:"10" min:"0.1" max:"600" doc:"How long one delivery to the hook may take."`
}

// String leaves out secrets.
func (h Hook) String() string {
	if h.URL != "" {
		h.URL = "set"
	}
	if h.Secret != "" {
		h.Secret = "set"
	}
	if h.Command != nil {
		h.Command = []string{"set"}
	}
	type plain Hook
	return fmt.Sprintf("%+v", plain(h))
}

// GoString returns String, for %#v.
func (h Hook) GoString() string { return h.String() }

// Default returns the configuration without any settings. The paths are empty, because
// they depend on who runs the daemon; see DefaultPaths.
func Default() Config {
	var c Config
	setDefaults(schema(), reflect.ValueOf(&c).Elem())
	c.GPU.Thresholds = gpu.DefaultThresholds()
	return c
}

// For returns the settings with what differs for one device.
func (g GPU) For(uuid string) GPU {
	o := g.Devices[uuid]
	g.TempOptimal = o.TempOptimal.Or(g.TempOptimal)
	g.TempNormal = o.TempNormal.Or(g.TempNormal)
	g.TempThrottle = o.TempThrottle.Or(g.TempThrottle)
	g.TempCritical = o.TempCritical.Or(g.TempCritical)
	g.MemoryOptimal = o.MemoryOptimal.Or(g.MemoryOptimal)
	g.MemoryNormal = o.MemoryNormal.Or(g.MemoryNormal)
	g.MemoryCritical = o.MemoryCritical.Or(g.MemoryCritical)
	g.ThrottleCooldown = o.ThrottleCooldown.Or(g.ThrottleCooldown)
	g.CriticalPause = o.CriticalPause.Or(g.CriticalPause)
	g.MemoryReserve = o.MemoryReserve.Or(g.MemoryReserve)
	g.Throttle = cmp.Or(o.Throttle, g.Throttle)
	g.FanCurve = cmp.Or(o.FanCurve, g.FanCurve)
	g.PowerLeast = cmp.Or(o.PowerLeast, g.PowerLeast)
	g.MemoryLimit = cmp.Or(o.MemoryLimit, g.MemoryLimit)
	g.MaxPipelines = cmp.Or(o.MaxPipelines, g.MaxPipelines)
	return g
}
