package promexport

import "github.com/berth-gpu/berth/internal/job"

var (
	tasksMetric = metric(gauge, "berth_job_tasks", "Tasks of jobs that have not ended, by state. A job without an array or parameters is one task.", "state")
	endedMetric = metric(counter, "berth_job_tasks_ended_total", "Tasks of jobs that have ended since the daemon started, by how they ended.", "state")
)

// jobs shows how many tasks of jobs there are, and how they end. A daemon that runs no
// jobs has no lines.
var jobs = group{[]*family{tasksMetric, endedMetric}, func(now *Values, out lines) {
	if now.Jobs == nil {
		return
	}
	for _, s := range job.States() {
		switch {
		case s.Over():
			out.put(endedMetric, float64(now.Jobs.Ended[s]), string(s))
		case s.Shown() == s:
			out.put(tasksMetric, float64(now.Jobs.Tasks[s]), string(s))
		}
	}
}}
