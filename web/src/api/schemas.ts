// Code generated from /openapi.json by make docs. DO NOT EDIT.

// AcknowledgeRequest asks to acknowledge an alert.
export interface AcknowledgeRequest {
  /** How long it lasts. It ends before if the alert is resolved. */
  hours?: number;
  /** What is done about it, for others to read. */
  comment?: string;
}

// Acknowledgement says that somebody takes care of an alert.
export interface Acknowledgement {
  /** Login name, or the name of a token. */
  by: string;
  at: string;
  /** When it ends, unless the alert is resolved before. */
  until: string;
  comment?: string;
}

// Adopt puts a process that already runs under a lease.
export interface Adopt {
  pid: number;
  id?: string;
  service?: string;
  /** Index or UUID of the device. Default: the devices that the process uses. */
  gpu?: string | number;
  /** Memory on each device. Default: what the process uses now, plus a margin if there is room for one. */
  memory_mb?: number;
}

// Alert is an alert that is pending or firing.
export interface Alert {
  /** Identifies the alert by its labels, as in Alertmanager. */
  fingerprint: string;
  /** Name of the alert. */
  alert: string;
  /** critical if the label severity says so, else warning. */
  severity: 'warning' | 'critical';
  /** pending: what the rule asks for is true, and not for long enough. One of pending or firing. */
  state: 'pending' | 'firing';
  labels: Record<string, string>;
  annotations: Record<string, string>;
  /** What the expression of the rule says; absent: it is not a finite number. */
  value?: number;
  /** Since when what the rule asks for is true. */
  since: string;
  /** Since when it fires; absent: it is pending. */
  fired_at?: string;
  /** Who takes care of it; absent: nobody has said so. */
  acknowledged?: Acknowledgement;
}

// Alerts lists the alerts that are pending or firing.
export interface Alerts {
  /** Those that fire first, the critical ones before others, and then the newest. */
  alerts: Alert[];
  /** Why no rules are evaluated; absent: they are. */
  note?: string;
}

// AlertsConfig is the section alerts.
export interface AlertsConfig {
  /** Whether berth evaluates alert rules itself. One of on or off. */
  evaluate?: 'on' | 'off';
  /** Seconds from one evaluation to the next, for rule groups that do not say. */
  interval?: number;
  /** Whether the rules that come with berth are evaluated. One of on or off. */
  shipped?: 'on' | 'off';
  /** Files with further rules, in the format of Prometheus; null: none. */
  rules: string[];
}

// Allocate asks for memory under an id that the caller chooses.
export interface Allocate {
  /** A name for the lease. No other lease or request of the same user may have it. */
  allocation_id: string;
  /** How much memory, on one device. */
  memory_mb: number;
  /** Index or UUID of the device. Default: the device that suits best. */
  gpu?: string | number;
  /** Index or UUID of the device to take if it has room. Default: the preferred device of the service. */
  prefer?: string | number;
  /** How to choose among the devices that fit. Default: the first of these policies. One of least_loaded, most_free, best_fit, spread or pack. */
  policy?: 'least_loaded' | 'most_free' | 'best_fit' | 'spread' | 'pack';
  /** The service that the lease is for. Its limits and preferences apply. */
  service?: string;
  /** What ends the lease without a release. Default: ttl if ttl_seconds is given, else the end of the calling process. If the daemon does not know that process, the lease lasts until you deallocate it, and its note says so. One of process, ttl or named. */
  binding?: 'process' | 'ttl' | 'named';
  /** For binding process: the process that holds the lease. Default: the caller. */
  pid?: number;
  /** Systemd unit, or id of the container, whose processes belong to the lease if they run as its user. Every process there must be the caller's own. The default of binding is then named. */
  unit?: string;
  /** The lease ends this long after the grant unless you renew it. */
  ttl_seconds?: number;
  /** How long to wait for room. Default: not at all. */
  timeout_seconds?: number;
  /** Without timeout_seconds: wait for room as long as allocation_timeout says. */
  wait?: boolean;
  /** Answer with a lease that you already have, resized if it has another size and renewed if it has a ttl. id: the lease with this id. service: your oldest lease for this service that is named after it, as in embedder or embedder-2. The lease must have the same service and binding, and be on gpu if that is given. Default: refuse an id that is in use. */
  again?: 'id' | 'service';
  /** Waiting requests with a higher priority go first. Default: the priority of the service. */
  priority?: number;
  /** The lease ends this long after the grant, with its processes, however often it is renewed. Default: longest_time_seconds of the user, or no limit. */
  time_limit_seconds?: number;
  /** Whether berth may park the lease while others wait for its device. Default: as services.NAME.parkable says, else no. */
  parkable?: boolean;
  /** The owner says that the processes of the lease share no GPU memory, with each other or with others. Without that, a lease is parked only if one process uses the GPU alone. */
  unshared?: boolean;
  /** A note of yours, for people: at most 256 bytes on one line. Others than operators do not see it. */
  comment?: string;
  /** The lease is a pool: its memory is for leases of yours that name it as from_pool. They get it at once. */
  pool?: boolean;
}

// Allocations sums up the leases on a device.
export interface Allocations {
  /** Leases that hold something there. A parked one does not. */
  allocation_count: number;
  /** The memory that they have together. What leases have from a pool counts once. */
  total_allocated_mb: number;
}

// Ancestor is a process between the holder of a lease and a process on a device.
export interface Ancestor {
  pid: number;
  name?: string;
}

// AuditActor names the actor of an audit entry.
export interface AuditActor {
  /** Login name, token:NAME or cert:NAME. Absent: the daemon did it by itself. */
  user?: string;
  /** Absent: the kernel did not say. */
  uid?: number;
  role?: string;
  /** The way it was asked for. daemon: nobody asked, the daemon did it by itself. One of socket, tcp, process or daemon. */
  door: 'socket' | 'tcp' | 'process' | 'daemon';
  /** Name of the token that was shown. */
  token?: string;
  /** Where the connection came from, for door tcp. */
  address?: string;
  /** The program that asked in the name of the user, as it calls itself. */
  agent?: string;
}

// AuditConfig is the section audit.
export interface AuditConfig {
  /** Size at which berth begins another file of the audit log. */
  max_mb?: number;
  /** How many files of the audit log berth keeps. It removes the oldest. */
  files?: number;
}

// AuditEntry is one line of the audit log: an act of authority, or a refusal.
// The log has one JSON object in each line, in this form.
export interface AuditEntry {
  /** Number of the entry. It grows by one with each. */
  seq: number;
  time: string;
  /** Who did it, or wanted to. */
  who: AuditActor;
  /** What was done: the verb of berth help roles, or kill, create, rotate, torn, lost. */
  what: string;
  /** What it was done to. */
  object?: AuditObject;
  /** What was there before, by name. Secrets are never shown. */
  before?: Record<string, string>;
  /** What is there afterwards, by name. */
  after?: Record<string, string>;
  /** Why it was done or refused. */
  why?: string;
  /** done: berth wrote the entry, and then did it. failed: an earlier entry says done, and it could not be done. refused: berth did not do it. */
  outcome: 'done' | 'failed' | 'refused';
  /** SHA-256 of the line before, in hexadecimal; empty in the first line of all. */
  prev: string;
}

// AuditLog is a page of the audit log, the oldest entry first.
export interface AuditLog {
  /** The entries, the oldest first. */
  entries: AuditEntry[];
  /** There are more entries: ask for those after this number. Absent: there are none. */
  next?: number;
}

// AuditObject names the object of an act.
export interface AuditObject {
  /** What kind of thing it is. One of lease, request, process, settings, monitoring, token, session, route, log, device or alert. */
  kind: 'lease' | 'request' | 'process' | 'settings' | 'monitoring' | 'token' | 'session' | 'route' | 'log' | 'device' | 'alert';
  /** User whose thing it is. */
  owner?: string;
  /** Id of the lease, number of the process, name of the token, UUID of the device, fingerprint of the alert, method and path of the route. */
  id?: string;
}

// Available lists how much memory of each device can be leased now.
export interface Available {
  gpus: DeviceAvailable[];
}

// Batch is the progress of a batch, as its runner reported it.
export interface Batch {
  /** The runner chooses an id of printable characters for each run. */
  id: string;
  /** The file that the batch writes, or the name of a batch that writes none. */
  output: string;
  /** The command of its workers. */
  command?: string;
  /** One of open, running, finishing, done, stopped or failed. */
  stage: 'open' | 'running' | 'finishing' | 'done' | 'stopped' | 'failed';
  /** Why the batch failed. */
  error?: string;
  started?: string;
  /** When the runner last reported. The daemon stops listing a batch whose runner reports nothing for ten seconds. */
  reported?: string;
  /** The user of the runner, by the credentials of its connection. */
  user?: string;
  /** The process of the runner. */
  pid?: number;
  /** Records of the input; an estimate until the runner has read all of it. */
  total?: number;
  total_exact: boolean;
  /** Records with an outcome, including those of earlier runs. */
  done: number;
  /** How many of done are of earlier runs. */
  done_before: number;
  /** Records whose outcome is an error, including those of earlier runs. */
  failed: number;
  /** How many of failed broke their workers. */
  marked: number;
  /** Records that the runner gave to a worker again. */
  retries: number;
  /** Workers that the runner started again. */
  restarts: number;
  /** Over the last ten seconds. */
  records_per_second?: number;
  /** An estimate from the rate so far. */
  seconds_left?: number;
  /** How much energy its workers used in this run, above what the devices draw by themselves. Only at its end. */
  energy_joules?: number;
  workers: number;
  /** The devices of the batch. The daemon keeps those of this machine, each once. */
  gpus: BatchGPU[];
}

// BatchGPU is the progress of a batch on one device.
export interface BatchGPU {
  gpu: string;
  index: number;
  name: string;
  /** The machine that the device is in. Default: the machine of the runner. */
  host?: string;
  /** Workers that have a place on the device. */
  workers: number;
  /** How many of them take records. */
  ready: number;
  multiplier: number;
  /** Records in the last batch. */
  batch: number;
  done: number;
  failed: number;
  retries: number;
  restarts: number;
  /** Workers kept failing on the device, so the runner starts no more there. */
  given_up: boolean;
  /** Sum of the time that its workers worked. */
  busy_seconds: number;
  records_per_second?: number;
  /** How long the records took, each counted with the time of its batch. */
  latency: Latency;
}

