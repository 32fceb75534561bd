package promexport

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease"
)

// overTime is a number about what a user or a service had over time.
type overTime struct {
	user, service *family
	of            func(hours.Sum) float64
}

func overTimeOf(name, before, after string, of func(hours.Sum) float64) overTime {
	kind := func(kind string) *family {
		return metric(counter, "gpu_"+kind+"_"+name, before+" the "+kind+after+" since berth began to count; restarts do not count.", kind)
	}
	return overTime{kind("user"), kind("service"), of}
}

var overTimes = []overTime{
	overTimeOf("lease_seconds_total", "How long leases of", " lasted, one after the other,", func(s hours.Sum) float64 { return s.Leases }),
	overTimeOf("waiting_seconds_total", "How long requests of", " waited, one after the other,", func(s hours.Sum) float64 { return s.Waiting }),
	overTimeOf("leased_mb_seconds_total", "Memory that the leases of", " promised, in MiB times seconds,", func(s hours.Sum) float64 { return s.Leased }),
	overTimeOf("measured_mb_seconds_total", "The part of that for which the use of the leases of", " was measured, in MiB times seconds,", func(s hours.Sum) float64 { return s.Measured }),
	overTimeOf("used_mb_seconds_total", "How much of the measured part processes under the leases of", " used, in MiB times seconds,", func(s hours.Sum) float64 { return s.Used }),
}

var userEnergyMetric = metric(counter, "berth_user_energy_joules_total", "Energy that leases of the user used since berth began to count, above what the devices draw by themselves; restarts do not count.", "user")

// sums returns the group of what each user and each service had over time. A name keeps its
// lines as those of holders do.
func sums(names *Names) group {
	all := []*family{userEnergyMetric}
	for _, each := range overTimes {
		all = append(all, each.user, each.service)
	}
	return group{all, func(now *Values, out lines) {
		if now.Energy != nil {
			now.putUserEnergy(names, out)
		}
		if now.Hours == nil {
			return
		}
		users, services := now.Hours.Users(), now.Hours.Services()
		if _, there := services[""]; !there { // always, which tells a reader for how long sums were kept
			services[""] = now.Hours.Before(true, "")
		}
		putOverTime(users, services, func(f *family, _ string, v float64, name string) { out.put(f, v, name) })
	}}
}

func putOverTime(users, services map[string]hours.Sum, put func(f *family, kind string, v float64, name string)) {
	for _, each := range overTimes {
		for name, sum := range users {
			put(each.user, "user", each.of(sum), name)
		}
		for name, sum := range services {
			put(each.service, "service", each.of(sum), name)
		}
	}
}

func (now *Values) putUserEnergy(names *Names, out lines) {
	users := now.Energy.Users()
	for _, name := range names.Users() {
		if _, there := users[name]; !there {
			users[name] = now.Energy.UserBefore(name)
		}
	}
	for name, used := range users {
		out.put(userEnergyMetric, float64(used), name)
	}
}

// Label returns the labels of a party, for sums over time.
func (n *Names) Label(p lease.Party) lease.Party {
	return lease.Party{User: n.User(p.User), Service: n.Service(p.Service, p.User)}
}

// OverTime returns samples of what users and services had over time, of the time before
// the first call of Rest.
func (r *Recorder) OverTime(users, services map[string]hours.Sum) (list []series.Sample) {
	putOverTime(users, services, func(f *family, kind string, v float64, name string) {
		list = append(list, r.sample(f.name, series.Counter, v, []labels.Label{{Name: kind, Value: name}}))
	})
	r.begun = nil
	return list
}

// before has the sums that go on after a restart, and how much of each earlier daemons had
// added up.
var before = func() map[string]func(now *Values, name string) float64 {
	found := map[string]func(*Values, string) float64{
		userEnergyMetric.name: func(now *Values, name string) float64 {
			return float64(now.Energy.UserBefore(name))
		},
		serviceEnergyMetric.name: func(now *Values, name string) float64 {
			return float64(now.Energy.ServiceBefore(name))
		},
	}
	for _, each := range overTimes {
		found[each.user.name] = func(now *Values, name string) float64 { return each.of(now.Hours.Before(false, name)) }
		found[each.service.name] = func(now *Values, name string) float64 { return each.of(now.Hours.Before(true, name)) }
	}
	return found
}()
