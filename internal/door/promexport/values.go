package promexport

import (
	"time"

	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Sources provide the numbers.
type Sources struct {
	Devices func() Devices // what the devices show now
	Look    func() Values  // everything, the devices included
	Labels  *Names
	Hooks   []string // names of the hooks
	// TokenFailures are the reasons for which a token is refused.
	TokenFailures []string
	Host          string // name of the machine
	Version       string
}

// Devices has the last measurements.
type Devices struct {
	Readings []monitor.Reading
	Watching bool            // devices are being sampled
	Drained  map[string]bool // by UUID
}

// Values has what the page shows, at one moment.
type Values struct {
	Devices
	Compat    string // "dcgm" to show the devices under those names too
	Ledger    *ledger.Ledger
	Limits    *quota.Rules // limits of users; nil if not known
	Batches   []runs.Total
	Services  []throughput.Total
	Energy    *energy.Meters // nil if energy is not measured
	Hours     *hours.Hours   // nil if nobody adds up
	Paced     []Paced
	Parking   park.Counts
	Optimized reclaim.Counts
	Idle      int           // leases that are idle
	Jobs      *keeper.Usage // nil if the daemon runs no jobs
	Programs  *Programs     // nil if the daemon runs no programs for services
	Past      past.Cost
	Evaluated map[string]time.Time // when each group of rules was last evaluated
	Unlogged  uint64               // lines that the log did not take
	Expires   time.Time            // when the certificate of the daemon ends; zero if it has none
	Audited   uint64               // entries that the audit log was given
	Unaudited uint64               // how often the audit log could not be written
}
