package slice

import (
	"regexp"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// Words of api.Status.
const (
	phaseQuarantine  = "quarantine"
	phaseProbation   = "probation"
	causeTemperature = "temperature"
	causeFault       = "fault"
	causeLost        = "lost"
	causeSilent      = "silent"
)

const (
	// Patience is how long the daemon may be silent before its devices are tainted.
	Patience = 10 * time.Second
	lostFor  = 30 * time.Second // how long a device must be lost before pods are moved away
)

// trouble is something wrong with a device, for the taints and for the health of the pods
// that use it.
type trouble struct {
	key    string
	value  string
	effect resourcev1.DeviceTaintEffect // empty if it is no taint
	health gpu.Health
	text   string
}

// troubles lists what is wrong with a device, the worst first. Its memory is never a
// trouble: a full device does its job. since is when the device was lost.
func troubles(now time.Time, s api.Status, since time.Time, effect resourcev1.DeviceTaintEffect) []trouble {
	const schedule, execute, none = resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone
	if effect == "" {
		effect = execute
	}
	var list []trouble
	add := func(key, value string, effect resourcev1.DeviceTaintEffect, health gpu.Health, text string) {
		list = append(list, trouble{key, value, effect, health, text})
	}
	phase := ""
	if s.Trust != nil {
		phase = s.Trust.Phase
	}
	switch {
	case s.StateCause == causeLost:
		lost := schedule
		if now.Sub(since) >= lostFor {
			lost = execute
		}
		add(words.Lost, "", lost, gpu.Unhealthy, s.Reason)
	case phase == phaseQuarantine || s.StateCause == causeFault && s.State == gpu.Unavailable:
		add(words.Quarantine, faultOf(s), effect, gpu.Unhealthy, s.Reason)
	case s.StateCause == causeSilent || s.Health == gpu.HealthUnknown && phase != phaseProbation:
		add(words.Silent, "", schedule, gpu.HealthUnknown, s.Reason)
	case s.StateCause == causeTemperature && s.State == gpu.Critical:
		add(words.TooHot, "", schedule, gpu.Unhealthy, s.Reason)
	case s.StateCause == causeTemperature && s.State == gpu.Throttled:
		add(words.Hot, "", schedule, gpu.Healthy, "")
	}
	if s.Drain != nil {
		add(words.Drain, "", schedule, gpu.Healthy, "")
	}
	if phase == phaseProbation {
		health := s.Health
		if health != gpu.Healthy && health != gpu.Unhealthy {
			health = gpu.HealthUnknown
		}
		add(words.Probation, "", none, health, "The device is on probation: "+s.Trust.Why)
	}
	return list
}

var (
	xid = regexp.MustCompile(`(?i)\bxid[ =]?([0-9]{1,4})\b`)
	ecc = regexp.MustCompile(`(?i)\becc\b`)
)

// faultOf returns a word for the fault of a device, as the value of a taint.
func faultOf(s api.Status) string {
	why := s.Reason
	if s.Trust != nil && s.Trust.Why != "" {
		why = s.Trust.Why
	}
	if m := xid.FindStringSubmatch(why); m != nil {
		return "xid" + m[1]
	}
	if ecc.MatchString(why) {
		return "ecc"
	}
	return "fault"
}

// taints returns the taints of a device. The API server adds the time.
func taints(list []trouble) []resourcev1.DeviceTaint {
	var out []resourcev1.DeviceTaint
	for _, t := range list {
		if t.effect == "" {
			continue
		}
		out = append(out, resourcev1.DeviceTaint{Key: words.Driver + "/" + t.key, Value: t.value, Effect: t.effect})
	}
	return out
}

// Away returns devices that an earlier driver published, each with the taint of a daemon
// that does not answer.
func Away(left []resourcev1.Device) []resourcev1.Device {
	all := copied(left)
	taint := taints([]trouble{{key: words.Away, effect: resourcev1.DeviceTaintEffectNoSchedule}})[0]
	for i := range all {
		have := func(t resourcev1.DeviceTaint) bool { return t.Key == taint.Key }
		if !slices.ContainsFunc(all[i].Taints, have) {
			all[i].Taints = append(all[i].Taints, taint)
		}
	}
	return all
}

// closed reports whether no new pod may have a device.
func closed(list []trouble) bool {
	for _, t := range list {
		if t.effect == resourcev1.DeviceTaintEffectNoSchedule || t.effect == resourcev1.DeviceTaintEffectNoExecute {
			return true
		}
	}
	return false
}

// maxMessage is the largest size of a message in the health of a device.
const maxMessage = 1024

// Health is the health of one published device.
type Health struct {
	Device  string // its published name
	State   gpu.Health
	Message string // why it is not healthy, in berth's words; empty if it is
}

// healthOf returns the worst of a list of troubles.
func healthOf(list []trouble) (gpu.Health, string) {
	rank := map[gpu.Health]int{gpu.Healthy: 0, gpu.HealthUnknown: 1, gpu.Unhealthy: 2}
	state, text := gpu.Healthy, ""
	for _, t := range list {
		if rank[t.health] > rank[state] {
			state, text = t.health, t.text
		}
	}
	return state, gpu.Printable(text, maxMessage)
}

// summary returns the subjects of a list of troubles, without the parts that change from
// one sample to the next.
func summary(list []trouble) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.key + "=" + t.value + ":" + string(t.health) + " ")
	}
	return b.String()
}
