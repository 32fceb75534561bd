package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/text/words"
)

func (s *server) explain(ctx context.Context, in *body[api.LeaseRequest]) (*answer[api.Explanation], error) {
	e, err := s.Desk.Leases.Explain(askerOf(ctx), in.Body)
	if err != nil {
		return nil, asID(err)
	}
	out := s.explanationOf(e.Explanation, sightOf(ctx), lease.Holder{UID: askerOf(ctx).UID, User: askerOf(ctx).User})
	out.Grant, out.Estimate = e.Grant, e.Estimate
	return ok(out)
}

type explainQuery struct {
	Named
	Brief bool `query:"brief" doc:"Leave devices and ranking empty: the text says the most important of them."`
}

func (s *server) explainWaiting(ctx context.Context, in *explainQuery) (*answer[api.Explanation], error) {
	sight := sightOf(ctx)
	k, err := s.Desk.Leases.Seek(sight.Actor, in.name())
	if err != nil {
		return nil, err
	}
	r, _, _ := s.Ledger.FindWaiting(k)
	if e, waits := s.Ledger.ExplainWaiting(k); waits {
		out := s.explanationOf(e, sight, lease.Holder{UID: k.UID, User: k.User})
		if r != nil {
			out.Text = desk.WaitsFor(r) + out.Text
		}
		out.Estimate = s.Desk.Foresight.Estimate(k)
		if in.Brief {
			out.Devices, out.Ranking = []api.Obstacle{}, []api.Ranked{}
		}
		return ok(out)
	}
	if held, standing := s.Ledger.Find(k); standing {
		return ok(api.Explanation{
			Fits: true, Possible: true, Devices: []api.Obstacle{}, Ranking: []api.Ranked{},
			Text: s.Desk.Leases.NotWaiting(held),
		})
	}
	return nil, s.Ledger.Unknown(sight.Actor, access.Look, k)
}

// explanationOf returns an explanation of a request of a holder as a caller sees it.
func (s *server) explanationOf(e placement.Explanation, by sight, of lease.Holder) api.Explanation {
	out := api.Explanation{
		Fits: e.Refusal == nil && e.Quota == nil, Possible: true, Position: e.Position, Devices: []api.Obstacle{},
		LargestNow: e.LargestNow, LargestEver: e.LargestEver, Policy: e.Policy, Ranking: make([]api.Ranked, len(e.Ranking)),
	}
	for i, p := range e.Ranking {
		out.Ranking[i] = desk.RankedOf(p)
	}
	for _, r := range e.Ahead {
		out.Behind = append(out.Behind, r.ID)
	}
	var sentences []string
	if e.Quota != nil {
		out.Limit = quota.KindOf(e.Quota)
		sentences = append(sentences, words.UpperFirst(desk.QuotaText(e.Quota, of, by.Actor))+".")
	}
	if e.Refusal != nil {
		out.Possible, out.Hint = e.Refusal.Ever, e.Refusal.Hint
		sentences = append(sentences, words.UpperFirst(e.Refusal.Error())+".")
		for _, r := range e.Refusal.Reasons { // those of one device follow one another
			o := s.obstacleOf(r, e, by)
			if last := len(out.Devices) - 1; last >= 0 && out.Devices[last].GPU == o.GPU {
				join(&out.Devices[last], o)
				continue
			}
			out.Devices = append(out.Devices, o)
		}
	}
	if e.Position > 0 {
		sentences = append(sentences, fmt.Sprintf("It is number %d in the queue.", e.Position))
	}
	if len(sentences) == 0 {
		sentences = append(sentences, "It would be granted now.")
	}
	out.Text = strings.Join(sentences, " ")
	return out
}

// obstacleOf returns the obstacle on a device, and the leases there.
func (s *server) obstacleOf(r placement.Reason, e placement.Explanation, by sight) api.Obstacle {
	o := api.Obstacle{GPU: r.GPU, Code: string(r.Code), Text: r.Text, Holders: s.holdersOf(e.Holdings[r.GPU], by)}
	if used, any := e.Foreign[r.GPU]; any && r.Code == placement.NoMemory {
		o.Foreign = used.Memory
		who := words.Count(len(used.PIDs), "process")
		if by.all() || !slices.ContainsFunc(used.PIDs, func(pid int) bool { return !by.runs(pid) }) {
			o.ForeignPIDs, who = used.PIDs, processes(used.PIDs)
		}
		o.Text += "; " + used.Memory.ExactBeside(r.Needs) + " more is used under no lease, by " + who
	}
	return o
}

// join adds a further reason to what is in the way on a device.
func join(o *api.Obstacle, more api.Obstacle) {
	o.Also, o.Text = append(o.Also, more.Code), o.Text+", and "+more.Text
	o.Foreign, o.ForeignPIDs = max(o.Foreign, more.Foreign), append(o.ForeignPIDs, more.ForeignPIDs...)
}

// processes names up to five processes by pid, and counts the others.
func processes(pids []int) string {
	names := make([]string, len(pids))
	for i, pid := range pids {
		names[i] = strconv.Itoa(pid)
	}
	return words.Form(len(pids), "process ", "processes ") + words.Few(names, 5)
}

func (s *server) holdersOf(all []lease.Holding, by sight) []api.HolderUntil {
	var out []api.HolderUntil
	for _, h := range all {
		if h.Lease.State == lease.Parked && h.Measured == 0 { // the lease holds nothing
			continue
		}
		u := api.HolderUntil{Lease: h.Lease.ID, Holder: by.holder(h.Lease.Holder), Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots, Parkable: h.Lease.Parkable}
		if u.Parkable && s.Desk.Leases.Kept(h.Lease) {
			u.Kept = "its processes may share GPU memory, and neither its request nor its service says unshared"
		}
		u.Unused = s.Desk.Attention.UnusedOf(h.Lease.Key(), time.Now())
		if until, known := h.Lease.Until(); known {
			u.Until = &until
		}
		out = append(out, u)
	}
	return out
}
