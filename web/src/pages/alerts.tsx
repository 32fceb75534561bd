import { useComputed } from '@preact/signals';
import { Acts } from '../actions/dialog';
import { alertActs } from '../actions/alerts';
import { api } from '../api/client';
import type { Alert } from '../api/types';
import { order, resolvedLately, shownLabels } from '../alert/list';
import { around, deviceLabel } from '../live/around';
import { usePolled } from '../live/poll';
import { useOlder } from '../live/older';
import { alerts as live, device, events, settings } from '../live/state';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Coded } from '../ui/coded';
import { EventList } from '../ui/eventlist';
import { Panel } from '../ui/panel';
import { Ago, For } from '../ui/time';
import '../style/views.css';

// AlertsPage shows which alerts fire or are about to, and which were resolved lately.
export function AlertsPage() {
  const polled = usePolled((signal) => api.alerts({ signal }), 5000, [live.value]);
  const list = order(polled.data?.alerts ?? live.value);
  const resolved = useComputed(() => resolvedLately(events.value));
  useOlder({ code: 'alert_resolved', newest: 30 });
  const off = settings.value?.alerts as { evaluate?: string } | undefined;
  return (
    <article class="view">
      <header class="view-head"><h1>Alerts</h1></header>
      {polled.error && <p class="notice tone-info" role="status">{off?.evaluate === 'off' ? 'This daemon evaluates no alert rules: alerts.evaluate is off.' : `The daemon does not say which alerts there are: ${polled.error.message}`}</p>}
      {list.length === 0
        ? !polled.error && <div class="panel"><p class="empty">No alert fires, and none is about to. Here is what is wrong by the rules that come with berth, and by your own: <code>alerts.rules</code> in <code>berth.yaml</code>. <code>berth alerts</code> lists the same. More in <a href="help/alerting">the manual</a>.</p></div>
        : <ul class="alerts">{list.map((a) => <One key={a.fingerprint} a={a} />)}</ul>}
      <Panel title="Resolved lately"><EventList events={resolved.value} empty="No alert was resolved that berth still knows of." /></Panel>
    </article>
  );
}

const tones: Record<string, Tone> = { critical: 'bad', page: 'bad', warning: 'warn', info: 'info' };

function One({ a }: { a: Alert }) {
  const gpu = a.labels.gpu;
  const known = gpu !== undefined && device(gpu).value !== undefined;
  return (
    <li class={`panel alert alert-${tones[a.severity] ?? 'warn'}`} data-alert={a.fingerprint}>
      <header class="panel-head">
        <h2>{a.alert}</h2>
        <Badge tone={a.state === 'firing' ? (tones[a.severity] ?? 'warn') : 'off'}>{a.state}</Badge>
        {a.severity && <span class="quiet">{a.severity}</span>}
        <p class="quiet">for <For since={a.since} /></p>
        <Acts acts={alertActs(a, around())} label={`What you can do about ${a.alert}`} />
      </header>
      {a.annotations.summary && <p><strong><Coded text={a.annotations.summary} /></strong></p>}
      {a.annotations.description && a.annotations.description !== a.annotations.summary && <p><Coded text={a.annotations.description} /></p>}
      {a.acknowledged && (
        <p class="notice tone-good">Acknowledged by {a.acknowledged.by} <Ago at={a.acknowledged.at} />{a.acknowledged.comment ? `: “${a.acknowledged.comment}”` : ''}. It ends <Ago at={a.acknowledged.until} />.</p>
      )}
      <ul class="labels" aria-label="Labels">
        {known && <li><a href={to.gpu(gpu)}>{deviceLabel(gpu)}</a></li>}
        {shownLabels(a.labels, known).map(([name, value]) => <li key={name}><span class="quiet">{name}</span> {value}</li>)}
        {a.value !== undefined && <li><span class="quiet">value</span> {String(Number(a.value.toPrecision(4)))}</li>}
      </ul>
    </li>
  );
}
