package httpapi

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// Which names the device that a question is about.
type Which struct {
	GPU string `query:"gpu" doc:"Index or UUID of the device. Default: the first." example:"0" maxLength:"128"`
}

func registerDevices(s *server) {
	op := func(pattern, id, summary string) huma.Operation { return on(pattern, "devices", id, summary, "") }
	serve(s, op("GET /api/gpu/status", "status", "One device as it stands"), s.status)
	serve(s, op("GET /api/gpu/status/all", "status-all", "Every device, and how much of the machine is in use"), s.statusAll)
	serve(s, op("GET /api/gpu/metrics", "metrics", "The newest sample of one device or of all devices"), s.samples)
	serve(s, op("GET /api/gpu/metrics/history", "history", "Samples of one device, oldest first"), s.history)
	serve(s, op("GET /api/gpu/temperature/trend", "trend", "The temperature over the last minutes, and a forecast"), s.trend)
	serve(s, op("GET /api/gpu/memory/available", "available", "What can be leased now, with the sum that leads to it"), s.available)
	serve(s, op("GET /api/gpu/throttle/status", "throttle", "How fast work on a device may run, why, and until when"), s.throttle)
	serve(s, op("POST /api/gpu/monitoring/start", "monitoring-start", "Start the sampling loop"), s.monitoring(true))
	serve(s, op("POST /api/gpu/monitoring/stop", "monitoring-stop", "Stop the sampling loop; the last samples stay and become stale"), s.monitoring(false))
}

// index adds the indices of the devices to the parts of a lease, so that a client
// can show them without another request.
func (s *server) index(parts []api.LeasePart) {
	for i := range parts {
		if r, known := s.Monitor.Find(parts[i].GPU); known {
			parts[i].Index = gpu.Some(r.Device.Index)
		}
	}
}

// WithLeases asks for the leases of each device as well.
type WithLeases struct {
	Leases bool `query:"leases" doc:"Also list the leases on each device."`
}

type statusQuery struct {
	Which
	WithLeases
}

func (s *server) status(ctx context.Context, in *statusQuery) (*answer[api.Status], error) {
	r, err := s.Desk.Devices.Find(in.GPU)
	if err != nil {
		return nil, err
	}
	status := s.statusOf(r, sightOf(ctx))
	status.Machine = s.machine()
	if in.Leases {
		s.addLeases(&status, sightOf(ctx))
	}
	return ok(status)
}

func (s *server) machine() *api.Machine {
	if s.Machine == nil {
		return nil
	}
	return s.Machine()
}

// addLeases adds the leases on a device, and their sums.
func (s *server) addLeases(status *api.Status, by sight) {
	status.Leases = s.leasesOn(status.Device.UUID, by)
	sum := s.Ledger.Sum(status.Device.UUID)
	status.Sums = &api.Allocations{Count: sum.Leases, Total: sum.Leased}
}

// leasesOn returns the leases on a device as a caller sees them, largest first.
func (s *server) leasesOn(uuid string, by sight) []api.DeviceLease {
	holdings := s.Ledger.Holdings(uuid)
	list := make([]api.DeviceLease, len(holdings))
	for i, h := range holdings {
		list[i] = s.Desk.Leases.DeviceLease(h, by.owns(h.Lease.Holder))
		list[i].Holder = by.holder(h.Lease.Holder)
	}
	return list
}

// statusOf returns the status of a device as a caller sees it.
func (s *server) statusOf(r monitor.Reading, by sight) api.Status {
	status := s.Desk.Devices.Status(r)
	if status.Drain != nil {
		status.Drain.By = by.user(status.Drain.By)
	}
	if r.Sampled {
		seen := newest(r, by, map[int]time.Time{})
		status.Sample = &seen
	}
	return status
}

// newest returns the newest sample of a device as a caller sees it, with the present
// state of the device.
func newest(r monitor.Reading, by sight, mine map[int]time.Time) gpu.Sample {
	seen := by.sample(r.Sample, mine)
	seen.State = r.State
	return seen
}

type statusAllQuery struct {
	WithLeases
	Curves int `query:"curves" minimum:"0" maximum:"300" doc:"Also return the load and the temperature of each device over the last five minutes, as this many averages."`
}

