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
	up      map[time.Time]float64            // how many seconds of each step were measured
	seconds map[string]map[time.Time]float64 // likewise for each device
	watched map[string]map[time.Time]float64 // for how long the daemon watched it, whether it answered or not
	begin   time.Time                        // of the first measurement
}

// MakePeriod returns what happened in a period. The answers have series, or the samples
// of the last minutes if there is no store.
func MakePeriod(a *Answers, p Period) *api.PeriodReport {
	s := period{Answers: a, Period: p}
	r := &api.PeriodReport{From: p.From, Until: p.Until, Source: "past", Step: p.Step().Seconds(), Remarks: slices.Clone(a.Remarks)}
	if r.Remarks == nil {
		r.Remarks = []string{}
	}
	if a.Series == nil {
		r.Source = "samples"
		s.series()
	}
	s.weigh()
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

// weigh reads how much of each step was measured.
func (s *period) weigh() {
	s.up, s.seconds = map[time.Time]float64{}, map[string]map[time.Time]float64{}
	for _, each := range s.Series["up"] {
		s.up = at(each.Points)
	}
	s.watched = map[string]map[time.Time]float64{}
	for uuid, points := range s.by("watched", "gpu") {
		s.watched[uuid] = at(points)
		s.seconds[uuid] = s.watched[uuid] // of a device that does not say how much memory it has
	}
	for uuid, points := range s.by("seconds", "gpu") {
		s.seconds[uuid] = at(points)
		if s.watched[uuid] == nil { // the samples of the last minutes
			s.watched[uuid] = s.seconds[uuid]
		}
	}
	for _, end := range sortedTimes(s.up) {
		if measured := s.up[end]; measured > 0 {
			s.begin = end.Add(-time.Duration(measured * float64(time.Second)))
			return
		}
	}
}

// covered returns how many seconds of the period were measured.
func (s *period) covered() float64 {
	covered := 0.0
	for _, measured := range s.up {
		covered += measured
	}
	return min(covered, s.Until.Sub(s.From).Seconds())
}

// remarks says what the report does not cover.
func (s *period) remarks(covered float64) (list []string) {
	all := s.Until.Sub(s.From)
	missing := all - time.Duration(covered*float64(time.Second))
	switch {
	case covered == 0:
		list = append(list, "Nothing was measured in this time.")
	case missing > all/50 && missing > 2*time.Minute:
		text := fmt.Sprintf("The numbers are of %s: %s of this time was not measured, and nothing is added for it%s.", words.Age(all-missing), words.Age(missing), s.counters())
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

// counters says what is known of a time in which nothing was measured.
func (s *period) counters() string {
	for _, d := range s.Energy.GPUs {
		if d.Source == "counter" {
			return " but the energy that GPUs count by themselves"
		}
	}
	return ""
}

const mostPast = 2000 // ended leases that the daemon remembers

// amount adds up amounts.
func amount(points []api.QueryPoint) float64 {
	sum := 0.0
	for _, p := range points {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			sum += p.Value
		}
	}
	return sum
}

// integral adds up averages times the seconds that were measured of their steps.
func integral(points []api.QueryPoint, seconds map[time.Time]float64) float64 {
	sum := 0.0
	for _, p := range points {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			sum += p.Value * seconds[p.Time]
		}
	}
	return sum
}

// average returns the average over the seconds that were measured; false if there were
// none.
func average(points []api.QueryPoint, seconds map[time.Time]float64) (float64, bool) {
	all := 0.0
	for _, p := range points {
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			all += seconds[p.Time]
		}
	}
	if all == 0 {
		return 0, false
	}
	return integral(points, seconds) / all, true
}

// idle returns for how many seconds of each block in which a device did nothing it was
// measured, by the device and the end of the block.
func (s *period) idle() map[string]map[time.Time]float64 {
	found := map[string]map[time.Time]float64{}
	for _, each := range s.Series["idle"] { // several of each device: those of later days
		uuid := each.Labels["gpu"]
		if found[uuid] == nil {
			found[uuid] = make(map[time.Time]float64, len(each.Points))
		}
		for _, p := range each.Points {
			found[uuid][p.Time.UTC()] = p.Value
		}
	}
	return found
}

// during returns how much of the seconds that were measured of a block are between two
// times.
func (s *period) during(end time.Time, measured float64, from, until time.Time) float64 {
	return min(measured, overlap(end.Add(-s.pause()), end, from, until))
}

// overlap returns for how many seconds of a time another one lasted.
func overlap(from, until, granted, ended time.Time) float64 {
	if granted.After(from) {
		from = granted
	}
	if ended.Before(until) {
		until = ended
	}
	return max(until.Sub(from).Seconds(), 0)
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
	seconds, watched := s.seconds[uuid], s.watched[uuid]
	if load, known := average(of("load"), seconds); known {
		d.Utilization = gpu.Some(gpu.Percent(load))
	}
	if power, known := average(of("power"), seconds); known {
		d.Power = gpu.Some(gpu.Watts(power))
	}
	for _, p := range of("heat") {
		d.Hottest = gpu.Some(max(gpu.Celsius(p.Value), d.Hottest.Or(gpu.Celsius(p.Value))))
	}
	for _, p := range of("total") {
		d.Total = max(d.Total, gpu.MiB(p.Value))
		d.Measured += seconds[p.Time]
	}
	d.Used, d.Leased, d.Foreign = integral(of("memory"), seconds)/hour, integral(of("leased"), watched)/hour, integral(of("foreign"), watched)/hour
	for _, each := range s.Series["idle_leased"] {
		for _, p := range each.Points {
			if each.Labels["gpu"] == uuid {
				d.Idle += s.during(p.Time, p.Value, s.From, s.Until)
			}
		}
	}
	for _, each := range s.Series["state"] {
		if spent := integral(each.Points, watched); each.Labels["gpu"] == uuid && spent > 0 {
			d.States[gpu.State(each.Labels["state"])] += spent
		}
	}
	for _, each := range s.Series["reason"] {
		if spent := amount(each.Points); each.Labels["gpu"] == uuid && spent > 0 {
			d.Reasons[each.Labels["reason"]] += spent
		}
	}
	for _, p := range of("healthy") {
		d.Unhealthy += (1 - p.Value) * watched[p.Time]
	}
	d.Drained = integral(of("drained"), watched)
	d.Corrected, d.Uncorrected = amount(of("corrected")), amount(of("uncorrected"))
	if points := of("energy"); len(points) > 0 {
		d.Energy = gpu.Some(gpu.Joules(amount(points)))
		d.IdleEnergy = gpu.Some(gpu.Joules(amount(of("idle_energy"))))
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
		if n := amount(points); n >= 0.5 {
			list = append(list, api.EventCount{Code: gpu.EventCode(code), Count: math.Round(n)})
		}
	}
	slices.SortFunc(list, func(x, y api.EventCount) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Code, y.Code))
	})
	return list
}
