// The types of the daemon's API: those that /openapi.json describes are in schemas.ts,
// and what it does not describe is here. What is optional may be absent from an answer.
// Memory is in MiB.

import type { By, FieldProblem, GPUConfig, Status, Whoami } from './schemas';

export type {
  Acknowledgement as Acknowledged, Alert, Alerts, Available, Batch, BatchGPU, Batches, Belonging, By, Conversion, Device, DeviceAvailable, DeviceLease, Drain, Estimate, Explanation,
  FieldProblem, Holder, HolderUntil, Idle, Job, Jobs, Lease, LeasePart, Leases, Link, Need, Obstacle, Outlook, Paced, PacedBy, Parking, PastLease, PastLeases, Plan, PlannedPipeline, PlannedStep, Process,
  Sample, Slots, Status, StatusAll, ThresholdForecast, Throttling, Trust, Waiting, Whoami,
} from './schemas';

export type DeviceState = Status['state'];
export type Health = Status['health'];
export type Role = Whoami['role'];
export type Severity = 'info' | 'warning' | 'critical';

// Settings is the configuration as it is in force.
export type Settings = GPUConfig;

export interface Event {
  id: number;
  time: string;
  code: string;
  also?: string[];
  severity: Severity;
  gpu?: string;
  lease?: string;
  user?: string;
  by?: By;
  text: string;
  data?: Record<string, unknown>;
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