func (s *server) statusAll(ctx context.Context, in *statusAllQuery) (*answer[api.StatusAll], error) {
	readings, sight := s.Monitor.Readings(), sightOf(ctx)
	all := api.StatusAll{
		Host: s.Host, Version: s.Version, Monitoring: s.Monitor.Running(), Note: s.Note(),
		GPUs: make([]api.Status, len(readings)), Machine: s.machine(),
	}
	for i, r := range readings {
		all.GPUs[i] = s.statusOf(r, sight)
		if in.Leases {
			s.addLeases(&all.GPUs[i], sight)
		}
		if in.Curves > 0 {
			all.GPUs[i].Curves = s.Monitor.Curves(r.Device.UUID, time.Now(), in.Curves)
		}
	}
	all.Utilization = desk.Utilization(all.GPUs)
	all.Needs = s.needs(&all, sight)
	return ok(all)
}

// needs returns what needs a person, as far as a caller may see it.
func (s *server) needs(all *api.StatusAll, by sight) []api.Need {
	now := time.Now()
	troubles := s.Desk.Attention.Troubles(now)
	found := desk.Concerns{Monitoring: all.Monitoring, GPUs: all.GPUs, Alerts: s.alertsFor(by), Orphans: troubles.Orphans, Services: s.Desk.Services.List(by.Actor), Front: s.Desk.Services.FrontState(by.Actor)}
	for _, held := range troubles.Leases {
		l := by.lease(held, nil)
		s.Desk.Leases.Whereabouts(&l, by.owns(held.Holder))
		found.Leases = append(found.Leases, l)
	}
	for _, w := range troubles.Waiting {
		found.Waiting = append(found.Waiting, by.waiting(w.Request, w.Position))
	}
	for _, h := range troubles.Hogs {
		hog := s.Desk.Attention.HogOf(h, by.lease(h.Held, nil), access.May(by.Actor, access.Cancel, h.Object()) == nil)
		for _, w := range h.Waiting {
			hog.Waiting = append(hog.Waiting, by.waiting(w.Request, w.Position))
		}
		found.Hogs = append(found.Hogs, hog)
	}
	return desk.Needs(found, now)
}

type whichOrAll struct {
	GPU string `query:"gpu" doc:"Index or UUID of the device. Default: all of them." maxLength:"128"`
}

func (s *server) samples(ctx context.Context, in *whichOrAll) (*answer[api.Samples], error) {
	readings := s.Monitor.Readings()
	if in.GPU != "" {
		r, err := s.Desk.Devices.Find(in.GPU)
		if err != nil {
			return nil, err
		}
		readings = []monitor.Reading{r}
	}
	found := api.Samples{Samples: []gpu.Sample{}}
	sight, mine := sightOf(ctx), map[int]time.Time{}
	for _, r := range readings {
		if r.Sampled {
			found.Samples = append(found.Samples, newest(r, sight, mine))
		}
	}
	return ok(found)
}

type historyQuery struct {
	Which
	Since string `query:"since" maxLength:"64" doc:"Only samples after this: a time as in RFC 3339, or how long ago, as in 90s or 5m." example:"5m"`
	Limit int    `query:"limit" doc:"Return at most this many samples, the newest. Default: all that are kept (history_size, and at least those of ten minutes)." minimum:"1" maximum:"100000"`
}

func (s *server) history(ctx context.Context, in *historyQuery) (*answer[api.Samples], error) {
	r, err := s.Desk.Devices.Find(in.GPU)
	if err != nil {
		return nil, err
	}
	since, err := moment(in.Since, time.Now())
	if err != nil {
		return nil, err
	}
	samples := s.Monitor.History(r.Device.UUID, since, in.Limit)
	sight, mine := sightOf(ctx), map[int]time.Time{}
	seen := make([]gpu.Sample, len(samples))
	for i, sample := range samples {
		seen[i] = sight.sample(sample, mine)
	}
	return ok(api.Samples{Samples: seen, Covers: gpu.Some(desk.Covers(samples).Seconds())})
}

