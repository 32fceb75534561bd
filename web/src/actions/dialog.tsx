import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { refresh } from '../live/loop';
import { Dialog } from '../ui/dialog';
import { type Act, type Field, type Outcome, wrong } from './act';

// opened is the act whose dialog is open.
export const opened = signal<Act | undefined>(undefined);

// done counts the acts that were done. What shows their results asks again when it grows.
export const done = signal(0);

// Acts shows a button for each act. Pressing one opens its dialog.
export function Acts({ acts, label }: { acts: Act[]; label: string }) {
  if (acts.length === 0) return null;
  return (
    <div class="acts" role="group" aria-label={label}>
      {acts.map((act) => (
        <button key={act.key} type="button" class={act.ends ? 'ends' : undefined} data-act={act.key} onClick={() => (opened.value = act)}>
          {act.label}
        </button>
      ))}
    </div>
  );
}

// ActHost shows the dialog of the act that is open. The page has one.
export function ActHost() {
  const act = opened.value;
  return act === undefined ? null : <ActDialog key={act.key + act.title} act={act} onClose={() => (opened.value = undefined)} />;
}

type Stage = { at: 'asking' } | { at: 'doing' } | { at: 'done'; outcome: Outcome } | { at: 'refused'; why: string };

// ActDialog says what an act will do, asks for what it needs, does it, and shows what
// came of it. A refusal is shown in the words of the daemon.
export function ActDialog({ act, onClose }: { act: Act; onClose: () => void }) {
  const [stage, setStage] = useState<Stage>({ at: 'asking' });
  const [values, setValues] = useState(() => Object.fromEntries((act.fields ?? []).map((f) => [f.name, f.value])));
  const [tried, setTried] = useState(false);
  const open = useRef(true);
  const form = useRef<HTMLFormElement>(null);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => () => { open.current = false; }, []);
  useEffect(() => {
    if (stage.at === 'done' || stage.at === 'refused') end.current?.focus();
  }, [stage.at]);

  const problems = (act.fields ?? []).map((f) => wrong(f, values[f.name] ?? ''));
  const doIt = async (it: Act, with_: Record<string, string>) => {
    setStage({ at: 'doing' });
    try {
      const outcome = await it.run(with_);
      if (open.current) setStage({ at: 'done', outcome });
    } catch (err) {
      if (open.current) setStage({ at: 'refused', why: err instanceof Error ? err.message : String(err) });
    }
    done.value++;
    refresh();
  };
  const submit = async (e: Event) => {
    e.preventDefault();
    setTried(true);
    const first = problems.findIndex((p) => p !== '');
    if (first >= 0) {
      form.current?.querySelectorAll<HTMLElement>('input, select, textarea')[first]?.focus();
      return;
    }
    await doIt(act, values);
  };

  if (act.not !== undefined) {
    return <Dialog title={act.title} onClose={onClose}><p class="notice tone-info">{act.not}</p></Dialog>;
  }
  if (stage.at === 'done') {
    const { text, bad, details = [], undo, secret, link } = stage.outcome;
    return (
      <Dialog
        title={bad ? 'Done, with a finding' : 'Done'}
        onClose={onClose}
        actions={
          <>
            <button type="button" onClick={onClose}>Close</button>
            {undo && <button type="button" data-undo={undo.key} onClick={() => void doIt(undo, {})}>{undo.label}</button>}
          </>
        }
      >
        <div ref={end} tabIndex={-1} class={`notice tone-${bad ? 'warn' : 'good'}`} role="status">{text}</div>
        {details.length > 0 && <ul class="details">{details.map((d) => <li key={d}>{d}</li>)}</ul>}
        {secret !== undefined && <Secret text={secret} />}
        {link !== undefined && <p><a href={link.href} onClick={onClose}>{link.label}</a></p>}
      </Dialog>
    );
  }
  const doing = stage.at === 'doing';
  return (
    <Dialog
      title={act.title}
      onClose={onClose}
      actions={
        <>
          <button type="button" onClick={onClose}>{doing ? 'Close' : (act.dismiss ?? 'Cancel')}</button>
          <button type="submit" form="act-form" class={act.ends ? 'danger' : 'main'} disabled={doing} data-confirm={act.key}>
            {doing ? 'Working …' : act.confirm}
          </button>
        </>
      }
    >
      {stage.at === 'refused' && (
        <div ref={end} tabIndex={-1} class="notice tone-bad" role="alert"><strong>The daemon refused. </strong>{stage.why}</div>
      )}
      <div class="says">{act.says.map((s) => <p key={s}>{s}</p>)}</div>
      <form id="act-form" ref={form} onSubmit={(e) => void submit(e)} noValidate>
        {(act.fields ?? []).map((f, i) => (
          <FieldRow
            key={f.name}
            field={f}
            value={values[f.name] ?? ''}
            problem={tried ? problems[i]! : ''}
            disabled={doing}
            onChange={(value) => setValues((v) => ({ ...v, [f.name]: value }))}
          />
        ))}
      </form>
      {act.preview && problems.every((p) => p === '') && <Preview ask={act.preview} values={values} />}
      {doing && <p class="quiet" role="status">The daemon is at work. It goes on if you close this.</p>}
    </Dialog>
  );
}

