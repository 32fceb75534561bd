package api

import "github.com/berth-gpu/berth/gpu"

// GPUConfig is the part of the configuration in force that can change at run
// time: the settings of the gpu section, and beside them the other sections. It
// leaves hooks out, because they hold secrets.
//
// PUT /api/gpu/config takes any part of it, and hooks. In JSON, absent fields stay as
// they are, and null resets a field to what the weaker sources say.
type GPUConfig struct {
	gpu.Thresholds

	ThrottleCooldown float64            `json:"throttle_cooldown_seconds" doc:"How long the readings of a device must be better before it enters a better state."`
	CriticalPause    float64            `json:"critical_pause_seconds" doc:"How long the readings of a device must be better before it leaves CRITICAL."`
	Recover          string             `json:"recover" enum:"steps,direct" doc:"How a device gets from THROTTLED to OPTIMAL: with NORMAL in between, or in one step."`
	Quarantine       float64            `json:"quarantine_seconds" doc:"How long berth grants nothing on a device after a fault of its own."`
	Probation        float64            `json:"probation_seconds" doc:"How long a device has half its slots after its quarantine."`
	SlotReturn       float64            `json:"slot_return_seconds" doc:"How long memory must not run out before a device gets back a slot that it lost because its memory ran out."`
	MemoryLimit      gpu.Opt[gpu.MiB]   `json:"memory_limit_mb" nullable:"true" doc:"How much of a device's memory berth may lease; null: all of it."`
	MemoryReserve    gpu.MiB            `json:"memory_reserve_mb" doc:"How much of that memory berth never leases."`
	MaxPipelines     gpu.Opt[int]       `json:"max_pipelines" nullable:"true" doc:"Slots of a device; null: CPUs / devices, rounded up."`
	ExtraSlots       int                `json:"extra_slots" doc:"How many slots a device gets beyond max_pipelines while its slots are taken and it computes less than half of the time."`
	MonitorInterval  float64            `json:"monitor_interval" doc:"Seconds from one sample to the next."`
	HistorySize      int                `json:"history_size" doc:"How many samples of each device berth keeps, and never less than ten minutes."`
	OverLimit        string             `json:"over_limit" enum:"warn,stop,revoke" doc:"What berth does about a lease whose processes use more memory than it holds."`
	Foreign          string             `json:"foreign" enum:"show,kill_orphans,kill" doc:"What berth does about processes that use a GPU under no lease."`
	Overheat         string             `json:"overheat" enum:"tell,revoke" doc:"What berth does about leases on a device above temp_critical."`
	Context          gpu.MiB            `json:"context_mb" doc:"How much memory of a lease a CUDA context takes."`
	MPS              string             `json:"mps" enum:"off,on" doc:"Whether the driver enforces leases of memory, through MPS."`
	Isolation        string             `json:"isolation" enum:"env,cgroup" doc:"What keeps programs that berth starts from GPUs they have not leased."`
	Plain            string             `json:"plain" enum:"whole,slot" doc:"What a program gets that berth starts without saying how much: a GPU alone, or one slot."`
	Forecast         string             `json:"forecast" enum:"on,off" doc:"Whether berth slows work down before a temperature crosses a threshold."`
	Throttle         string             `json:"throttle" enum:"advise,slots,pace,power" doc:"What berth does by itself about a device that should run slower."`
	PowerLeast       gpu.Opt[gpu.Watts] `json:"power_least_watts" nullable:"true" doc:"Lowest power limit that berth sets; null: the lowest that the driver takes."`
	FanCurve         string             `json:"fan_curve" doc:"Fan speed by temperature; empty: the driver's own."`
	Check            string             `json:"check" enum:"on,off" doc:"Whether a device has to pass berth check before it leaves its quarantine."`
	Scrub            string             `json:"scrub" enum:"off,on" doc:"Whether berth overwrites the free memory of a device before another user gets it."`

	Devices map[string]DeviceConfig `json:"devices" doc:"Settings that differ for single devices, by UUID."`

	Optimization    OptimizationConfig       `json:"optimization" doc:"The section optimization."`
	UnknownServices string                   `json:"unknown_services" enum:"serve,refuse" doc:"What berth does with a request for a service that is not under services."`
	Jobs            string                   `json:"jobs" enum:"on,off" doc:"Whether berth runs programs for users who submit them."`
	Services        map[string]ServiceConfig `json:"services" doc:"The section services, by name."`
	Front           FrontConfig              `json:"front" doc:"The section front."`
	Queue           QueueConfig              `json:"queue" doc:"The section queue."`
	Energy          EnergyConfig             `json:"energy" doc:"The section energy."`
	Audit           AuditConfig              `json:"audit" doc:"The section audit."`
	Past            PastConfig               `json:"past" doc:"The section past."`
	Alerts          AlertsConfig             `json:"alerts" doc:"The section alerts."`
	Metrics         MetricsConfig            `json:"metrics" doc:"The section metrics."`
}