// moment parses a time, or a duration before now.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	p := problems.New(http.StatusUnprocessableEntity, "invalid_request", "since is neither a time nor a duration.")
	p.Fields = []api.FieldProblem{{Field: "since", Detail: "write 2026-01-31T12:00:00Z, or 5m for the last five minutes"}}
	return time.Time{}, p
}

type trendQuery struct {
	Which
	Minutes float64 `query:"minutes" default:"5" minimum:"0.1" maximum:"1440" doc:"How far to look back."`
}

func (s *server) trend(_ context.Context, in *trendQuery) (*answer[api.Trend], error) {
	r, err := s.Desk.Devices.Find(in.GPU)
	if err != nil {
		return nil, err
	}
	if math.IsNaN(in.Minutes) { // NaN passes the checks of minimum and maximum
		return nil, problems.New(http.StatusUnprocessableEntity, "invalid_request", "minutes must be a number from 0.1 to 1440.")
	}
	return ok(s.Desk.Devices.Trend(r, in.Minutes, time.Now()))
}

// someGPUs chooses devices.
type someGPUs struct {
	GPU []string `query:"gpu" maxItems:"64" maxLength:"128" doc:"Only these devices, by index or UUID. May be repeated."`
}

func (s *server) available(_ context.Context, in *someGPUs) (*answer[api.Available], error) {
	var uuids []string
	for _, name := range in.GPU {
		r, err := s.Desk.Devices.Find(name)
		if err != nil {
			return nil, err
		}
		uuids = append(uuids, r.Device.UUID)
	}
	all := s.Desk.Devices.Available()
	all.GPUs = slices.DeleteFunc(all.GPUs, func(a api.DeviceAvailable) bool { return !among(uuids, a.GPU) })
	return ok(all)
}

func (s *server) throttle(_ context.Context, in *Which) (*answer[api.Throttle], error) {
	r, err := s.Desk.Devices.Find(in.GPU)
	if err != nil {
		return nil, err
	}
	t := desk.Throttle(r)
	t.Throttling = s.Desk.Devices.Throttling(r.Device.UUID)
	return ok(t)
}

// monitoring returns the operation that starts or stops the sampling loop.
func (s *server) monitoring(on bool) func(context.Context, *struct{}) (*answer[api.Monitoring], error) {
	return func(ctx context.Context, _ *struct{}) (*answer[api.Monitoring], error) {
		changed, err := s.Desk.Devices.Monitoring(askerOf(ctx), on)
		return &answer[api.Monitoring]{api.Monitoring{Running: s.Monitor.Running(), Interval: s.Settings.GPU().MonitorInterval, Changed: changed}}, err
	}
}

func registerCare(s *server) {
	const missing, conflict, down = http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable
	serve(s, on("POST /api/gpu/drain", "devices", "drain", "Take a device out of use",
		"Leases on the device go on, and the daemon grants no new ones there, until undrain or the given time, also after a restart. The answer lists the leases that go on. Draining a drained device again replaces the drain.",
		missing, down), drains(s, s.Desk.Devices.Drain))
	serve(s, on("POST /api/gpu/undrain", "devices", "undrain", "Let a drained device be used again", "", conflict, missing, down), drains(s, s.Desk.Devices.Undrain))
	request(s, on("POST /api/gpu/check", "devices", "check", "Test whether a device works",
		"The answer comes when the check is done: after some seconds, or after minutes for kind long. Events with the code device_check say meanwhile how far it is. While it runs, the daemon grants nothing on the device; it takes only memory that is free and not leased. "+
			"A device that fails goes into quarantine; one in quarantine that passes is on probation. A caller who disconnects gives the check up.", conflict, missing, down), s.Desk.Devices.Check)
}

// drains returns an operation that drains a device or ends its drain.
func drains[B any](s *server, do func(desk.Caller, B) (api.Drained, error)) func(context.Context, *body[B]) (*answer[api.Drained], error) {
	return func(ctx context.Context, in *body[B]) (*answer[api.Drained], error) {
		done, err := do(askerOf(ctx), in.Body)
		done.Leases = s.leasesOn(done.GPU, sightOf(ctx))
		return &answer[api.Drained]{done}, err
	}
}
