package promexport

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/job/service"
)

// Programs are the services whose programs the daemon runs, and what the front has counted
// of each.
type Programs struct {
	Services []api.Service
	Counted  []api.FrontCounted
}

var (
	stateOfServiceMetric = metric(gauge, "berth_service_state", "1 for the state that the service is in, and 0 for the others; only services whose programs berth runs.", "service", "state")
	answeredMetric       = metric(counter, "berth_service_requests_total", "Requests for the service that got an answer of any kind.", "service")
	unansweredMetric     = metric(counter, "berth_service_requests_failed_total", "Of these, those that the server answered with 500 or more, or not to the end.", "service")
	refusedMetric        = metric(counter, "berth_service_requests_refused_total", "Of these, those that the front refused because the service was full, stopped or did not come.", "service")
	openMetric           = metric(gauge, "berth_service_requests_open", "Requests that the service answers now.", "service")
	waitingMetric        = metric(gauge, "berth_service_requests_waiting", "Requests that wait for the service.", "service")
	waitedMetric         = metric(counter, "berth_service_waited_seconds_total", "How long requests waited for the service, in sum.", "service")
	tokensMetric         = metric(counter, "berth_service_tokens_total", "Tokens that the service read (in) and wrote (out), as its answers say.", "service", "direction")
	firstByteMetric      = metric(prometheus.UntypedValue, "berth_service_first_byte_seconds", "From when a request was passed to the server until its answer began.", "service")
	switchesMetric       = metric(counter, "berth_service_switches_total", "How often the service came to a device.", "service")
	movesMetric          = metric(gauge, "berth_service_moves", "How often the service came or went in each way, over restarts of the daemon.", "service", "way")
	moveMetric           = metric(gauge, "berth_service_move_seconds", "How long the service takes to come or to go in each way: a mean in which later ones weigh more.", "service", "way")
	failuresMetric       = metric(gauge, "berth_service_failures", "How often the program of the service failed since it was last ready for a while.", "service")
)

// programs returns the group of the services whose programs the daemon runs.
func programs(names *Names) group {
	all := []*family{
		stateOfServiceMetric, answeredMetric, unansweredMetric, refusedMetric, openMetric, waitingMetric, waitedMetric,
		tokensMetric, firstByteMetric, switchesMetric, movesMetric, moveMetric, failuresMetric,
	}
	return group{all, func(now *Values, out lines) {
		if now.Programs == nil {
			return
		}
		sums, labels := map[string]*programSum{}, map[string]string{}
		for i := range now.Programs.Services {
			s := &now.Programs.Services[i]
			labels[s.Name] = names.Service(s.Name, s.User)
			sumOf(sums, labels[s.Name]).add(s)
		}
		for i := range now.Programs.Counted {
			if c := &now.Programs.Counted[i]; labels[c.Service] != "" {
				sumOf(sums, labels[c.Service]).count(c)
			}
		}
		for _, label := range slices.Sorted(maps.Keys(sums)) {
			sums[label].put(label, out)
		}
	}}
}

// programSum adds up the services with one label: most often one.
type programSum struct {
	states                         map[string]float64
	moves                          map[string]api.ServiceTime
	switches                       uint64
	open, waiting, failures        int
	answered, unanswered, refused  uint64
	tokensIn, tokensOut            uint64
	firstByte                      []uint64
	firstByteSeconds, waitedSecond float64
}

func sumOf(sums map[string]*programSum, label string) *programSum {
	if sums[label] == nil {
		sums[label] = &programSum{states: map[string]float64{}, moves: map[string]api.ServiceTime{}, firstByte: make([]uint64, len(api.FrontBounds)+1)}
	}
	return sums[label]
}

func (p *programSum) add(s *api.Service) {
	p.states[s.State]++
	p.switches += s.Switches
	p.open, p.waiting = p.open+s.Open, p.waiting+s.Waiting
	if s.Failure != nil {
		p.failures = max(p.failures, s.Failure.Count)
	}
	for way, t := range map[string]api.ServiceTime{
		"start": s.Took.Start, "stop": s.Took.Stop, "park": s.Took.Park, "resume": s.Took.Resume, "sleep": s.Took.Sleep, "wake": s.Took.Wake,
	} {
		if t.Count > 0 {
			sum := p.moves[way]
			p.moves[way] = api.ServiceTime{Count: sum.Count + t.Count, Seconds: max(sum.Seconds, t.Seconds)}
		}
	}
}

func (p *programSum) count(c *api.FrontCounted) {
	p.answered, p.unanswered, p.refused = p.answered+c.Requests, p.unanswered+c.Failed, p.refused+c.Refused
	p.tokensIn, p.tokensOut = p.tokensIn+c.TokensIn, p.tokensOut+c.TokensOut
	p.firstByteSeconds, p.waitedSecond = p.firstByteSeconds+c.Seconds, p.waitedSecond+c.Waited
	if len(c.FirstByte) == len(p.firstByte) {
		for i, n := range c.FirstByte {
			p.firstByte[i] += n
		}
	}
}

func (p *programSum) put(label string, out lines) {
	for _, s := range serviceStates() {
		out.put(stateOfServiceMetric, p.states[s], label, s)
	}
	out.put(answeredMetric, float64(p.answered), label)
	out.put(unansweredMetric, float64(p.unanswered), label)
	out.put(refusedMetric, float64(p.refused), label)
	out.put(openMetric, float64(p.open), label)
	out.put(waitingMetric, float64(p.waiting), label)
	out.put(waitedMetric, p.waitedSecond, label)
	out.put(tokensMetric, float64(p.tokensIn), label, "in")
	out.put(tokensMetric, float64(p.tokensOut), label, "out")
	out.put(switchesMetric, float64(p.switches), label)
	out.put(failuresMetric, float64(p.failures), label)
	for way, t := range p.moves {
		out.put(movesMetric, float64(t.Count), label, way)
		out.put(moveMetric, t.Seconds, label, way)
	}
	buckets, count := make(map[float64]uint64, len(api.FrontBounds)), uint64(0)
	for i, n := range p.firstByte {
		count += n
		if i < len(api.FrontBounds) {
			buckets[api.FrontBounds[i]] = count
		}
	}
	out <- prometheus.MustNewConstHistogram(firstByteMetric.desc, count, p.firstByteSeconds, buckets, label)
}

// serviceStates returns the states that people see.
func serviceStates() []string {
	list := []string{"stopped"}
	for _, s := range service.States() {
		list = append(list, string(s))
	}
	return list
}
