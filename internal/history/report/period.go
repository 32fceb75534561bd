package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// hour is the number of seconds in an hour.
const hour = 3600.0

// period sums up a longer time.
type period struct {
	*Answers
	Period
	step  float64 // in seconds
	begin time.Time
}

// MakePeriod returns what happened in a period. The answers have series, or the samples
// of the last minutes if there is no store.
func MakePeriod(a *Answers, p Period) *api.PeriodReport {
	s := period{Answers: a, Period: p, step: p.Step().Seconds()}
	r := &api.PeriodReport{From: p.From, Until: p.Until, Source: "past", Step: s.step, Remarks: slices.Clone(a.Remarks)}
	if r.Remarks == nil {
		r.Remarks = []string{}
	}
	if a.Series == nil {
		r.Source = "samples"
		s.series()
	}
	r.Covered = s.covered()
	r.Remarks = append(r.Remarks, s.remarks(r.Covered)...)
	r.GPUs = s.perDevice()
	r.Users, r.Services = s.holders("user"), s.holders("service")
	r.Programs = s.perProgram()
	r.Waiting = s.waits()
	r.Faults = s.faults()
	r.Curves = s.curves()
	return r
}

// covered returns how many seconds of the period were measured.
func (s *period) covered() float64 {
	covered := 0.0
	for _, each := range s.Series["up"] {
		for i, p := range each.Points {
			if i == 0 || p.Time.Before(s.begin) {
				s.begin = p.Time
			}
		}
		covered = max(covered, float64(len(each.Points))*s.markSeconds())
	}
	return min(covered, s.Until.Sub(s.From).Seconds())
}

func (s *period) markSeconds() float64 {
	if s.Answers.Marks > 0 {
		return s.Answers.Marks.Seconds()
	}
	list := s.Questions()
	return list[len(list)-1].Step.Seconds()
}

// remarks says what the report does not cover.
func (s *period) remarks(covered float64) (list []string) {
	all := s.Until.Sub(s.From)
	missing := all - time.Duration(covered*float64(time.Second))
	switch {
	case covered == 0:
		list = append(list, "Nothing was measured in this time.")
	case missing > all/50 && missing > 2*time.Minute:
		text := fmt.Sprintf("The numbers are of %s: %s of this time was not measured, and nothing is added for it.", words.Age(all-missing), words.Age(missing))
		if late := s.begin.Sub(s.From); late > all/50 {
			text += fmt.Sprintf(" The first measurement is of %s.", s.begin.In(s.From.Location()).Format("2 January 2006, 15:04"))
		}
		list = append(list, text)
	}
	if n := len(s.Past.Leases); n > 0 && n >= mostPast {
		if oldest := s.Past.Leases[n-1].Ended; oldest.After(s.From) {
			list = append(list, fmt.Sprintf("The daemon remembers the last %s that have ended. The programs of earlier ones, before %s, are missing.",
				words.Count(n, "lease"), oldest.In(s.From.Location()).Format("2 January 2006, 15:04")))
		}
	}
	return list
}

const mostPast = 2000 // ended leases that the daemon remembers

// integral adds up value times seconds.
func (s *period) integral(points []api.QueryPoint) float64 {
	sum := 0.0
	for _, p := range points {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			sum += p.Value * s.share(p.Time)
		}
	}
	return sum
}

// share returns how many seconds of the step that ends at a time are in the period.
func (s *period) share(end time.Time) float64 {
	return min(max(end.Sub(s.From).Seconds(), 0), s.step)
}

// grown returns by how much a counter grew. A counter that begins within the period
// began at 0, and one that falls has begun again.
func (s *period) grown(points []api.QueryPoint) float64 {
	sum := 0.0
	for i, p := range points {
		switch {
		case i == 0:
			if p.Time.Sub(s.begin).Seconds() > s.step && p.Time.Sub(s.From).Seconds() > s.step {
				sum = p.Value
			}
		case p.Value < points[i-1].Value:
			sum += p.Value
		default:
			sum += p.Value - points[i-1].Value
		}
	}
	return sum
}

// gained returns by how much a sum grew that the daemon keeps over restarts. A daemon that
// was killed has lost the newest part of it: where such a sum falls, it has not begun again.
// Nor does it begin at 0 where its first point is within the period, unless begins says so.
func (s *period) gained(points []api.QueryPoint, begins bool) float64 {
	sum := 0.0
	if begins && len(points) > 0 {
		sum = s.grown(points[:1])
	}
	for i := 1; i < len(points); i++ {
		sum += max(points[i].Value-points[i-1].Value, 0)
	}
	return sum
}

