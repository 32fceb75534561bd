package promexport

import (
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/lease"
)

// overTime is a number about what a user or a service had over time.
type overTime struct {
	user, service *family
	of            func(hours.Sum) float64
}

func overTimeOf(name, before, after string, of func(hours.Sum) float64) overTime {
	kind := func(kind string) *family {
		return metric(counter, "gpu_"+kind+"_"+name, before+" the "+kind+after+" since the daemon started.", kind)
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

var userEnergyMetric = metric(counter, "berth_user_energy_joules_total", "Energy that leases of the user used since the daemon started, above what the devices draw by themselves.", "user")

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
		users, services := map[string]hours.Sum{}, map[string]hours.Sum{"": {}}
		for p, sum := range now.Hours.Sums() {
			for of, label := range map[*map[string]hours.Sum]string{&users: p.User, &services: p.Service} {
				all := (*of)[label]
				all.Add(sum, 1)
				(*of)[label] = all
			}
		}
		for _, each := range overTimes {
			for name, sum := range users {
				out.put(each.user, each.of(sum), name)
			}
			for name, sum := range services {
				out.put(each.service, each.of(sum), name)
			}
		}
	}}
}

func (now *Values) putUserEnergy(names *Names, out lines) {
	users := now.Energy.Users()
	for _, name := range names.Users() {
		users[name] += 0
	}
	for name, used := range users {
		out.put(userEnergyMetric, float64(used), name)
	}
}

// Label returns the labels of a party, for sums over time.
func (n *Names) Label(p lease.Party) lease.Party {
	return lease.Party{User: n.User(p.User), Service: n.Service(p.Service, p.User)}
}

// begins are the names of the sums that begin at 0 within the life of a daemon, with the
// first lease of a user or a service.
var begins = func() map[string]bool {
	found := map[string]bool{userEnergyMetric.name: true, serviceEnergyMetric.name: true}
	for _, each := range overTimes {
		found[each.user.name], found[each.service.name] = true, true
	}
	return found
}()