// PastConfig is the section past.
type PastConfig struct {
	Store  string           `json:"store,omitempty" enum:"on,off" doc:"Whether berth remembers what it measured."`
	Recent gpu.Opt[float64] `json:"recent,omitzero" doc:"How many seconds berth keeps every sample."`
	Long   gpu.Opt[float64] `json:"long,omitzero" doc:"How many seconds berth keeps the average, the least and the most of each half-minute."`
	Size   gpu.Opt[gpu.MiB] `json:"size_mb,omitzero" doc:"Most space on disk that the past takes."`
}

// AlertsConfig is the section alerts.
type AlertsConfig struct {
	Evaluate string           `json:"evaluate,omitempty" enum:"on,off" doc:"Whether berth evaluates alert rules itself."`
	Interval gpu.Opt[float64] `json:"interval,omitzero" doc:"Seconds from one evaluation to the next, for rule groups that do not say."`
	Shipped  string           `json:"shipped,omitempty" enum:"on,off" doc:"Whether the rules that come with berth are evaluated."`
	Rules    []string         `json:"rules" nullable:"true" doc:"Files with further rules, in the format of Prometheus; null: none."`
}

// MetricsConfig is the section metrics.
type MetricsConfig struct {
	Compat string `json:"compat,omitempty" enum:"off,dcgm" doc:"dcgm: show the devices also under the names of dcgm-exporter."`
}

// QueueConfig is the section queue.
type QueueConfig struct {
	Unknown string `json:"unknown,omitempty" enum:"pass,hold" doc:"Whether later requests pass one whose start nobody knows."`
}

// EnergyConfig is the section energy.
type EnergyConfig struct {
	Price    gpu.Opt[float64] `json:"price_per_kwh" nullable:"true" doc:"Price of a kilowatt-hour; null: costs are not shown."`
	Currency string           `json:"currency" doc:"Currency of that price."`
}

// AuditConfig is the section audit.
type AuditConfig struct {
	MaxSize gpu.Opt[gpu.MiB] `json:"max_mb,omitzero" doc:"Size at which berth begins another file of the audit log."`
	Files   gpu.Opt[int]     `json:"files,omitzero" doc:"How many files of the audit log berth keeps. It removes the oldest."`
}

