import type { Belonging } from '../api/types';

// Node is a process of a lease in its tree. What is on a device has uses; what only
// stands between has none.
export interface Node {
  pid: number; // 0: the caller may not see it
  name: string;
  holder: boolean;
  evidence: string | undefined;
  uses: { gpu: string; memory_mb: number }[];
  children: Node[];
}

// tree arranges the processes of a lease under the process that holds it. Processes
// that belong to the lease by other evidence than descent stand beside it.
export function tree(processes: Belonging[], holder: { pid?: number; name?: string }): Node[] {
  const nodes = new Map<number, Node>();
  const parents = new Map<number, number>();
  const hidden: Node[] = [];
  const node = (pid: number, name: string | undefined): Node => {
    let n = nodes.get(pid);
    if (n === undefined) {
      n = { pid, name: name ?? '', holder: pid === holder.pid, evidence: undefined, uses: [], children: [] };
      nodes.set(pid, n);
    }
    if (n.name === '' && name !== undefined) n.name = name;
    return n;
  };
  if (holder.pid !== undefined && holder.pid > 0) node(holder.pid, holder.name);
  for (const p of processes) {
    const use = { gpu: p.gpu, memory_mb: p.memory_mb };
    if (p.pid === 0) {
      hidden.push({ pid: 0, name: '', holder: false, evidence: p.evidence, uses: [use], children: [] });
      continue;
    }
    const n = node(p.pid, p.name);
    n.evidence = p.evidence;
    n.uses.push(use);
    let below = p.pid;
    for (const a of p.ancestors ?? []) {
      node(a.pid, a.name);
      if (!parents.has(below) && below !== a.pid) parents.set(below, a.pid);
      below = a.pid;
    }
  }
  const roots: Node[] = [];
  for (const n of nodes.values()) {
    const parent = reaches(parents, n.pid) ? nodes.get(parents.get(n.pid) ?? 0) : undefined;
    if (parent === undefined) roots.push(n);
    else parent.children.push(n);
  }
  sort(roots);
  return [...roots, ...hidden];
}

// reaches reports whether the way up from a process ends. The daemon reads the table
// of processes while it changes, so there may be a circle.
function reaches(parents: Map<number, number>, pid: number): boolean {
  const seen = new Set<number>();
  for (let at: number | undefined = pid; at !== undefined; at = parents.get(at)) {
    if (seen.has(at)) return false;
    seen.add(at);
  }
  return true;
}

function sort(list: Node[]): void {
  list.sort((a, b) => Number(b.holder) - Number(a.holder) || a.pid - b.pid);
  for (const n of list) sort(n.children);
}

// rows lists a tree from the top, each process with its depth.
export function rows(list: Node[], depth = 0): { node: Node; depth: number }[] {
  return list.flatMap((node) => [{ node, depth }, ...rows(node.children, depth + 1)]);
}
