import { useComputed } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import { atLeast } from '../actions/rights';
import { call, Refusal } from '../api/client';
import type { Plan } from '../api/types';
import { type PlanProblem, problemsOf } from '../plan/problems';
import { useOlder } from '../live/older';
import { events, me } from '../live/state';
import { EventList } from '../ui/eventlist';
import { Panel } from '../ui/panel';
import { PlanView } from './plans/picture';
import '../style/views.css';

const example = `pipelines:
  - name: plate
    count: 12
    steps:
      - {name: load, input: numpy, output: numpy}
      - {name: flatfield, input: cupy, output: cupy, memory_mb: 1536, output_mb: 512}
      - {name: nuclei, input: torch, output: torch, memory_mb: 4GiB, output_mb: 512}
      - {name: texture, input: cupy, output: cupy, memory_mb: 2GiB, after: flatfield, output_mb: 64}
      - {name: measure, input: numpy, output: numpy, after: [nuclei, texture]}
`;

type Answer =
  | { at: 'nothing' }
  | { at: 'asking' }
  | { at: 'plan'; plan: Plan }
  | { at: 'refused'; why: string; problems: PlanProblem[] };

const mostBytes = 1 << 20;

// PlansPage draws what berth would make of a pipeline file. Nothing runs.
export function PlansPage() {
  const [text, setText] = useState('');
  const [name, setName] = useState('pipelines.yaml');
  const [answer, setAnswer] = useState<Answer>({ at: 'nothing' });
  const result = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const lately = useComputed(() => events.value.filter((e) => e.code.startsWith('plan')).slice(-20).reverse());
  useOlder({ code: 'plan', newest: 20 });
  const may = me.value === undefined || atLeast(me.value, 'user');

  const ask = async (what: string, file: string) => {
    setAnswer({ at: 'asking' });
    try {
      const plan = await call<Plan>('/api/plans', { method: 'POST', body: { name: file, text: what }, timeout: 30_000 });
      setAnswer({ at: 'plan', plan });
    } catch (err) {
      const why = err instanceof Refusal && err.problem ? err.problem.detail : err instanceof Error ? err.message : String(err);
      setAnswer({ at: 'refused', why, problems: err instanceof Refusal ? problemsOf(err.problem) : [] });
    }
    result.current?.focus();
  };
  const choose = async (e: Event) => {
    const input = e.currentTarget as HTMLInputElement;
    const file = input.files?.[0];
    input.value = '';
    if (file === undefined) return;
    if (file.size > mostBytes) {
      setAnswer({ at: 'refused', why: `${file.name} is too large: a pipeline file has at most 1 MiB.`, problems: [] });
      return;
    }
    const what = await file.text();
    setText(what);
    setName(file.name);
    await ask(what, file.name);
  };
  // toLine selects the line of a problem in the text.
  const toLine = (line: number) => {
    const it = box.current;
    if (it === null) return;
    const lines = text.split('\n');
    const start = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
    it.focus();
    it.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    it.scrollTop = Math.max(0, (line - 4) * 20);
  };

  return (
    <article class="view">
      <header class="view-head"><h1>Plans</h1></header>
      <Panel title="A pipeline file" note="See what would run where, with how much memory, before anything runs.">
        {!may && <p class="notice tone-info">To plan, you need the role user. You have the role {me.value?.role}.</p>}
        <form
          class="plan-form"
          onSubmit={(e) => {
            e.preventDefault();
            if (text.trim() !== '') void ask(text, name);
          }}
        >
          <label for="plan-text">YAML or JSON, as <code>berth plan</code> takes it</label>
          <textarea id="plan-text" ref={box} rows={10} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder={'pipelines:\n  - name: …'} />
          <div class="acts">
            <button type="submit" class="main" disabled={!may || text.trim() === '' || answer.at === 'asking'}>Plan it</button>
            <label class="file-button" for="plan-file">Choose a file …</label>
            <input id="plan-file" class="hidden" type="file" accept=".yaml,.yml,.json,text/yaml,application/json" onChange={(e) => void choose(e)} disabled={!may} />
            <button type="button" disabled={!may} onClick={() => { setText(example); setName('example.yaml'); void ask(example, 'example.yaml'); }}>Show me an example</button>
          </div>
        </form>
      </Panel>
      <div ref={result} tabIndex={-1} aria-live="polite" class="plan-result">
        {answer.at === 'asking' && <p class="empty" role="status">Planning …</p>}
        {answer.at === 'plan' && <PlanView plan={answer.plan} />}
        {answer.at === 'refused' && (
          <Panel title="It cannot be planned">
            <p class="notice tone-bad">{answer.why}</p>
            {answer.problems.length > 0 && (
              <ul class="problems">
                {answer.problems.map((p, i) => (
                  <li key={i}>
                    <strong>{p.where}</strong>
                    {p.line !== undefined && <button type="button" class="plain" onClick={() => toLine(p.line!)}>line {p.line}</button>}
                    <span>{p.reason}</span>
                    {p.remedy && <span class="quiet">{p.remedy}</span>}
                  </li>
                ))}
              </ul>
            )}
          </Panel>
        )}
      </div>
      <Panel title="Plans lately"><EventList events={lately.value} empty={<>Nobody has planned anything that berth still knows of. <code>berth plan FILE</code> plans a file of pipelines, and so does the form above.</>} /></Panel>
    </article>
  );
}
