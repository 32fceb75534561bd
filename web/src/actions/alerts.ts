import { call, path } from '../api/client';
import type { Alert } from '../api/types';
import type { Act } from './act';
import type { Around } from './leases';
import { mayOperate } from './rights';

// alertActs lists what the caller may do to an alert.
export function alertActs(alert: Alert, a: Around): Act[] {
  if (!mayOperate(a.me)) return [];
  return [alert.acknowledged ? withdraw(alert) : acknowledge(alert)];
}

function acknowledge(alert: Alert): Act {
  return {
    key: 'acknowledge', label: 'Acknowledge', title: `Acknowledge ${alert.alert}?`, confirm: 'Acknowledge',
    says: [
      'Everybody then sees that you look after this alert. It stays listed while it fires.',
      'Nothing changes on the machine: no lease ends and no program is stopped.',
    ],
    fields: [
      { name: 'comment', label: 'Comment', kind: 'text', value: '', maxLength: 256, hint: 'What others read about it.' },
      { name: 'hours', label: 'For', kind: 'number', value: '4', unit: 'hours', min: 0.1, max: 720, required: true },
    ],
    run: async (v) => {
      await call(path('api', 'alerts', alert.fingerprint, 'acknowledge'), { method: 'POST', body: { hours: Number(v.hours), comment: v.comment || undefined } });
      return { text: `${alert.alert} is acknowledged for ${v.hours} h.` };
    },
  };
}

function withdraw(alert: Alert): Act {
  return {
    key: 'unacknowledge', label: 'Take back', title: `Take back that ${alert.alert} is acknowledged?`, confirm: 'Take back',
    says: [`${alert.acknowledged?.by ?? 'Somebody'} has acknowledged it. It then needs somebody again.`],
    run: async () => {
      await call(path('api', 'alerts', alert.fingerprint, 'acknowledge'), { method: 'DELETE' });
      return { text: `${alert.alert} is no longer acknowledged.` };
    },
  };
}
