// The types of the daemon's API, as the package api of the daemon writes them.
// What is optional here may be absent from an answer. Memory is in MiB.

export type DeviceState = 'OPTIMAL' | 'NORMAL' | 'THROTTLED' | 'CRITICAL' | 'UNAVAILABLE';
export type Health = 'healthy' | 'unhealthy' | 'unknown';
export type Severity = 'info' | 'warning' | 'critical';
export type Role = 'stranger' | 'scraper' | 'viewer' | 'user' | 'operator' | 'admin';

export interface Link {
  to: string;
  kind: string;
  lanes?: number;
}

export interface Device {
  uuid: string;
  index: number;
  name: string;
  vendor: string;
  backend: string;
  driver?: string;
  pci_bus_id?: string;
  compute_capability?: string;
  memory_total_mb: number;
  numa_node?: number;
  power_limit_watts?: number;
  temp_slowdown_celsius?: number;
  temp_max_celsius?: number;
  temp_shutdown_celsius?: number;
  links?: Link[];
  parent?: string;
  instances?: string[];
}

export interface Process {
  pid: number;
  name?: string;
  kind?: string;
  memory_mb?: number;
}

export interface Sample {
  gpu: string;
  time: string;
  state?: DeviceState;
  utilization_percent?: number;
  memory_busy_percent?: number;
  memory_total_mb?: number;
  memory_used_mb?: number;
  memory_free_mb?: number;
  memory_percent?: number;
  blind?: boolean;
  temperature_celsius?: number;
  memory_temperature_celsius?: number;
  power_watts?: number;
  power_of?: string;
  clock_sm_mhz?: number;
  clock_memory_mhz?: number;
  throttle_reasons?: string[];
  processes?: Process[];
  slow_time?: string;
  energy_joules?: number;
  fan_percent?: number;
  pcie_tx_mb_per_second?: number;
  pcie_rx_mb_per_second?: number;
  ecc_corrected_total?: number;
  ecc_uncorrected_total?: number;
}

export interface ThresholdForecast {
  threshold: string;
  limit_celsius: number;
  seconds?: number;
  soonest_seconds?: number;
  latest_seconds?: number;
  text: string;
}

export interface Outlook {
  power_watts: number;
  settles_celsius: number;
  settles_low_celsius: number;
  settles_high_celsius: number;
  celsius_per_watt: number;
  thresholds: ThresholdForecast[];
}

export interface Trust {
  phase?: 'quarantine' | 'probation';
  since?: string;
  until?: string;
  why?: string;
  slots_withheld: number;
}

export interface Drain {
  by?: string;
  reason?: string;
  since: string;
  until?: string;
}

export interface Throttling {
  policy: 'advise' | 'slots' | 'pace' | 'power';
  share?: number;
  paced_leases?: number;
  power_limit_watts?: number;
  power_original_watts?: number;
  power_steps?: number;
  fan_percent?: number;
  denied?: string;
}

export interface Slots {
  active: number;
  capacity: number;
  usable: number;
}

export interface Status {
  device: Device;
  state: DeviceState;
  since: string;
  reason: string;
  multiplier: number;
  cause: 'state' | 'forecast';
  slower?: string;
  outlook?: Outlook;
  health: Health;
  sample?: Sample;
  stale?: boolean;
  slots: Slots;
  trust?: Trust;
  drain?: Drain;
  throttling?: Throttling;
  leases?: DeviceLease[];
}

export interface StatusAll {
  host: string;
  version: string;
  monitoring: boolean;
  note?: string;
  gpus: Status[];
  utilization: {
    total_gpus: number;
    total_capacity: number;
    total_active: number;
    utilization_percent: number;
  };
}

export interface Holder {
  service?: string;
  name?: string;
  user?: string;
  uid?: number;
  pid?: number;
}

export interface By {
  user?: string;
  uid?: number;
  token?: string;
  door?: string;
}

export interface PacedBy {
  share: number;
  source: 'owner' | 'operator' | 'throttle';
  by?: By;
  reason?: string;
}

export interface Paced {
  share: number;
  measured?: number;
  measured_by?: 'driver' | 'duty';
  held_by: PacedBy[];
  since: string;
  refused?: string;
}

export interface DeviceLease {
  id: string;
  holder: Holder;
  state: LeaseState;
  memory_mb: number;
  measured_mb: number;
  slots: number;
  granted: string;
  paced?: Paced;
  until?: string;
  host_mb?: number;
}

export type LeaseState = 'active' | 'parking' | 'parked' | 'resuming' | 'waiting' | 'released';

export interface LeasePart {
  gpu: string;
  index?: number;
  memory_mb: number;
  slots: number;
  measured_mb?: number;
}

export interface Belonging {
  gpu: string;
  pid: number;
  name?: string;
  memory_mb: number;
  evidence: 'scope' | 'descent' | 'environment' | 'unit' | 'service' | 'program';
  ancestors?: { pid: number; name?: string }[]; // up to the holder, the nearest first; only of one lease
}

export interface Parking {
  since: string;
  by?: By;
  reason?: string;
  host_mb?: number;
  returns?: boolean;
  times: number;
  moving_seconds: number;
  unshared_by?: string;
  failed?: string;
}

export interface Idle {
  since: string;
  utilization_percent?: number;
  memory_mb: number;
}

