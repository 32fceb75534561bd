import type { Problem } from '../api/types';

// PlanProblem is one thing that is wrong with a pipeline file.
export interface PlanProblem {
  where: string;
  line: number | undefined;
  reason: string;
  remedy: string;
}

// problemsOf reads all problems of a refused plan: with their lines where the answer
// has them, else from its fields.
export function problemsOf(p: Problem | undefined): PlanProblem[] {
  const list = p?.extra?.problems;
  if (Array.isArray(list) && list.length > 0) {
    return (list as { line?: number; pipeline?: string; step?: string; reason?: string; remedy?: string }[]).map((it) => ({
      where: [it.pipeline, it.step].filter((x) => x).join('/') || 'the file',
      line: typeof it.line === 'number' && it.line > 0 ? it.line : undefined,
      reason: it.reason ?? '',
      remedy: it.remedy ?? '',
    }));
  }
  return (p?.fields ?? []).map((f) => ({ where: f.field, line: undefined, reason: f.detail, remedy: '' }));
}