// Batches lists the batches that run, and those that ended a moment ago.
export interface Batches {
  /** Oldest first. */
  batches: Batch[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Belonging is a process on a device that belongs to a lease.
export interface Belonging {
  /** UUID of the device. */
  gpu: string;
  /** 0 for a process of another user, unless an operator asks. */
  pid: number;
  name?: string;
  /** What it uses there. If it is charged to several leases, each of them lists it. */
  memory_mb: number;
  /** Why it belongs to the lease: it is in the scope; it holds the lease or descends from the holder; it has the id and the fence in its environment; it runs in the unit; it is as services.NAME.match says; it runs as the user of the lease and is called like it. One of scope, descent, environment, unit, service or program. */
  evidence: 'scope' | 'descent' | 'environment' | 'unit' | 'service' | 'program';
  /** Its ancestors up to the process that holds the lease, the nearest first. Only in the answer that looks one lease up, and absent if it does not descend from the holder. */
  ancestors?: Ancestor[];
}

// Bind binds a lease of one process to another process.
export interface Bind {
  /** The process that holds the lease from now on. It must be the caller's own. */
  pid: number;
  /** Only if the lease still has this fence. Default: any fence. */
  fence?: number;
  /** cgroup: move the process into a control group in which it can open only the leased NVIDIA GPUs. Default: env, which does nothing. */
  isolation?: 'env' | 'cgroup';
}

// By says who did something. The zero value is the daemon itself.
export interface By {
  /** Login name; token for one who showed a token. */
  user?: string;
  /** Absent: the kernel did not say. */
  uid?: number;
  /** Name of the token that was shown. */
  token?: string;
  /** The way it was asked for: over the Unix socket, over TCP, or within the process of the daemon. One of socket, tcp or process. */
  door?: 'socket' | 'tcp' | 'process';
  /** The program that asked in the name of the user, as it calls itself. */
  agent?: string;
}

// CallConfig is a request to the server of a service.
export interface CallConfig {
  /** One of GET, POST, PUT, PATCH or DELETE. */
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: string;
}

// Cancel ends the programs of a lease, and the lease with them.
export interface Cancel {
  /** Only if the lease still has this fence. Default: any fence. */
  fence?: number;
  /** What its user and operators read about it. */
  reason?: string;
}

// CancelledBy says who cancelled a lease.
export interface CancelledBy {
  /** Absent: berth itself. */
  by?: By;
  reason?: string;
}

// Check is the result of checking a device.
export interface Check {
  /** UUID of the device. */
  gpu: string;
  index: number;
  /** One of quick, long or residue. */
  kind: 'quick' | 'long' | 'residue';
  /** One of passed, failed or could_not_be_asked. */
  verdict: 'passed' | 'failed' | 'could_not_be_asked';
  /** Why, in one sentence. */
  reason: string;
  /** What was tested, in order. */
  steps: CheckStep[];
  /** How much memory was tested or looked at: what is free and not leased. */
  memory_mb: number;
  /** Memory of the device. */
  total_mb: number;
  /** residue: bytes that were not zero. */
  left_bytes?: number;
  took_seconds: number;
}

// CheckRequest asks to check a device.
export interface CheckRequest {
  /** Index or UUID of the device. */
  gpu: string | number;
  /** quick: some seconds. long: some minutes, with more patterns. residue: look for what earlier programs left in free memory, and test nothing. Default: quick. */
  kind?: 'quick' | 'long' | 'residue';
}

// CheckStep is one thing that a check tested.
export interface CheckStep {
  /** memory, copy_to_device, copy_from_device, compute, clocks, link, errors or residue. */
  name: string;
  /** One of passed, failed or could_not_be_asked. */
  verdict: 'passed' | 'failed' | 'could_not_be_asked';
  /** What was found. */
  detail?: string;
  /** What was measured. */
  value?: number;
  /** What it should be. */
  norm?: number;
  /** Unit of both. */
  unit?: string;
  took_seconds?: number;
}

// ConfigField is one setting with its value and its source.
export interface ConfigField {
  field: string;
  /** As written in berth.yaml; of a secret, only whether it is set. */
  value: string;
  unit?: string;
  /** Where it comes from: default, a line of a file, saved at run time, a variable or a flag. */
  source: string;
  doc: string;
}

// ConfigFields lists every setting, in the order of the documentation.
export interface ConfigFields {
  fields: ConfigField[];
}

// ConfigOverride is a setting of the file that a stronger source decides.
export interface ConfigOverride {
  field: string;
  /** As written in berth.yaml; of a secret, only whether it is set. */
  value: string;
  unit?: string;
  /** Where it comes from: default, a line of a file, saved at run time, a variable or a flag. */
  source: string;
  doc: string;
  /** What the file says. */
  in_file: string;
  /** The file and the line. */
  file: string;
  /** Whether a change at run time decides. berth config unset takes it back. */
  at_run_time: boolean;
}

// ConfigReload says which settings changed when the daemon read the configuration again.
export interface ConfigReload {
  /** The settings that changed, each as NAME = VALUE (was VALUE). */
  changed: string[];
  /** Settings of the file that do not hold, because a stronger source says otherwise. */
  overridden: ConfigOverride[];
}

// Conversion turns the output of an earlier step into the input of a later one.
export interface Conversion {
  /** The step whose output is converted. */
  step: string;
  from: string;
  to: string;
  /** One of zero_copy or host_copy. */
  cost: 'zero_copy' | 'host_copy';
}

// Counted says what the daemon has counted of a report.
export interface Counted {
  service: string;
  count: number;
  /** The device that the operations count for. Absent if the service has no lease on the device that was named, or none was named and it has leases on several. */
  gpu?: string;
}

// Curves has the averages of a device over equal intervals of the last minutes, oldest
// first; the last interval ends now. A list is shorter than requested if berth has not
// measured for that long, and empty if it cannot measure the value. An interval without a
// sample repeats the one before.
export interface Curves {
  /** How far back a whole list goes. */
  seconds: number;
  /** How many averages a whole list has. */
  points: number;
  utilization_percent: number[];
  temperature_celsius: number[];
}

// Deallocate ends a lease, or withdraws a waiting request.
export interface Deallocate {
  allocation_id: string;
  /** Whose it is: login name, uid, token:NAME or cert:NAME. Default: the caller's own, else the only one with this id. */
  user?: string;
}

// Device describes one GPU: the facts that do not change from one sample to the
// next.
export interface Device {
  /** What the device is known by, everywhere and for ever. */
  uuid: string;
  /** Its position on this machine today. For people only: it may change at the next boot. */
  index: number;
  name: string;
  vendor: string;
  /** The part of berth that talks to it: nvml, amd, intel or sim. */
  backend: string;
  /** Version of the driver. */
  driver?: string;
  /** Its number as the vendor's runtime counts GPUs, for variables that take no UUID. AMD and Intel only. */
  ordinal?: number;
  pci_bus_id?: string;
  /** Device file, for finding processes that hold it open. */
  path?: string;
  compute_capability?: string;
  memory_total_mb: number;
  numa_node?: number;
  /** Whether the driver runs the GPU in confidential mode, in which nobody outside of its virtual machine reads its memory; devtools: on, with debugging and profiling open, which lets others in. Absent if the driver does not say. One of on, devtools or off. */
  confidential?: 'on' | 'devtools' | 'off';
  /** The power cap in force. */
  power_limit_watts?: number;
  /** Where the hardware slows itself down. */
  temp_slowdown_celsius?: number;
  /** The vendor's highest operating temperature. */
  temp_max_celsius?: number;
  /** Where the hardware switches itself off. */
  temp_shutdown_celsius?: number;
  /** How it reaches the other devices of this machine, best first. */
  links?: Link[];
  /** For a MIG instance: the UUID of the device it is part of. */
  parent?: string;
  /** For a device in MIG mode: the UUIDs of its instances. They are leased in its place. */
  instances?: string[];
}

// DeviceAvailable has the terms that decide how much of a device can be leased: limit −
// reserve − leased − foreign, and nothing while the device is CRITICAL or UNAVAILABLE.
export interface DeviceAvailable {
  gpu: string;
  available_mb: number;
  total_mb: number;
  /** memory_limit_mb, or all memory of the device. */
  limit_mb: number;
  /** memory_reserve_mb. */
  reserve_mb: number;
  /** Sum over all leases of the larger of leased and measured memory. */
  leased_mb: number;
  /** Memory that processes under no lease, and the driver itself, were measured to use. */
  foreign_mb: number;
  state: string;
  health: string;
  /** Why nothing is available, if nothing is. */
  reason?: string;
}

// DeviceConfig has the settings that differ for one device. Absent settings follow the
// section around it.
export interface DeviceConfig {
  temp_optimal?: number;
  temp_normal?: number;
  temp_throttle?: number;
  temp_critical?: number;
  memory_optimal?: number;
  memory_normal?: number;
  memory_critical?: number;
  throttle_cooldown_seconds?: number;
  critical_pause_seconds?: number;
  memory_limit_mb?: number;
  memory_reserve_mb?: number;
  max_pipelines?: number;
  /** One of advise, slots, pace or power. */
  throttle?: 'advise' | 'slots' | 'pace' | 'power';
  power_least_watts?: number;
  fan_curve?: string;
}

// DeviceEnergy says how much energy a device used. Leases, others and idle add up to the
// total.
export interface DeviceEnergy {
  /** UUID of the device. */
  gpu: string;
  index: number;
  name?: string;
  /** When the daemon first measured it. Restarts do not count. */
  since: string;
  energy_joules: number;
  /** What processes under leases used, above what the device draws by itself. */
  leases_joules: number;
  /** What processes under no lease used, and what cannot be put down to a lease any more. */
  others_joules: number;
  /** What the device draws by itself, also while it works. */
  idle_joules: number;
  /** What the device draws by itself, as far as the daemon has learned; 0: it has not. */
  idle_watts: number;
  /** counter: the driver counts. power: the daemon adds up the power of its samples. */
  source: 'counter' | 'power';
  /** How much of the time since then nobody measured. What was used then is missing. */
  unmeasured_seconds: number;
}

// DeviceLease is the part of a lease on one device.
export interface DeviceLease {
  id: string;
  holder: Holder;
  /** parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back. One of active, parking, parked or resuming. */
  state: 'active' | 'parking' | 'parked' | 'resuming';
  memory_mb: number;
  /** How much memory its processes were measured to use on the device; 0 until the daemon has seen them. */
  measured_mb: number;
  slots: number;
  granted: string;
  /** The share that the lease is held to; absent: it runs freely. */
  paced?: Paced;
  /** When the lease ends at the latest, if somebody chose that. */
  until?: string;
  /** Memory of the machine that it takes while it is parked. */
  host_mb?: number;
}

// Drain says that somebody takes a device out of use: leases there go on, and the
// daemon grants no new ones.
export interface Drain {
  /** Who drains it. */
  by?: string;
  /** Why, in the words of whoever drains it. */
  reason?: string;
  since: string;
  /** When the drain ends by itself; absent: only undrain ends it. */
  until?: string;
}

// DrainRequest asks to drain a device.
export interface DrainRequest {
  /** Index or UUID of the device. */
  gpu: string | number;
  /** When the drain ends by itself. Default: only undrain ends it. */
  until?: string;
  /** Why, for others to read. */
  reason?: string;
}

// Drained is a device after a drain began or ended.
export interface Drained {
  /** UUID of the device. */
  gpu: string;
  index: number;
  /** Whether the call changed anything. */
  changed: boolean;
  /** The drain; absent if the device is not drained. */
  drain?: Drain;
  /** The leases on the device, which go on, largest first. */
  leases: DeviceLease[];
}

// Ended says what was released, withdrawn or cancelled.
export interface Ended {
  id: string;
  /** The lease as it was at its end; for a cancel, the lease that ends now, which is that of the runner for a lease of a batch. Absent for a request that waited. */
  lease?: Lease;
}

// Energy says how much energy devices used, and for whom.
export interface Energy {
  /** What a kilowatt-hour costs, as energy.price_per_kwh says. Absent: it is not set. */
  price_per_kwh?: number;
  /** The currency of the price. */
  currency?: string;
  /** Every device of which something was measured, by index. */
  gpus: DeviceEnergy[];
  /** For whom leases used energy, those that have ended included; the most first. */
  used: EnergyUse[];
}

// EnergyConfig is the section energy.
export interface EnergyConfig {
  /** Price of a kilowatt-hour; null: costs are not shown. */
  price_per_kwh: number | null;
  /** Currency of that price. */
  currency: string;
}

// EnergyUse says how much energy leases used for a user, a service and a program.
export interface EnergyUse {
  /** Absent: users for whom there was no account of their own. */
  user?: string;
  service?: string;
  /** What the leases were called; only for their user and operators. */
  name?: string;
  energy_joules: number;
}

// Estimate says when a request that waits will probably be granted.
export interface Estimate {
  /** As likely earlier as later, if nobody comes who goes first. */
  likely?: string;
  /** Nine times of ten it is earlier, if users go on asking for what they hold now. Absent if others might always go first then. */
  late?: string;
  /** Why that is not known. */
  unknown?: string;
  /** With unknown: when the time limits of all that is in the way have ended it, if it has some. That may be far later than it really begins. */
  latest?: string;
  /** With latest: somebody who asks later may go first, because of a smaller share or a priority. So it may begin later than latest. */
  passable?: boolean;
}

// Explanation says whether a request would be granted, and what is in its way.
export interface Explanation {
  /** Whether the request would be granted now. */
  fits: boolean;
  /** Whether the request would be granted if nobody else used this machine. */
  possible: boolean;
  /** The explanation in a sentence or two. */
  text: string;
  /** The position of the request in the queue, if it waits. */
  position?: number;
  /** What is in the way, each device once. */
  devices: Obstacle[];
  /** The most memory that would be granted now. */
  largest_now_mb: number;
  /** The most memory that would be granted if nobody else used this machine. */
  largest_ever_mb: number;
  /** The requests ahead of it in the queue. */
  behind?: string[];
  /** What to do. */
  hint?: string;
  /** It waits, or would wait, for this limit, however much room there is: that of its user, of a group together, or the quota of its service. */
  limit?: 'user' | 'group' | 'service';
  /** When the request will probably be granted, if it waits or would wait. */
  estimate?: Estimate;
  /** The policy that chooses among the devices that fit. */
  policy?: string;
  /** Every device: those that fit in the order in which they would be taken, then the others. A request for several devices gets those with the best links, among equals the first. */
  ranking: Ranked[];
  /** If the request fits: the lease that it would get. Nobody holds this lease. */
  grant?: Lease;
}

// FieldProblem is one wrong field.
export interface FieldProblem {
  field: string;
  detail: string;
}

// FrontBring asks for a service. The answer comes when the service is open, or will not
// come; then it is a problem, whose extra may have retry_after_seconds. A front that hangs
// up has nobody left who waits.
export interface FrontBring {
  front: string;
  service: string;
  /** Who asks, as FrontCaller names them; for fair shares. Empty: users whom the front does not keep apart. */
  user: string;
  /** A request has waited so long, and waits no more. If this is not 0, nothing is brought, and the answer is a problem that says what the service waits for. */
  waited_seconds?: number;
}

// FrontBrought says where a service is open.
export interface FrontBrought {
  epoch: number;
  port: number;
  uid: number;
}

// FrontCaller says who a caller is. A token that the daemon does not know is a problem with
// status 401 and the code unauthorized; only such a token is for a server. With the code
// weak_token it is not for a server, but does not say who calls either.
export interface FrontCaller {
  /** Login name, user id if there is none, or token:NAME. */
  user: string;
  /** One of stranger, scraper, viewer, user, operator or admin. */
  role: 'stranger' | 'scraper' | 'viewer' | 'user' | 'operator' | 'admin';
  /** The only service that a token is for. */
  service?: string;
  /** The user database has not said how the user is called: user is a number for now. */
  unnamed?: boolean;
  /** The answer is about the process at the other end of this socket, and says nothing of other processes of the user. */
  socket?: boolean;
}

// FrontConfig is the section front.
export interface FrontConfig {
  /** TCP address that the front takes requests for services on. Default: none. */
  listen: string;
  /** File with the certificate that the front shows. */
  tls_cert: string;
  /** File with the private key of tls_cert. */
  tls_key: string;
  /** User that the front runs as. */
  user: string;
}

// FrontCounted is what a front counted of a service since its last report.
export interface FrontCounted {
  service: string;
  /** Requests that got an answer of any kind. */
  requests: number;
  /** Of these, those that the server answered with 500 or more, or not to the end. */
  failed?: number;
  /** Of these, those that the front answered itself because the service was full, stopped or did not come. */
  refused?: number;
  /** From the usage of answers that have it. */
  tokens_in?: number;
  tokens_out?: number;
  /** How many answers began within each of FrontBounds, and after the last, each counted once; from when the request was passed on. */
  first_byte?: number[];
  /** The sum of these times. */
  first_byte_seconds?: number;
  /** How long requests waited for the service, in sum. */
  waited_seconds?: number;
}

// FrontEpoch names one stay of a service.
export interface FrontEpoch {
  service: string;
  epoch: number;
}

// FrontOpen says how many requests a service has. A front sends it when a service goes
// between none and some, and about all services after each request for orders.
export interface FrontOpen {
  service: string;
  epoch?: number;
  /** Requests that were passed on and whose answers have not ended. */
  open: number;
  /** Requests that wait for the service. */
  waiting: number;
  /** When the last answer ended. Absent: none has since the front began. */
  last_answer?: string;
}

// FrontOutcome is what became of a probe or of calls.
export interface FrontOutcome {
  service: string;
  epoch: number;
  /** Of the calls. */
  id?: string;
  ok: boolean;
  error?: string;
}

// FrontReport is one thing that a front reports. It has one of its fields.
export interface FrontReport {
  /** The last request of this epoch has ended, and no other will begin under it. */
  closed?: FrontEpoch;
  /** The server is ready, or was not within the time. */
  probed?: FrontOutcome;
  called?: FrontOutcome;
  open?: FrontOpen;
  counted?: FrontCounted;
  used?: FrontUsed;
}

// FrontReports is what a front reports. It sends one after the other, and one that was not
// answered again with the same number.
export interface FrontReports {
  /** The name that the front made up, as in its request for orders. */
  front: string;
  /** Grows by one. A number that was seen before is answered and not counted again. */
  number: number;
  /** The open reports are about all services; one that is not there has no requests. A front sends such a report after each request for orders; before it, the daemon does not know how many requests that front has. */
  whole?: boolean;
  /** Where the front takes requests. Absent: not yet, or no more. */
  listen?: string;
  reports: FrontReport[];
}

// FrontState says how the front is.
export interface FrontState {
  /** Where it has to take requests: front.listen. */
  listen: string;
  /** Where it takes requests. Absent: it does not. */
  address?: string;
  /** Why it does not, in words. */
  why?: string;
}

// FrontStopped says who stopped a service, and why.
export interface FrontStopped {
  by: string;
  why?: string;
  at: string;
}

// FrontTaken says that a report was taken in.
export interface FrontTaken {
  number: number;
}

// FrontUse is what one caller used of a service.
export interface FrontUse {
  /** As FrontCaller names them. Absent: all whom the front did not keep apart. */
  user?: string;
  open?: number;
  waiting?: number;
  /** How long the service had requests, as far as it falls to this caller: each moment belongs to the requests that are open then, in equal parts. */
  seconds?: number;
}

// FrontUsed says who used a service since the last such report, and who waits for it. A
// front sends it every few seconds while somebody does, and once when nobody does any more.
export interface FrontUsed {
  service: string;
  /** Who has requests, or had one since the last report. Those beyond a number have one entry together. */
  callers: FrontUse[];
}

// FrontWho asks who a caller is: one that showed a token, or a user of this machine over
// TCP.
export interface FrontWho {
  token?: string;
  /** If there is no token. */
  uid?: number;
  /** Of the socket of a user of this machine, by which the daemon finds its process. */
  inode?: number;
}

// GPUConfig is the part of the configuration in force that can change at run
// time: the settings of the gpu section, and beside them the other sections. It
// leaves hooks out, because they hold secrets.
// 
// PUT /api/gpu/config takes any part of it, and hooks. In JSON, absent fields stay as
// they are, and null resets a field to what the weaker sources say.
export interface GPUConfig {
  /** Temperature below which a device is OPTIMAL. */
  temp_optimal: number;
  /** Temperature below which a device is NORMAL. */
  temp_normal: number;
  /** Temperature up to which a device is THROTTLED; above it the device is CRITICAL. */
  temp_throttle: number;
  /** Temperature above which berth grants nothing and tells holders to stop now. */
  temp_critical: number;
  /** Share of memory in use below which a device is OPTIMAL. */
  memory_optimal: number;
  /** Share of memory in use below which a device is NORMAL. */
  memory_normal: number;
  /** Share of memory in use up to which a device is THROTTLED; above it the device is CRITICAL. */
  memory_critical: number;
  /** How long the readings of a device must be better before it enters a better state. */
  throttle_cooldown_seconds: number;
  /** How long the readings of a device must be better before it leaves CRITICAL. */
  critical_pause_seconds: number;
  /** How a device gets from THROTTLED to OPTIMAL: with NORMAL in between, or in one step. One of steps or direct. */
  recover: 'steps' | 'direct';
  /** How long berth grants nothing on a device after a fault of its own. */
  quarantine_seconds: number;
  /** How long a device has half its slots after its quarantine. */
  probation_seconds: number;
  /** How long memory must not run out before a device gets back a slot that it lost because its memory ran out. */
  slot_return_seconds: number;
  /** How much of a device's memory berth may lease; null: all of it. */
  memory_limit_mb: number | null;
  /** How much of that memory berth never leases. */
  memory_reserve_mb: number;
  /** Slots of a device; null: CPUs / devices, rounded up. */
  max_pipelines: number | null;
  /** How many slots a device gets beyond max_pipelines while its slots are taken and it computes less than half of the time. */
  extra_slots: number;
  /** Seconds from one sample to the next. */
  monitor_interval: number;
  /** How many samples of each device berth keeps, and never less than ten minutes. */
  history_size: number;
  /** What berth does about a lease whose processes use more memory than it holds. One of warn, stop or revoke. */
  over_limit: 'warn' | 'stop' | 'revoke';
  /** What berth does about processes that use a GPU under no lease. One of show, kill_orphans or kill. */
  foreign: 'show' | 'kill_orphans' | 'kill';
  /** What berth does about leases on a device above temp_critical. One of tell or revoke. */
  overheat: 'tell' | 'revoke';
  /** How much memory of a lease a CUDA context takes. */
  context_mb: number;
  /** Whether the driver enforces leases of memory, through MPS. One of off or on. */
  mps: 'off' | 'on';
  /** What keeps programs that berth starts from GPUs they have not leased. One of env or cgroup. */
  isolation: 'env' | 'cgroup';
  /** What a program gets that berth starts without saying how much: a GPU alone, or one slot. One of whole or slot. */
  plain: 'whole' | 'slot';
  /** Whether berth slows work down before a temperature crosses a threshold. One of on or off. */
  forecast: 'on' | 'off';
  /** What berth does by itself about a device that should run slower. One of advise, slots, pace or power. */
  throttle: 'advise' | 'slots' | 'pace' | 'power';
  /** Lowest power limit that berth sets; null: the lowest that the driver takes. */
  power_least_watts: number | null;
  /** Fan speed by temperature; empty: the driver's own. */
  fan_curve: string;
  /** Whether a device has to pass berth check before it leaves its quarantine. One of on or off. */
  check: 'on' | 'off';
  /** Whether berth overwrites the free memory of a device before another user gets it. One of off or on. */
  scrub: 'off' | 'on';
  /** Settings that differ for single devices, by UUID. */
  devices: Record<string, DeviceConfig>;
  /** The section optimization. */
  optimization: OptimizationConfig;
  /** What berth does with a request for a service that is not under services. One of serve or refuse. */
  unknown_services: 'serve' | 'refuse';
  /** Whether berth runs programs for users who submit them. One of on or off. */
  jobs: 'on' | 'off';
  /** The section services, by name. */
  services: Record<string, ServiceConfig>;
  /** The section front. */
  front: FrontConfig;
  /** The section queue. */
  queue: QueueConfig;
  /** The section energy. */
  energy: EnergyConfig;
  /** The section audit. */
  audit: AuditConfig;
  /** The section past. */
  past: PastConfig;
  /** The section alerts. */
  alerts: AlertsConfig;
  /** The section metrics. */
  metrics: MetricsConfig;
}

// GPUUtilization counts the slots of one device.
export interface GPUUtilization {
  active: number;
  capacity: number;
  utilization_percent: number;
}

// Holder is the user, the service and the process that have a lease. User and UID
// come from the credentials of the connection, never from what a caller says.
export interface Holder {
  service?: string;
  name?: string;
  user?: string;
  uid?: number;
  pid?: number;
}

// HolderUntil is a lease that is in the way, with its end if that is known.
export interface HolderUntil {
  lease: string;
  holder: Holder;
  memory_mb: number;
  slots: number;
  until?: string;
  /** How it does not use what it holds, in words. */
  unused?: string;
  /** berth may park the lease to make room. */
  parkable?: boolean;
  /** Why berth does not park it now, although it is parkable. */
  kept?: string;
}

// Hook describes a hook and its last delivery. Its address, its secret and its
// command are in the configuration, which administrators read.
export interface Hook {
  name: string;
  /** One of url or command. */
  kind: 'url' | 'command';
  /** The codes of events that it gets; empty: all. */
  codes: string[];
  /** The least severity of events that it gets. */
  severity: string;
  /** Events that it has not received yet. */
  waiting: number;
  /** The last attempt to deliver something; absent: there was none since the daemon started. */
  last?: HookDelivery;
}

// HookConfig is a hook in a change.
export interface HookConfig {
  /** Address that berth sends events to, by POST. */
  url?: string;
  /** Program, and its arguments, that berth runs for each event. Only root and the user of the daemon may set it, without a token. */
  command?: string[];
  /** Codes of the events that the hook gets. Default: all. */
  codes?: string[];
  /** Least severity of the events that the hook gets. One of info, warning or critical. */
  severity?: 'info' | 'warning' | 'critical';
  /** Secret with which berth signs deliveries to a url. */
  secret?: string;
  /** How long one delivery may take. */
  timeout_seconds?: number;
}

// HookDelivery is one attempt to deliver an event to a hook.
export interface HookDelivery {
  /** When it began. */
  time: string;
  /** Id of the event. */
  event: number;
  /** Code of the event; hook for a test. */
  code: string;
  /** retried: it failed and is tried again. One of delivered, retried or failed. */
  status: 'delivered' | 'retried' | 'failed';
  took_seconds: number;
  /** Why it failed; absent: it did not. */
  error?: string;
}

// HookTest is the result of testing a hook.
export interface HookTest {
  hook: string;
  /** One of url or command. */
  kind: 'url' | 'command';
  /** When it began. */
  time: string;
  /** Id of the event. */
  event: number;
  /** Code of the event; hook for a test. */
  code: string;
  /** retried: it failed and is tried again. One of delivered, retried or failed. */
  status: 'delivered' | 'retried' | 'failed';
  took_seconds: number;
  /** Why it failed; absent: it did not. */
  error?: string;
}

// Hooks lists the hooks of the configuration.
export interface Hooks {
  /** In the order of their names. */
  hooks: Hook[];
}

// Idle is the evidence that the processes of a lease do not use their devices.
export interface Idle {
  since: string;
  /** What its processes had of their devices since then; absent: the driver does not measure it, and the lease never counts as idle. */
  utilization_percent?: number;
  /** What they hold, unchanged since then. */
  memory_mb: number;
}

// Job is a job, or one task of it.
export interface Job {
  /** NAME-NUMBER; a task has .N behind it. */
  id: string;
  /** For a task: the id of its job. */
  job?: string;
  name?: string;
  user: string;
  service?: string;
  /** For a task of a sweep. */
  params?: Record<string, string>;
  /** One of held, waiting, starting, running, parked, done, failed, cancelled, timed_out or lost. */
  state: 'held' | 'waiting' | 'starting' | 'running' | 'parked' | 'done' | 'failed' | 'cancelled' | 'timed_out' | 'lost';
  /** Why it is in this state, in words: what it waits for, or why it ended so. */
  cause?: string;
  /** The kind of the cause, which never changes. */
  cause_code?: string;
  submitted: string;
  /** It does not begin before. */
  begin?: string;
  started?: string;
  ended?: string;
  /** Of the command; 128 and the number of the signal that ended it. Absent: it has not ended, or nobody knows. */
  exit_code?: number;
  /** How often it was started. */
  try?: number;
  retry?: number;
  priority: number;
  gpus: number;
  /** On each device; 0 while it waits for a size that is learned, or for a whole device. */
  memory_mb: number;
  /** UUIDs of the devices that it has or had. */
  devices?: string[];
  /** The id of its lease, while it has one. */
  lease?: string;
  time_limit_seconds?: number;
  cpus?: number;
  host_memory_mb?: number;
  /** When it will probably begin, while it waits. */
  estimate?: Estimate;
  /** What whoever submits it should know; only in the answer to that. */
  warning?: string;
  after?: string[];
  after_any?: string[];
  after_failed?: string[];
  /** The most GPU memory that it used. */
  peak_memory_mb?: number;
  mean_utilization_percent?: number;
  energy_joules?: number;
  /** The most memory of the machine that one of its processes used. */
  peak_host_memory_mb?: number;
  command?: string[];
  directory?: string;
  /** The file with its output. */
  log?: string;
  /** The file with its errors, if that is another one. */
  error_log?: string;
  /** The process that minds it. */
  pid?: number;
  comment?: string;
  /** For a job with an array or parameters: how many tasks are in each state. */
  tasks?: JobTasks;
  /** Its tasks; only in the answer about one job. */
  list?: Job[];
}

// JobAct cancels, holds or lets go a job or one of its tasks.
export interface JobAct {
  /** What its user and operators read about it. */
  reason?: string;
}

// JobChange changes a job or one of its tasks.
export interface JobChange {
  /** Owners lower it, operators set it. */
  priority?: number;
}

// JobParam is a parameter of a sweep.
export interface JobParam {
  name: string;
  values: string[];
}

// JobRedo asks for a job again, under a new id.
export interface JobRedo {
  /** Only the tasks that did not end well. */
  failed?: boolean;
}

// JobRequest asks berth to run a command under a lease, as the user who asks. The job
// outlives the terminal and the daemon.
export interface JobRequest {
  /** The program and its arguments. {NAME} stands for the value of a parameter. */
  command: string[];
  /** The first part of the id, which everybody can read, and the name under which the memory and the time of earlier runs are remembered. Default: the id begins with job. */
  name?: string;
  /** Where the command runs. Default: the home of the user. */
  directory?: string;
  /** NAME=VALUE, at most 256 KiB. berth keeps it where only root reads it, and no answer has it. Default: HOME, USER, LOGNAME, SHELL and PATH. */
  environment?: string[];
  /** Default: 0022. */
  umask?: number;
  /** The file for its output; %j is the id, %n the try. A path that does not begin with / is below the directory. Default: berth-%j.log in the directory, else in the state folder of the user. */
  output?: string;
  /** The file for its errors. Default: the same as output. */
  error?: string;
  /** Numbers of tasks, as in 1-20, 1,3,7 or 0-100:10; %4 at the end runs at most 4 at a time. */
  array?: string;
  /** Each combination of values is a task. */
  params?: JobParam[];
  /** Jobs that must succeed before this one begins. */
  after?: string[];
  /** Jobs that must end before it, however they end. */
  after_any?: string[];
  /** Jobs that must all end before it, and one of them not well. */
  after_failed?: string[];
  /** It does not begin before this time. */
  begin?: string;
  /** It does not begin until it is released by unhold. */
  hold?: boolean;
  /** How often a task is run again that fails by its exit code, by a signal or for lack of memory. */
  retry?: number;
  /** machine: a task that a reboot or the fault of a device ended is queued again, ten times at most. time: also one that reached its time limit. */
  requeue?: 'machine' | 'time';
  /** The signal that the command gets before its time limit. */
  signal?: string;
  /** How long before its time limit. Default: 60. */
  signal_seconds?: number;
  /** How many CPUs each task may use. Default: no limit. */
  cpus?: number;
  /** How much memory of the machine each task may use. Default: no limit. */
  host_memory_mb?: number;
  /** Share of the multiprocessors, by MPS. Default: all. */
  compute_percent?: number;
  /** The lease of each task. The id, parent, binding, pid, ttl, unit, scope and parts are berth's own. */
  lease?: LeaseRequest;
  /** Check everything and answer what would be submitted and when it would begin, and submit nothing. */
  dry_run?: boolean;
}

// JobTasks counts the tasks of a job.
export interface JobTasks {
  total: number;
  /** How many run at a time at most. Absent: as many as there is room for. */
  at_most?: number;
  held?: number;
  waiting?: number;
  /** Starting and parked ones too. */
  running?: number;
  done?: number;
  failed?: number;
  cancelled?: number;
  timed_out?: number;
  lost?: number;
}

// Jobs lists jobs, the newest first.
export interface Jobs {
  /** A job with an array or parameters is one entry, with the counts of its tasks. */
  jobs: Job[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Latency counts records by how long they took.
export interface Latency {
  /** Upper bounds of the buckets, in seconds. */
  bounds: number[];
  /** One more than bounds: the last bucket has no upper bound. */
  counts: number[];
  sum_seconds: number;
}

// Launch has everything besides the lease that a launcher needs to make the environment
// of a program.
export interface Launch {
  /** How much memory of the lease a CUDA context takes. */
  context_mb: number;
  /** The devices of the parts of the lease, in the same order. */
  devices: Device[];
  /** Share of the multiprocessors that the service of the lease has, if MPS enforces the lease; 0: all. */
  compute_percent?: number;
  /** The directory in which the MPS daemon of the device listens, if MPS enforces the lease. */
  mps_pipe_directory?: string;
  /** What keeps the program from other GPUs. For cgroup and a lease with a parent, the launcher has to say so when it binds the lease. One of env or cgroup. */
  isolation?: 'env' | 'cgroup';
  /** The environment of a program under the lease, each variable as NAME=VALUE: which devices it sees, which lease it has, and what holds the libraries of caps to its memory. In the answer to a request with caps, and to launch=true. */
  environment?: string[];
  /** What holds the program to its memory, in one sentence. Present with environment. */
  receipt?: string;
  /** Who clears the memory of the devices between two programs, and when that was checked; not checked: nobody looked. */
  cleared_by?: string;
}

// Lease is a claim to slots and memory on one or more devices.
export interface Lease {
  id: string;
  /** Grows with every grant. The daemon refuses renewals and releases with an old fence. */
  fence: number;
  /** parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back. waiting: a request that holds nothing yet. released: a lease that has just ended. One of active, parking, parked, resuming, waiting or released. */
  state: 'active' | 'parking' | 'parked' | 'resuming' | 'waiting' | 'released';
  /** The id of the lease that this one was made a child of. */
  parent?: string;
  holder: Holder;
  /** One of process, ttl or named. */
  binding: 'process' | 'ttl' | 'named';
  /** Absent while the request waits. */
  granted?: string;
  ttl_seconds?: number;
  expires?: string;
  /** How long the lease lasts at most, from its grant on. Absent: for ever. */
  time_limit_seconds?: number;
  /** When the time limit ends the lease, with its processes. Absent: it has none. */
  ends?: string;
  /** Nobody chose the time limit for this lease: it is longest_time_seconds of its user. So it says when the lease ends at the latest, and nothing of when it probably does. */
  time_limit_unchosen?: boolean;
  /** What the lease holds on each device. */
  parts: LeasePart[];
  priority: number;
  /** What enforces the memory limit. One of mps, framework, watchdog or none. */
  enforced_by: 'mps' | 'framework' | 'watchdog' | 'none';
  /** The lease is older than this request, which found it by again, or by its id and its parts. */
  stood?: boolean;
  /** Memory on each device before this request resized the lease. */
  was_mb?: number;
  /** What the holder should know, for example that the daemon raised the request to the minimum of its service. */
  note?: string;
  /** The place in the queue, while the request waits. */
  waiting?: Waiting;
  /** The process of the lease has ended, and this descendant of it keeps the lease because it uses a device. */
  heir_pid?: number;
  /** Systemd unit or container whose processes belong to it. */
  unit?: string;
  /** Control groups whose processes belong to it, and no others. */
  scope?: string[];
  /** The processes that were last seen on its devices, and why they belong to it; only in the answers that list leases or look one up. */
  processes?: Belonging[];
  /** What else a launcher needs to know; only in the answer to a request with enforce. */
  launch?: Launch;
  /** The share that the lease is held to; absent: it runs freely. Only in the answers that list leases or look one up, and in that of pace. */
  paced?: Paced;
  /** How much energy its processes have used, above what the devices draw by themselves. Absent until the daemon has measured it; only in the answers that list leases, look one up or end one. */
  energy_joules?: number;
  /** Since when its programs are being ended, and the lease with them, because somebody cancelled it. */
  cancelled?: string;
  /** Who cancelled it, and why. */
  cancelled_by?: CancelledBy;
  /** berth may park the lease while others wait for its device. */
  parkable?: boolean;
  /** Its owner says that its processes share no GPU memory. */
  unshared?: boolean;
  /** What berth may do to a lease with a scope, to win memory back. */
  optimize?: ('trim' | 'shrink' | 'park')[];
  /** What became of its memory on the device, if the lease was ever parked; only in the answers that list leases or look one up, and in those of park and resume. */
  parking?: Parking;
  /** Since when its processes have not used their devices, and how that is known. Absent: they do, or nobody looks. Only in the answers that list leases or look one up. */
  idle?: Idle;
  /** Memory on each device that it had before an optimization shrank it. Absent: it was not shrunk. */
  asked_mb?: number;
  /** The note that its holder gave with the request. Only the holder and operators see it. */
  comment?: string;
  /** It has its devices alone: nobody else gets a lease there until it ends. */
  exclusive?: boolean;
  /** The lease is a pool, and this is what became of its memory. */
  pool?: Pool;
  /** The pool that its memory is from. */
  from_pool?: string;
  /** What its programs say that their libraries hold. Absent: none has said anything. Only in the answers that list leases or look one up. */
  libraries?: LibraryReport;
  /** cgroup: its process can open only the leased GPUs. Absent: nothing but its environment keeps it from the others. */
  isolated_by?: 'cgroup';
}

// LeasePart is the part of a lease on one device.
export interface LeasePart {
  gpu: string;
  /** Index of the device, for people; only in the answer of /api/gpu/memory/allocate. */
  index?: number;
  memory_mb: number;
  slots: number;
  /** How much memory its processes really use there; absent until the daemon has seen them. */
  measured_mb?: number;
}

// LeaseRequest asks for slots and memory on one or more devices.
export interface LeaseRequest {
  /** A name for the lease. Default: the daemon makes one up. */
  id?: string;
  /** The id of a lease of the same user: this one is a child of it, on the same devices. A child may be for no memory and no slot. If its parent has the memory that it asks for, it takes that from its parent, at once. */
  parent?: string;
  service?: string;
  /** What the lease is for, for people. */
  name?: string;
  /** How many devices, all different. */
  gpus?: number;
  /** Memory on each device. 0: slots only. */
  memory_mb?: number;
  /** Slots on each device. Default: 1. */
  slots?: number;
  /** Index or UUID: this device and no other. */
  gpu?: string | number;
  /** Index or UUID of the device to take if it has room. Default: the preferred device of the service. */
  prefer?: string | number;
  /** How to choose among the devices that fit. Default: the first of these policies. One of least_loaded, most_free, best_fit, spread or pack. */
  policy?: 'least_loaded' | 'most_free' | 'best_fit' | 'spread' | 'pack';
  /** What the device must be like. */
  where?: string;
  /** What ends the lease without a release. Default: ttl if ttl_seconds is given, process if pid is given, else named. */
  binding?: 'process' | 'ttl' | 'named';
  /** For binding process: the process that holds the lease. Default: the caller. */
  pid?: number;
  ttl_seconds?: number;
  /** How long to wait for room. Default: allocation_timeout. 0: not at all. */
  timeout_seconds?: number;
  priority?: number;
  /** If memory_mb is not given: lease as much as was measured for this name before, plus a margin. */
  learned_memory?: boolean;
  /** What enforces the memory limit. auto takes the strongest that is available; it is for a launcher that sets up the environment of the program. Default: watchdog. One of auto, mps, framework, watchdog or none. */
  enforce?: 'auto' | 'mps' | 'framework' | 'watchdog' | 'none';
  /** Systemd unit, or id of the container, whose processes belong to the lease if they run as its user. Every process there must be the caller's own. */
  unit?: string;
  /** Names of control groups: pods (pod and the UID), containers (the id of 64 digits), or systemd units (.service, .scope) whose processes are all of one user, not root. The processes in them belong to the lease, and no others do. For operators. */
  scope?: string[];
  /** Exactly what the lease holds on each device, all or nothing, in place of gpus, memory_mb, slots, gpu, prefer, policy and where. It needs admitted. A request with the id and the parts of a lease that the caller has is answered with that lease, and adds to its scope; with other parts it is refused. */
  parts?: LeaseShare[];
  /** Another scheduler has decided that the request is due: neither the queue, nor the multiplier of a device, nor a state that follows from its memory holds it back. Missing memory, quarantine, a drain, a lost device and temp_critical do. The minimum of a service refuses it instead of raising it. It needs parts. For operators. */
  admitted?: boolean;
  /** The libraries that launch.environment limits to the memory of the lease, where enforce is auto or framework. Default: all that the daemon knows. */
  caps?: ('cupy' | 'jax' | 'torch')[];
  /** What keeps the process of the lease from other GPUs. env: the environment that its launcher makes. cgroup: the daemon moves the process into a control group in which it can open only the leased NVIDIA GPUs, or refuses. A lease with a parent is isolated when it is bound to its process. Default: gpu.isolation if enforce is given, else env. */
  isolation?: 'env' | 'cgroup';
  /** The lease ends this long after the grant, with its processes, however often it is renewed. Default: longest_time_seconds of the user, or no limit. */
  time_limit_seconds?: number;
  /** Whether berth may park the lease while others wait for its device. Default: as services.NAME.parkable says, else no. */
  parkable?: boolean;
  /** The owner says that the processes of the lease share no GPU memory, with each other or with others. Without that, a lease is parked only if one process uses the GPU alone. */
  unshared?: boolean;
  /** For a lease with a scope: what berth may do to it to win memory back. trim: ask its programs for memory that they keep for later; shrink: make it smaller if its programs use less; park: move its memory to the memory of the machine while others wait for its device. Default: nothing. */
  optimize?: ('trim' | 'shrink' | 'park')[];
  /** A note of yours, for people: at most 256 bytes on one line. Others than operators do not see it. */
  comment?: string;
  /** Each device alone: it is granted where nobody has a lease, and nobody gets one there until it ends, but for its children. Its memory is what can be leased there at the grant; memory_mb is the least that it needs. */
  exclusive?: boolean;
  /** In place of memory_mb: all memory of the largest device that suits the request. Others may have leases without memory beside it. */
  all_memory?: boolean;
  /** The lease is a pool on one device: its memory is for leases of the same user that name it as from_pool. */
  pool?: boolean;
  /** The id of a pool of the same user: the lease takes its memory from there and gives it back when it ends. It is granted at once or refused, whoever waits. It has no slots, and is a child of the pool. */
  from_pool?: string;
  /** The fence of the parent: a job of the user may run under a lease with the same id as another one of the user, which the id alone means. */
  parent_fence?: number;
}

// LeaseShare is the part of a request on one device.
export interface LeaseShare {
  /** UUID of the device. No other share of the request may have it. */
  gpu: string;
  memory_mb: number;
  slots: number;
}

// Leases lists all leases and all waiting requests.
export interface Leases {
  /** The oldest grant first. */
  leases: Lease[];
  /** In the order of the queue. An answer with a limit has leases first, and then the requests that have waited longest. */
  waiting: Waiting[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Libraries says what the libraries of a program hold.
export interface Libraries {
  /** The fence of the lease. Absent: that of the lease with this id now. */
  fence?: number;
  libraries: LibraryMemory[];
}

// Library says whether a Python can import a package, and which GPUs the package
// sees.
export interface Library {
  /** Default: broken if there is an error, else ok. One of ok, missing or broken. */
  status?: 'ok' | 'missing' | 'broken';
  version?: string;
  /** Why the package is missing or broken, or sees no GPU. */
  reason?: string;
  /** Another name for reason. */
  error?: string;
  /** The GPUs that the package sees; none for a package that does not use GPUs. */
  devices?: VisibleGPU[];
  /** Why it is not known which GPUs the package sees; empty: it is known. */
  devices_unknown?: string;
}

// LibraryMemory is the memory that a library has on the devices of a lease, as the program
// says.
export interface LibraryMemory {
  name: string;
  /** Memory that arrays of the program take. */
  allocated_mb: number;
  /** Memory that the library keeps for later, and that a trim gives back. */
  cached_mb: number;
}

// LibraryReport is what the programs of a lease say that their libraries hold, summed up.
export interface LibraryReport {
  /** When the newest of them said it. */
  time: string;
  libraries: LibraryMemory[];
}

// Link is the best connection from a device to one other.
export interface Link {
  /** UUID of the other device. */
  to: string;
  kind: string;
  /** NVLink: how many links there are side by side. */
  lanes?: number;
}

// Machine is what a program needs to know of the machine beside its devices, before it
// takes on more work.
export interface Machine {
  /** Processors that the daemon may use. */
  cpus: number;
  /** How many processes ran or wanted to run in the last minute, on average. As many as there are processors: they are all busy. */
  load: number;
  /** The load in percent of the processors. */
  load_percent: number;
  memory_total_mb: number;
  /** Memory that programs can get without swapping. */
  memory_available_mb: number;
}

// MadeID is an id that the daemon made.
export interface MadeID {
  /** The name, a dash, and a number that the daemon gives out once. */
  id: string;
}

// MatchConfig describes the processes of a service.
export interface MatchConfig {
  /** Systemd unit, or id of the container, that they run in. */
  unit?: string;
  /** Path of the control group that they are in, or of one around it. */
  cgroup?: string;
  /** Name of the program, or of its script. */
  program?: string;
  /** User that they run as. */
  user?: string;
}

// Measured sums up the measured runs of a piece of work.
export interface Measured {
  user: string;
  name: string;
  step?: string;
  /** How many runs there were. The numbers below are of the last ten. */
  runs: number;
  /** When the last run ended. */
  last: string;
  /** How much memory the last run leased on a device; 0: none. */
  asked_mb: number;
  /** The most memory that a run used on a device; 0: no run was seen on a device. */
  peak_mb: number;
  /** How much memory a run leases that does not say: the peak plus a margin; 0: nothing is known, or no run was measured often enough. */
  next_mb: number;
  /** How long a run takes on average. */
  seconds: number;
  /** How much power a run drew on a device, on average while it worked, above what the device draws by itself. Absent: no run was measured. */
  drew_watts?: number;
}

// Measurement says how much one run of a piece of work used.
export interface Measurement {
  /** The name of the work: a pipeline, a function, a job. The daemon keeps measurements by name. */
  name: string;
  /** The step of the pipeline. Default: the whole pipeline. */
  step?: string;
  /** The most memory that the run used on one device. */
  memory_mb: number;
  seconds: number;
}

// Measurements lists the measurements of earlier runs.
export interface Measurements {
  /** In the order of user, name and step. */
  measurements: Measured[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// MetricsConfig is the section metrics.
export interface MetricsConfig {
  /** dcgm: show the devices also under the names of dcgm-exporter. One of off or dcgm. */
  compat?: 'off' | 'dcgm';
}

// MinderAccount is a user of the machine.
export interface MinderAccount {
  name?: string;
  gid: number;
  groups?: number[];
  home?: string;
}

// MinderOrder tells a minder what to run. The daemon gives it only to the process that has
// locked the file of the run.
export interface MinderOrder {
  version: number;
  run: string;
  /** The login name. It must still have this uid. */
  user?: string;
  uid: number;
  /** The user, as the user database has it now. Absent, from an older daemon: the minder asks the database. */
  account?: MinderAccount;
  command: string[];
  /** Where the command runs. Absent: the home of the user, or a folder for the state of berth if there is none. */
  directory?: string;
  /** Absent: HOME, USER, LOGNAME, SHELL and PATH. */
  environment?: string[];
  /** More variables, which replace those of the environment. */
  variables?: string[];
  umask: number;
  /** The file for its output; a relative path is below the directory. Absent: log. */
  output?: string;
  /** The file for its errors. Absent: the same as for its output. */
  error?: string;
  /** The name of the file for its output if none was asked for, in the directory or else in the state folder of the user. */
  log: string;
  /** How many older parts of log are kept. It then begins anew with each run, and when it has 16 MiB. Absent: it grows. */
  parts?: number;
  /** The lease of the run, with launch. */
  lease: Lease;
  /** Share of the multiprocessors, by MPS. */
  compute_percent?: number;
  /** Where programs find the daemon, if that is not the usual place. */
  socket?: string;
}

// MinderRequest asks for the order of a run. A minder sends it.
export interface MinderRequest {
  /** The numbers of the job, the task and the try. */
  run: string;
  /** The newest version of an order that the minder understands. */
  version: number;
}

// Monitoring says whether the sampling loop runs.
export interface Monitoring {
  running: boolean;
  interval_seconds: number;
  /** Whether the call changed anything. */
  changed: boolean;
}

// Move proposes to move a lease to another device, which makes room for a request
// that waits.
export interface Move {
  /** UUID of the device that it is on. */
  from: string;
  /** UUID of the device that has room for it. */
  to: string;
  /** What would be moved. */
  memory_mb: number;
  /** The waiting request that would fit then. */
  for: string;
  /** Its program has to be started again: a process cannot take its memory to another device. */
  restarts: boolean;
  /** The service whose program berth runs under the lease: berth move moves it (POST /api/services/{name}/move). Absent: whoever started the program starts it again. */
  service?: string;
  /** How long it takes the service to stop and to start, as measured. Absent: it has not done both yet. */
  takes_seconds?: number;
}

// Need is something that needs a person. The daemon decides what does, so that every
// screen shows the same.
export interface Need {
  /** One of monitoring, critical, unavailable, unhealthy, throttled, quarantine, stale, drained, alert, parking, over, hog, service, front, waiting or orphans. */
  kind: 'monitoring' | 'critical' | 'unavailable' | 'unhealthy' | 'throttled' | 'quarantine' | 'stale' | 'drained' | 'alert' | 'parking' | 'over' | 'hog' | 'service' | 'front' | 'waiting' | 'orphans';
  /** One of warning or critical. */
  severity: 'warning' | 'critical';
  /** What it is about, as in GPU 0. */
  subject: string;
  /** UUID of the device that it is about. */
  gpu?: string;
  /** Id of the lease or of the request that it is about. */
  lease?: string;
  /** Whose lease or request it is. */
  user?: string;
  since?: string;
  /** What is the matter, in a sentence without a full stop. */
  text: string;
  /** What to do about it. */
  next?: string;
}

// NewID asks for an id that no lease has had.
export interface NewID {
  /** What the id begins with. */
  name: string;
}

// NewToken is a token with its secret. The daemon shows the secret once.
export interface NewToken {
  name: string;
  role: string;
  service?: string;
  /** Login name of the user that the token is bound to. Absent: nobody. */
  as?: string;
  /** Absent: the token stands in the configuration. */
  created?: string;
  /** Absent: it does not expire. */
  expires?: string;
  /** When somebody last showed it, to the minute. Absent: nobody has. */
  used?: string;
  /** User who created it. */
  by?: string;
  /** The secret. Absent: the request had one. */
  token?: string;
}

// Obstacle says what is in the way of a request on one device.
export interface Obstacle {
  gpu: string;
  code: string;
  /** The codes of further reasons, if there are several. */
  also?: string[];
  text: string;
  /** The leases on the device. */
  holders?: HolderUntil[];
  /** How much memory of the device processes under no lease use, if that is in the way. */
  foreign_mb?: number;
  /** Those processes. */
  foreign_pids?: number[];
}

// Operations says how much work a service has done since its last report.
export interface Operations {
  /** How many operations. Default: as many as there are latencies. */
  count?: number;
  /** How long the operations took, added up. The daemon counts each of them with the average. Default: not known, so only count is counted. */
  seconds?: number;
  /** How long each operation took, in seconds, at most a day; instead of count and seconds. */
  latencies?: number[];
  /** Index or UUID of the device that did the work. Default: the device of the service's leases, if there is only one. */
  gpu?: string | number;
}

// Optimization says what an optimization did, rung by rung.
export interface Optimization {
  dry_run?: boolean;
  service?: string;
  began: string;
  took_seconds: number;
  /** In the order in which they were tried: dead, orphans, trim, shrink, park, move. */
  rungs: Rung[];
  /** Every device, before and after. */
  devices: Reclaimed[];
}

// OptimizationConfig is the section optimization.
export interface OptimizationConfig {
  /** Seconds from one optimization by berth itself to the next. */
  interval?: number;
  /** Share of a device's memory above which berth wins memory back by itself. */
  memory_threshold?: number;
  /** How many seconds a request waits unless it says otherwise. */
  allocation_timeout?: number;
  /** How many seconds the processes of a lease may take to end before berth kills them. */
  deallocation_timeout?: number;
  /** What an optimization does with processes that go on using a device after their lease has ended. One of name or end. */
  orphans?: 'name' | 'end';
  /** How many seconds an optimization waits for programs to give memory back. */
  trim_timeout?: number;
  /** How many seconds a lease must not have used its device until it counts as idle. */
  park_idle_after?: number;
  /** How many seconds before it parks a lease by itself berth tells the holder. */
  park_grace_seconds?: number;
  /** How many seconds a lease keeps its devices at least before berth parks it by itself. */
  keep_seconds?: number;
  /** How many seconds a lease that may be parked keeps its devices while others wait for them. */
  time_slice_seconds?: number;
  /** How many seconds others wait at most for a lease that is idle or has kept its devices for keep_seconds; null: no limit, and for a service whose program berth runs 4 times what it takes to leave and to come back, at most 10. */
  longest_wait: number | null;
  /** Most memory of the machine that parked leases take together; null: half of it. */
  park_host_mb: number | null;
  /** Whether berth sets the transparent huge pages of the kernel to always while it parks and resumes leases. One of leave or while_moving. */
  huge_pages?: 'leave' | 'while_moving';
}

// Optimize asks for memory back.
export interface Optimize {
  /** Only leases of this service. Default: all that the caller may change. */
  service?: string;
  /** Only say what would be done. */
  dry_run?: boolean;
}

// Outlook says where the temperature of a device goes if its power stays as it is.
export interface Outlook {
  /** The present power: an average of the last seconds. */
  power_watts: number;
  /** Where the temperature ends. */
  settles_celsius: number;
  /** With high, the interval that holds it nine times of ten. */
  settles_low_celsius: number;
  settles_high_celsius: number;
  /** How many degrees one more watt adds in the end. */
  celsius_per_watt: number;
  /** temp_normal, temp_throttle and temp_critical. */
  thresholds: ThresholdForecast[];
}

// Pace holds a lease to a share of what it would get of its devices.
export interface Pace {
  /** From 0.05 to 1. 1 lets the lease run freely. */
  share: number;
  /** Only if the lease still has this fence. */
  fence?: number;
  /** What people read about it. */
  reason?: string;
}

// Paced says what share a lease is held to, and what it really gets.
export interface Paced {
  /** The least of the shares that somebody holds it to. */
  share: number;
  /** What it gets of what it would get without pauses; absent in the first seconds. */
  measured?: number;
  /** driver: the driver measures how much of its time the device works for each process. duty: it does not, and measured is the share of the time that the processes run. */
  measured_by?: 'driver' | 'duty';
  /** Who holds it to a share, the least share first. */
  held_by: PacedBy[];
  since: string;
  /** Why its processes are not stopped, so that it runs freely; absent: they are. */
  refused?: string;
}

// PacedBy is one party that holds a lease to a share.
export interface PacedBy {
  share: number;
  /** owner: whoever owns the lease. operator: an operator. throttle: berth itself, because of gpu.throttle. service: berth itself, because of the compute of its service. */
  source: 'owner' | 'operator' | 'throttle' | 'service';
  /** Who asked for it. Absent: berth itself. */
  by?: By;
  reason?: string;
}

// Park moves the memory of a lease to the memory of the machine.
export interface Park {
  /** Only if the lease still has this fence. Default: any fence. */
  fence?: number;
  /** What people read about it. */
  reason?: string;
  /** The processes of the lease share no GPU memory, with each other or with others. Only its owner can say that. */
  unshared?: boolean;
}

// Parking says how and why the memory of a lease was parked or resumed.
export interface Parking {
  /** When its present state began: parking, parked, resuming, or active again. */
  since: string;
  /** Who asked for that. Absent: berth itself. */
  by?: By;
  reason?: string;
  /** Memory of the machine that it takes while it is parked. */
  host_mb?: number;
  /** It waits in the queue to be resumed. Absent for a parked lease: it stays parked until somebody resumes it. */
  returns?: boolean;
  /** How often it was parked. */
  times: number;
  /** How long moving its memory has taken in all. */
  moving_seconds: number;
  /** How it was known, when it was last parked, that its processes share no GPU memory. alone: one process used the device; owner: its owner or its service says so. */
  unshared_by?: 'alone' | 'owner';
  /** What went wrong last, and what to do. */
  failed?: string;
}

// PastConfig is the section past.
export interface PastConfig {
  /** Whether berth remembers what it measured. One of on or off. */
  store?: 'on' | 'off';
  /** How many seconds berth keeps every sample. */
  recent?: number;
  /** How many seconds berth keeps the average, the least and the most of each half-minute. */
  long?: number;
  /** Most space on disk that the past takes. */
  size_mb?: number;
}

// PastLease is a lease that has ended.
export interface PastLease {
  id: string;
  fence: number;
  holder: Holder;
  /** One of process, ttl or named. */
  binding: 'process' | 'ttl' | 'named';
  granted: string;
  ended: string;
  /** One of released, expired or revoked. */
  how: 'released' | 'expired' | 'revoked';
  /** Why the lease ended; only for its user and operators. */
  why?: string;
  /** The user who ended the lease; only for its user and operators. Absent if the daemon did. */
  by?: string;
  /** What the lease held on each device. */
  parts: LeasePart[];
  /** The most memory that its processes were measured to use on one device; 0: nothing was measured. */
  peak_mb: number;
  /** How much energy its processes used, above what the devices draw by themselves. Absent: nothing was measured. */
  energy_joules?: number;
  /** The pool that its memory was from. */
  from_pool?: string;
}

// PastLeases lists leases that have ended.
export interface PastLeases {
  /** The newest end first. The daemon keeps the last 2,000 leases, and at most 500 of one user. */
  leases: PastLease[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Plan says what will run where, before anything runs.
export interface Plan {
  file: string;
  /** In the order of the file. */
  pipelines: PlannedPipeline[];
  /** What the plan puts on each device, in the order of their indices. */
  devices: PlannedLoad[];
  /** How many runs on GPUs run side by side at first. */
  side_by_side: number;
  /** How many times the plan fills the devices until all runs are done; 0: nothing runs on a GPU, or nothing fits now. */
  waves: number;
  /** How long everything on GPUs takes, from earlier runs; absent if a step was never measured or a run has to wait. */
  expected_seconds?: number;
  /** What you should know about the whole plan. */
  notes?: string[];
  /** The plan as text for people, as berth plan prints it. */
  table?: string;
}

// PlanRequest asks to compile pipelines against the devices as they are now. The
// pipelines are in Pipelines or, as a whole file, in Text.
export interface PlanRequest {
  /** The name of the file, for messages. */
  name?: string;
  /** A list, as in a pipeline file. */
  pipelines?: unknown;
  /** Instead of pipelines: a whole pipeline file, YAML or JSON. Problems name its lines. */
  text?: string;
  /** The Python that will run the pipelines, for messages. */
  interpreter?: string;
  /** The packages that this Python can import, by the name that comes after import. The caller finds this out, because the daemon runs no code of its callers. Absent: the daemon does not check libraries, and the plan says so. */
  libraries?: Record<string, Library>;
  /** Why the caller could not find out the libraries. */
  probe_error?: string;
}

// PlanRun asks for the leases of a plan. It has either the plan as the daemon
// answered it, or the request to make one.
export interface PlanRun {
  /** The answer of POST /api/plans. The daemon reads only what the leases need, so you can leave out steps, and runs that you do not want now. */
  plan?: Plan;
  /** The name of the file, for messages. */
  name?: string;
  /** A list, as in a pipeline file. */
  pipelines?: unknown;
  /** Instead of pipelines: a whole pipeline file, YAML or JSON. Problems name its lines. */
  text?: string;
  /** The Python that will run the pipelines, for messages. */
  interpreter?: string;
  /** The packages that this Python can import, by the name that comes after import. The caller finds this out, because the daemon runs no code of its callers. Absent: the daemon does not check libraries, and the plan says so. */
  libraries?: Record<string, Library>;
  /** Why the caller could not find out the libraries. */
  probe_error?: string;
  /** The runs to start. Default: all. */
  runs?: string[];
  /** A name for the lease, if there is one run. Default: the daemon makes one up from the name of the run. */
  id?: string;
  /** The process that holds the leases; they end with it. Default: the caller. */
  pid?: number;
  /** What enforces the memory limits, as for a lease. Default: watchdog. One of auto, mps, framework, watchdog or none. */
  enforce?: 'auto' | 'mps' | 'framework' | 'watchdog' | 'none';
  /** How long to wait in all for runs that have no room now. Default: not at all. */
  timeout_seconds?: number;
}

// PlanRunning says which runs got a lease.
export interface PlanRunning {
  /** The plan, if the daemon made it for this request. */
  plan?: Plan;
  /** In the order of the plan. If no run got its lease, the answer is a problem instead. */
  runs: RunningRun[];
}

// PlannedLibrary is a Python package that a step imports.
export interface PlannedLibrary {
  name: string;
  /** Empty if the caller did not find it out or the package has none. */
  version?: string;
}

// PlannedLoad says what a plan puts on one device.
export interface PlannedLoad {
  gpu: string;
  index: number;
  name: string;
  /** How many runs in all. */
  runs: number;
  /** How many runs run side by side at first. */
  side_by_side: number;
  waves: number;
  /** Runs that have to wait until another lease ends. */
  waiting: number;
  /** How much memory the runs lease that run side by side at first. */
  memory_mb: number;
}

// PlannedPipeline is a pipeline with everything decided except when it runs.
export interface PlannedPipeline {
  name: string;
  /** In the order in which they run. */
  steps: PlannedStep[];
  /** One, or as many as count says. */
  runs: PlannedRun[];
  /** How much memory each run leases: peak plus context. 0: it needs no GPU and gets none. */
  memory_mb: number;
  /** The most GPU memory that its steps need at any moment. */
  peak_mb: number;
  /** The step during which the pipeline needs the most. */
  peak_step?: string;
  /** Memory for the CUDA context of its process, outside every memory pool. */
  context_mb: number;
  slots: number;
  /** The device that the pipeline asks for, as written in the file. */
  gpu?: string;
  /** UUIDs of the devices that it could run on if nobody else used them: those that it asks for, that are large enough and that its libraries see. */
  candidates?: string[];
  policy?: string;
  service?: string;
  priority?: number;
  /** How long one run takes; absent if a step was never measured. */
  expected_seconds?: number;
  /** Why some of its runs cannot start now. */
  unsatisfied?: string[];
  /** What you should know, for example that an amount is a guess. */
  notes?: string[];
}

// PlannedRun is one execution of a pipeline.
export interface PlannedRun {
  name: string;
  /** UUID of the device of all its GPU steps; empty: it needs none. */
  gpu?: string;
  /** Index of that device, for people. */
  index?: number;
  /** Wave 1 starts at once, wave 2 when wave 1 is done, and so on; 0: the run needs no GPU, or has to wait for others. */
  wave?: number;
  /** What the run waits for, if it cannot start in this plan. */
  waits?: string;
}

// PlannedStep is a step with its place, its conversions and its memory.
export interface PlannedStep {
  name: string;
  /** The steps whose outputs the step takes. */
  after?: string[];
  /** The name under which the daemon keeps measurements of the step. */
  signature: string;
  /** Memory type that the step takes. */
  input: string;
  /** Memory type that the step gives. */
  output: string;
  /** Whether the step runs on the device of its run; else it runs on the CPU. */
  on_gpu: boolean;
  /** The conversions of its inputs before it runs. */
  conversions?: Conversion[];
  /** GPU memory of the step by itself: inputs, outputs and working memory. */
  memory_mb: number;
  /** Where memory_mb comes from. One of declared, learned or default. */
  memory_from?: 'declared' | 'learned' | 'default';
  /** How many earlier runs of the step were measured. */
  measured?: number;
  /** Earlier steps whose outputs are on the GPU while the step runs. */
  alive?: string[];
  /** Memory of the outputs that are not its inputs but are kept for later steps. */
  held_mb: number;
  /** GPU memory of the pipeline while the step runs, without the context. */
  peak_mb: number;
  libraries?: PlannedLibrary[];
  expected_seconds?: number;
}

// Pool says what became of the memory of a pool.
export interface Pool {
  /** Memory of the leases that took theirs from the pool. */
  taken_mb: number;
  /** Memory that another one can have. */
  left_mb: number;
  /** How many there are. */
  leases: number;
}

// Problem is an error of the API: an RFC 9457 problem document with a stable code.
export interface Problem {
  /** Always about:blank; the code tells problems apart. */
  type: string;
  /** The HTTP status in words. */
  title: string;
  status: number;
  /** Stable name of the problem, for programs. */
  code: string;
  /** What is wrong and what to do about it, for people. */
  detail: string;
  /** All fields that are wrong. */
  fields?: FieldProblem[];
  /** The numbers behind detail. */
  extra?: Record<string, unknown>;
}

// Process is one operating-system process on a device.
export interface Process {
  /** 0 for a process of another user, unless an operator asks. */
  pid: number;
  name?: string;
  kind?: string;
  /** Absent where the driver does not tell. */
  memory_mb?: number;
}

// QueueConfig is the section queue.
export interface QueueConfig {
  /** Whether later requests pass one whose start nobody knows. One of pass or hold. */
  unknown?: 'pass' | 'hold';
}

// Quota says how much a user may have, and has.
export interface Quota {
  user: string;
  role?: string;
  /** The service that requests belong to which name none. */
  service?: string;
  limits: QuotaLimit[];
}

// QuotaConfig limits all leases of a service together.
export interface QuotaConfig {
  /** Memory over all devices. */
  memory_mb?: number;
  /** Slots over all devices. */
  slots?: number;
}

// QuotaLimit is one limit of a user, or of all members of a group together.
export interface QuotaLimit {
  /** The setting that sets the limit. */
  name: string;
  /** In the unit of the setting. Absent: there is no limit. */
  limit?: number;
  /** How much of it is used now. Absent: the limit is about one request. */
  used?: number;
  /** The members of this group have the limit together, and used is what all of them use. */
  group?: string;
  /** Where the limit comes from: an entry of the configuration, or default. */
  source: string;
}

// Ranked says how a device ranks for a request, with the numbers that decide.
export interface Ranked {
  gpu: string;
  index: number;
  /** 1 is taken first; absent: the device does not fit. */
  rank?: number;
  /** Why it does not fit, or why cooler devices come before it. */
  why?: string;
  /** The kind of that reason, as in devices. */
  code?: string;
  /** The request or its service prefers the device. */
  preferred?: boolean;
  /** Leases of the same service that are on the device. */
  replicas: number;
  /** Slots in use. */
  active: number;
  /** Slots that may be in use in its present state. */
  usable: number;
  /** What can be leased now; negative if more is used than there should be. */
  available_mb: number;
  state: string;
  /** Average of the last minute, in which newer samples weigh more; policies compare it in steps of 10. Absent: not measured. */
  recent_utilization_percent?: number;
  /** Average likewise; policies compare it in steps of 5 from 50 on. Absent: not measured. */
  recent_temperature_celsius?: number;
  /** Where the temperature ends with the request on the device, by the power that its program drew before, or at the present power if that is not known. Absent: not known. */
  settles_celsius?: number;
}

// Ready says whether the daemon can do its work.
export interface Ready {
  ready: boolean;
  devices: number;
  text: string;
  /** Present if the audit log cannot be written, or has lost entries: what follows from that. */
  audit?: string;
  /** Damaged state files that the daemon keeps in its state folder, until somebody removes them. An event said what each of them costs. */
  damaged?: string[];
  /** Present if something failed inside the daemon since it started, because of a bug in berth: how often, and when last. */
  faults?: string;
  /** Present if the daemon does not have its address on TCP: why. The Unix socket serves, and the daemon tries again. */
  listen?: string;
  /** What the past takes on disk, and how far back it goes; or why nothing is stored. */
  past?: string;
}

// ReadyConfig says how a server shows that it takes requests.
export interface ReadyConfig {
  /** It answers GET of this path with 200. */
  path?: string;
  /** It accepts connections. One of true or false. */
  tcp?: 'true' | 'false';
  /** A line of its log has this text. */
  log?: string;
}

// Reclaimed says what an optimization changed on one device.
export interface Reclaimed {
  gpu: string;
  used_before_mb: number;
  used_after_mb: number;
  /** What could be leased. */
  available_before_mb: number;
  available_after_mb: number;
}

// Renew extends a lease that has a time to live.
export interface Renew {
  /** The fence of the lease. */
  fence: number;
  /** How long the lease lasts from now on. Default: as long as before. */
  ttl_seconds?: number;
}

// Rescope changes the control groups by which the daemon recognizes the processes of a
// lease.
export interface Rescope {
  /** Only if the lease still has this fence. Default: whichever it has. */
  fence?: number;
  /** Names of control groups, as in scope of a request for a lease. */
  add?: string[];
  /** Names to take out. Without any left, the lease takes processes by other evidence again. */
  remove?: string[];
}

// Resize gives a lease another amount of memory.
export interface Resize {
  /** Memory on each device. */
  memory_mb: number;
  /** Only if the lease still has this fence. Default: any fence. */
  fence?: number;
  /** How long to wait for room, if the lease gets larger. Default: not at all. */
  timeout_seconds?: number;
}

// Resume moves the memory of a parked lease back to its device.
export interface Resume {
  /** Only if the lease still has this fence. Default: any fence. */
  fence?: number;
  /** What people read about it. */
  reason?: string;
  /** How long to wait for room. Default: allocation_timeout. 0: not at all. */
  timeout_seconds?: number;
}

// Rung is one way to get memory back.
export interface Rung {
  /** One of dead, orphans, trim, shrink, park or move. */
  name: 'dead' | 'orphans' | 'trim' | 'shrink' | 'park' | 'move';
  /** How much less memory its devices had in use afterwards than before, as measured; for shrink: how much more could be leased. Never an estimate. 0 in a dry run. */
  freed_mb: number;
  took_seconds: number;
  /** What was done, or would be in a dry run. */
  done: RungStep[];
  /** What was left alone, and why. */
  left: RungStep[];
}

// RungStep says what a rung did to one lease or process, or why it left it alone.
export interface RungStep {
  lease?: string;
  user?: string;
  /** 0 for a process of another user, unless an operator asks. */
  pid?: number;
  /** UUID. */
  gpu?: string;
  /** One sentence for people. */
  text: string;
  /** What was measured for it before; for shrink: what it had leased. */
  before_mb: number;
  /** The same, afterwards. */
  after_mb: number;
  /** For move: the proposal. */
  move?: Move;
}

// RunningRun is a run of a plan that has a lease, needs none, or was refused one.
export interface RunningRun {
  name: string;
  pipeline: string;
  /** Whether the run is on the device of the plan; none: it needs no GPU. One of confirmed, remade, none or refused. */
  placement: 'confirmed' | 'remade' | 'none' | 'refused';
  /** Why the run is on another device, or on none. */
  reason?: string;
  /** UUID of the device in the plan. */
  planned_gpu?: string;
  lease?: Lease;
  /** Why the daemon refused the lease. The code says whether it may be granted later or never. */
  problem?: Problem;
}

// Sample is one reading of a device. Every metric is optional: a metric that
// the device cannot measure is absent. The monitor adds GPU, Name, Time, State
// and MemoryShare; a backend leaves them empty.
export interface Sample {
  /** UUID of the device. */
  gpu: string;
  /** Name of the device. */
  name?: string;
  time: string;
  /** State of the device at that time; in the newest sample, as it stands now. */
  state?: string;
  utilization_percent?: number;
  /** Share of time in which memory was read or written. */
  memory_busy_percent?: number;
  memory_total_mb?: number;
  /** Used by processes and by the driver itself. */
  memory_used_mb?: number;
  memory_free_mb?: number;
  /** The driver of this device tells neither how hot it is nor how much of its memory is in use. */
  blind?: boolean;
  /** Share of the memory that is in use. */
  memory_percent?: number;
  temperature_celsius?: number;
  memory_temperature_celsius?: number;
  power_watts?: number;
  /** For a MIG instance: the UUID of the GPU that it is part of. Power, temperature, clocks and throttle reasons are those of that GPU, so do not add them up. */
  power_of?: string;
  clock_sm_mhz?: number;
  clock_memory_mhz?: number;
  throttle_reasons?: string[];
  processes?: Process[];
  /** When the metrics below were read: they are costly, so they are older than the rest. */
  slow_time?: string;
  /** Since the driver was loaded. */
  energy_joules?: number;
  fan_percent?: number;
  pcie_tx_mb_per_second?: number;
  pcie_rx_mb_per_second?: number;
  ecc_corrected_total?: number;
  ecc_uncorrected_total?: number;
  process_utilization_percent?: Record<string, number>;
}

// Samples is a list of samples, oldest first.
export interface Samples {
  samples: Sample[];
  /** Of a history: the time from its oldest sample to its newest. It is shorter than what was asked for where berth has not kept that much. */
  covers_seconds?: number;
}

// Service is a service whose program berth runs.
export interface Service {
  name: string;
  /** The names of models that mean the service; * stands for any characters. */
  models?: string[];
  /** Whom the program runs as. */
  user: string;
  /** away: its program does not run. waiting: it waits for its lease. starting: its program runs and is not ready. ready: it takes requests. closing: it takes no more, and ends those that it has. leaving: it is parked, put to sleep or stopped. returning: it comes back from where it was parked or asleep. failed: it failed, and is started again after a pause. stopped: a person stopped it. */
  state: 'away' | 'waiting' | 'starting' | 'ready' | 'closing' | 'leaving' | 'parked' | 'asleep' | 'returning' | 'failed' | 'stopped';
  /** Since when it is in this state. */
  since: string;
  /** Why it is in this state, in words. */
  why?: string;
  /** One of on_demand, always or never. */
  start: 'on_demand' | 'always' | 'never';
  /** How it is sent away, as its settings say. One of auto, park, sleep or stop. */
  away: 'auto' | 'park' | 'sleep' | 'stop';
  /** How it would be sent away now. One of park, sleep or stop. */
  goes?: 'park' | 'sleep' | 'stop';
  /** Why that way, in words. */
  goes_why?: string;
  /** The id of its lease, while it has one. */
  lease?: string;
  /** UUIDs of the devices that it is on, or will return to. */
  devices?: string[];
  /** The memory that it leases on each device. Absent: a whole device, because it is not known yet. */
  memory_mb?: number;
  /** The memory was learned from earlier runs. */
  learned?: boolean;
  /** Requests that it answers now. */
  open: number;
  /** Requests that wait for it. */
  waiting: number;
  /** When its last answer ended. Absent: none has since the front began. */
  last_answer?: string;
  /** Who has requests open or waiting, by name. For its user and operators. */
  callers?: ServiceCaller[];
  /** Since the start of the daemon, as the following. */
  requests: number;
  failed_requests: number;
  refused_requests: number;
  tokens_in: number;
  tokens_out: number;
  /** How often it came to a device. */
  switches: number;
  /** How long its comings and goings took. */
  took: ServiceTimes;
  /** The last failure, until it was ready again. */
  failure?: ServiceFailure;
  /** Who stopped it. */
  stopped?: FrontStopped;
  /** Where its program listens, on 127.0.0.1. */
  port?: number;
  /** The process that berth started. For its user and operators, as the following. */
  pid?: number;
  command?: string[];
  directory?: string;
  /** The file with its output. */
  log?: string;
}

// ServiceCaller is somebody who uses a service, or waits for it.
export interface ServiceCaller {
  /** Login name, user id if there is none, or token:NAME. Absent: those whom the front did not keep apart. */
  user?: string;
  open?: number;
  waiting?: number;
  /** The share of the machine that they have used through services, from 0 to 1; what is 5 minutes old counts half. A service waits in the place of that caller who has used least. */
  used: number;
}

// ServiceConfig has the settings of one service.
export interface ServiceConfig {
  /** Least memory of a request. berth raises a request for less. */
  min_memory_mb?: number;
  /** Most memory of a request. berth refuses a request for more. */
  max_memory_mb?: number;
  /** Index or UUID of the device that berth tries first. */
  preferred_device?: string | number;
  /** Where berth puts a lease of the service that has others: on a device with fewer of them, or beside them. One of apart or together. */
  affinity?: 'apart' | 'together';
  /** Priority among requests that wait. The highest goes first. */
  priority?: number;
  /** What all leases of the service may hold together. */
  quota: QuotaConfig;
  /** Users who may ask in the name of the service, and send it requests. Default: everybody. */
  users?: string[];
  /** Namespaces of a Kubernetes cluster whose claims may name the service. Default: none. */
  namespaces?: string[];
  /** What berth does about a lease of the service that uses more memory than it holds. Default: that of gpu. One of warn, stop or revoke. */
  over_limit?: 'warn' | 'stop' | 'revoke';
  /** What berth does by itself about leases of the service on a device that should run slower. Default: that of the device. One of exempt, advise, slots, pace or power. */
  throttle?: 'exempt' | 'advise' | 'slots' | 'pace' | 'power';
  /** Share of its devices that a lease of the service may compute on, in percent. Default: no limit. */
  compute?: number;
  /** Whether berth may park leases of the service. unshared: yes, and their processes share no GPU memory. Default: as their requests say. One of true, false or unshared. */
  parkable?: 'true' | 'false' | 'unshared';
  /** Whether an optimization may shrink leases of the service to what they used at most. Default: false. One of true or false. */
  shrinkable?: 'true' | 'false';
  /** How many seconds a lease of the service keeps its devices at least. Default: that of optimization. */
  keep_seconds?: number;
  /** How many seconds others wait at most for a lease of the service. Default: that of optimization. */
  longest_wait?: number;
  /** How many seconds a lease of the service keeps its devices while others wait for them. Default: that of optimization. */
  time_slice_seconds?: number;
  /** Whether berth never parks leases of the service, nor sends its program away, by itself. Default: false. One of true or false. */
  keep?: 'true' | 'false';
  /** Which processes belong to the leases of the service that no process holds. */
  match: MatchConfig;
  /** Program, and its arguments, that berth runs for the service; in a change also one text. ${PORT} in it is the port. Default: berth runs none. */
  command?: string[];
  /** User that the program runs as. */
  user?: string;
  /** Folder that the program runs in. Default: the home of the user. */
  directory?: string;
  /** Variables of the program. No answer has them. */
  env?: Record<string, string>;
  /** Port that the server listens on. Default: one that is free. */
  port?: number;
  /** How the server shows that it takes requests. */
  ready: ReadyConfig;
  /** Memory that the program gets on each of its devices, in MiB. Default: learned. */
  memory?: number;
  /** How many devices the program gets. Default: 1. */
  gpus?: number;
  /** When berth starts the program. Default: on_demand. One of on_demand, always or never. */
  start?: 'on_demand' | 'always' | 'never';
  /** How many seconds the program may take until it is ready. Default: 600. */
  start_timeout?: number;
  /** Whether berth starts the program again after it has ended, with start: always. Default: true. One of true or false. */
  restart?: 'true' | 'false';
  /** How many seconds after its last answer berth sends the service away. Default: only if others need the room. */
  idle_after?: number;
  /** How berth sends the service away. Default: auto. One of auto, park, sleep or stop. */
  away?: 'auto' | 'park' | 'sleep' | 'stop';
  /** Requests that make the server give up its GPU memory. */
  sleep?: CallConfig[];
  /** Requests that make the server take its GPU memory again. */
  wake?: CallConfig[];
  /** Whether the service comes back when nobody asks for another one. Default: false. One of true or false. */
  default?: 'true' | 'false';
  /** Names of models in requests that mean this service; * stands for any characters. */
  models?: string[];
  /** Names of hosts in requests that mean this service. */
  hosts?: string[];
  /** Paths whose requests neither bring the service nor keep it; * stands for any characters. */
  ignore?: string[];
  /** How many requests may be open or wait at a time. */
  max_open?: number;
}

// ServiceFailure says how a service failed.
export interface ServiceFailure {
  at: string;
  why: string;
  /** How often it failed since it was last ready for a while. */
  count: number;
  /** When it is started again, if somebody asks. Absent: not by itself. */
  next?: string;
  /** The last lines of its log. For its user and operators. */
  log?: string[];
}

// ServiceOrder starts, stops, restarts or moves a service.
export interface ServiceOrder {
  /** The reason, for those who read the events or whose requests are refused. */
  why?: string;
  /** Index or UUID of the device that it shall come to; for move alone. */
  gpu?: string;
}

// ServiceTime is how long something took.
export interface ServiceTime {
  /** The mean, in which later ones weigh more. */
  seconds: number;
  last_seconds: number;
  count: number;
}

// ServiceTimes says how long the comings and goings of a service took, each as a running
// mean of the last ones. What never happened is absent.
export interface ServiceTimes {
  /** From the start of its program until it was ready. */
  start?: ServiceTime;
  /** From the order to stop until its memory was free. */
  stop?: ServiceTime;
  park?: ServiceTime;
  resume?: ServiceTime;
  sleep?: ServiceTime;
  wake?: ServiceTime;
}

// Services lists the services whose programs berth runs.
export interface Services {
  /** In the order of their names. */
  services: Service[];
  /** Where requests for services come in. Absent: nowhere, because front.listen is not set. */
  front?: FrontState;
}

// Session is a session on the page, without its secret.
export interface Session {
  id: string;
  /** Who signed in: login name, or token:NAME. */
  user: string;
  /** The session holds only for connections of this user. Absent: it began on another machine. */
  uid?: number;
  /** Name of the token that it was begun with. Absent: with a link. */
  token?: string;
  /** The role that it gives now. One of stranger, scraper, viewer, user, operator or admin. */
  role: 'stranger' | 'scraper' | 'viewer' | 'user' | 'operator' | 'admin';
  begun: string;
  /** When it was last used, to the minute. */
  used: string;
  /** When it ends, if nobody uses it until then. */
  expires: string;
  /** Whether the request was made with it. */
  current?: boolean;
}

// SessionLink is a link for signing in on the page.
export interface SessionLink {
  /** Address of the page, with the code behind the #. It works once. */
  url: string;
  /** When the code ends, if nobody has used it. */
  expires: string;
}

// Sessions lists the sessions on the page.
export interface Sessions {
  sessions: Session[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// SignIn begins a session with a code or a token.
export interface SignIn {
  /** Code of a link that berth open made. */
  code?: string;
  /** Secret of a token. */
  token?: string;
}

// Slots counts the pipelines that a device runs and may run.
export interface Slots {
  active: number;
  /** max_pipelines of the device. */
  capacity: number;
  /** How many slots may be in use now, by the state of the device and by trust. */
  usable: number;
}

// Status is the present state of one device.
export interface Status {
  device: Device;
  /** One of OPTIMAL, NORMAL, THROTTLED, CRITICAL or UNAVAILABLE. */
  state: 'OPTIMAL' | 'NORMAL' | 'THROTTLED' | 'CRITICAL' | 'UNAVAILABLE';
  /** When the device entered this state. */
  since: string;
  /** Why the device is in this state, in one sentence. */
  reason: string;
  /** What put the device into this state. fault: it, or the device that it is part of, is in quarantine. lost: it is not on the bus any more. silent: it does not answer. Absent: it is OPTIMAL, or its driver tells neither temperature nor memory. */
  state_cause?: 'temperature' | 'memory' | 'fault' | 'lost' | 'silent';
  /** Share of full speed that work should run at. */
  multiplier: number;
  /** What decides the multiplier: the state, or a forecast that is sure of a worse one. */
  cause: 'state' | 'forecast';
  /** Why the multiplier is lower than that of the state; absent: it is not. */
  slower?: string;
  /** Where the temperature goes at the present power. Absent: not known, because the device does not measure its power or berth has not watched it long enough. */
  outlook?: Outlook;
  /** One of healthy, unhealthy or unknown. */
  health: 'healthy' | 'unhealthy' | 'unknown';
  /** The newest sample; absent until the device has answered once. */
  sample?: Sample;
  /** The sample is older than three intervals and older than 3 seconds, so it says nothing about now. */
  stale?: boolean;
  slots: Slots;
  /** Present while the device is not fully trusted. */
  trust?: Trust;
  /** Present while somebody drains the device: leases there go on, and no new ones are granted. */
  drain?: Drain;
  /** What berth does by itself if the device should run slower. */
  throttling?: Throttling;
  /** The processors and the memory of the machine; only of /api/gpu/status. */
  machine?: Machine;
  /** The leases on the device, largest first; only with leases=true. */
  leases?: DeviceLease[];
  /** The sums of the leases on the device; only with leases=true. */
  allocation_stats?: Allocations;
  /** What the device did in the last minutes; only of /api/gpu/status/all, with curves. */
  curves?: Curves;
}

// StatusAll lists every device, and says how much of the machine is in use.
export interface StatusAll {
  host: string;
  /** Version of the daemon. */
  version: string;
  /** Whether the sampling loop runs. */
  monitoring: boolean;
  /** A remark about the whole machine, for example that it has no GPU. */
  note?: string;
  gpus: Status[];
  utilization: Utilization;
  /** The processors and the memory of the machine. Absent: the daemon cannot read them. */
  machine?: Machine;
  /** What needs a person, the worst first, as far as the caller may see it. */
  needs?: Need[];
}

// Stray is a process on a device under no lease.
export interface Stray {
  /** UUID of the device. */
  gpu: string;
  /** 0 for a process of another user, unless an operator asks. */
  pid: number;
  name?: string;
  user?: string;
  /** How much memory the process uses; absent if it only has the device open. */
  memory_mb?: number;
  /** The lease that the process belonged to until the lease ended. */
  lease?: string;
  /** UID of the Kubernetes pod that the process runs in. */
  pod?: string;
  /** Present if it fits several leases equally, so that it belongs to none: the kind of evidence. One of unit, service or program. */
  evidence?: 'unit' | 'service' | 'program';
  /** Those leases. */
  fits?: string[];
}

// Strays lists the processes that use devices under no lease.
export interface Strays {
  /** Processes whose lease has ended. */
  orphans: Stray[];
  /** Processes that never had a lease. */
  foreign: Stray[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// TemperatureForecast is one point of a forecast.
export interface TemperatureForecast {
  in_seconds: number;
  celsius: number;
  /** With high, the interval that holds the temperature nine times of ten. */
  low_celsius: number;
  high_celsius: number;
}

// ThresholdForecast says when the temperature of a device passes a threshold at its
// present power.
export interface ThresholdForecast {
  threshold: string;
  limit_celsius: number;
  /** Time until the temperature passes the threshold; 0: it has. Absent: not at this power. */
  seconds?: number;
  /** With latest, the interval that holds that time nine times of ten. */
  soonest_seconds?: number;
  /** Absent: it may well never pass. */
  latest_seconds?: number;
  /** The same in words. */
  text: string;
}

// Throttle says how fast work on a device may run.
export interface Throttle {
  gpu: string;
  /** One of OPTIMAL, NORMAL, THROTTLED, CRITICAL or UNAVAILABLE. */
  state: 'OPTIMAL' | 'NORMAL' | 'THROTTLED' | 'CRITICAL' | 'UNAVAILABLE';
  multiplier: number;
  /** What decides the multiplier: the state, or a forecast that is sure of a worse one. */
  cause: 'state' | 'forecast';
  /** Whether work should slow down: true from THROTTLED on, and if a forecast slows it down. The multiplier has the finer steps. */
  should_throttle: boolean;
  /** Whether work should stop now: the device is above temp_critical or in quarantine. */
  should_stop: boolean;
  /** The earliest time that work may run faster, while a cooldown runs. */
  until?: string;
  /** Why, in one sentence: that of the cause. */
  reason: string;
  /** Where the temperature goes at the present power. Absent: not known. */
  outlook?: Outlook;
  /** What berth does about it by itself. */
  throttling?: Throttling;
}

// Throttling says what berth does by itself about a device that should run
// slower.
export interface Throttling {
  /** The setting gpu.throttle of the device. One of advise, slots, pace or power. */
  policy: 'advise' | 'slots' | 'pace' | 'power';
  /** Share of their speed that leases on the device are held to; absent: none is held back. */
  share?: number;
  /** How many leases are held back. */
  paced_leases?: number;
  /** Power limit that berth set; absent: it set none. */
  power_limit_watts?: number;
  /** Power limit that berth gives back. */
  power_original_watts?: number;
  /** How many steps down led to the power limit that berth set. */
  power_steps?: number;
  /** Fan speed that berth set; absent: the driver sets it. */
  fan_percent?: number;
  /** Why this daemon does nothing about the device: another one is in charge of it. */
  denied?: string;
}

// Token is a token without its secret, which the daemon does not keep.
export interface Token {
  name: string;
  role: string;
  service?: string;
  /** Login name of the user that the token is bound to. Absent: nobody. */
  as?: string;
  /** Absent: the token stands in the configuration. */
  created?: string;
  /** Absent: it does not expire. */
  expires?: string;
  /** When somebody last showed it, to the minute. Absent: nobody has. */
  used?: string;
  /** User who created it. */
  by?: string;
}

// TokenRequest asks for a token.
export interface TokenRequest {
  /** Letters, digits, - and _. Whoever shows the token is the user token:NAME. */
  name: string;
  /** One of scraper, viewer, user, operator or admin. */
  role: 'scraper' | 'viewer' | 'user' | 'operator' | 'admin';
  /** Whoever shows the token may act for this service only. Not for operators and administrators. */
  service?: string;
  /** Bind the token to this user of the machine, by login name: whoever shows it is that user, with the role of the token, and can run jobs as that user. Not root. Only an administrator whom the kernel names can, for the role user and higher ones, without a service. */
  as?: string;
  /** The token expires after this time. Absent: it does not expire. */
  ttl_seconds?: number;
  /** The secret to show, at least 32 printable characters. Absent: the daemon makes one up. */
  token?: string;
  /** End the token that has this name, and make this one in its place. Without it, a name that is taken is refused, unless the request is the same as that token: then nothing changes. */
  replace?: boolean;
}

// Tokens lists the tokens that the daemon accepts, by name.
export interface Tokens {
  tokens: Token[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Trend describes the temperature of a device over a window of time.
export interface Trend {
  gpu: string;
  /** The window in the request. */
  minutes: number;
  /** The time from the oldest sample in the window to the newest: less than the window where berth has not kept that much. */
  covers_seconds: number;
  /** How many samples with a temperature are in the window. */
  samples: number;
  min_celsius?: number;
  max_celsius?: number;
  average_celsius?: number;
  slope_celsius_per_minute?: number;
  /** One of rising, falling, stable or unknown. */
  direction: 'rising' | 'falling' | 'stable' | 'unknown';
  /** The temperatures to come, as far as the power so far tells. Absent: not known. */
  forecast?: TemperatureForecast[];
  /** Where the temperature goes at the present power. Absent: not known. */
  outlook?: Outlook;
  /** Where the temperature would end if one lease were gone, for each lease whose power is known. */
  without?: WithoutLease[];
}

// Trust says how far the daemon trusts a device after something went wrong on it.
export interface Trust {
  /** Absent if only slots are withheld. One of quarantine or probation. */
  phase?: 'quarantine' | 'probation';
  since?: string;
  /** The earliest end of the phase. */
  until?: string;
  /** What began the phase. */
  why?: string;
  /** Slots that the daemon withholds from the device for a while, because its memory ran out. */
  slots_withheld: number;
}

// UndrainRequest asks to end the drain of a device.
export interface UndrainRequest {
  /** Index or UUID of the device. */
  gpu: string | number;
}

// UserUse is what one user holds, waits for and has used.
export interface UserUse {
  /** another user: all those together whose names the caller may not see. */
  user: string;
  leases: number;
  /** How many devices its leases are on. */
  gpus: number;
  /** What its leases hold. Parts of a pool count in their pool. */
  memory_mb: number;
  /** How much memory the processes of its leases really use. */
  measured_mb: number;
  slots: number;
  /** Requests that wait. */
  waiting: number;
  /** Memory that they wait for, on all devices together. */
  waiting_mb: number;
  /** Since when the oldest of them waits. */
  waiting_since?: string;
  /** Leases that have ended and that the daemon remembers. */
  ended: number;
  /** How long its leases have lasted, one after the other, with the ended ones that the daemon remembers, as the following. */
  lease_hours: number;
  /** Memory times time: 1 GiB that is leased for an hour is 1. */
  gib_hours: number;
  /** Energy that its leases have used since the daemon first measured. Absent: none was measured. */
  energy_joules?: number;
  /** As in the answer of /api/quota. For the user and for operators. */
  limits?: QuotaLimit[];
}

// Users lists users with what they hold and have used.
export interface Users {
  /** Everybody who holds something, waits for something, or has used something that the daemon remembers; those who hold most memory first. */
  users: UserUse[];
  /** The list goes on: ask again with after and this text. Absent: this is the end. */
  next?: string;
  /** For people: why the answer does not have everything, although no limit was given. */
  note?: string;
}

// Utilization counts slots over all usable devices, which leaves out UNAVAILABLE ones.
export interface Utilization {
  /** Devices that are not UNAVAILABLE. Those that are count nowhere here; gpus lists them all. */
  total_gpus: number;
  total_capacity: number;
  total_active: number;
  utilization_percent: number;
  /** By UUID. */
  per_gpu: Record<string, GPUUtilization>;
}

// Version says which berth answers.
export interface Version {
  /** Version of the program: 0.1.0 for a release, 0.1.0-dev+COMMIT for a build on the way to it. */
  version: string;
  /** Version of the Go compiler that built it. */
  go: string;
  os: string;
  arch: string;
}

// VisibleGPU is a GPU as a library sees it. It has no index, because each library
// counts in its own way.
export interface VisibleGPU {
  uuid?: string;
  pci_bus_id?: string;
  name?: string;
}

// Waiting is a request in the queue.
export interface Waiting {
  id: string;
  /** 1 is next. */
  position: number;
  since: string;
  deadline?: string;
  holder: Holder;
  gpus: number;
  memory_mb: number;
  slots: number;
  priority: number;
  /** It waits for devices that it has alone; memory_mb is then the most that it gets. */
  exclusive?: boolean;
  /** The request is for a lease that there is: to resume it, or to make it larger. Absent: for a new one. One of resume or resize. */
  for?: 'resume' | 'resize';
  /** It waits for this limit, however much room there is: that of its user, of a group together, or the quota of its service. Absent: it waits for a GPU, or for its turn. */
  limit?: 'user' | 'group' | 'service';
  /** When it will probably be granted. Absent: the queue is too long to look ahead. */
  estimate?: Estimate;
}

// Whoami says which user the daemon takes the caller for.
export interface Whoami {
  /** Login name, token:NAME or cert:NAME; unknown: the daemon does not know the caller. */
  user: string;
  /** Absent: the caller is not known by a user id. */
  uid?: number;
  /** One of stranger, scraper, viewer, user, operator or admin. */
  role: 'stranger' | 'scraper' | 'viewer' | 'user' | 'operator' | 'admin';
  /** Why the caller has this role, a sentence each. The first one decides. */
  why: string[];
  /** The way the caller came in. One of socket, tcp or process. */
  door: 'socket' | 'tcp' | 'process';
  /** Name of the token that the caller showed. */
  token?: string;
  /** The only service that the caller may act for. Absent: any. */
  service?: string;
  /** Groups of the caller that the configuration has an entry for. */
  groups?: string[];
  /** The session that the request was made with. Absent: none. */
  session?: Session;
}

// WithoutLease says where the temperature of a device would end without a lease.
export interface WithoutLease {
  /** Allocation id of the lease. */
  lease: string;
  /** What its processes draw, above what the device draws by itself: an average of the last seconds. */
  power_watts: number;
  /** Where the temperature would end. */
  settles_celsius: number;
  /** With high, the interval that holds it nine times of ten. */
  settles_low_celsius: number;
  settles_high_celsius: number;
}