// OptimizationConfig is the section optimization.
type OptimizationConfig struct {
	Interval            gpu.Opt[float64] `json:"interval,omitzero" doc:"Seconds from one optimization by berth itself to the next."`
	MemoryThreshold     gpu.Opt[float64] `json:"memory_threshold,omitzero" doc:"Share of a device's memory above which berth wins memory back by itself."`
	AllocationTimeout   gpu.Opt[float64] `json:"allocation_timeout,omitzero" doc:"How many seconds a request waits unless it says otherwise."`
	DeallocationTimeout gpu.Opt[float64] `json:"deallocation_timeout,omitzero" doc:"How many seconds the processes of a lease may take to end before berth kills them."`
	Orphans             string           `json:"orphans,omitempty" enum:"name,end" doc:"What an optimization does with processes that go on using a device after their lease has ended."`
	TrimTimeout         gpu.Opt[float64] `json:"trim_timeout,omitzero" doc:"How many seconds an optimization waits for programs to give memory back."`
	ParkIdleAfter       gpu.Opt[float64] `json:"park_idle_after,omitzero" doc:"How many seconds a lease must not have used its device until it counts as idle."`
	ParkGrace           gpu.Opt[float64] `json:"park_grace_seconds,omitzero" doc:"How many seconds before it parks a lease by itself berth tells the holder."`
	Keep                gpu.Opt[float64] `json:"keep_seconds,omitzero" doc:"How many seconds a lease keeps its devices at least before berth parks it by itself."`
	TimeSlice           gpu.Opt[float64] `json:"time_slice_seconds,omitzero" doc:"How many seconds a lease that may be parked keeps its devices while others wait for them."`
	LongestWait         gpu.Opt[float64] `json:"longest_wait" nullable:"true" doc:"How many seconds others wait at most for a lease that is idle or has kept its devices for keep_seconds; null: no limit, and for a service whose program berth runs 4 times what it takes to leave and to come back, at most 10."`
	ParkHost            gpu.Opt[gpu.MiB] `json:"park_host_mb" nullable:"true" doc:"Most memory of the machine that parked leases take together; null: half of it."`
	HugePages           string           `json:"huge_pages,omitempty" enum:"leave,while_moving" doc:"Whether berth sets the transparent huge pages of the kernel to always while it parks and resumes leases."`
}

// ServiceConfig has the settings of one service.
type ServiceConfig struct {
	MinMemory       gpu.Opt[gpu.MiB] `json:"min_memory_mb,omitzero" doc:"Least memory of a request. berth raises a request for less."`
	MaxMemory       gpu.Opt[gpu.MiB] `json:"max_memory_mb,omitzero" doc:"Most memory of a request. berth refuses a request for more."`
	PreferredDevice gpu.Ref          `json:"preferred_device,omitempty" doc:"Index or UUID of the device that berth tries first."`
	Affinity        string           `json:"affinity,omitempty" enum:"apart,together" doc:"Where berth puts a lease of the service that has others: on a device with fewer of them, or beside them."`
	Priority        gpu.Opt[int]     `json:"priority,omitzero" doc:"Priority among requests that wait. The highest goes first."`
	Quota           QuotaConfig      `json:"quota" doc:"What all leases of the service may hold together."`
	Users           []string         `json:"users,omitempty" doc:"Users who may ask in the name of the service, and send it requests. Default: everybody."`
	Namespaces      []string         `json:"namespaces,omitempty" doc:"Namespaces of a Kubernetes cluster whose claims may name the service. Default: none."`
	OverLimit       string           `json:"over_limit,omitempty" enum:"warn,stop,revoke" doc:"What berth does about a lease of the service that uses more memory than it holds. Default: that of gpu."`
	Throttle        string           `json:"throttle,omitempty" enum:"exempt,advise,slots,pace,power" doc:"What berth does by itself about leases of the service on a device that should run slower. Default: that of the device."`
	Compute         gpu.Opt[float64] `json:"compute,omitzero" doc:"Share of its devices that a lease of the service may compute on, in percent. Default: no limit."`
	Parkable        string           `json:"parkable,omitempty" enum:"true,false,unshared" doc:"Whether berth may park leases of the service. unshared: yes, and their processes share no GPU memory. Default: as their requests say."`
	Shrinkable      string           `json:"shrinkable,omitempty" enum:"true,false" doc:"Whether an optimization may shrink leases of the service to what they used at most. Default: false."`
	Keep            gpu.Opt[float64] `json:"keep_seconds,omitzero" doc:"How many seconds a lease of the service keeps its devices at least. Default: that of optimization."`
	LongestWait     gpu.Opt[float64] `json:"longest_wait,omitzero" doc:"How many seconds others wait at most for a lease of the service. Default: that of optimization."`
	TimeSlice       gpu.Opt[float64] `json:"time_slice_seconds,omitzero" doc:"How many seconds a lease of the service keeps its devices while others wait for them. Default: that of optimization."`
	Stays           string           `json:"keep,omitempty" enum:"true,false" doc:"Whether berth never parks leases of the service, nor sends its program away, by itself. Default: false."`
	Match           MatchConfig      `json:"match" doc:"Which processes belong to the leases of the service that no process holds."`
	ProgramConfig
}

