import type { Act } from '../actions/act';
import { call, path } from '../api/client';
import type { Job } from '../api/types';

// stopJob ends a job of the person who looks.
export function stopJob(j: Job): Act {
  const runs = j.state === 'running' || j.state === 'starting' || j.state === 'parked';
  const tasks = j.tasks === undefined ? '' : ` All its tasks that have not ended are cancelled: ${(j.tasks.waiting ?? 0) + (j.tasks.held ?? 0)} that wait and ${j.tasks.running ?? 0} that run.`;
  return {
    key: 'stop', label: 'Stop', title: `Stop the job ${j.id}?`, confirm: 'Stop the job', ends: true,
    says: [
      runs
        ? `This ends your job ${j.id}: its programs get SIGTERM, and what still runs after optimization.deallocation_timeout gets SIGKILL. Its lease ends with them.${tasks}`
        : `This takes your job ${j.id} out of the queue. It has not begun, so no program is ended.${tasks}`,
      'The job stays in the list as cancelled. Submitted again, it is a new job.',
    ],
    run: async () => {
      await call(path('api', 'jobs', j.id, 'cancel'), { method: 'POST', body: {} });
      return { text: runs ? `${j.id} is being ended.` : `${j.id} is cancelled.` };
    },
  };
}