export interface Lease {
  id: string;
  fence: number;
  state: LeaseState;
  parent?: string;
  holder: Holder;
  binding: 'process' | 'ttl' | 'named';
  granted?: string;
  ttl_seconds?: number;
  expires?: string;
  time_limit_seconds?: number;
  ends?: string;
  parts: LeasePart[];
  priority: number;
  enforced_by: 'mps' | 'framework' | 'watchdog' | 'none';
  isolated_by?: 'cgroup';
  stood?: boolean;
  was_mb?: number;
  note?: string;
  waiting?: Waiting;
  heir_pid?: number;
  unit?: string;
  scope?: string[];
  processes?: Belonging[];
  paced?: Paced;
  energy_joules?: number;
  parkable?: boolean;
  unshared?: boolean;
  parking?: Parking;
  idle?: Idle;
  asked_mb?: number;
}

export interface Waiting {
  id: string;
  position: number;
  since: string;
  deadline?: string;
  holder: Holder;
  gpus: number;
  memory_mb: number;
  slots: number;
  priority: number;
  for?: 'resume' | 'resize';
}

export interface Page {
  next?: string;
  note?: string;
}

export interface Leases extends Page {
  leases: Lease[];
  waiting: Waiting[];
}

export interface PastLease {
  id: string;
  fence: number;
  holder: Holder;
  binding: string;
  granted: string;
  ended: string;
  how: 'released' | 'expired' | 'revoked';
  why?: string;
  by?: string;
  parts: LeasePart[];
  peak_mb: number;
  energy_joules?: number;
}

export interface PastLeases extends Page {
  leases: PastLease[];
}

export interface HolderUntil {
  lease: string;
  holder: Holder;
  memory_mb: number;
  slots: number;
  until?: string;
  parkable?: boolean;
  kept?: string;
}

export interface Obstacle {
  gpu: string;
  code: string;
  text: string;
  holders?: HolderUntil[];
  foreign_mb?: number;
  foreign_pids?: number[];
}

export interface Explanation {
  fits: boolean;
  possible: boolean;
  text: string;
  position?: number;
  devices: Obstacle[];
  largest_now_mb: number;
  largest_ever_mb: number;
  behind?: string[];
  hint?: string;
  policy?: string;
  grant?: Lease;
}

export interface DeviceAvailable {
  gpu: string;
  available_mb: number;
  total_mb: number;
  limit_mb: number;
  reserve_mb: number;
  leased_mb: number;
  foreign_mb: number;
  state: DeviceState;
  health: Health;
  reason?: string;
}

export interface Available {
  gpus: DeviceAvailable[];
}

export interface Event {
  id: number;
  time: string;
  code: string;
  severity: Severity;
  gpu?: string;
  lease?: string;
  user?: string;
  by?: By;
  text: string;
  data?: Record<string, unknown>;
}

export interface BatchGPU {
  gpu: string;
  index: number;
  name: string;
  workers: number;
  ready: number;
  multiplier: number;
  batch: number;
  done: number;
  failed: number;
  retries: number;
  restarts: number;
  given_up: boolean;
  busy_seconds: number;
  records_per_second?: number;
  latency: { bounds: number[]; counts: number[]; sum_seconds: number };
}

export interface Batch {
  id: string;
  output: string;
  command?: string;
  stage: 'open' | 'running' | 'finishing' | 'done' | 'stopped' | 'failed';
  error?: string;
  started?: string;
  reported?: string;
  user?: string;
  pid?: number;
  total?: number;
  total_exact: boolean;
  done: number;
  done_before: number;
  failed: number;
  marked: number;
  retries: number;
  restarts: number;
  records_per_second?: number;
  seconds_left?: number;
  energy_joules?: number;
  workers: number;
  gpus: BatchGPU[];
}

export interface Batches extends Page {
  batches: Batch[];
}

export interface Acknowledged {
  by: string;
  at: string;
  until: string;
  comment?: string;
}

export interface Alert {
  fingerprint: string;
  alert: string;
  severity: string;
  state: 'pending' | 'firing';
  labels: Record<string, string>;
  annotations: Record<string, string>;
  value: number;
  since: string;
  acknowledged?: Acknowledged;
}

export interface Alerts {
  alerts: Alert[];
}

export interface Whoami {
  user: string;
  uid?: number;
  role: Role;
  why: string[];
  door: 'socket' | 'tcp' | 'process';
  token?: string;
  service?: string;
  groups?: string[];
  session?: { id: string; expires?: string };
}

// Settings has the part of the configuration that the page draws or explains.
export interface Settings {
  temp_optimal: number;
  temp_normal: number;
  temp_throttle: number;
  temp_critical: number;
  memory_optimal: number;
  memory_normal: number;
  memory_critical: number;
  memory_reserve_mb: number;
  memory_limit_mb?: number | null;
  monitor_interval: number;
  devices?: Record<string, Partial<Settings>>;
  energy?: { price_per_kwh?: number | null; currency: string };
  past?: { store: string; recent: number; long: number };
  alerts?: { evaluate: string };
  [name: string]: unknown;
}

export interface FieldProblem {
  field: string;
  detail: string;
}

// Problem is an error of the API (RFC 9457).
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  fields?: FieldProblem[];
  extra?: Record<string, unknown>;
}

// RangeAnswer is the data of an answer of /api/v1/query_range.
export interface RangeAnswer {
  resultType: 'matrix';
  result: { metric: Record<string, string>; values: [number, string][] }[];
}

// InstantAnswer is the data of an answer of /api/v1/query.
export interface InstantAnswer {
  resultType: 'vector' | 'scalar' | 'string';
  result: { metric: Record<string, string>; value: [number, string] }[];
}