// ProgramConfig has the settings of the program that berth runs for a service. Only
// operators see command, directory, sleep and wake, and nobody sees env. Whatever makes
// berth run something is set in berth.yaml, or by administrators on the Unix socket and
// without a token: command, user, directory, env, port, ready, sleep and wake.
type ProgramConfig struct {
	Command      []string          `json:"command,omitempty" doc:"Program, and its arguments, that berth runs for the service; in a change also one text. ${PORT} in it is the port. Default: berth runs none."`
	User         string            `json:"user,omitempty" doc:"User that the program runs as."`
	Directory    string            `json:"directory,omitempty" doc:"Folder that the program runs in. Default: the home of the user."`
	Env          map[string]string `json:"env,omitempty" doc:"Variables of the program. No answer has them."`
	Port         gpu.Opt[int]      `json:"port,omitzero" doc:"Port that the server listens on. Default: one that is free."`
	Ready        ReadyConfig       `json:"ready" doc:"How the server shows that it takes requests."`
	Memory       gpu.Opt[gpu.MiB]  `json:"memory,omitzero" doc:"Memory that the program gets on each of its devices, in MiB. Default: learned."`
	GPUs         gpu.Opt[int]      `json:"gpus,omitzero" doc:"How many devices the program gets. Default: 1."`
	Start        string            `json:"start,omitempty" enum:"on_demand,always,never" doc:"When berth starts the program. Default: on_demand."`
	StartTimeout gpu.Opt[float64]  `json:"start_timeout,omitzero" doc:"How many seconds the program may take until it is ready. Default: 600."`
	Restart      string            `json:"restart,omitempty" enum:"true,false" doc:"Whether berth starts the program again after it has ended, with start: always. Default: true."`
	IdleAfter    gpu.Opt[float64]  `json:"idle_after,omitzero" doc:"How many seconds after its last answer berth sends the service away. Default: only if others need the room."`
	Away         string            `json:"away,omitempty" enum:"auto,park,sleep,stop" doc:"How berth sends the service away. Default: auto."`
	Sleep        []CallConfig      `json:"sleep,omitempty" doc:"Requests that make the server give up its GPU memory."`
	Wake         []CallConfig      `json:"wake,omitempty" doc:"Requests that make the server take its GPU memory again."`
	Default      string            `json:"default,omitempty" enum:"true,false" doc:"Whether the service comes back when nobody asks for another one. Default: false."`
	Models       []string          `json:"models,omitempty" doc:"Names of models in requests that mean this service; * stands for any characters."`
	Hosts        []string          `json:"hosts,omitempty" doc:"Names of hosts in requests that mean this service."`
	Ignore       []string          `json:"ignore,omitempty" doc:"Paths whose requests neither bring the service nor keep it; * stands for any characters."`
	MaxOpen      gpu.Opt[int]      `json:"max_open,omitzero" doc:"How many requests may be open or wait at a time."`
}

// ReadyConfig says how a server shows that it takes requests.
type ReadyConfig struct {
	Path string `json:"path,omitempty" doc:"It answers GET of this path with 200."`
	TCP  string `json:"tcp,omitempty" enum:"true,false" doc:"It accepts connections."`
	Log  string `json:"log,omitempty" doc:"A line of its log has this text."`
}

// CallConfig is a request to the server of a service.
type CallConfig struct {
	Method string `json:"method" enum:"GET,POST,PUT,PATCH,DELETE"`
	Path   string `json:"path"`
	Body   string `json:"body,omitempty"`
}

// FrontConfig is the section front.
type FrontConfig struct {
	Listen  string `json:"listen" doc:"TCP address that the front takes requests for services on. Default: none."`
	TLSCert string `json:"tls_cert" doc:"File with the certificate that the front shows."`
	TLSKey  string `json:"tls_key" doc:"File with the private key of tls_cert."`
	User    string `json:"user" doc:"User that the front runs as."`
}

// MatchConfig describes the processes of a service.
type MatchConfig struct {
	Unit    string `json:"unit,omitempty" doc:"Systemd unit, or id of the container, that they run in."`
	Cgroup  string `json:"cgroup,omitempty" doc:"Path of the control group that they are in, or of one around it."`
	Program string `json:"program,omitempty" doc:"Name of the program, or of its script."`
	User    string `json:"user,omitempty" doc:"User that they run as."`
}