// Preview says what the daemon would make of what was filled in. It asks a moment after the
// last change.
function Preview({ ask, values }: { ask: NonNullable<Act['preview']>; values: Record<string, string> }) {
  const [said, setSaid] = useState<{ lines: string[]; bad?: boolean }>({ lines: [] });
  useEffect(() => {
    let here = true;
    const timer = setTimeout(() => {
      ask(values).then((lines) => here && setSaid({ lines }), (err: unknown) => here && setSaid({ lines: [err instanceof Error ? err.message : String(err)], bad: true }));
    }, 400);
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [values]);
  if (said.lines.length === 0) return null;
  return <div class={`preview notice tone-${said.bad ? 'warn' : 'info'}`} role="status">{said.lines.map((l) => <p key={l}>{l}</p>)}</div>;
}

// Secret shows a text that is shown once.
function Secret({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <div class="secret">
      <code>{text}</code>
      <button type="button" onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined)}>{copied ? 'Copied' : 'Copy'}</button>
    </div>
  );
}

function FieldRow({ field, value, problem, disabled, onChange }: {
  field: Field;
  value: string;
  problem: string;
  disabled: boolean;
  onChange: (value: string) => void;
}) {
  const id = `field-${field.name}`;
  const about = [field.hint ? `${id}-hint` : '', problem ? `${id}-problem` : ''].filter((x) => x !== '').join(' ') || undefined;
  return (
    <div class="field">
      <label for={id}>{field.label}</label>
      <div class="field-value">
        {field.kind === 'choice' ? (
          <select id={id} value={value} disabled={disabled} onChange={(e) => onChange(e.currentTarget.value)}>
            {(field.choices ?? []).map((c) => <option key={c.value} value={c.value}>{c.label}</option>)}
          </select>
        ) : field.kind === 'lines' ? (
          <textarea
            id={id} rows={3} spellcheck={false} value={value} disabled={disabled} placeholder={field.placeholder} aria-describedby={about}
            aria-invalid={problem !== '' ? true : undefined} onInput={(e) => onChange(e.currentTarget.value)}
          />
        ) : field.kind === 'check' ? (
          <input id={id} type="checkbox" checked={value !== ''} disabled={disabled} aria-describedby={about} onChange={(e) => onChange(e.currentTarget.checked ? 'yes' : '')} />
        ) : (
          <input
            id={id}
            type={field.kind as 'text'}
            value={value}
            disabled={disabled}
            min={field.min}
            max={field.max}
            step={field.kind === 'number' ? (field.step ?? 'any') : undefined}
            maxLength={field.maxLength}
            placeholder={field.placeholder}
            aria-describedby={about}
            aria-invalid={problem !== '' ? true : undefined}
            onInput={(e) => onChange(e.currentTarget.value)}
          />
        )}
        {field.unit && <span class="unit">{field.unit}</span>}
      </div>
      {field.hint && <p id={`${id}-hint`} class="hint">{field.hint}</p>}
      {problem && <p id={`${id}-problem`} class="field-problem">{problem}</p>}
    </div>
  );
}