// by returns the points of a question, grouped by one of its labels.
func (s *period) by(question, label string) map[string][]api.QueryPoint {
	found := map[string][]api.QueryPoint{}
	for _, each := range s.Series[question] {
		found[each.Labels[label]] = each.Points
	}
	return found
}

func (s *period) perDevice() []api.DevicePeriod {
	known := map[string]api.Status{}
	for _, d := range s.Status.GPUs {
		known[d.Device.UUID] = d
	}
	uuids := slices.Collect(maps.Keys(s.by("total", "gpu")))
	for uuid := range known {
		if !slices.Contains(uuids, uuid) {
			uuids = append(uuids, uuid)
		}
	}
	list := make([]api.DevicePeriod, 0, len(uuids))
	for _, uuid := range uuids {
		d := s.oneDevice(uuid)
		if status, there := known[uuid]; there {
			d.Index, d.Name, d.Total = gpu.Some(status.Device.Index), status.Device.Name, status.Device.MemoryTotal
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y api.DevicePeriod) int {
		return cmp.Or(cmp.Compare(x.Index.Or(math.MaxInt), y.Index.Or(math.MaxInt)), strings.Compare(x.GPU, y.GPU))
	})
	return list
}

func (s *period) oneDevice(uuid string) api.DevicePeriod {
	of := func(question string) []api.QueryPoint { return s.by(question, "gpu")[uuid] }
	d := api.DevicePeriod{GPU: uuid, States: map[gpu.State]float64{}, Reasons: map[string]float64{}}
	load, power := average(of("load")), average(of("power"))
	if load.n > 0 {
		d.Utilization = gpu.Some(gpu.Percent(load.value()))
	}
	if power.n > 0 {
		d.Power = gpu.Some(gpu.Watts(power.value()))
	}
	for _, p := range of("heat") {
		d.Hottest = gpu.Some(max(gpu.Celsius(p.Value), d.Hottest.Or(gpu.Celsius(p.Value))))
	}
	for _, p := range of("total") {
		d.Total = max(d.Total, gpu.MiB(p.Value))
		d.Measured += s.share(p.Time)
	}
	d.Used, d.Leased, d.Foreign = s.integral(of("memory"))/hour, s.integral(of("leased"))/hour, s.integral(of("foreign"))/hour
	busiest := at(of("busiest"))
	for _, p := range of("leased") {
		if most, known := busiest[p.Time]; p.Value > 0 && known && most < idle {
			d.Idle += s.share(p.Time)
		}
	}
	for _, each := range s.Series["state"] {
		if spent := s.integral(each.Points); each.Labels["gpu"] == uuid && spent > 0 {
			d.States[gpu.State(each.Labels["state"])] += spent
		}
	}
	for _, each := range s.Series["reason"] {
		if spent := s.integral(each.Points); each.Labels["gpu"] == uuid && spent > 0 {
			d.Reasons[each.Labels["reason"]] += spent
		}
	}
	for _, p := range of("healthy") {
		d.Unhealthy += (1 - p.Value) * s.share(p.Time)
	}
	d.Drained = s.integral(of("drained"))
	d.Corrected, d.Uncorrected = s.grown(of("corrected")), s.grown(of("uncorrected"))
	if points := of("energy"); len(points) > 0 {
		d.Energy = gpu.Some(gpu.Joules(s.gained(points, false)))
		d.IdleEnergy = gpu.Some(gpu.Joules(s.gained(of("idle_energy"), false)))
	}
	return d
}

// at returns points by their time.
func at(points []api.QueryPoint) map[time.Time]float64 {
	found := make(map[time.Time]float64, len(points))
	for _, p := range points {
		found[p.Time] = p.Value
	}
	return found
}

func (s *period) faults() []api.EventCount {
	list := []api.EventCount{}
	for code, points := range s.by("events", "code") {
		if n := s.grown(points); n >= 0.5 {
			list = append(list, api.EventCount{Code: gpu.EventCode(code), Count: math.Round(n)})
		}
	}
	slices.SortFunc(list, func(x, y api.EventCount) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Code, y.Code))
	})
	return list
}