// QuotaConfig limits all leases of a service together.
type QuotaConfig struct {
	Memory gpu.Opt[gpu.MiB] `json:"memory_mb,omitzero" doc:"Memory over all devices."`
	Slots  gpu.Opt[int]     `json:"slots,omitzero" doc:"Slots over all devices."`
}

// HookConfig is a hook in a change.
type HookConfig struct {
	URL      string           `json:"url,omitempty" doc:"Address that berth sends events to, by POST."`
	Command  []string         `json:"command,omitempty" doc:"Program, and its arguments, that berth runs for each event. Only root and the user of the daemon may set it, without a token."`
	Codes    []string         `json:"codes,omitempty" doc:"Codes of the events that the hook gets. Default: all."`
	Severity string           `json:"severity,omitempty" enum:"info,warning,critical" doc:"Least severity of the events that the hook gets."`
	Secret   string           `json:"secret,omitempty" doc:"Secret with which berth signs deliveries to a url."`
	Timeout  gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long one delivery may take."`
}

// DeviceConfig has the settings that differ for one device. Absent settings follow the
// section around it.
type DeviceConfig struct {
	TempOptimal      gpu.Opt[gpu.Celsius] `json:"temp_optimal,omitzero"`
	TempNormal       gpu.Opt[gpu.Celsius] `json:"temp_normal,omitzero"`
	TempThrottle     gpu.Opt[gpu.Celsius] `json:"temp_throttle,omitzero"`
	TempCritical     gpu.Opt[gpu.Celsius] `json:"temp_critical,omitzero"`
	MemoryOptimal    gpu.Opt[gpu.Percent] `json:"memory_optimal,omitzero"`
	MemoryNormal     gpu.Opt[gpu.Percent] `json:"memory_normal,omitzero"`
	MemoryCritical   gpu.Opt[gpu.Percent] `json:"memory_critical,omitzero"`
	ThrottleCooldown gpu.Opt[float64]     `json:"throttle_cooldown_seconds,omitzero"`
	CriticalPause    gpu.Opt[float64]     `json:"critical_pause_seconds,omitzero"`
	MemoryLimit      gpu.Opt[gpu.MiB]     `json:"memory_limit_mb,omitzero"`
	MemoryReserve    gpu.Opt[gpu.MiB]     `json:"memory_reserve_mb,omitzero"`
	MaxPipelines     gpu.Opt[int]         `json:"max_pipelines,omitzero"`
	Throttle         string               `json:"throttle,omitempty" enum:"advise,slots,pace,power"`
	PowerLeast       gpu.Opt[gpu.Watts]   `json:"power_least_watts,omitzero"`
	FanCurve         string               `json:"fan_curve,omitempty"`
}

// ConfigReload says which settings changed when the daemon read the configuration again.
type ConfigReload struct {
	Changed    []string         `json:"changed" doc:"The settings that changed, each as NAME = VALUE (was VALUE)."`
	Overridden []ConfigOverride `json:"overridden" doc:"Settings of the file that do not hold, because a stronger source says otherwise."`
}

// ConfigOverride is a setting of the file that a stronger source decides.
type ConfigOverride struct {
	ConfigField
	InFile    string `json:"in_file" doc:"What the file says."`
	File      string `json:"file" doc:"The file and the line." example:"berth.yaml:12"`
	AtRunTime bool   `json:"at_run_time" doc:"Whether a change at run time decides. berth config unset takes it back."`
}

// ConfigFields lists every setting, in the order of the documentation.
type ConfigFields struct {
	Fields []ConfigField `json:"fields"`
}

// ConfigField is one setting with its value and its source.
type ConfigField struct {
	Field  string `json:"field" example:"gpu.temp_optimal"`
	Value  string `json:"value" doc:"As written in berth.yaml; of a secret, only whether it is set."`
	Unit   string `json:"unit,omitempty"`
	Source string `json:"source" doc:"Where it comes from: default, a line of a file, saved at run time, a variable or a flag."`
	Doc    string `json:"doc"`
}
