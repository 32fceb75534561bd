import type { Lease } from '../api/types';

// enforced says who holds the programs of a lease to its memory.
export const enforced: Record<Lease['enforced_by'], { title: string; text: string }> = {
  mps: { title: 'by the driver (MPS)', text: 'The driver refuses memory above the limit to every CUDA program of this lease, its context included.' },
  framework: {
    title: 'by its libraries (framework)',
    text: 'CuPy, JAX and PyTorch were started with a limit for their pools. TensorFlow, plain CUDA and memory beside the pools are only measured.',
  },
  watchdog: { title: 'by nobody beforehand (watchdog)', text: 'berth measures what the lease uses, reports it, and acts if the policy says so.' },
  none: { title: 'not enforced (none)', text: 'Nothing holds programs to this lease: it has no memory, or berth does not know which processes will use it.' },
};

// isolated says what keeps the programs of a lease from other GPUs.
export function isolated(by: Lease['isolated_by']): { title: string; text: string } {
  return by === 'cgroup'
    ? { title: 'by the kernel (cgroup)', text: 'Its process can open only the leased GPUs.' }
    : { title: 'by its environment (env)', text: 'Only variables such as CUDA_VISIBLE_DEVICES keep its programs from other GPUs.' };
}

// evidence says why a process belongs to a lease, as the end of "It …".
export const evidence: Record<string, string> = {
  scope: 'is in its scope',
  descent: 'holds it or descends from its holder',
  environment: 'has its id and fence in the environment',
  unit: 'runs in its unit',
  service: 'matches its service',
  program: 'has its user and its name',
};

// ends says what ends a lease by itself.
export function ends(l: Pick<Lease, 'binding' | 'holder' | 'unit' | 'heir_pid'>): string {
  switch (l.binding) {
    case 'process':
      if (l.heir_pid) return `with process ${l.heir_pid}, which keeps it because it still uses the GPU`;
      return l.holder.pid ? `with process ${l.holder.pid}` : 'with the process that holds it';
    case 'ttl':
      return 'if nobody renews it in time';
    case 'named':
      return 'when somebody releases it';
  }
}

// how says how a lease that is no more came to its end.
export const how: Record<string, string> = {
  released: 'was released',
  expired: 'expired',
  revoked: 'was revoked',
};
