package programs

import "github.com/berth-gpu/berth/api"

// PlanReport is the report of a plan and its runs, for programs.
type PlanReport struct {
	Plan api.Plan    `json:"plan"`
	Runs []RunReport `json:"runs"`
}

// RunReport is the report of one run of a plan.
type RunReport struct {
	api.RunningRun
	PID     int     `json:"pid,omitempty"`
	Status  int     `json:"exit_status"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Report returns the report of a plan after its runs.
func Report(plan api.Plan, results []Result) PlanReport {
	report := PlanReport{Plan: plan, Runs: []RunReport{}}
	for _, r := range results {
		one := RunReport{RunningRun: r.RunningRun, PID: r.PID, Status: r.Status, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			one.Error = r.Err.Error()
		}
		report.Runs = append(report.Runs, one)
	}
	return report
}
